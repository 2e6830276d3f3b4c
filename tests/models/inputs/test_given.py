"""Files of arrays for the inputs of models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reusebench.measured.runtimes.base import DeclaredTensor, Interface
from reusebench.models import ModelError
from reusebench.models.inputs.candidates import Given
from reusebench.models.inputs.given import as_declared, given_arrays
from tests.helpers.support import known

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a separate cache for the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_arrays_by_name(cache: Path, tmp_path: Path) -> None:
    """Each has its shape, type and elements, in C order, whatever its layout was; the file is
    unpacked once.
    """
    arrays = {
        "picture": np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4).transpose(0, 3, 1, 2),
        "rate": np.int64(16000),
        "words": np.array([["a", "bcd"]]),
        "empty": np.zeros((0, 2), np.float16),
    }
    file = tmp_path / "data.npz"
    np.savez(file, **arrays)
    given, digest = given_arrays(file)
    assert list(given) == list(arrays)
    for name, tensor in given.items():
        assert tensor.file is not None
        assert cache in Path(tensor.file).parents
        read = np.load(tensor.file)
        assert read.flags.c_contiguous
        assert tensor.shape == read.shape == arrays[name].shape
        assert np.array_equal(read, arrays[name])
    assert [tensor.type for tensor in given.values()] == ["float32", "int64", "str", "float16"]
    before = {
        path: path.stat().st_mtime_ns for path in Path(given["rate"].file or "").parent.iterdir()
    }
    assert given_arrays(file) == (given, digest)
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"no zip file", "it is no file of arrays"),
        (None, "it does not exist"),
    ],
)
def test_files_without_arrays(
    cache: Path, tmp_path: Path, content: bytes | None, words: str
) -> None:
    """The message names the file and how to write one; nothing stays in the cache."""
    file = tmp_path / "data.npz"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ModelError) as refusal:
        given_arrays(file)
    assert str(refusal.value).startswith(f"{file}: {words}")
    assert "numpy.savez" in str(refusal.value)
    assert not list((cache / "reusebench" / "inputs").glob("*/*"))


@pytest.mark.parametrize("arrays", [{"x": np.array([{}], dtype=object)}, {}])
def test_arrays_that_no_input_takes(tmp_path: Path, arrays: dict[str, object]) -> None:
    """Python objects are refused, a file without arrays, and a single array (.npy)."""
    file = tmp_path / "data.npz"
    np.savez(file, **arrays)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"numpy\.savez"):
        given_arrays(file)
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(ModelError, match="it is no file of arrays"):
        given_arrays(tmp_path / "one.npy")


def _interface(*tensors: DeclaredTensor) -> Interface:
    return Interface(tensors, (), {})


_PIXELS = DeclaredTensor("picture", "uint8", (1, "", "", 3), "nhwc", ("float32",))


def test_channels_are_turned(tmp_path: Path) -> None:
    """An array in ONNX order gets its channels last if the runtime needs that, in a cached file."""
    values = np.arange(1 * 3 * 4 * 5, dtype=np.float32).reshape(1, 3, 4, 5)
    np.savez(tmp_path / "data.npz", picture=values)
    given, _ = given_arrays(tmp_path / "data.npz")
    turned = [as_declared(given, _interface(_PIXELS))["picture"] for _ in range(2)]
    assert turned[0] == turned[1]
    assert (turned[0].shape, turned[0].type) == ((1, 4, 5, 3), "float32")
    read = np.load(known(turned[0].file))
    assert read.flags.c_contiguous
    assert np.array_equal(read, values.transpose(0, 2, 3, 1))


@pytest.mark.parametrize(
    ("tensor", "shape"),
    [
        # The runtime's order already.
        (_PIXELS, (1, 4, 5, 3)),
        # No size, or no rank, that fits either order.
        (_PIXELS, (1, 3, 5, 3)),
        (_PIXELS, (3, 4, 5)),
        (_PIXELS, (2, 3, 4, 5)),
        # No layout, or another input.
        (_PIXELS._replace(layout=""), (1, 3, 4, 5)),
        (_PIXELS._replace(name="other"), (1, 3, 4, 5)),
    ],
)
def test_what_is_not_turned(tensor: DeclaredTensor, shape: tuple[int, ...]) -> None:
    """The shape stays as it is."""
    given = {"picture": Given(shape)}
    assert as_declared(given, _interface(tensor)) == given


def test_a_shape_is_turned() -> None:
    """--shape in the order of ONNX too."""
    assert as_declared({"picture": Given((1, 3, 4, 5))}, _interface(_PIXELS)) == {
        "picture": Given((1, 4, 5, 3))
    }


def test_other_bytes_orders_are_made_little_endian(tmp_path: Path) -> None:
    """A measured process without numpy reads the file as it is."""
    np.savez(tmp_path / "data.npz", x=np.array([1, 2], ">i8"))
    given, _ = given_arrays(tmp_path / "data.npz")
    assert known(given["x"].file)
    assert Path(known(given["x"].file)).read_bytes().endswith(np.array([1, 2], "<i8").tobytes())
