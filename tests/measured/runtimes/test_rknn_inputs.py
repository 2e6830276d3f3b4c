"""The data of inputs of Rockchip's runtime, against a double of the library (rknn_double.c)."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from reusebench.measured.plan import DUP, INPUT, Context
from reusebench.measured.runtimes.base import (
    DeclaredTensor,
    InputData,
    Interface,
    NotSupported,
    input_pattern,
)
from reusebench.measured.runtimes.rknn import abi
from reusebench.measured.runtimes.rknn.content import FedInput, bound_input, copied_input
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE
from reusebench.targets.measured_process import interface_of
from reusebench.targets.outcome import Failure
from tests.helpers.forks import RKNN_FORKS
from tests.measured.runtimes.test_rknn_calls import _FULL, _MINI, Compile, Double, Walked

pytestmark = pytest.mark.process

_PLAIN = Context(0, 0)
_IN_PLACE = Context(0, 0, zero_copy=(INPUT,))
_NOISE = input_pattern()[:4]
#: Scale and zero point of the double's INT8 inputs.
_SCALE = 1 / 255
_ZERO = -128
_QUANTISED = bytes((byte + _ZERO) & 0xFF for byte in _NOISE)
_HALVES = struct.pack("<2e", *(byte / 255 for byte in _NOISE[:2]))
_FLOAT = struct.pack("<f", _NOISE[0] / 255)


class Kinds:
    """Doubles with a model of one kind of input."""

    def __init__(self, compile_double: Compile, folder: Path) -> None:
        self._compile = compile_double
        self._folder = folder

    def double(self, kind: str, *inputs: InputData, mini: bool = False, count: int = 1) -> Double:
        """Return a double whose model has inputs of the kind, fed with these data."""
        folder = self._folder / f"{kind}-{mini}-{len(list(self._folder.iterdir()))}"
        folder.mkdir()
        double = Double(
            self._compile(_MINI if mini else _FULL), folder, f"9000 5000 {count} {kind} "
        )
        double.models = [replace(model, inputs=inputs) for model in double.models]
        return double

    def interface(self, kind: str, count: int = 1, mini: bool = False) -> Interface:
        """Return the adapter's interface of such a model."""
        double = self.double(kind, mini=mini, count=count)
        target = replace(RKNN_FORKS, environment={LIBRARY_VARIABLE: str(double.library)})
        interface = interface_of(target, "rknn", double.models[0].path, 30)
        assert not isinstance(interface, Failure)
        return interface


@pytest.fixture
def kinds(rknn_double: Compile, tmp_path: Path) -> Kinds:
    """Return doubles of the full and the mini runtime."""
    return Kinds(rknn_double, tmp_path)


def _told(walked: Walked) -> list[str]:
    """Return type, format, bytes and beginning of the first input in the first rknn_inputs_set."""
    call = walked.named("rknn_inputs_set")[0]
    return [part.partition("=")[2] for part in call.split()[3:]]


def _begins(walked: Walked) -> str:
    """Return the beginning of the input in the NPU's memory."""
    return walked.values("rknn_run", "begins")[0]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("picture", (abi.TYPE_UINT8, abi.FORMAT_NHWC, 300, _NOISE)),
        ("numbers", (abi.TYPE_FLOAT32, 3, 6 * 4, _FLOAT)),
        ("halves", (abi.TYPE_FLOAT32, 3, 6 * 4, _FLOAT)),
        ("features", (abi.TYPE_FLOAT32, abi.FORMAT_NHWC, 96 * 4, _FLOAT)),
        ("tokens", (abi.TYPES.index("int64"), 3, 6 * 8, bytes((_NOISE[0] & 1, 0, 0, 0)))),
        ("mask", (abi.TYPES.index("bool"), 3, 6, bytes(byte & 1 for byte in _NOISE))),
    ],
)
def test_noise_that_is_copied(kinds: Kinds, kind: str, told: tuple[int, int, int, bytes]) -> None:
    """It is pixels of 0..255, float32 of 0..1, which the library converts, or indices 0 and 1."""
    walked = kinds.double(kind).passes(_PLAIN)
    assert _told(walked) == [*map(str, told[:3]), told[3].hex()]


