"""OpenVINO's adapter, on the real runtime, if it is installed."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from reusebench.measured.plan import Plan
from reusebench.measured.runtimes import open_runtime
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
)
from reusebench.samplers.host import LOCAL_HOST
from reusebench.samplers.process_memory import read_process
from reusebench.targets.target import THIS_INTERPRETER
from tests.helpers.support import CHECKOUT, StubObserver, known, make_plan, prepared_plan, walk

pytestmark = pytest.mark.process
#: An operator that no opset of OpenVINO has.
_OWN = 'type="MyOp" version="own"'

pytest.importorskip("openvino", exc_type=ImportError)

_TYPES = {
    "float32": onnx.TensorProto.FLOAT,
    "float64": onnx.TensorProto.DOUBLE,
    "float16": onnx.TensorProto.FLOAT16,
    "bfloat16": onnx.TensorProto.BFLOAT16,
    "uint8": onnx.TensorProto.UINT8,
    "int8": onnx.TensorProto.INT8,
    "uint16": onnx.TensorProto.UINT16,
    "int32": onnx.TensorProto.INT32,
    "int64": onnx.TensorProto.INT64,
    "uint64": onnx.TensorProto.UINT64,
    "bool": onnx.TensorProto.BOOL,
}
#: The ways to move tensors.
_WAYS: tuple[tuple[str, ...], ...] = ((), ("input",), ("output",), ("input", "output"))
#: Sizes of tiny at 64x64: 3 x 64 x 64 pixels in, 100 logits out, float32.
_INPUT_BYTES = 3 * 64 * 64 * 4
_OUTPUT_BYTES = 100 * 4


@pytest.fixture(scope="module")
def openvino() -> Runtime:
    """Return the adapter, here in the tests' own process."""
    return open_runtime("openvino")


def _outputs(context: RuntimeContext) -> list[bytes]:
    context.infer()
    return [bytes(output) for output in context.outputs()]


def _prepare(runtime: Runtime, model: Path, folder: Path) -> str:
    return known(
        runtime.prepare(str(model), f"digest-of-{model.stem}", str(folder), lambda: None)
    ).path


def _model(
    folder: Path,
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
) -> Path:
    graph = onnx.helper.make_graph(nodes, "made", inputs, outputs)
    model = onnx.helper.make_model(
        graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)]
    )
    path = folder / "made.onnx"
    onnx.save(model, str(path))
    return path


def _identity(folder: Path, kind: str, shape: Sequence[Any]) -> Path:
    """Return a model that returns its input, so that outputs show what an adapter feeds."""
    tensors = [
        onnx.helper.make_tensor_value_info(name, _TYPES[kind], shape)
        for name in ("input0", "output0")
    ]
    return _model(
        folder,
        [onnx.helper.make_node("Identity", ["input0"], ["output0"])],
        tensors[:1],
        tensors[1:],
    )


def test_weights_where_the_file_is(openvino: Runtime, tiny_model: Path, tmp_path: Path) -> None:
    """A context that maps the prepared file has the outputs of a plain load."""
    expected = _outputs(openvino.load(str(tiny_model), None, Memory()))
    prepared = _prepare(openvino, tiny_model, tmp_path)
    for way in _WAYS:
        memory = Memory(zero_copy=(*way, "model"))
        context = openvino.load(str(tiny_model), prepared, memory)
        assert [_outputs(context) for _ in range(2)] == [expected] * 2


def test_another_resolution_over_the_same_weights(
    openvino: Runtime, tiny_resolutions: tuple[Path, Path], tmp_path: Path
) -> None:
    """Outputs are those of its own plain load; the source keeps its own with free sizes."""
    expected = [_outputs(openvino.load(str(model), None, Memory())) for model in tiny_resolutions]
    first, second = (_prepare(openvino, model, tmp_path) for model in tiny_resolutions)
    assert Path(first).with_suffix(".bin").samefile(Path(second).with_suffix(".bin"))
    for zero_copy in _WAYS:
        source = openvino.load(str(tiny_resolutions[0]), first, Memory(zero_copy=zero_copy))
        other = openvino.share_weights(second, source, Memory(zero_copy=zero_copy))
        assert [_outputs(context) for context in (source, other, source, other)] == expected * 2, (
            zero_copy
        )
        source.destroy()
        assert _outputs(other) == expected[1]


@pytest.mark.parametrize("zero_copy", [(), ("output",)])
def test_a_copied_input_is_not_written_into_an_array_in_place(
    openvino: Runtime, tiny_resolutions: tuple[Path, Path], tmp_path: Path, zero_copy: tuple[str]
) -> None:
    """The array of a context stays as its application filled it, also with free sizes."""
    first, second = (_prepare(openvino, model, tmp_path) for model in tiny_resolutions)
    source = openvino.load(str(tiny_resolutions[0]), first, Memory(zero_copy=("input",)))
    other = openvino.share_weights(second, source, Memory(zero_copy=zero_copy))
    array = np.frombuffer(source.image_input().memory, np.float32)
    for value in (0.25, 0.75):
        array[...] = value
        source.infer()
        other.infer()
        assert np.all(array == np.float32(value))


