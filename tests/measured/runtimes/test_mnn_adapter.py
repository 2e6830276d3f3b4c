"""MNN's adapter, on the real runtime."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from reusebench.measured.plan import Context, Model, Plan
from reusebench.measured.runtimes import available, find_runtime, open_runtime
from reusebench.measured.runtimes.arrays import filled
from reusebench.measured.runtimes.base import (
    AdapterError,
    Copies,
    DeclaredTensor,
    InputData,
    Interface,
    Memory,
    NotSupported,
    Runtime,
    RuntimeContext,
)
from reusebench.models.mnn.environment import MnnConverter
from reusebench.models.recipe import OnnxFile
from reusebench.samplers.host import LOCAL_HOST
from reusebench.samplers.process_memory import read_process
from reusebench.targets.measured_process import interface_of, try_plan
from reusebench.targets.outcome import Failure
from reusebench.targets.target import THIS_INTERPRETER
from tests.helpers.support import CHECKOUT, TIME_LIMIT_S, StubObserver, make_plan, walk
from tests.measured.runtimes.mnn_models import write_custom

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not available(find_runtime("mnn")), reason="MNN is not installed"),
]

#: Sizes of mobilenet_v2 at 96x96: pixels in, logits out, fp32.
_INPUT_BYTES = 3 * 96 * 96 * 4
_OUTPUT_BYTES = 1000 * 4
_WAYS: tuple[tuple[str, ...], ...] = ((), ("input",), ("output",), ("input", "output"))
_INTERPRETER = "api=Interpreter"


@pytest.fixture(scope="module")
def mnn() -> Runtime:
    """Return the adapter, here in the tests' own process."""
    return open_runtime("mnn")


@pytest.fixture(scope="module")
def files(mnn_files: Callable[..., list[str]]) -> dict[str, str]:
    """Return converted networks, by name and size."""
    networks = (("mobilenet_v2", 96), ("mobilenet_v2", 64), ("tiny", 64), ("tiny", 320))
    return {f"{name}-{size}": file for (name, size), file in zip(networks, mnn_files(*networks))}


@pytest.fixture(scope="module")
def model(files: dict[str, str]) -> str:
    """Return the network of most tests."""
    return files["mobilenet_v2-96"]


def _outputs(context: RuntimeContext) -> list[bytes]:
    context.infer()
    return [bytes(output) for output in context.outputs()]


def _converted(
    folder: Path,
    nodes: list[Any],
    inputs: list[Any],
    outputs: list[Any],
    *weights: Any,
) -> tuple[str, str]:
    """Return the path of an ONNX file of this graph, and of MNN's conversion of it."""
    graph = onnx.helper.make_graph(nodes, "graph", inputs, outputs, list(weights))
    source = folder / "graph.onnx"
    onnx.save(
        onnx.helper.make_model(
            graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)]
        ),
        source,
    )
    path = folder / "graph.mnn"
    with MnnConverter() as converter:
        converter.write(converter.recipe(OnnxFile(str(source), "0" * 64, (), False)), path)
    return str(source), str(path)


def test_what_a_file_declares(mnn: Runtime, model: str) -> None:
    """It declares inputs with their sizes, and the names of outputs."""
    interface = mnn.interface(model)
    assert interface.inputs == (DeclaredTensor("images", "float32", (1, 3, 96, 96)),)
    assert [tensor.name for tensor in interface.outputs] == ["classifier.1"]
    assert interface.metadata == {"version": mnn.version}


def test_outputs_are_those_of_onnx_runtime(
    mnn: Runtime, model: str, mobile_resolutions: tuple[Path, Path]
) -> None:
    """They differ by no more than kernels round."""
    session = ort.InferenceSession(str(mobile_resolutions[1]))
    (expected,) = session.run(
        None, {"images": filled(InputData("images", "float32", (1, 3, 96, 96)))}
    )
    (output,) = _outputs(mnn.load(model, None, Memory()))
    difference = np.abs(np.frombuffer(output, np.float32) - expected.ravel())
    assert difference.max() < 1e-4 * np.abs(expected).max()


