"""ONNX Runtime's adapter, on the real runtime."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from runtimes import open_runtime
from runtimes.base import Allocation, Context, Copies, Memory, NotSupported, Runtime, input_pattern
from targets.base import THIS_INTERPRETER
from targets.measured_process import prepare_models
from targets.outcome import Failure
from tests.support import TIME_LIMIT_S, make_plan, walk

_WITHOUT_CUDA = pytest.mark.skipif(
    "CUDAExecutionProvider" in ort.get_available_providers(), reason="this ONNX Runtime has CUDA"
)

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
    prepared = runtime.prepare(str(model), f"digest-of-{model.stem}", str(folder))
    assert prepared is not None
    return prepared


def _address(context: Context) -> int:
    return int(np.frombuffer(context.outputs()[0], np.uint8).ctypes.data)


def test_every_mechanism_gives_the_same_outputs(runtime: Runtime, mobile_model: Path, tmp_path: Path) -> None:
    """Whatever is shared or given, and however tensors move, outputs are those of a plain load bit for bit."""
    plain = runtime.load(str(mobile_model), None, Memory())
    expected = _output(plain)
    assert len(expected) == 1000 * 4
    assert len(set(expected)) > 100, "outputs that are all alike would prove nothing"
    prepared = _prepare(runtime, mobile_model, tmp_path)
    ways = itertools.product((None, 0), ((), ("input",), ("output",), ("input", "output")))
    for memory in (Memory(internal=internal, zero_copy=zero_copy) for internal, zero_copy in ways):
        source = runtime.load(str(mobile_model), prepared, memory)
        contexts = [
            source,
            runtime.dup(source, memory),
            runtime.shared_context(source, memory),
            runtime.share_weights(prepared, source, memory),
            runtime.load(str(mobile_model), None, memory),
            runtime.load(str(mobile_model), prepared, replace(memory, outside=("weights",))),
        ]
        assert [_output(context) == expected for context in contexts] == [True] * 6, memory
    assert _output(runtime.shared_context(plain, Memory())) == expected


def test_another_resolution_over_the_same_weights(
    runtime: Runtime, tiny_resolutions: tuple[Path, Path], tmp_path: Path
) -> None:
    """Its outputs are those of its own plain load, and its weights are the first one's file."""
    first, second = (_prepare(runtime, model, tmp_path) for model in tiny_resolutions)
    assert Path(first).with_name("weights.bin").samefile(Path(second).with_name("weights.bin"))
    source = runtime.load(str(tiny_resolutions[0]), first, Memory())
    sharing = runtime.share_weights(second, source, Memory())
    assert _output(sharing) == _output(runtime.load(str(tiny_resolutions[1]), None, Memory()))
    assert _output(sharing) != _output(source)


def test_weights_of_different_networks_are_not_shared(
    runtime: Runtime, tiny_models: tuple[Path, Path], tmp_path: Path
) -> None:
    """Models of equal layers and different weights are kept apart and refused, and nothing is computed of both."""
    first, second = (_prepare(runtime, model, tmp_path) for model in tiny_models)
    assert not Path(first).with_name("weights.bin").samefile(Path(second).with_name("weights.bin"))
    with pytest.raises(NotSupported, match="both must be one network"):
        runtime.share_weights(second, runtime.load(first, first, Memory()), Memory())


def test_tensors_in_place_stay_where_they_are(runtime: Runtime, tiny_model: Path) -> None:
    """Every inference leaves its output in the array that the application gave, and nothing is copied."""
    context = runtime.load(str(tiny_model), None, Memory(zero_copy=("input", "output")))
    context.infer()
    address, expected = _address(context), bytes(context.outputs()[0])
    for view in context.outputs():
        np.frombuffer(view, np.uint8)[:] = 0
    context.infer()
    assert _address(context) == address
    assert bytes(context.outputs()[0]) == expected
    assert context.copies() == Copies(0, 0)
    sizes = {each.kind: each.asked_bytes for each in context.allocations()}
    assert sizes == {"input": 3 * 64 * 64 * 4, "output": 100 * 4}


