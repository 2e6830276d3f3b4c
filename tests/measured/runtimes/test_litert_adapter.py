"""The adapter of LiteRT, on the real library."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reusebench.measured.plan import Context, Model, Plan
from reusebench.measured.runtimes.base import (
    AdapterError,
    Copies,
    InputData,
    Inputs,
    Memory,
    NotSupported,
    Runtime,
    RuntimeContext,
)
from reusebench.models.inspection.litert_file import KNOWN_CUSTOM
from reusebench.targets.measured_process import try_plan
from reusebench.targets.outcome import Failure
from reusebench.targets.target import THIS_INTERPRETER
from tests.helpers.support import CHECKOUT, TIME_LIMIT_S

pytest.importorskip("ai_edge_litert")

from reusebench.measured.runtimes import open_runtime
from reusebench.measured.runtimes.litert.options import INTERPRETER
from tests.measured.runtimes.litert_models import write_model

pytestmark = pytest.mark.process

_SIZE = 64
_IN_TURN = Memory(internal=3)
#: Prints the bytes by which contexts that are made in one way grow the process.
_GROWTH = """
import ctypes, sys
from reusebench.measured.runtimes import open_runtime
from reusebench.measured.runtimes.base import Memory

def own_bytes():
    # Not PSS, which also moves when another process that maps the library begins or ends.
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Anonymous:"))

model, prepared, way, internal = sys.argv[1:]
memory = Memory(internal=int(internal) or None)
runtime = open_runtime("litert")
contexts = [runtime.load(model, prepared if way == "dup" else None, memory)]
contexts[0].infer()
before = own_bytes()
for _ in range(8):
    if way == "load":
        contexts.append(runtime.load(model, None, memory))
    else:
        contexts.append(getattr(runtime, way)(contexts[0], memory))
    contexts[-1].infer()
print(own_bytes() - before)
"""


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    """Return the adapter."""
    return open_runtime("litert")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a model with 1.5 MB of weights."""
    return str(write_model(tmp_path_factory.mktemp("models") / "model.tflite", _SIZE))