def test_a_variable_is_read_in_place(mnn: Runtime, model: str) -> None:
    """The next inference reads what is written into its memory; otherwise the array is copied."""
    context, copying = (
        mnn.load(model, None, Memory(zero_copy=zero_copy)) for zero_copy in (("input",), ())
    )
    expected = _outputs(context)
    address = np.frombuffer(context.image_input().memory, np.uint8).ctypes.data
    results = []
    for either in (context, copying):
        image = either.image_input()
        assert (image.width, image.height, image.channels, image.layout, image.pitch_bytes) == (
            96,
            96,
            3,
            "nchw",
            384,
        )
        np.frombuffer(image.memory, np.float32)[:] = 0.5
        results.append(_outputs(either))
    assert results[0] == results[1] != expected
    assert np.frombuffer(context.image_input().memory, np.uint8).ctypes.data == address
    assert (context.copies(), copying.copies()) == (Copies(0, 0), Copies(_INPUT_BYTES, 0))
    context.renew_io()
    assert _outputs(context) == expected


def test_weights_in_a_file_of_their_own(
    mnn: Runtime, files: dict[str, str], tmp_path: Path
) -> None:
    """The weights' file is beside the model; clones of another size need the same weights."""
    code = (
        "import sys, _tools; _tools.mnnconvert(['mnnconvert', '-f', 'MNN', *sys.argv[1:],"
        " '--saveExternalData'])"
    )
    made = []
    for size in (96, 64):
        made.append(str(tmp_path / f"{size}.mnn"))
        arguments = ["--modelFile", files[f"mobilenet_v2-{size}"], "--MNNModel", made[-1]]
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)
    weights = tmp_path / "64.mnn.weight"
    assert weights.stat().st_size > 50 * Path(made[1]).stat().st_size
    source = mnn.load(made[0], None, Memory())
    assert _outputs(source) == _outputs(mnn.load(files["mobilenet_v2-96"], None, Memory()))
    assert _outputs(mnn.share_weights(made[1], source, Memory())) == _outputs(
        mnn.load(made[1], None, Memory())
    )
    weights.write_bytes(bytes(weights.stat().st_size))
    with pytest.raises(NotSupported, match="both must be one network"):
        mnn.share_weights(made[1], source, Memory())
    found = interface_of(THIS_INTERPRETER, "mnn", made[1], TIME_LIMIT_S)
    assert isinstance(found, Interface)
    weights.unlink()
    failure = interface_of(THIS_INTERPRETER, "mnn", made[1], TIME_LIMIT_S)
    assert isinstance(failure, Failure)
    assert failure.message.code == "mnn_weights_missing"
    assert failure.message.values["path"] == str(weights)


def test_an_inference_uses_one_core(mnn: Runtime, files: dict[str, str]) -> None:
    """Without a RuntimeManager it would use four, and so would every other module."""
    context = mnn.load(files["tiny-320"], None, Memory())
    context.infer()
    started = time.perf_counter()
    used = time.process_time()
    for _ in range(20):
        context.infer()
    assert time.process_time() - used < 1.3 * (time.perf_counter() - started)


# Options


def test_options(mnn: Runtime, files: dict[str, str]) -> None:
    """Each context has its own, whatever is made meanwhile; clones are like their source."""
    model = files["mobilenet_v2-96"]
    plain = mnn.load(model, None, Memory())
    expected = np.frombuffer(_outputs(plain)[0], np.float32)
    options = (
        "rearrange=False",
        _INTERPRETER,
        "MEM_ALLOCATOR_TYPE=1",
        "WINOGRAD_MEMORY_LEVEL=0",
        "precision=low",
    )
    for option in options:
        context = mnn.load(model, None, Memory(options=(option,)))
        clone = mnn.dup(context, Memory())
        (output,) = _outputs(context)
        assert _outputs(clone) == [output], option
        assert (
            np.abs(np.frombuffer(output, np.float32) - expected).max()
            < 1e-2 * np.abs(expected).max()
        )
    assert _outputs(plain) == [expected.tobytes()]
    with pytest.raises(NotSupported, match=r"does not take rearrange=Maybe; valid: False, True"):
        mnn.load(model, None, Memory(options=("rearrange=Maybe",)))


