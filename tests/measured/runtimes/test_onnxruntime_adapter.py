"""ONNX Runtime's adapter, on the real runtime."""

from __future__ import annotations

import gc
import json
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import onnx
import onnxruntime as ort
import pytest

from reusebench.measured.plan import Context
from reusebench.measured.runtimes.arrays import as_buffer, filled
from reusebench.measured.runtimes.base import (
    AdapterError,
    Allocation,
    Copies,
    DeclaredTensor,
    InputData,
    Memory,
    NotSupported,
    Runtime,
    RuntimeContext,
    input_pattern,
)
from reusebench.measured.streams.letterbox import Letterbox
from reusebench.targets.outcome import Failure
from tests.helpers.forks import ONNX_FORKS
from tests.helpers.support import known, make_plan, prepared_plan, walk

pytestmark = pytest.mark.process

_WITHOUT_CUDA = pytest.mark.skipif(
    "CUDAExecutionProvider" in ort.get_available_providers(), reason="this ONNX Runtime has CUDA"
)

_FLOAT = onnx.TensorProto.FLOAT
_UINT8 = onnx.TensorProto.UINT8
#: The ways to move tensors.
_WAYS: tuple[tuple[str, ...], ...] = ((), ("input",), ("output",), ("input", "output"))


def _identity(folder: Path, element: int, *shapes: Sequence[Any]) -> str:
    """Return a model that returns its input, so that outputs show what an adapter feeds."""
    inputs = []
    outputs = []
    for index, shape in enumerate(shapes):
        inputs.append(onnx.helper.make_tensor_value_info(f"input{index}", element, shape))
        outputs.append(onnx.helper.make_tensor_value_info(f"output{index}", element, shape))
    nodes = [
        onnx.helper.make_node("Identity", [one.name], [other.name])
        for one, other in zip(inputs, outputs)
    ]
    graph = onnx.helper.make_graph(nodes, "identity", inputs, outputs)
    # The oldest IR and operator set that suffice, so that an old runtime reads them too.
    model = onnx.helper.make_model(
        graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)]
    )
    path = folder / "identity.onnx"
    onnx.save(model, str(path))
    return str(path)


def _outputs(context: RuntimeContext) -> list[bytes]:
    context.infer()
    return [bytes(output) for output in context.outputs()]


def _prepare(runtime: Runtime, model: Path | str, folder: Path) -> str:
    digest = f"digest-of-{Path(model).stem}"
    preparation = known(runtime.prepare(str(model), digest, str(folder), lambda: None))
    assert digest in preparation.path, "models of one name would be one"
    return preparation.path


def _address(context: RuntimeContext) -> tuple[int, ...]:
    return tuple(
        np.frombuffer(view, np.uint8).ctypes.data
        for view in (context.image_input().memory, *context.outputs())
    )


def test_another_resolution_over_the_same_weights(
    runtime: Runtime, tiny_resolutions: tuple[Path, Path], tmp_path: Path
) -> None:
    """The weights of both are one file."""
    first, second = (_prepare(runtime, model, tmp_path) for model in tiny_resolutions)
    assert Path(first).with_name("weights.bin").samefile(Path(second).with_name("weights.bin"))
    source = runtime.load(str(tiny_resolutions[0]), first, Memory())
    sharing = _outputs(runtime.share_weights(second, source, Memory()))
    assert (
        sharing
        == _outputs(runtime.load(str(tiny_resolutions[1]), None, Memory()))
        != _outputs(source)
    )


def test_weights_of_different_networks_are_not_shared(
    runtime: Runtime, tiny_models: tuple[Path, Path], tmp_path: Path
) -> None:
    """Models of equal layers and different weights are prepared apart, by digest, and refused."""
    first, second = (_prepare(runtime, model, tmp_path) for model in tiny_models)
    assert not Path(first).with_name("weights.bin").samefile(Path(second).with_name("weights.bin"))
    contexts = [runtime.load(prepared, prepared, Memory()) for prepared in (first, second)]
    assert _outputs(contexts[0]) != _outputs(contexts[1])
    with pytest.raises(NotSupported, match="both must be one network"):
        runtime.share_weights(second, contexts[0], Memory())


