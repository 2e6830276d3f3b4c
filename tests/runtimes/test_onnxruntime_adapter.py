"""ONNX Runtime's adapter, on the real runtime."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from runtimes import open_runtime
from runtimes.base import Context, Memory, NotSupported, Runtime, input_pattern
from targets.base import THIS_INTERPRETER
from targets.measured_process import prepare_models
from targets.outcome import Failure
from tests.support import TIME_LIMIT_S, make_plan, walk

_TYPES = {
    "float": onnx.TensorProto.FLOAT,
    "float16": onnx.TensorProto.FLOAT16,
    "double": onnx.TensorProto.DOUBLE,
    "uint8": onnx.TensorProto.UINT8,
    "int8": onnx.TensorProto.INT8,
    "int32": onnx.TensorProto.INT32,
    "int64": onnx.TensorProto.INT64,
    "bool": onnx.TensorProto.BOOL,
}


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    """Return the adapter, here in the test's own process."""
    return open_runtime("onnxruntime")


def _identity(folder: Path, element: int, shape: list[Any]) -> Path:
    """Return a model that gives its input back: what an adapter feeds is what it reads."""
    ends = [onnx.helper.make_tensor_value_info(name, element, shape) for name in ("given", "taken")]
    node = onnx.helper.make_node("Identity", ["given"], ["taken"])
    graph = onnx.helper.make_graph([node], "identity", ends[:1], ends[1:])
    # The oldest IR and operator set that serve: an old runtime reads them too.
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)])
    path = folder / "identity.onnx"
    onnx.save(model, str(path))
    return path


def _output(context: Context) -> bytes:
    context.infer()
    return b"".join(bytes(output) for output in context.outputs())


def _prepare(runtime: Runtime, model: Path, folder: Path) -> str:
    prepared = runtime.prepare(str(model), "0123456789abcdef" * 4, str(folder))
    assert prepared is not None
    return prepared


def test_every_mechanism_gives_the_same_outputs(runtime: Runtime, mobile_model: Path, tmp_path: Path) -> None:
    """A plain context, one with shared weights, its dup and a shared context are equal bit for bit."""
    plain = runtime.load(str(mobile_model), None, Memory())
    source = runtime.load(str(mobile_model), _prepare(runtime, mobile_model, tmp_path), Memory())
    contexts = [source, runtime.dup(source, Memory()), runtime.shared_context(plain), runtime.shared_context(source)]
    expected = _output(plain)
    assert len(expected) == 1000 * 4
    assert len(set(expected)) > 100, "outputs that are all alike would prove nothing"
    assert [_output(context) == expected for context in contexts] == [True] * 4


def test_other_weights_give_other_outputs(runtime: Runtime, tiny_models: tuple[Path, Path]) -> None:
    """Outputs depend on the weights, or comparing them would prove nothing."""
    first, second = (_output(runtime.load(str(path), None, Memory())) for path in tiny_models)
    assert first != second


def test_a_dup_outlives_its_source(runtime: Runtime, tiny_model: Path, tmp_path: Path) -> None:
    """Destroying the source leaves the dup's weights alone."""
    source = runtime.load(str(tiny_model), _prepare(runtime, tiny_model, tmp_path), Memory())
    dup = runtime.dup(source, Memory())
    before = _output(dup)
    source.destroy()
    assert _output(dup) == before


def test_destroying_frees_the_session(runtime: Runtime, tiny_model: Path) -> None:
    """Nothing waits for the garbage collector, or for the context itself to be dropped."""
    context: Any = runtime.load(str(tiny_model), None, Memory())
    session = weakref.ref(context.session)
    shared: Any = runtime.shared_context(context)
    context.infer()
    context.destroy()
    assert session() is not None, "a shared context still runs it"
    shared.destroy()
    assert session() is None


def test_a_dup_needs_a_prepared_source(runtime: Runtime, tiny_model: Path) -> None:
    """The weights of a plain session cannot be shared, and the adapter does not pretend that they are."""
    with pytest.raises(NotSupported, match="only between sessions of a prepared model"):
        runtime.dup(runtime.load(str(tiny_model), None, Memory()), Memory())