def test_weights_of_another_network_are_not_shared(
    openvino: Runtime, tiny_models: tuple[Path, Path], tmp_path: Path
) -> None:
    """Networks that only look alike are refused, and files with other outputs at these sizes."""
    first, second = (_prepare(openvino, model, tmp_path) for model in tiny_models)
    source = openvino.load(str(tiny_models[0]), first, Memory())
    with pytest.raises(NotSupported, match="both must be one network"):
        openvino.share_weights(second, source, Memory())
    wide = InputData("images", "float32", (1, 4, 64, 64))
    with pytest.raises(AdapterError):
        openvino.share_weights(first, source, Memory(), {"images": wide})
    assert len(_outputs(source)[0]) == _OUTPUT_BYTES


def _addresses(context: RuntimeContext) -> list[int]:
    views = (context.image_input().memory, *context.outputs())
    return [np.frombuffer(view, np.uint8).ctypes.data for view in views]


@pytest.mark.parametrize("zero_copy", _WAYS)
def test_what_is_copied(openvino: Runtime, tiny_model: Path, zero_copy: tuple[str, ...]) -> None:
    """Tensors in place are not copied: inferences read and write the application's arrays."""
    context = openvino.load(str(tiny_model), None, Memory(zero_copy=zero_copy))
    first = _outputs(context)
    sizes = {"input": _INPUT_BYTES, "output": _OUTPUT_BYTES}
    assert context.copies() == Copies(
        input_bytes=0 if "input" in zero_copy else _INPUT_BYTES,
        output_bytes=0 if "output" in zero_copy else _OUTPUT_BYTES,
    )
    assert context.allocations() == [Allocation(kind, sizes[kind], 0) for kind in zero_copy]
    before = _addresses(context)
    image = context.image_input()
    assert (image.width, image.height, image.channels, image.layout, image.type) == (
        64,
        64,
        3,
        "nchw",
        "float32",
    )
    pixels = np.frombuffer(image.memory, np.float32)
    noise = pixels.copy()
    np.frombuffer(image.memory, np.uint8)[:] = 0
    assert _outputs(context) != first
    np.frombuffer(image.memory, np.float32)[:] = noise
    assert _outputs(context) == first
    if "output" in zero_copy:
        assert _addresses(context) == before
    context.renew_io()
    assert _outputs(context) == first
    assert _addresses(context)[0] != before[0]


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (Memory(outside=("internal",)), "takes no allocator"),
        (Memory(allocator="dma_heap"), "dma_heap is a way of Rockchip's"),
        (Memory(device_io=True), "zero copy is all there is"),
        (Memory(device="cuda"), "on the CPU alone, not on cuda"),
        (Memory(zero_copy=("native_output",)), "the model's order only"),
        (Memory(zero_copy=("model",)), "must be prepared"),
        (Memory(outside=("weights",)), "must be prepared"),
        (Memory(options=("NO_SUCH=1",)), "has no option NO_SUCH=1; valid: .*NUM_STREAMS"),
        (Memory(options=("LOG_LEVEL=x",)), "LOG_LEVEL=x: Wrong value x .*NO/ERR/WARNING"),
        (Memory(options=("CACHE_DIR=/x",)), "OpenVINO would write a file"),
        (Memory(options=("NUM_STREAMS=x",)), "NUM_STREAMS=x: Could not read number"),
    ],
)
def test_what_openvino_cannot_do(
    openvino: Runtime,
    tiny_model: Path,
    memory: Memory,
    words: str,
) -> None:
    """It is refused when a context is made, with the reason."""
    with pytest.raises(NotSupported, match=words):
        openvino.load(str(tiny_model), None, memory)


def test_options(openvino: Runtime, tiny_model: Path) -> None:
    """Options of threads give equal outputs; bfloat16 gives near ones, if the processor has it."""
    expected = _outputs(openvino.load(str(tiny_model), None, Memory()))
    for option in (
        "NUM_STREAMS=0",
        "PERFORMANCE_HINT=THROUGHPUT",
        "CPU_DENORMALS_OPTIMIZATION=YES",
        "INFERENCE_NUM_THREADS=2",
    ):
        assert _outputs(openvino.load(str(tiny_model), None, Memory(options=(option,)))) == expected
    (halved,) = _outputs(
        openvino.load(str(tiny_model), None, Memory(options=("INFERENCE_PRECISION_HINT=bf16",)))
    )
    exact = np.frombuffer(expected[0], np.float32)
    # A value has 8 bits in each of some 50 layers.
    assert np.abs(np.frombuffer(halved, np.float32) - exact).max() < 0.2 * np.abs(exact).max()