@pytest.fixture(scope="module")
def prepare(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Return a function that prepares models in one folder, as the harness does."""
    folder = tmp_path_factory.mktemp("prepared")

    def prepared(path: str, digest: str, inputs: Inputs | None = None) -> str:
        preparation = runtime.prepare(path, digest, str(folder), lambda: None, inputs or {})
        assert preparation is not None
        return preparation.path

    return prepared


@pytest.fixture(scope="module")
def prepared(prepare: Callable[..., str], model: str) -> str:
    """Return the model, prepared."""
    return prepare(model, "model")


@pytest.fixture(scope="module")
def expected(runtime: Runtime, model: str) -> int:
    """Return the digest of a context that reuses nothing."""
    return _digest(runtime.load(model, None, Memory()))


def _digest(context: RuntimeContext) -> int:
    context.infer()
    return context.checksum()


def _infer_often(context: RuntimeContext) -> None:
    for _ in range(20):
        context.infer()


def _sized(size: int) -> Inputs:
    return {"images": InputData("images", "float32", (1, size, size, 3))}


def _mappings(path: str) -> int:
    """Return the number of this process's mappings of the file, or of files of the folder."""
    return Path("/proc/self/maps").read_text(encoding="utf-8").count(path)


def _maps(path: str) -> bool:
    """Whether this process maps the file, or files of the folder."""
    return _mappings(path) > 0


def test_interface(runtime: Runtime, model: str, tmp_path: Path) -> None:
    """A file declares names, types and sizes; pictures have channels last, free sizes no name."""
    (images,) = runtime.interface(model).inputs
    assert (images.name, images.type, images.dimensions, images.layout) == (
        "images",
        "float32",
        (1, 64, 64, 3),
        "nhwc",
    )
    free = runtime.interface(str(write_model(tmp_path / "free.tflite", 0)))
    assert [tensor.dimensions for tensor in (*free.inputs, *free.outputs)] == [
        (1, "", "", 3),
        (1, "", "", 256),
    ]


def test_no_model(runtime: Runtime, tmp_path: Path) -> None:
    """A file of another kind is named; a model with an operator that LiteRT lacks fails."""
    (tmp_path / "bad.tflite").write_bytes(b"nothing")
    with pytest.raises(AdapterError) as refused:
        runtime.interface(str(tmp_path / "bad.tflite"))
    assert refused.value.message.code == "litert_model_unreadable"
    custom = write_model(tmp_path / "custom.tflite", _SIZE, custom="Landmarks")
    with pytest.raises(AdapterError) as refused:
        runtime.load(str(custom), None, Memory())
    assert refused.value.message.values["operator"] == "Landmarks"


def test_noise_is_that_of_the_onnx_file(runtime: Runtime, model: str) -> None:
    """The pattern fills a picture with its channels first, as elsewhere, and is transposed."""
    from reusebench.measured.runtimes.arrays import noise

    context = runtime.load(model, None, Memory())
    image = context.image_input()
    assert (image.width, image.height, image.channels, image.layout, image.type) == (
        64,
        64,
        3,
        "nhwc",
        "float32",
    )
    seen = np.frombuffer(image.memory, np.float32).reshape(64, 64, 3)
    assert np.array_equal(seen.transpose(2, 0, 1), noise((1, 3, 64, 64), "float32")[0])


@pytest.mark.parametrize("internal", [None, 3])
def test_dup_maps_the_weights_of_its_source(
    runtime: Runtime,
    prepared: str,
    expected: int,
    internal: int | None,
) -> None:
    """All map one file of packed weights, have a plain load's outputs, and go in any order."""
    memory = Memory(internal=internal)
    source = runtime.load(prepared, prepared, memory)
    dups = [runtime.dup(source, memory) for _ in range(3)]
    assert [_digest(context) for context in (source, *dups)] == [expected] * 4
    cache = "weights.xnnpack" if internal is None else "weights-transient.xnnpack"
    assert _maps(str(Path(prepared).with_name(cache)))
    source.destroy()
    dups[1].destroy()
    assert [_digest(context) for context in (dups[0], dups[2])] == [expected] * 2


def test_a_plain_context_lends_nothing(runtime: Runtime, model: str) -> None:
    """The weights of a plain load are packed in memory of its own."""
    with pytest.raises(NotSupported) as refused:
        runtime.dup(runtime.load(model, None, Memory()), Memory())
    assert refused.value.message.code == "litert_source_not_prepared"


def test_what_contexts_add(model: str, prepared: str) -> None:
    """A dup adds less than a load, one with a shared delegate even less, a shared context least."""

    def growth(way: str, internal: int) -> int:
        arguments = [sys.executable, "-c", _GROWTH, model, prepared, way, str(internal)]
        done = subprocess.run(
            arguments,
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout)

    separate = growth("load", 0)
    dups = growth("dup", 0)
    in_turn = growth("dup", 3)
    shared = growth("shared_context", 0)
    assert dups < 0.7 * separate
    assert in_turn < 0.9 * dups
    assert shared < in_turn


def test_resolutions_map_one_file(
    runtime: Runtime, prepare: Callable[..., str], tmp_path: Path
) -> None:
    """Packed weights of one network at two sizes are one file; those of another are refused."""
    paths = [str(write_model(tmp_path / f"{size}.tflite", size)) for size in (64, 96)]
    first, second = (prepare(path, f"size {path[-9:]}") for path in paths)
    assert (
        Path(first).with_name("weights.xnnpack").samefile(Path(second).with_name("weights.xnnpack"))
    )
    source = runtime.load(first, first, Memory())
    shared = runtime.share_weights(second, source, Memory())
    assert _digest(shared) == _digest(runtime.load(paths[1], None, Memory()))
    other = prepare(str(write_model(tmp_path / "other.tflite", 64, seed=1)), "other")
    with pytest.raises(NotSupported) as refused:
        runtime.share_weights(other, source, Memory())
    assert refused.value.message.code == "litert_weights_differ"


def test_sizes_that_the_file_leaves_free(
    runtime: Runtime,
    prepare: Callable[..., str],
    expected: int,
    tmp_path: Path,
) -> None:
    """An input is resized; contexts of two sizes share weights, with the outputs of fixed sizes."""
    path = str(write_model(tmp_path / "free.tflite", 0))
    assert _digest(runtime.load(path, None, Memory(), _sized(_SIZE))) == expected
    prepared = prepare(path, "free", _sized(_SIZE))
    source = runtime.load(prepared, prepared, Memory(), _sized(_SIZE))
    larger = runtime.share_weights(prepared, source, Memory(), _sized(96))
    assert _digest(source) == expected
    assert _digest(larger) == _digest(runtime.load(path, None, Memory(), _sized(96)))


def test_one_internal_memory_of_two_models(
    runtime: Runtime,
    model: str,
    expected: int,
    tmp_path: Path,
) -> None:
    """The larger model may come first or last; each has the outputs that it has alone."""
    larger = str(write_model(tmp_path / "larger.tflite", 128, seed=2))
    alone = _digest(runtime.load(larger, None, Memory()))
    contexts = [runtime.load(path, None, _IN_TURN) for path in (model, larger, model)]
    assert [_digest(context) for context in contexts * 2] == [expected, alone, expected] * 2


def test_float16_weights_in_turn(
    runtime: Runtime, prepare: Callable[..., str], tmp_path: Path
) -> None:
    """One delegate would give other outputs, and no error; a dup with its own is right."""
    path = str(write_model(tmp_path / "half.tflite", _SIZE, weights="float16"))
    with pytest.raises(NotSupported) as refused:
        runtime.load(path, None, _IN_TURN)
    assert refused.value.message.code == "litert_unpacked_weights"
    prepared = prepare(path, "half")
    source = runtime.load(prepared, prepared, Memory())
    alone = _digest(runtime.load(path, None, Memory()))
    assert [_digest(source), _digest(runtime.dup(source, Memory()))] == [alone, alone]


def test_weights_in_memory_of_the_application(
    runtime: Runtime, prepared: str, expected: int
) -> None:
    """Contexts map memory that was filled once, and it stays after its first user."""
    given = runtime.load(prepared, prepared, Memory(outside=("weights",)))
    other = runtime.share_weight_memory(prepared, given, Memory())
    assert [_digest(given), _digest(other)] == [expected] * 2
    (allocation,) = given.allocations()
    cache = Path(prepared).with_name("weights.xnnpack")
    assert (allocation.kind, allocation.asked_bytes) == ("weights", cache.stat().st_size)
    assert other.allocations() == []
    assert not _maps(str(cache))
    given.destroy()
    assert _digest(other) == expected


def test_zero_copy(runtime: Runtime, model: str, expected: int) -> None:
    """The application's arrays are the tensors: nothing is copied."""
    copied = runtime.load(model, None, Memory())
    in_place = runtime.load(model, None, Memory(zero_copy=("input", "output"), io=1))
    assert [_digest(copied), _digest(in_place)] == [expected] * 2
    assert copied.copies() == Copies(64 * 64 * 3 * 4, 8 * 8 * 256 * 4)
    assert in_place.copies() == Copies(0, 0)
    assert {allocation.kind for allocation in in_place.allocations()} == {"input", "output"}
    (output,) = in_place.outputs()
    before = bytes(output)
    in_place.image_input().memory[:] = bytes(64 * 64 * 3 * 4)
    in_place.infer()
    assert bytes(output) != before
    # Contexts of one number have the same arrays.
    other = runtime.load(model, None, Memory(zero_copy=("input", "output"), io=1))
    assert other.allocations() == []
    assert _digest(other) == in_place.checksum()
    in_place.renew_io()
    assert _digest(in_place) == expected


@pytest.mark.parametrize(
    "memory",
    [Memory(outside=outside, internal=i) for outside in ((), ("weights",)) for i in (None, 3)],
)
def test_contexts_free_what_they_have(runtime: Runtime, prepared: str, memory: Memory) -> None:
    """No file stays mapped, also not by a shared delegate, and no descriptor stays open."""
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    gc.collect()
    model_file = str(Path(prepared).resolve())
    mappings = _mappings(model_file)
    source = runtime.load(prepared, prepared, memory)
    dup = runtime.dup(source, replace(memory, outside=()))
    _digest(dup)
    assert _mappings(model_file) > mappings
    source.destroy()
    dup.destroy()
    assert not _maps(str(Path(prepared).parent))
    # Mappings of an earlier test may go meanwhile.
    assert _mappings(model_file) <= mappings
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors


@pytest.mark.parametrize(
    ("option", "is_equal"),
    [
        ("xnnpack_flags=TRANSIENT_INDIRECTION_BUFFER", True),
        ("xnnpack_flags=TRANSIENT_INDIRECTION_BUFFER|SLOW_CONSISTENT_ARITHMETIC", True),
        ("xnnpack_flags=0x2b", True),
        ("num_threads=2", True),
        ("xnnpack_flags=FORCE_FP16", False),
        ("kernel_mode=builtin", False),
        ("kernel_mode=reference", False),
    ],
)
def test_options(runtime: Runtime, model: str, expected: int, option: str, is_equal: bool) -> None:
    """Other kernels change the last bits, 16 bits more, transient buffers nothing.

    A processor that adds in 16 bits is 1.4 % away.
    """
    context = runtime.load(model, None, Memory(options=(option,)))
    assert (_digest(context) == expected) is is_equal
    plain = runtime.load(model, None, Memory())
    plain.infer()
    values, others = (np.frombuffer(one.outputs()[0], np.float32) for one in (plain, context))
    assert np.abs(values - others).max() < 0.05 * np.abs(values).max()


@pytest.mark.parametrize(
    ("memory", "code"),
    [
        (Memory(outside=("internal",)), "litert_no_allocator"),
        (Memory(allocator="dma_heap"), "litert_any_memory"),
        (Memory(device="cuda"), "litert_cpu_only"),
        (Memory(device_io=True), "litert_cpu_only"),
        (Memory(zero_copy=("native_output",)), "no_native_output"),
        (Memory(zero_copy=("model",)), "no_model_in_place"),
        (Memory(options=("threads=4",)), "unknown_option"),
        (Memory(options=("num_threads=x",)), "option_value"),
        (Memory(options=("xnnpack_flags=QS8|NONE",)), "option_value"),
        (Memory(options=("kernel_mode=fast",)), "option_value"),
        (Memory(options=("weight_cache_file_path=x",)), "option_writes"),
    ],
)
def test_refusals(runtime: Runtime, model: str, memory: Memory, code: str) -> None:
    """A request that LiteRT cannot serve is refused with its reason."""
    with pytest.raises(NotSupported) as refused:
        runtime.load(model, None, memory)
    assert refused.value.message.code == code


def test_an_option_for_which_nothing_is_packed(runtime: Runtime, prepared: str) -> None:
    """Weights in 16 bits are in no cache, and XNNPACK would silently pack them for each context."""
    with pytest.raises(NotSupported) as refused:
        runtime.load(prepared, prepared, Memory(options=("xnnpack_flags=FORCE_FP16",)))
    assert refused.value.message.code == "litert_flags_not_prepared"


def _option_of(error: AdapterError) -> Any:
    return error.message.values.get("option")


def test_what_only_the_interpreter_runs(runtime: Runtime, tmp_path: Path) -> None:
    """A file with variable tensors asks for the option by which the class Interpreter runs it."""
    path = str(write_model(tmp_path / "state.tflite", 64, state=True))
    assert [tensor.name for tensor in runtime.interface(path).inputs] == ["images"]
    with pytest.raises(AdapterError) as raised:
        runtime.load(path, None, Memory())
    assert _option_of(raised.value) == INTERPRETER
    context = runtime.load(path, None, Memory(options=(INTERPRETER,)))
    plain = runtime.load(str(write_model(tmp_path / "plain.tflite", 64)), None, Memory())
    assert _digest(context) == _digest(plain)
    assert context.copies() == plain.copies()
    for memory in (Memory(internal=0), Memory(zero_copy=("input",)), Memory(io=1)):
        with pytest.raises(NotSupported):
            runtime.load(path, None, replace(memory, options=(INTERPRETER,)))
    with pytest.raises(NotSupported):
        runtime.dup(context, Memory())
    context.destroy()
    assert list(context.outputs()) == []


@pytest.mark.parametrize("name", KNOWN_CUSTOM)
def test_custom_operators_that_litert_has(tmp_path: Path, name: str) -> None:
    """What `models inspect` takes for LiteRT's own operator is known to the library.

    It has neither its inputs nor its attributes here, so the process fails in another way.
    """
    model = Model("own", str(write_model(tmp_path / "own.tflite", 64, custom=name)), "0" * 64)
    plan = Plan("trial", None, "litert", (model,), (Context(None, 0),), cores=1, rounds=1)
    failure = try_plan(THIS_INTERPRETER, plan, TIME_LIMIT_S)
    assert isinstance(failure, Failure)
    assert failure.message.code != "litert_operator_missing"


def test_the_interpreter_takes_other_sizes(runtime: Runtime, tmp_path: Path) -> None:
    """Free sizes are those of the inputs, as for a compiled model."""
    path = str(write_model(tmp_path / "free.tflite", 0))
    digests = []
    for options in ((), (INTERPRETER,)):
        digests.append(_digest(runtime.load(path, None, Memory(options=options), _sized(48))))
    assert digests[0] == digests[1]


@pytest.mark.parametrize("options", [(), (INTERPRETER,)])
def test_operators_that_nobody_has(
    runtime: Runtime, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """The operator is named, whichever class runs the file."""
    path = str(write_model(tmp_path / "own.tflite", 64, custom="MyOp"))
    with pytest.raises(AdapterError) as raised:
        _digest(runtime.load(path, None, Memory(options=options)))
    message = raised.value.message
    assert (message.code, message.values["operator"]) == ("litert_operator_missing", "MyOp")