@pytest.mark.parametrize("name", _TYPES)
def test_input_types(runtime: Runtime, tmp_path: Path, name: str) -> None:
    """Every type of input is filled with noise: floats in 0..1, indices 0 or 1, and the same on every machine."""
    context = runtime.load(str(_identity(tmp_path, _TYPES[name], [1, 70000])), None, Memory())
    values = np.frombuffer(_output(context), {"float": "float32", "double": "float64"}.get(name, name))
    assert values.size == 70000
    noise = np.frombuffer(input_pattern(), np.uint8)
    if name in ("uint8", "int8"):
        assert np.array_equal(values[: noise.size], noise.view(values.dtype))
        # The pattern is repeated where the input is longer.
        assert np.array_equal(values[noise.size :], values[: 70000 - noise.size])
    elif name in ("int32", "int64", "bool"):
        assert set(values.tolist()) == {0, 1}
    else:
        assert values.min() == 0
        assert values.max() == 1
        assert 0.49 < float(values.astype("float64").mean()) < 0.51


def test_the_input_pattern_never_changes() -> None:
    """Outputs of two machines, and of two Pythons, are comparable."""
    pattern = input_pattern()
    assert (len(pattern), pattern[:8].hex()) == (65521, "3c5e81b40c5ec68e")
    counts = np.bincount(np.frombuffer(pattern, np.uint8), minlength=256)
    assert counts.min() > 0


def test_a_free_batch_size_is_one(runtime: Runtime, tmp_path: Path) -> None:
    """A model exported with a free batch size is measured with one frame at a time."""
    context = runtime.load(str(_identity(tmp_path, onnx.TensorProto.FLOAT, ["batch", 3, 5])), None, Memory())
    assert len(_output(context)) == 1 * 3 * 5 * 4


@pytest.mark.parametrize(
    ("element", "shape", "words"),
    [
        (onnx.TensorProto.FLOAT, [1, 3, "height", None], ["'given'", "height", "make_dynamic_shape_fixed"]),
        (onnx.TensorProto.STRING, [1], ["'given'", "tensor(string)", "valid: tensor(float), "]),
    ],
)
def test_what_the_adapter_cannot_feed(
    runtime: Runtime, tmp_path: Path, element: int, shape: list[Any], words: list[str]
) -> None:
    """The message names the input and what to do, or what is valid."""
    model = _identity(tmp_path, element, shape)
    with pytest.raises(NotSupported) as refusal:
        runtime.load(str(model), None, Memory())
    assert [word for word in [*words, str(model)] if word not in str(refusal.value)] == []


def test_two_versions_of_a_model_are_prepared_apart(
    runtime: Runtime, tiny_models: tuple[Path, Path], tmp_path: Path
) -> None:
    """The digest decides, not the file's name."""
    digests = ("0123456789ab" + digit * 52 for digit in "cd")
    paths = {runtime.prepare(str(model), digest, str(tmp_path)) for model, digest in zip(tiny_models, digests)}
    assert len(paths) == 2


@pytest.mark.parametrize("damage", [lambda whole: whole[: len(whole) // 2], lambda _: b"GIF89a and so on" * 100])
@pytest.mark.parametrize("scenario", ["no_reuse", "full_dup"])
def test_a_damaged_model_is_a_failure_with_words(
    tiny_model: Path, tmp_path: Path, damage: Callable[[bytes], bytes], scenario: str
) -> None:
    """A truncated or foreign file fails where it is first read, and the message names it."""
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(damage(tiny_model.read_bytes()))
    plan = make_plan(scenario, damaged, runtime="onnxruntime")
    prepared = prepare_models(THIS_INTERPRETER, plan, tmp_path / "prepared", TIME_LIMIT_S)
    failure = prepared if isinstance(prepared, Failure) else walk(prepared, THIS_INTERPRETER).failure
    place = ("prepare", None) if scenario == "full_dup" else ("context", 0)
    assert failure is not None
    assert (failure.kind, failure.phase, failure.context) == ("failed", *place)
    assert "damaged.onnx" in failure.message