def test_tensors_in_place_stay_where_they_are(runtime: Runtime, tiny_model: Path) -> None:
    """Every inference leaves its output in the application's array, and nothing is copied."""
    context = runtime.load(str(tiny_model), None, Memory(zero_copy=("input", "output")))
    expected = _outputs(context)
    array = np.frombuffer(context.outputs()[0], np.uint8)
    array[:] = 0
    assert _outputs(context) == [bytes(array)] == expected
    assert context.copies() == Copies(0, 0)
    sizes = {allocation.kind: allocation.asked_bytes for allocation in context.allocations()}
    assert sizes == {"input": 3 * 64 * 64 * 4, "output": 100 * 4}


def test_what_run_copies(runtime: Runtime, tiny_model: Path) -> None:
    """Inputs are read in place; outputs count if they own their memory, which varies by version."""
    context = runtime.load(str(tiny_model), None, Memory())
    (output,) = _outputs(context)
    own = ort.InferenceSession(str(tiny_model)).run(
        None, {"images": np.zeros((1, 3, 64, 64), np.float32)}
    )[0]
    assert context.copies() == Copies(0, len(output) if own.flags.owndata else 0)
    assert context.allocations() == []


def test_weights_that_the_application_gives_live_as_long_as_their_context(
    runtime: Runtime, tiny_model: Path, tmp_path: Path
) -> None:
    """Only their context holds them, and each begins on a cache line."""
    prepared = _prepare(runtime, tiny_model, tmp_path)
    contexts = [
        runtime.load(str(tiny_model), prepared, Memory(outside=("weights",))) for _ in range(2)
    ]
    index = json.loads(Path(prepared).with_name("weights.json").read_text())
    size = sum(64 * math.ceil(length / 64) for *_, length in index)
    assert [context.allocations()[0] for context in contexts] == [
        Allocation("weights", size, 0)
    ] * 2
    before = _outputs(contexts[0])
    contexts.pop().destroy()
    gc.collect()
    assert _outputs(contexts[0]) == before
    contexts[0].destroy()
    assert contexts[0].allocations() == []


def test_weights_that_cannot_be_given(runtime: Runtime, tiny_model: Path, tmp_path: Path) -> None:
    """If `onnx` was missing at preparing, the message says so; some models have no weights."""
    prepared = _prepare(runtime, tiny_model, tmp_path)
    Path(prepared).with_name("weights.json").unlink()
    with pytest.raises(NotSupported, match="pip install onnx"):
        runtime.load(str(tiny_model), prepared, Memory(outside=("weights",)))
    source = runtime.load(str(tiny_model), prepared, Memory())
    assert _outputs(runtime.dup(source, Memory())) == _outputs(source)
    model = _identity(tmp_path, _FLOAT, [1, 5])
    with pytest.raises(NotSupported, match="there is none to give"):
        runtime.load(model, _prepare(runtime, model, tmp_path), Memory(outside=("weights",)))


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
def test_what_onnx_runtime_cannot_do(
    runtime: Runtime,
    tiny_model: Path,
    memory: Memory,
    words: str,
) -> None:
    """It is refused when a context is made, with the reason."""
    with pytest.raises(NotSupported, match=words):
        runtime.load(str(tiny_model), None, memory)


def test_a_dup_needs_a_prepared_source(runtime: Runtime, tiny_model: Path) -> None:
    """The weights of a plain session cannot be shared, and the adapter says so."""
    with pytest.raises(NotSupported, match="only between sessions of a prepared model"):
        runtime.dup(runtime.load(str(tiny_model), None, Memory()), Memory())


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


# Inputs


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "float64", "uint8", "int8", "int32", "int64", "bool"]
)
def test_input_types(runtime: Runtime, tmp_path: Path, dtype: str) -> None:
    """Each is filled with noise: floats in 0..1, indices 0 or 1, the same on every machine."""
    model = _identity(tmp_path, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [1, 70000])
    values = np.frombuffer(_outputs(runtime.load(model, None, Memory()))[0], dtype)
    assert values.size == 70000
    noise = np.frombuffer(input_pattern(), np.uint8)
    if dtype in ("uint8", "int8"):
        # The pattern is repeated in a longer input.
        assert np.array_equal(values, np.resize(noise.view(dtype), 70000))
    elif dtype in ("int32", "int64", "bool"):
        assert set(values.tolist()) == {0, 1}
    else:
        assert (values.min(), values.max()) == (0, 1)
        assert 0.49 < float(values.astype("float64").mean()) < 0.51