def test_threads_do_not_become_more(openvino: Runtime, tiny_model: Path) -> None:
    """New contexts use the threads of those that went."""
    counts = []
    for _ in range(6):
        source = openvino.load(str(tiny_model), None, Memory())
        dup = openvino.dup(source, Memory())
        _outputs(dup)
        counts.append(len(list(Path("/proc/self/task").iterdir())))
        dup.destroy()
        source.destroy()
    assert counts[-1] == counts[1]


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        *((kind, (2, 5)) for kind in _TYPES),
        *itertools.product(("float32", "bfloat16", "int64"), ((), (0, 3))),
    ],
)
@pytest.mark.parametrize("zero_copy", [(), ("input", "output")])
def test_inputs_of_every_type(
    openvino: Runtime,
    tmp_path: Path,
    kind: str,
    shape: tuple[int, ...],
    zero_copy: tuple[str, ...],
) -> None:
    """Scalars, empty tensors and others of every type, with free sizes, come out unchanged."""
    model = _identity(tmp_path, kind, ["n" for _ in shape])
    assert openvino.interface(str(model)).inputs == (
        DeclaredTensor("input0", kind, tuple("n" for _ in shape)),
    )
    tensor = InputData("input0", kind, shape)
    context = openvino.load(str(model), None, Memory(zero_copy=zero_copy), {"input0": tensor})
    assert [_outputs(context) for _ in range(2)] == [[bytes(as_buffer(filled(tensor)))]] * 2


def test_several_inputs_of_a_file(openvino: Runtime, tmp_path: Path) -> None:
    """Each is fed by its name; the notes of the file's author are told."""
    names = ("a", "b")
    inputs = [
        onnx.helper.make_tensor_value_info(name, _TYPES["int64"], ["rows", None]) for name in names
    ]
    output = onnx.helper.make_tensor_value_info("difference", _TYPES["int64"], None)
    path = _model(
        tmp_path,
        [onnx.helper.make_node("Sub", ["a", "b"], ["difference"])],
        inputs,
        [output],
    )
    model = onnx.load(str(path))
    model.metadata_props.add(key="imgsz", value="64")
    onnx.save(model, str(path))
    interface = openvino.interface(str(path))
    assert [tensor.dimensions for tensor in interface.inputs] == [("rows", "")] * 2
    assert interface.metadata == {"imgsz": "64"}
    fed = {name: InputData(name, "int64", (2, 3), value) for name, value in zip(names, (7, 4))}
    for zero_copy in _WAYS:
        (difference,) = _outputs(openvino.load(str(path), None, Memory(zero_copy=zero_copy), fed))
        assert np.frombuffer(difference, np.int64).tolist() == [3] * 6
    with pytest.raises(NotSupported, match="'a' has free sizes"):
        openvino.load(str(path), None, Memory())


def test_openvinos_own_files(openvino: Runtime, tiny_model: Path, tmp_path: Path) -> None:
    """They are read as they are, and give the outputs of the ONNX file."""
    own = _prepare(openvino, tiny_model, tmp_path)
    assert openvino.interface(own).inputs == openvino.interface(str(tiny_model)).inputs
    context = openvino.load(own, None, Memory())
    assert _outputs(context) == _outputs(openvino.load(str(tiny_model), None, Memory()))


def test_models_that_cannot_be_read(openvino: Runtime, tiny_model: Path, tmp_path: Path) -> None:
    """The sentence names the file, and the missing part."""
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(tiny_model.read_bytes()[:-1000])
    text = tmp_path / "text.xml"
    text.write_text("<net")
    alone = Path(_prepare(openvino, tiny_model, tmp_path))
    own = tmp_path / "own.xml"
    own.write_text(alone.read_text().replace('type="ReLU" version="opset1"', _OWN, 1))
    own.with_suffix(".bin").write_bytes(alone.with_suffix(".bin").read_bytes())
    alone.with_suffix(".bin").unlink()
    words = [
        (damaged, "damaged.onnx is not a model"),
        (text, "text.xml is not a model"),
        (alone, "ends in .bin"),
        (own, "does not have: MyOp layer"),
    ]
    matrix = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 2])
    number = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [])
    determinant = _model(tmp_path, [onnx.helper.make_node("Det", ["x"], ["y"])], [matrix], [number])
    words.append((determinant, "does not have: Det"))
    for path, sentence in words:
        with pytest.raises(AdapterError, match=re.escape(sentence)):
            openvino.load(str(path), None, Memory())
    texts = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.STRING, [2])
        for name in ("x", "y")
    ]
    identity = _model(
        tmp_path, [onnx.helper.make_node("Identity", ["x"], ["y"])], texts[:1], texts[1:]
    )
    with pytest.raises(AdapterError, match="input 'x' is string"):
        openvino.interface(str(identity))