def test_a_session_has_an_account(mnn: Runtime, files: dict[str, str]) -> None:
    """It copies each tensor once, and shares neither tensors nor internal memory."""
    memory = Memory(options=(_INTERPRETER,))
    context = mnn.load(files["tiny-320"], None, memory)
    assert context.account()["session_bytes"] > 0
    assert (context.copies(), context.allocations()) == (Copies(3 * 320 * 320 * 4, 100 * 4), [])
    assert context.image_input().width == 320
    for refused in (
        Memory(zero_copy=("input",), options=(_INTERPRETER,)),
        Memory(internal=0, options=(_INTERPRETER,)),
    ):
        with pytest.raises(NotSupported, match="for modules"):
            mnn.load(files["tiny-320"], None, refused)


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (Memory(outside=("internal",)), "takes no allocator"),
        (Memory(outside=("weights",)), "memory of its own"),
        (Memory(zero_copy=("model",)), "setExternalPath"),
        (Memory(zero_copy=("native_output",)), "model's order only"),
        (Memory(allocator="mmz"), "mmz is a way of Rockchip's"),
        (Memory(device_io=True), "CPU backend alone"),
        (Memory(device="cuda"), "CPU backend alone"),
    ],
)
def test_what_mnn_cannot_do(mnn: Runtime, model: str, memory: Memory, words: str) -> None:
    """It is refused when a context is made, with the reason."""
    with pytest.raises(NotSupported, match=words):
        mnn.load(model, None, memory)


def test_unreadable_files(mnn: Runtime, model: str, tmp_path: Path) -> None:
    """A damaged file, and one that is not there, are named."""
    damaged = tmp_path / "damaged.mnn"
    damaged.write_bytes(Path(model).read_bytes()[:-1024])
    for path in (damaged, tmp_path / "missing.mnn"):
        with pytest.raises(AdapterError, match=f"{path} is not an MNN model"):
            mnn.load(str(path), None, Memory())


def test_operators_that_nobody_has(tmp_path: Path) -> None:
    """MNN's own words, on standard output, tell the cause of an inference without outputs."""
    model = Model("custom", str(write_custom(tmp_path, "MyOp")), "0" * 64)
    plan = Plan("trial", None, "mnn", (model,), (Context(None, 0),), cores=1, rounds=1)
    failure = try_plan(THIS_INTERPRETER, plan, TIME_LIMIT_S)
    assert isinstance(failure, Failure)
    assert failure.message.code == "mnn_operator_missing"


# Inputs


def test_several_inputs_of_several_types(mnn: Runtime, tmp_path: Path) -> None:
    """Integers and scalars work; int64 is int32 in MNN, and sizes may be free."""
    info = onnx.helper.make_tensor_value_info
    types = onnx.TensorProto
    table = onnx.numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4), "table")
    nodes = [
        onnx.helper.make_node("Gather", ["table", "index"], ["row"]),
        onnx.helper.make_node("Mul", ["row", "factor"], ["scaled"]),
        onnx.helper.make_node("Add", ["scaled", "rows"], ["sum"]),
    ]
    inputs = [
        info("rows", types.FLOAT, ["n", 4]),
        info("index", types.INT64, [1]),
        info("factor", types.FLOAT, []),
    ]
    source, path = _converted(tmp_path, nodes, inputs, [info("sum", types.FLOAT, ["n", 4])], table)
    interface = mnn.interface(path)
    assert [(tensor.name, tensor.type) for tensor in interface.inputs] == [
        ("rows", "float32"),
        ("index", "int32"),
        ("factor", "float32"),
    ]
    fed = {
        "rows": InputData("rows", "float32", (5, 4)),
        "index": InputData("index", "int64", (1,), value=2),
        "factor": InputData("factor", "float32", (), value=3),
    }
    expected = ort.InferenceSession(source).run(
        None, {name: filled(tensor) for name, tensor in fed.items()}
    )
    for memory in (Memory(), Memory(zero_copy=("input",))):
        (output,) = _outputs(mnn.load(path, None, memory, fed))
        assert np.allclose(np.frombuffer(output, np.float32).reshape(5, 4), expected[0])