def test_the_input_pattern_never_changes() -> None:
    """Outputs of two machines, and of two Pythons, are comparable."""
    pattern = input_pattern()
    assert (len(pattern), pattern[:8].hex()) == (65521, "3c5e81b40c5ec68e")
    assert np.bincount(np.frombuffer(pattern, np.uint8), minlength=256).min() > 0


_HAS_BFLOAT16 = hasattr(ort.OrtValue, "ortvalue_from_numpy_with_onnx_type")
_TYPES = {
    "float32": onnx.TensorProto.FLOAT,
    "float64": onnx.TensorProto.DOUBLE,
    "float16": onnx.TensorProto.FLOAT16,
    **({"bfloat16": onnx.TensorProto.BFLOAT16} if _HAS_BFLOAT16 else {}),
    "uint8": onnx.TensorProto.UINT8,
    "int8": onnx.TensorProto.INT8,
    "uint16": onnx.TensorProto.UINT16,
    "int32": onnx.TensorProto.INT32,
    "int64": onnx.TensorProto.INT64,
    "uint64": onnx.TensorProto.UINT64,
    "bool": onnx.TensorProto.BOOL,
    "str": onnx.TensorProto.STRING,
}


@pytest.mark.parametrize("kind", _TYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 5)])
@pytest.mark.parametrize("value", [None, 1])
def test_inputs_of_every_type(
    runtime: Runtime,
    tmp_path: Path,
    kind: str,
    shape: tuple[int, ...],
    value: int | None,
) -> None:
    """Scalars, empty tensors and others of every type are declared and come out as they went in."""
    model = _identity(tmp_path, _TYPES[kind], ["n" for _ in shape])
    assert runtime.interface(model).inputs == (
        DeclaredTensor("input0", kind, tuple("n" for _ in shape)),
    )
    tensor = InputData("input0", kind, shape, value)
    fed = filled(tensor)
    context = runtime.load(model, None, Memory(), {"input0": tensor})
    assert _outputs(context) == [bytes(as_buffer(fed))]
    values = set(map(str, fed.reshape(-1).tolist()))
    assert (len(values) > 1) == (value is None and fed.size > 1)


@pytest.mark.parametrize("kind", [kind for kind in _TYPES if kind != "str"])
def test_outputs_of_free_sizes_are_kept_from_the_first_run_on(
    runtime: Runtime, tmp_path: Path, kind: str
) -> None:
    """With zero copy, an output of unknown size is in place after the first run."""
    model = _identity(tmp_path, _TYPES[kind], ["n", 3])
    context = runtime.load(
        model,
        None,
        Memory(zero_copy=("input", "output")),
        {"input0": InputData("input0", kind, (4, 3))},
    )
    expected = [bytes(as_buffer(filled(InputData("input0", kind, (4, 3)))))]
    assert [_outputs(context) for _ in range(3)] == [expected] * 3
    size = len(expected[0])
    assert context.allocations() == [Allocation("input", size, 0), Allocation("output", size, 0)]
    assert context.copies() == Copies(0, 0)


@pytest.mark.skipif(not _HAS_BFLOAT16, reason="this ONNX Runtime takes no bfloat16 from Python")
def test_bfloat16_is_the_upper_half_of_float32(runtime: Runtime, tmp_path: Path) -> None:
    """A value of an input of bfloat16 is the number, not its bits."""
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Cast", ["x"], ["y"], to=_FLOAT)],
        "cast",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.BFLOAT16, [2])],
        [onnx.helper.make_tensor_value_info("y", _FLOAT, [2])],
    )
    path = tmp_path / "cast.onnx"
    onnx.save(
        onnx.helper.make_model(
            graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)]
        ),
        str(path),
    )
    context = runtime.load(
        str(path),
        None,
        Memory(),
        {"x": InputData("x", "bfloat16", (2,), value=3)},
    )
    (output,) = _outputs(context)
    assert np.frombuffer(output, np.float32).tolist() == [3.0, 3.0]


def test_an_input_from_a_file(runtime: Runtime, tmp_path: Path) -> None:
    """Data are read from their file; text of fixed width becomes text of any length."""
    numbers = np.arange(6, dtype=np.int64).reshape(2, 3)
    words = np.array([["a", "bcd"]])
    for kind, values in (("int64", numbers), ("str", words)):
        np.save(tmp_path / "values.npy", values)
        model = _identity(tmp_path, _TYPES[kind], [None, None])
        tensor = InputData("input0", kind, values.shape, file=str(tmp_path / "values.npy"))
        context = runtime.load(model, None, Memory(), {"input0": tensor})
        assert _outputs(context) == [
            bytes(as_buffer(values if kind == "int64" else values.astype(object)))
        ]