def test_nothing_is_reported_to_the_maker(tmp_path: Path) -> None:
    """The process neither writes a client's identity nor loads the code that would send it."""
    code = (
        "import sys; from reusebench.measured import runtimes; runtimes.open_runtime('openvino'); "
        "print({'ssl', 'urllib.request'} & set(sys.modules))"
    )
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout.strip() == "set()"
    assert list(tmp_path.iterdir()) == []


def _walked(scenario: str, folder: Path, *paths: Path) -> tuple[int, set[str]]:
    """Return the RSS of the trimmed steady phase over the import, and the digests.

    PSS would also show another process that has OpenVINO's libraries.
    """
    choice = 1 if scenario == "lean" else 0  # the first has outputs in an order that only NPUs have
    plan = prepared_plan(
        make_plan(scenario, *paths, contexts=4, runtime="openvino", choice=choice),
        THIS_INTERPRETER,
        folder,
    )
    assert isinstance(plan, Plan), plan
    observer = StubObserver(lambda pid: read_process(LOCAL_HOST, pid).rss_bytes)
    run = walk(plan, THIS_INTERPRETER, observer)
    assert run.failure is None, run.failure
    rss_bytes = {reading.phase: size for reading, size in zip(run.barriers, observer.answers)}
    (digests,) = (reading.data.digests for reading in run.barriers if reading.phase == "steady")
    return rss_bytes["trimmed"] - rss_bytes["imported"], set(digests)


def test_dups_hold_the_weights_once(mobile_model: Path, tmp_path: Path) -> None:
    """Four dups take far less than four loads, and all mechanisms together no more."""
    names = ("no_reuse_one_model", "full_dup", "lean", "model_in_place")
    ran = {name: _walked(name, tmp_path, mobile_model) for name in names}
    loads, outputs = ran["no_reuse_one_model"]
    assert ran["full_dup"][0] < 0.6 * loads
    assert ran["lean"][0] < ran["full_dup"][0]
    assert ran["model_in_place"][0] < loads - 3 * mobile_model.stat().st_size
    assert [digests for _, digests in ran.values()] == [outputs] * len(names)


def test_resolutions_hold_the_weights_once(
    mobile_resolutions: tuple[Path, Path], tmp_path: Path
) -> None:
    """Two sizes take less over one's weights, with the outputs of their own."""
    (apart, outputs), (shared, of_shared) = (
        _walked(name, tmp_path, *mobile_resolutions) for name in ("resolutions", "shared_weights")
    )
    assert shared < 0.9 * apart
    assert of_shared == outputs


def test_models_in_turn_have_internal_tensors_one_at_a_time(
    openvino: Runtime, wide_internal_model: Path, tiny_model: Path
) -> None:
    """Those of the last model are released before another one runs, and outputs stay equal."""
    alone = [
        _outputs(openvino.load(str(model), None, Memory()))
        for model in (wide_internal_model, tiny_model)
    ]
    zero_copy = ("input", "output")
    contexts = []
    for model in (wide_internal_model, tiny_model):
        contexts.append(openvino.load(str(model), None, Memory(internal=7, zero_copy=zero_copy)))
    held = []
    for _ in range(3):
        for number, context in enumerate(contexts):
            assert _outputs(context) == alone[number]
            ctypes.CDLL(None).malloc_trim(0)
            held.append(read_process(LOCAL_HOST, os.getpid()).rss_bytes)
    # The first inference allocates more than internal tensors.
    assert min(held[2::2]) > max(held[3::2]) + 4 * 2**20


def test_a_context_of_another_turn_infers_meanwhile(
    openvino: Runtime, tiny_models: tuple[Path, Path]
) -> None:
    """A model that may be inferring keeps its internal tensors, and outputs are equal."""
    turns = [Memory(internal=core) for core in (20, 21)]
    sources = [openvino.load(str(model), None, turns[0]) for model in tiny_models]
    of_cores = [sources, [openvino.dup(source, turns[1]) for source in sources]]
    expected = [_outputs(source) for source in sources]
    outputs: list[list[list[list[bytes]]]] = [[] for _ in of_cores]
    failures: list[BaseException] = []

    def infer(core: int) -> None:
        try:
            for _ in range(200):
                outputs[core].append([_outputs(context) for context in of_cores[core]])
        except RuntimeError as error:
            failures.append(error)

    threads = [threading.Thread(target=infer, args=(core,)) for core in range(len(of_cores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert outputs == [[expected] * 200] * len(of_cores)