@pytest.mark.parametrize(
    ("kind", "native_type", "begins"),
    [
        ("picture", abi.TYPE_UINT8, _NOISE),
        ("numbers", abi.TYPE_INT8, _QUANTISED),
        ("halves", abi.TYPE_FLOAT16, _HALVES),
        ("features", abi.TYPE_INT8, _QUANTISED),
        ("tokens", abi.TYPES.index("int64"), bytes((_NOISE[0] & 1, 0, 0, 0))),
        ("mask", abi.TYPES.index("bool"), bytes(byte & 1 for byte in _NOISE)),
    ],
)
def test_noise_in_place(kinds: Kinds, kind: str, native_type: int, begins: bytes) -> None:
    """The NPU finds the same values in the model's own type, on the mini runtime too."""
    walked = kinds.double(kind).passes(_IN_PLACE)
    assert walked.values("rknn_set_io_mem", "type") == [str(native_type)]
    assert _begins(walked) == begins.hex()
    for context in (_PLAIN, _IN_PLACE):
        assert _begins(kinds.double(kind, mini=True).passes(context)) == begins.hex()


@pytest.mark.parametrize(
    ("kind", "element", "copied", "in_place"),
    [
        ("tokens", "int64", struct.pack("<q", 2), struct.pack("<q", 2)),
        ("numbers", "float32", struct.pack("<f", 2), bytes((127,))),
        ("halves", "float32", struct.pack("<f", 2), struct.pack("<e", 2)),
        ("picture", "uint8", bytes((2,)), bytes((2,))),
    ],
)
def test_one_value(kinds: Kinds, kind: str, element: str, copied: bytes, in_place: bytes) -> None:
    """All elements have it; a number beyond the model's type becomes the nearest one."""
    double = kinds.double(kind, InputData("input", element, (1, 6), value=2))
    assert _told(double.passes(_PLAIN))[3] == (copied * 4)[:4].hex()
    assert _begins(double.passes(_IN_PLACE)) == (in_place * 4)[:4].hex()


def _digests(walked: Walked) -> tuple[str, ...]:
    return next(
        reading.data.digests for reading in walked.run.barriers if reading.phase == "steady"
    )


def _saved(folder: Path, values: NDArray[Any], name: str = "data.npy") -> InputData:
    """Return the input of a file with these values."""
    np.save(folder / name, values)
    return InputData("input", values.dtype.name, values.shape, file=str(folder / name))


@pytest.mark.parametrize("mini", [False, True])
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("picture", np.arange(1, 301).astype(np.uint8).reshape(1, 10, 10, 3)),
        ("numbers", np.linspace(0, 1, 6, dtype=np.float32).reshape(1, 6)),
        ("tokens", np.array([[3, 1, 4, 1, 5, 9]])),
        ("mask", np.array([[[True, False, True], [False, False, True]]])),
    ],
)
def test_data_of_a_file(
    kinds: Kinds,
    tmp_path: Path,
    kind: str,
    values: NDArray[Any],
    mini: bool,
) -> None:
    """The NPU reads them, the same copied and in place, and they differ from noise."""
    double = kinds.double(kind, _saved(tmp_path, values), mini=mini)
    digests = [_digests(double.passes(context)) for context in (_PLAIN, _IN_PLACE)]
    assert digests[0] == digests[1]
    assert _digests(kinds.double(kind, mini=mini).passes(_PLAIN)) != digests[0]
    if kind == "numbers":
        quantised = np.rint(values / _SCALE) + _ZERO
        assert _begins(double.passes(_IN_PLACE)) == quantised.astype(np.int8).tobytes()[:4].hex()
    else:
        assert _begins(double.passes(_IN_PLACE)) == values.tobytes()[:4].hex()


def test_floats_for_a_picture(kinds: Kinds, tmp_path: Path) -> None:
    """They are copied as float32, which the library scales; in place they are not supported."""
    data = _saved(tmp_path, np.full((1, 10, 10, 3), 0.5, np.float32))
    double = kinds.double("picture", data)
    assert _told(double.passes(_PLAIN))[:3] == ["0", "1", "1200"]
    refused = [double.walk(_IN_PLACE), kinds.double("picture", data, mini=True).walk(_PLAIN)]
    for walked in refused:
        kind, phase, _, message = walked.failure()
        assert (kind, phase) == ("not_supported", "first_inference")
        assert "input input is bound in place as 8-bit pixels, and its data are float32" in message