def test_what_the_adapter_cannot_feed(runtime: Runtime, tmp_path: Path) -> None:
    """A sequence, free sizes without a shape, and text that is to be bound are refused by name."""
    sequence = onnx.helper.make_tensor_sequence_value_info("words", _FLOAT, None)
    length = onnx.helper.make_tensor_value_info("length", onnx.TensorProto.INT64, [])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("SequenceLength", ["words"], ["length"])],
        "length",
        [sequence],
        [length],
    )
    path = tmp_path / "sequence.onnx"
    onnx.save(
        onnx.helper.make_model(
            graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)]
        ),
        str(path),
    )
    with pytest.raises(AdapterError, match=r"'words' is seq\(tensor\(float\)\)"):
        runtime.interface(str(path))
    with pytest.raises(NotSupported, match=r"'input0' has free sizes \(1x\?x\?\)"):
        runtime.load(_identity(tmp_path, _FLOAT, [1, "height", None]), None, Memory())
    with pytest.raises(NotSupported, match="'input0' is str"):
        runtime.load(_identity(tmp_path, _TYPES["str"], [1]), None, Memory(zero_copy=("input",)))


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[: len(whole) // 2], lambda _: b"GIF89a and so on" * 100]
)
@pytest.mark.parametrize("scenario", ["no_reuse", "full_dup"])
def test_a_damaged_model_is_a_failure_with_words(
    tiny_model: Path,
    tmp_path: Path,
    damage: Callable[[bytes], bytes],
    scenario: str,
) -> None:
    """A truncated or foreign file fails when it is first read, and the message names it."""
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(damage(tiny_model.read_bytes()))
    plan = make_plan(scenario, damaged, runtime="onnxruntime")
    prepared = prepared_plan(plan, ONNX_FORKS, tmp_path / "prepared")
    failure = prepared if isinstance(prepared, Failure) else walk(prepared, ONNX_FORKS).failure
    step = ("prepare", None) if scenario == "full_dup" else ("context", 0)
    assert failure is not None
    assert (failure.kind, failure.phase, failure.context) == ("failed", *step)
    assert "damaged.onnx" in str(failure.message)


# Frames in the input


def _frame(seed: int = 0) -> Any:
    noise = np.random.default_rng(seed).integers(0, 256, (90, 160, 3), dtype=np.uint8)
    return av.VideoFrame.from_ndarray(noise, format="rgb24")


@pytest.mark.parametrize("zero_copy", _WAYS)
def test_an_inference_reads_the_frame_that_was_written(
    runtime: Runtime, tiny_model: Path, zero_copy: tuple[str, ...]
) -> None:
    """The output is that of the same pixels given by hand, frame after frame, for all ways."""
    context = runtime.load(str(tiny_model), None, Memory(zero_copy=zero_copy))
    session = ort.InferenceSession(str(tiny_model), providers=["CPUExecutionProvider"])
    outputs = [_outputs(context)]
    image = context.image_input()
    assert (image.width, image.height, image.channels, image.layout, image.type) == (
        64,
        64,
        3,
        "nchw",
        "float32",
    )
    letterbox = Letterbox(image)
    for seed in (1, 2, 1):
        letterbox.fill(_frame(seed))
        outputs.append(_outputs(context))
        pixels = np.frombuffer(bytes(image.memory), np.float32).reshape(1, 3, 64, 64)
        assert 0 <= pixels.min() < pixels.max() <= 1
        expected = session.run(None, {session.get_inputs()[0].name: pixels})[0]
        assert np.allclose(
            np.frombuffer(outputs[-1][0], np.float32),
            expected.ravel(),
            rtol=1e-4,
            atol=1e-5,
        )
    assert outputs[1] == outputs[3]
    assert len({output for (output,) in outputs}) == 3


@pytest.mark.parametrize(
    ("element", "shape", "layout"),
    [
        (_FLOAT, (1, 3, 32, 48), "nchw"),
        (_UINT8, (1, 32, 48, 3), "nhwc"),
        (_UINT8, (1, 1, 32, 48), "nchw"),
        (_FLOAT, (1, 32, 48, 1), "nhwc"),
    ],
)
def test_the_shape_decides_the_layout(
    runtime: Runtime,
    tmp_path: Path,
    element: int,
    shape: tuple[int, ...],
    layout: str,
) -> None:
    """A model that returns its input returns the frame, byte for byte."""
    context = runtime.load(_identity(tmp_path, element, shape), None, Memory())
    image = context.image_input()
    assert (image.width, image.height, image.layout) == (48, 32, layout)
    Letterbox(image).fill(_frame())
    assert _outputs(context) == [bytes(image.memory)]