def test_what_run_copies(runtime: Runtime, tiny_model: Path) -> None:
    """Inputs are read in place; outputs count where they came as arrays of their own, which depends on the version."""
    context = runtime.load(str(tiny_model), None, Memory())
    context.infer()
    array = np.asarray(context.outputs()[0])
    own = ort.InferenceSession(str(tiny_model)).run(None, {"images": np.zeros((1, 3, 64, 64), np.float32)})[0]
    assert context.copies() == Copies(0, array.nbytes if own.flags.owndata else 0)
    assert context.allocations() == []


def test_weights_that_the_application_gives_live_as_long_as_their_context(
    runtime: Runtime, tiny_model: Path, tmp_path: Path
) -> None:
    """Nobody else holds them, they are as large as the file, and they go with the context."""
    prepared = _prepare(runtime, tiny_model, tmp_path)
    contexts = [runtime.load(str(tiny_model), prepared, Memory(outside=("weights",))) for _ in range(2)]
    size = Path(prepared).with_name("weights.bin").stat().st_size
    assert [context.allocations()[0] for context in contexts] == [Allocation("weights", size, 0)] * 2
    before = _output(contexts[0])
    contexts.pop().destroy()
    gc.collect()
    assert _output(contexts[0]) == before
    contexts[0].destroy()
    assert contexts[0].allocations() == []


def test_giving_weights_needs_their_names(runtime: Runtime, tiny_model: Path, tmp_path: Path) -> None:
    """Where `onnx` was missing when the model was prepared the message says what to install; dups need no names."""
    prepared = _prepare(runtime, tiny_model, tmp_path)
    Path(prepared).with_name("weights.json").unlink()
    with pytest.raises(NotSupported, match="pip install onnx"):
        runtime.load(str(tiny_model), prepared, Memory(outside=("weights",)))
    source = runtime.load(str(tiny_model), prepared, Memory())
    assert _output(runtime.dup(source, Memory())) == _output(source)


def test_a_model_without_weights_has_none_to_give(runtime: Runtime, tmp_path: Path) -> None:
    """It is refused with the reason, and not for a file that was never written."""
    model = _identity(tmp_path, onnx.TensorProto.FLOAT, [1, 5])
    with pytest.raises(NotSupported, match="there is none to give"):
        runtime.load(str(model), _prepare(runtime, model, tmp_path / "prepared"), Memory(outside=("weights",)))


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (Memory(outside=("internal",)), "takes no allocator"),
        (Memory(outside=("weights", "internal")), "takes no allocator"),
        (Memory(allocator="dma_heap"), "dma_heap is a way of Rockchip's"),
        (Memory(device_io=True), "zero copy is all there is"),
        pytest.param(Memory(device="cuda"), "onnxruntime-gpu", marks=_WITHOUT_CUDA),
        pytest.param(Memory(device="cuda", device_io=True), "onnxruntime-gpu", marks=_WITHOUT_CUDA),
    ],
)
def test_what_there_is_no_way_to(runtime: Runtime, tiny_model: Path, memory: Memory, words: str) -> None:
    """It is refused when a context is made, with the reason."""
    with pytest.raises(NotSupported, match=words):
        runtime.load(str(tiny_model), None, memory)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_contexts_may_be_destroyed_in_any_order(
    runtime: Runtime, tiny_model: Path, tmp_path: Path, order: tuple[int, ...]
) -> None:
    """Whoever is left over shared weights and shared internal memory still gives the same outputs."""
    memory = Memory(internal=0, zero_copy=("output",))
    source = runtime.load(str(tiny_model), _prepare(runtime, tiny_model, tmp_path), memory)
    contexts = {0: source, 1: runtime.dup(source, memory), 2: runtime.shared_context(source, memory)}
    expected = _output(source)
    for index in order:
        contexts.pop(index).destroy()
        assert [_output(context) for context in contexts.values()] == [expected] * len(contexts)


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
    shared: Any = runtime.shared_context(context, Memory())
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
    assert "damaged.onnx" in str(failure.message)