def test_data_in_the_order_of_the_npu(kinds: Kinds, tmp_path: Path) -> None:
    """The mini runtime groups the channels of some inputs: noise is fed, data are refused."""
    data = _saved(tmp_path, np.zeros((1, 2, 3, 16), np.float32))
    kinds.double("features", data).passes(_IN_PLACE)
    kind, _, _, message = kinds.double("features", data, mini=True).walk(_PLAIN).failure()
    assert kind == "not_supported"
    assert "input input in place in an order of its own (NC1HWC2)" in message


def test_a_type_that_cannot_be_written(kinds: Kinds) -> None:
    """The input and its type are named."""
    kind, _, _, message = kinds.double("nibbles").walk(_PLAIN).failure()
    assert (kind, message) == (
        "not_supported",
        "input input takes elements of type int4, which cannot be written here",
    )


def test_each_input_has_its_own(kinds: Kinds) -> None:
    """It is fed by its name; an input that is not named gets noise."""
    double = kinds.double("tokens", InputData("input1", "int64", (1, 6), value=1), count=2)
    assert _told(double.passes(_PLAIN))[3] == bytes((_NOISE[0] & 1, 0, 0, 0)).hex()


# The interface


@pytest.mark.parametrize(
    ("kind", "declared"),
    [
        ("picture", DeclaredTensor("input", "uint8", (1, 10, 10, 3), "nhwc", ("float32",))),
        ("numbers", DeclaredTensor("input", "float32", (1, 6))),
        ("halves", DeclaredTensor("input", "float32", (1, 6))),
        ("features", DeclaredTensor("input", "float32", (1, 2, 3, 16), "nhwc")),
        ("tokens", DeclaredTensor("input", "int64", (1, 6))),
        ("mask", DeclaredTensor("input", "bool", (1, 2, 3))),
    ],
)
def test_the_interface(kinds: Kinds, kind: str, declared: DeclaredTensor) -> None:
    """Inputs have the type that the application gives; those with channels last say so."""
    interface = kinds.interface(kind)
    assert interface.inputs == (declared,)
    assert interface.outputs == (DeclaredTensor("output", "int8", (1, 3, 10, 10)),)
    assert interface.shapes == ()


def test_the_interface_of_dynamic_shapes(kinds: Kinds) -> None:
    """It has the combinations in the library's order; sizes that differ are free."""
    interface = kinds.interface("dynamic", count=2)
    assert [tensor.name for tensor in interface.inputs] == ["input", "input1"]
    assert [tensor.dimensions for tensor in interface.inputs] == [(1, "", 10, 3)] * 2
    assert interface.shapes == (((1, 10, 10, 3),) * 2, ((1, 5, 10, 3),) * 2)


# Dynamic shapes


def _of_height(height: int) -> InputData:
    return InputData("input", "uint8", (1, height, 10, 3))


@pytest.mark.parametrize("height", [10, 5])
def test_shapes_are_set(kinds: Kinds, height: int) -> None:
    """They are set first of all: the double, as the real library, aborts in a run without."""
    double = kinds.double("dynamic", _of_height(height))
    walked = double.passes(_PLAIN)
    assert walked.values("rknn_set_input_shapes", "height") == [str(height)]
    assert _told(walked)[2] == str(height * 30)
    order = [call.split()[0] for call in walked.calls]
    assert order.index("rknn_set_input_shapes") < order.index("rknn_inputs_set")
    assert {"14", "15"} <= set(walked.values("rknn_query", "command"))
    in_place = double.passes(_IN_PLACE)
    assert in_place.values("rknn_set_io_mem", "size") == [
        str(max(height * 36, 300 if height == 10 else height * 30))
    ]


def test_a_further_input_of_dynamic_shapes_has_the_default(kinds: Kinds) -> None:
    """If only some are named, the others have the first shape that the library lists."""
    double = kinds.double("dynamic", InputData("other", "uint8", (1,)))
    assert double.passes(_PLAIN).values("rknn_set_input_shapes", "height") == ["10"]


def test_a_dup_has_the_shapes_of_its_source(kinds: Kinds) -> None:
    """They are set on the dup too; a library that refuses it does not support it."""
    double = kinds.double("dynamic", _of_height(5))
    dup = Context(0, 0, DUP, 0)
    assert double.passes(_PLAIN, dup).values("rknn_set_input_shapes", "context") == ["1", "2"]
    kind, phase, context, message = double.walk(
        _PLAIN, dup, DOUBLE_FAIL="rknn_dup_context=-1"
    ).failure()
    assert (kind, phase, context) == ("not_supported", "context", 1)
    assert message == "rknn_dup_context returned -1 (RKNN_ERR_FAIL)"