def test_the_first_picture_of_several_inputs_is_written(runtime: Runtime, tmp_path: Path) -> None:
    """The first picture of a batch is written; other inputs keep their noise."""
    context = runtime.load(
        _identity(tmp_path, _FLOAT, (1, 7), (2, 3, 16, 16), (1, 3, 8, 8)), None, Memory()
    )
    before = _outputs(context)
    image = context.image_input()
    assert (image.width, len(image.memory)) == (16, 3 * 16 * 16 * 4)
    Letterbox(image).fill(_frame())
    after = _outputs(context)
    half = len(before[1]) // 2
    assert [one == other for one, other in zip(before, after)] == [True, False, True]
    assert (before[1][:half] == after[1][:half], before[1][half:] == after[1][half:]) == (
        False,
        True,
    )


def test_a_model_without_a_picture_is_refused(runtime: Runtime, tmp_path: Path) -> None:
    """The sentence has its shapes and what is valid."""
    context = runtime.load(_identity(tmp_path, _FLOAT, (1, 7), (1, 5, 8, 8)), None, Memory())
    with pytest.raises(
        NotSupported, match=r"no input of the model is a picture \(1x7, 1x5x8x8\); valid: 1x3xHxW"
    ):
        context.image_input()


# Options


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (
            "enable_mem_pattern=off",
            "does not take enable_mem_pattern=off; valid: 0, 1, false, true",
        ),
        ("intra_op_num_threads=many", "valid: a whole number"),
        ("graph_optimization_level=2", "valid: ORT_DISABLE_ALL, "),
        (
            "enable_memory_pattern=0",
            "no option enable_memory_pattern=0; valid: .*enable_mem_pattern",
        ),
        ("arena_extend_strategy=2", "valid: kNextPowerOfTwo, kSameAsRequested"),
        ("max_mem=1G", "does not take max_mem=1G; valid: a whole number"),
        ("session.disable_prepack=1", "valid: .*session.disable_prepacking"),
        ("memory.enable_arena_shrinkage=cpu:0", "valid: .*memory.enable_memory_arena_shrinkage"),
        ("RunOptions.no_such=1", "has no option RunOptions.no_such=1"),
        ("optimized_model_filepath=x", "would write a file"),
        ("ep.context_enable=1", "would write a file"),
    ],
)
def test_options_that_onnx_runtime_lacks(
    runtime: Runtime, tiny_model: Path, option: str, words: str
) -> None:
    """Names and values are refused by name, with those that there are; entries too, which the
    library takes without a word.
    """
    with pytest.raises(NotSupported, match=words):
        runtime.load(str(tiny_model), None, Memory(options=(option,)))


def test_an_entry_of_each_inference(runtime: Runtime, tiny_model: Path) -> None:
    """It reaches ONNX Runtime whatever way tensors move, which tells what is wrong with it."""
    name = "memory.enable_memory_arena_shrinkage"
    expected = _outputs(runtime.load(str(tiny_model), None, Memory()))
    for way in _WAYS:
        good = Memory(zero_copy=way, options=(f"{name}=cpu:0",))
        assert _outputs(runtime.load(str(tiny_model), None, good)) == expected
        wrong = Memory(zero_copy=way, options=(f"{name}=gpu:7",))
        context = runtime.load(str(tiny_model), None, wrong)
        with pytest.raises(Exception, match="memory arena shrink list: gpu:7"):
            context.infer()


def test_a_process_has_one_arena(tiny_model: Path) -> None:
    """Contexts with other settings of an arena are refused; equal ones allocate from it."""
    plan = make_plan("no_reuse_one_model", tiny_model, runtime="onnxruntime")
    strategy = ("arena_extend_strategy=kSameAsRequested",)
    for other in (strategy, ("max_mem=1000000000",)):
        contexts = tuple(Context(0, 0, options=options) for options in (strategy, other))
        failure = walk(replace(plan, contexts=contexts), ONNX_FORKS).failure
        if other == strategy:
            assert failure is None
        else:
            assert "allocate from one arena of the process" in str(known(failure).message)