def test_free_sizes_must_be_given(mnn: Runtime, tmp_path: Path) -> None:
    """They are shown as texts, and refused if nobody gives them."""
    shape: list[Any] = [1, 3, "height", "width"]
    info = onnx.helper.make_tensor_value_info
    types = onnx.TensorProto
    nodes = [onnx.helper.make_node("Relu", ["pixels"], ["relu"])]
    _, path = _converted(
        tmp_path,
        nodes,
        [info("pixels", types.FLOAT, shape)],
        [info("relu", types.FLOAT, shape)],
    )
    assert mnn.interface(path).inputs == (DeclaredTensor("pixels", "float32", (1, 3, "", "")),)
    with pytest.raises(NotSupported, match="pixels"):
        mnn.load(path, None, Memory())
    context = mnn.load(
        path,
        None,
        Memory(),
        {"pixels": InputData("pixels", "float32", (1, 3, 6, 8))},
    )
    assert [len(output) for output in _outputs(context)] == [3 * 6 * 8 * 4]


def test_inputs_in_the_order_of_vectors(
    mnn: Runtime,
    files: dict[str, str],
    tiny_model: Path,
    tmp_path: Path,
) -> None:
    """Converters make such inputs on request: they are turned, which is one more copy."""
    packed = str(tmp_path / "packed.mnn")
    code = "import sys, _tools; _tools.mnnconvert(['mnnconvert', '-f', 'ONNX', *sys.argv[1:]])"
    arguments = [
        "--modelFile",
        str(tiny_model),
        "--MNNModel",
        packed,
        "--keepInputFormat",
        "0",
        "--bizCode",
        "test",
    ]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)
    context = mnn.load(packed, None, Memory())
    assert _outputs(context) == _outputs(mnn.load(files["tiny-64"], None, Memory()))
    assert context.copies() == Copies(2 * 3 * 64 * 64 * 4, 0)
    for memory in (Memory(zero_copy=("input",)), Memory(options=(_INTERPRETER,))):
        with pytest.raises(NotSupported, match="NC4HW4"):
            mnn.load(packed, None, memory)


# Memory


def test_cycles_level_off(mnn: Runtime, files: dict[str, str]) -> None:
    """Making, inferring and destroying leave no tensor's memory behind."""
    source = mnn.load(files["tiny-320"], None, Memory(zero_copy=("input",)))
    makes: list[Callable[[], RuntimeContext]] = [
        lambda: mnn.load(files["tiny-320"], None, Memory()),
        lambda: mnn.dup(source, Memory()),
        lambda: mnn.load(files["tiny-320"], None, Memory(options=(_INTERPRETER,))),
    ]
    tensor_bytes = 3 * 320 * 320 * 4
    for make in makes:
        sizes = []
        for _ in range(3):
            for _ in range(10):
                context = make()
                context.infer()
                context.destroy()
            sizes.append(_anonymous_bytes())
        assert sizes[2] - sizes[1] < 2 * tensor_bytes, "ten inputs were left"


def _anonymous_bytes() -> int:
    ctypes.CDLL(None).malloc_trim(0)
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise AssertionError


def _walked(scenario: str, path: str, choice: int = 0) -> tuple[int, set[str]]:
    """Return the anonymous memory of the trimmed steady phase over the import, and the digests."""
    plan = make_plan(scenario, path, contexts=4, runtime="mnn", choice=choice)
    observer = StubObserver(lambda pid: read_process(LOCAL_HOST, pid).rss_anon_bytes)
    run = walk(plan, THIS_INTERPRETER, observer)
    assert run.failure is None, run.failure
    anon_bytes = {reading.phase: size for reading, size in zip(run.barriers, observer.answers)}
    (digests,) = (reading.data.digests for reading in run.barriers if reading.phase == "steady")
    return anon_bytes["trimmed"] - anon_bytes["imported"], set(digests)


def test_clones_hold_the_weights_once(model: str) -> None:
    """Four clones take far less than four loads; outputs are the same."""
    (loads, outputs), (dups, of_dups) = (
        _walked(name, model) for name in ("no_reuse_one_model", "full_dup")
    )
    assert dups < 0.6 * loads
    assert outputs == of_dups


def test_importing_the_adapter_is_light() -> None:
    """It imports MNN without its tools, and nothing else but the standard library."""
    code = (
        "import json, sys, MNN; before = set(sys.modules); import"
        " reusebench.measured.runtimes.mnn.adapter; "
    )
    code += "print(json.dumps(sorted(name for name in set(sys.modules) - before)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    # MNN prints a line of its own, before or after this one.
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("["))
    names = {name.partition(".")[0] for name in json.loads(line)}
    assert not names & {"_tools", "onnx", "msgspec", "asyncio", "ssl", "random"}