def test_fixed_shapes_are_not_set(kinds: Kinds) -> None:
    """The library refuses that; the query's error line is no failure."""
    double = kinds.double("picture", InputData("input", "uint8", (1, 10, 10, 3)))
    assert double.passes(_PLAIN, Context(0, 0, DUP, 0)).named("rknn_set_input_shapes") == []
    # Built-in models have no inputs in their plan, and are not asked.
    assert "13" not in kinds.double("picture").passes(_PLAIN).values("rknn_query", "command")


def test_shapes_that_are_refused(kinds: Kinds) -> None:
    """It is a failure of that call, and nothing is left."""
    walked = kinds.double("dynamic", _of_height(7)).walk(_PLAIN)
    kind, phase, _, message = walked.failure()
    assert (kind, phase) == ("failed", "context")
    assert message.startswith(
        "rknn_set_input_shapes returned -6 (RKNN_ERR_MODEL_INVALID): E RKNN: no such shape"
    )
    assert walked.calls[-1].endswith("left: 0 contexts, 0 memories")


# The conversion


def _attribute(kind: int, count: int, scale: float = 1.0, zero: int = 0) -> abi.TensorAttr:
    attribute = abi.TensorAttr(
        n_dims=2,
        n_elems=count,
        fmt=3,
        type=kind,
        scale=scale,
        zp=zero,
        name=b"x",
    )
    attribute.dims[:2] = (1, count)
    attribute.size = count * (2 if kind in (abi.TYPE_FLOAT16, abi.TYPE_INT16) else 1)
    return attribute


def _fed(fed: FedInput) -> bytes:
    return bytes(fed.filled())


@pytest.mark.parametrize(
    ("kind", "scale", "zero"),
    [
        (abi.TYPE_INT8, 0.02, -3),
        (abi.TYPE_UINT8, 0.02, 117),
        (abi.TYPE_INT16, 0.001, 0),
        (abi.TYPE_FLOAT16, 1.0, 0),
    ],
)
def test_a_conversion_is_numpys(tmp_path: Path, kind: int, scale: float, zero: int) -> None:
    """All pieces are quantised with the model's scale and limits, or rounded to float16."""
    count = 10_001
    values = np.random.default_rng(1).normal(0, 2, (1, count)).astype(np.float32)
    attribute = _attribute(kind, count, scale, zero)
    read = _fed(bound_input(attribute, _saved(tmp_path, values)))
    if kind == abi.TYPE_FLOAT16:
        expected = values.astype(np.float16)
    else:
        limits = np.iinfo(abi.TYPES[kind])
        # The scale is a float in the struct.
        stored = values.astype(np.float64) / attribute.scale + zero
        expected = np.rint(stored.clip(limits.min, limits.max)).astype(limits.dtype)
    assert read == expected.tobytes()


@pytest.mark.parametrize("kind", [abi.TYPE_INT8, abi.TYPE_FLOAT16])
def test_numbers_that_are_none(tmp_path: Path, kind: int) -> None:
    """Infinity and NaN become the last number of the type, and no traceback."""
    values = np.array([[np.inf, -np.inf, np.nan, 1e30]], np.float32)
    read = _fed(
        bound_input(
            _attribute(kind, 4, 0.5 if kind == abi.TYPE_INT8 else 1.0), _saved(tmp_path, values)
        )
    )
    dtype = np.int8 if kind == abi.TYPE_INT8 else np.float16
    most = 127 if kind == abi.TYPE_INT8 else 65504
    assert np.frombuffer(read, dtype).tolist() == [
        most,
        -most - (kind == abi.TYPE_INT8),
        most,
        most,
    ]


def test_a_bfloat16_is_copied_as_float32() -> None:
    """The library converts it; plain Python cannot write it in place."""
    assert copied_input(_attribute(abi.TYPE_BFLOAT16, 3), None).attribute.type == abi.TYPE_FLOAT32
    with pytest.raises(NotSupported, match="bfloat16"):
        bound_input(_attribute(abi.TYPE_BFLOAT16, 3), None)


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_small_integers_without_a_scale_are_indices(scale: float) -> None:
    """The mini runtime has masks as INT8, with a scale of 0 or 1."""
    expected = bytes(byte & 1 for byte in input_pattern()[:5])
    assert _fed(bound_input(_attribute(abi.TYPE_INT8, 5, scale), None)) == expected
