"""ncnn's adapter, on the real runtime."""

from __future__ import annotations

import gc
import os
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reusebench.measured.runtimes import find_runtime, open_runtime
from reusebench.measured.runtimes.base import (
    AdapterError,
    Allocation,
    Copies,
    DeclaredTensor,
    InputData,
    Memory,
    NotSupported,
    OutOfMemory,
    Runtime,
    RuntimeContext,
)
from reusebench.models.inspection.ncnn_file import LAYERS
from reusebench.samplers.host import LOCAL_HOST
from reusebench.samplers.process_memory import read_process
from reusebench.targets.target import THIS_INTERPRETER
from tests.helpers.support import StubObserver, make_plan, walk
from tests.measured.runtimes.ncnn_models import DETECTOR, write_net

pytestmark = pytest.mark.process

pytest.importorskip("ncnn")

#: Sizes of a 50x50 picture and of the detector's outputs, whose rows are no multiple of 16 bytes.
_SIDE = 50
_PICTURE = 3 * 50 * 50 * 4
_OUTPUTS = [5 * 25 * 25 * 4, 8 * 25 * 25 * 4]
#: The ways to move tensors.
_WAYS: tuple[tuple[str, ...], ...] = ((), ("input",), ("output",), ("input", "output"))


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    """Return the adapter, here in the tests' own process."""
    return open_runtime("ncnn")


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a net with two outputs."""
    path = tmp_path_factory.mktemp("ncnn") / "detector.param"
    return str(write_net(path, DETECTOR.layers(_SIDE), DETECTOR.weights()))


def _outputs(context: RuntimeContext) -> list[bytes]:
    context.infer()
    return [bytes(output) for output in context.outputs()]


def test_a_net_computes_what_its_layers_say(runtime: Runtime, tmp_path: Path) -> None:
    """Outputs are those of the same sums in numpy, in the order of their numbers."""
    random = np.random.RandomState(0)
    weights = random.randn(7, 3, 1, 1).astype(np.float32)
    bias = random.randn(7).astype(np.float32)
    layers = [
        "Input in0 0 1 in0 0=4 1=5 2=3",
        "Convolution one 1 1 in0 a 0=7 1=1 5=1 6=21",
        "Split split 1 2 a b out1",
        "ReLU relu 1 1 b out0",
    ]
    model = str(write_net(tmp_path / "sums.param", layers, [weights, bias]))
    pixels = random.rand(1, 3, 5, 4).astype(np.float32)
    np.save(tmp_path / "pixels.npy", pixels)
    fed = InputData("in0", "float32", pixels.shape, file=str(tmp_path / "pixels.npy"))
    context = runtime.load(model, None, Memory(), {"in0": fed})
    context.infer()
    relu, plain = (
        np.frombuffer(output, np.float32).reshape(7, 5, 4) for output in context.outputs()
    )
    expected = np.einsum("oi,ihw->ohw", weights[:, :, 0, 0], pixels[0]) + bias[:, None, None]
    assert np.allclose(plain, expected, rtol=1e-5, atol=1e-6)
    assert np.array_equal(relu, np.maximum(plain, 0))


def test_other_layers_are_another_network(runtime: Runtime, detector: str, tmp_path: Path) -> None:
    """Weights of equal sizes and values are not enough to share them."""
    layers = [*DETECTOR.layers(72)[:-1], "TanH sigmoid 1 1 f out0"]
    other = str(write_net(tmp_path / "layered.param", layers, DETECTOR.weights()))
    with pytest.raises(NotSupported, match="is not the network of the first model"):
        runtime.share_weights(other, runtime.load(detector, None, Memory()), Memory())


# Internal memory


def _internal_bytes(*contexts: RuntimeContext) -> list[int]:
    sizes = []
    for context in contexts:
        for allocation in context.allocations():
            if allocation.kind == "internal":
                sizes.append(allocation.asked_bytes)
    return sizes


def test_contexts_in_turn_share_one_arena(runtime: Runtime, detector: str, tmp_path: Path) -> None:
    """It is as large as the largest net needs, whichever runs first."""
    larger = str(write_net(tmp_path / "larger.param", DETECTOR.layers(128), DETECTOR.weights()))
    in_place = Memory(zero_copy=("input",))
    alone = replace(in_place, outside=("internal",))
    separate = [runtime.load(model, None, alone) for model in (detector, larger)]
    for context in separate:
        context.infer()
    small, large = _internal_bytes(*separate)
    assert 4 * small < large
    for models in ((detector, larger), (larger, detector)):
        shared = [runtime.load(model, None, replace(in_place, internal=7)) for model in models]
        for context in shared * 2:
            context.infer()
        assert _internal_bytes(*shared) == [large]
        for context in shared:
            context.destroy()


def _address_space_pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0])


def test_an_arena_goes_with_its_last_context(runtime: Runtime, detector: str) -> None:
    """Its address space is unmapped, and the next context of the number begins with a new one."""
    contexts = [runtime.load(detector, None, Memory(internal=3)) for _ in range(2)]
    expected = _outputs(contexts[0])
    arena = weakref.ref(contexts[0]._arena)  # type: ignore[attr-defined]
    pages = _address_space_pages()
    contexts[0].destroy()
    assert arena() is not None
    assert _outputs(contexts[1]) == expected
    contexts[1].destroy()
    assert arena() is None
    assert _address_space_pages() < pages - 0.9 * os.sysconf("SC_PHYS_PAGES")
    assert _internal_bytes(runtime.load(detector, None, Memory(internal=3))) == [0]


def test_an_arena_cuts_and_joins_pieces() -> None:
    """Pieces do not overlap, are aligned, and become one piece again when they come back."""
    from reusebench.measured.runtimes.ncnn.arena import ALIGNMENT, Arena

    arena = Arena()
    random = np.random.RandomState(0)
    live: dict[int, int] = {}
    for _ in range(2000):
        if live and random.rand() < 0.5:
            address = list(live)[random.randint(len(live))]
            del live[address]
            arena.give(address)
        else:
            size = int(random.randint(1, 50_000))
            address = arena.take(size) or 0
            assert address % ALIGNMENT == 0
            assert all(address + size <= other or other + live[other] <= address for other in live)
            live[address] = size
    for address in live:
        arena.give(address)
    begin = arena.take(1) or 0
    arena.give(begin)
    assert arena.take(arena.used_bytes) == begin
    assert arena.take(2**62) is None


def test_no_memory_is_told_as_such(
    runtime: Runtime, detector: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full arena, or one without address space, is a lack of memory and no crash."""
    context = runtime.load(detector, None, Memory(outside=("internal",)))
    monkeypatch.setattr(
        "reusebench.measured.runtimes.ncnn.arena.Arena.take", lambda _arena, _size: None
    )
    with pytest.raises(OutOfMemory, match="no memory for a tensor on the way to output 'out0'"):
        context.infer()
    monkeypatch.setattr("os.sysconf", lambda _name: 2**45)
    with pytest.raises(OutOfMemory, match="bytes of address space"):
        runtime.load(detector, None, Memory(internal=9))


# Tensors


def test_tensors_in_place_stay_where_they_are(runtime: Runtime, detector: str) -> None:
    """From the second inference on ncnn writes outputs into the application's arrays."""
    context = runtime.load(detector, None, Memory(zero_copy=("input", "output")))
    expected = _outputs(context)
    assert context.copies() == Copies(0, sum(_OUTPUTS))
    arrays = context._outputs._arrays  # type: ignore[attr-defined]
    addresses = [arrays[name].ctypes.data for name in ("out0", "out1")]
    for name in ("out0", "out1"):
        arrays[name][...] = 0
    assert _outputs(context) == expected
    assert context.copies() == Copies(0, 0)
    assert [arrays[name].ctypes.data for name in ("out0", "out1")] == addresses
    kinds = [(allocation.kind, allocation.asked_bytes) for allocation in context.allocations()]
    assert kinds[1:] == [("input", _PICTURE), *(("output", size) for size in _OUTPUTS)]


def test_outputs_in_place_leave_the_arena(runtime: Runtime, tmp_path: Path) -> None:
    """The arena memory of the first outputs is released; contexts over a net share it."""
    layers = [*DETECTOR.layers(256)[:2], "Interp larger 1 1 a out0 0=1 1=4 2=4"]
    model = str(write_net(tmp_path / "large-output.param", layers, DETECTOR.weights()[:2]))
    contexts = [runtime.load(model, None, Memory(zero_copy=("output",)))]
    contexts.append(runtime.dup(contexts[0], Memory(zero_copy=("output",))))
    sizes = []
    for _ in range(3):
        expected = _outputs(contexts[0])
        sizes += _internal_bytes(contexts[0])
    output_bytes = len(expected[0])
    assert sizes[1] == sizes[2] < sizes[0] - output_bytes
    assert [_outputs(contexts[1]) for _ in range(3)] == [expected] * 3
    assert _internal_bytes(*contexts) == sizes[1:2]


def test_inputs_are_the_applications(runtime: Runtime, detector: str) -> None:
    """The next inference reads what the application writes into its array, copied or in place."""
    for memory, copied in ((Memory(), _PICTURE), (Memory(zero_copy=("input",)), 0)):
        context = runtime.load(detector, None, memory)
        before = _outputs(context)
        assert context.copies() == Copies(copied, sum(_OUTPUTS))
        picture = context.image_input()
        assert (picture.width, picture.height, picture.channels, picture.type) == (
            _SIDE,
            _SIDE,
            3,
            "float32",
        )
        np.frombuffer(picture.memory, np.float32)[:] = 0.25
        assert _outputs(context) != before


def test_a_layer_that_works_in_place_gets_a_copy(runtime: Runtime, tmp_path: Path) -> None:
    """ncnn would crash there; the application's array stays as it is, and zero copy is refused."""
    for passing in (
        ["Split split 1 2 in0 a out1"],
        ["Noop noop 1 1 in0 a"],
        ["Reshape flat 1 1 in0 a 0=5 1=5 2=3"],
    ):
        layers = ["Input in0 0 1 in0 0=5 1=5 2=3", *passing, "AbsVal absolute 1 1 a out0"]
        model = str(write_net(tmp_path / "in-place.param", layers))
        values = (np.arange(75, dtype=np.float32) - 40).reshape(1, 3, 5, 5)
        np.save(tmp_path / "values.npy", values)
        fed = {"in0": InputData("in0", "float32", values.shape, file=str(tmp_path / "values.npy"))}
        context = runtime.load(model, None, Memory(), fed)
        for _ in range(2):
            assert (
                _outputs(context)
                == [np.abs(values).tobytes(), values.tobytes()][: len(context.outputs())]
            )
        assert context.copies().input_bytes == values.nbytes
        with pytest.raises(NotSupported, match="input 'in0' may work in place"):
            runtime.load(model, None, Memory(zero_copy=("input",)), fed)


def test_integers_index_a_table(runtime: Runtime, tmp_path: Path) -> None:
    """An input that indexes a table is declared as integers, and fed with them."""
    table = np.random.RandomState(0).rand(4, 6).astype(np.float32)
    layers = ["Input in0 0 1 in0", "Embed embed 1 1 in0 out0 0=6 1=4 3=24"]
    model = str(write_net(tmp_path / "table.param", layers, [table]))
    assert runtime.interface(model).inputs == (DeclaredTensor("in0", "int32", (1, "tokens")),)
    context = runtime.load(
        model,
        None,
        Memory(),
        {"in0": InputData("in0", "int32", (1, 5), value=2)},
    )
    assert _outputs(context) == [np.tile(table[2], 5).tobytes()]


# Files


def test_what_files_declare(runtime: Runtime, detector: str, tmp_path: Path) -> None:
    """Sizes are those of the file; without sizes the first convolution tells the channels."""
    assert runtime.interface(detector).inputs == (
        DeclaredTensor("in0", "float32", (1, 3, _SIDE, _SIDE)),
    )
    free = str(write_net(tmp_path / "free.param", DETECTOR.layers(None), DETECTOR.weights()))
    interface = runtime.interface(free)
    assert interface.inputs == (DeclaredTensor("in0", "float32", (1, 3, "height", "width")),)
    assert [tensor.name for tensor in interface.outputs] == ["out0", "out1"]
    with pytest.raises(NotSupported, match=r"free sizes \(1x3x\?x\?\)"):
        runtime.load(free, None, Memory())
    fed = {"in0": InputData("in0", "float32", (1, 3, _SIDE, _SIDE))}
    assert _outputs(runtime.load(free, None, Memory(), fed)) == _outputs(
        runtime.load(detector, None, Memory())
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not ncnn's text of a network"),
        (b"\xff\xfe" * 500, "is not ncnn's text of a network"),
        (b"7767517\n1 1\nInput in0 0 2 in0\n", "is not ncnn's text of a network"),
        (
            b"7767517\n2 2\nInput in0 0 1 in0\nReLU relu 1 1 in1 out0\n",
            "is not ncnn's text of a network",
        ),
        (b"7767517\n1 1\nInput in0 0 1 in0 0=\xff\n1", "is not ncnn's text of a network"),
        (
            b"7767517\n2 2\nInput in0 0 1 in0\nPad pad 1 1 in0 out0\n",
            "has the layer Pad, which ncnn .* does not have",
        ),
    ],
)
def test_files_that_are_no_nets(
    runtime: Runtime,
    tmp_path: Path,
    content: bytes,
    words: str,
) -> None:
    """They are refused with a sentence before ncnn reads them."""
    path = tmp_path / "broken.param"
    path.write_bytes(content)
    path.with_suffix(".bin").write_bytes(b"")
    with pytest.raises(AdapterError, match=words):
        runtime.load(str(path), None, Memory())


def test_weights_that_are_missing_or_cut_short(runtime: Runtime, tmp_path: Path) -> None:
    """The file is named."""
    path = write_net(tmp_path / "net.param", DETECTOR.layers(_SIDE), DETECTOR.weights()[:-1])
    with pytest.raises(AdapterError, match=r"net\.bin does not have the weights"):
        runtime.load(str(path), None, Memory())
    path.with_suffix(".bin").unlink()
    for call in (
        lambda: runtime.interface(str(path)),
        lambda: runtime.load(str(path), None, Memory()),
    ):
        with pytest.raises(AdapterError, match=r"net\.bin does not exist"):
            call()


def test_layers_of_the_user(runtime: Runtime, detector: str, tmp_path: Path) -> None:
    """A layer that ncnn does not have is named when the file is first read."""
    text = Path(detector).read_text(encoding="utf-8")
    path = tmp_path / "own.param"
    path.write_text(text.replace("Convolution ", "MyConvolution ", 1), encoding="utf-8")
    path.with_suffix(".bin").write_bytes(Path(detector).with_suffix(".bin").read_bytes())
    with pytest.raises(AdapterError, match="MyConvolution") as refusal:
        runtime.interface(str(path))
    assert refusal.value.message.code == "ncnn_layer_missing"


def test_the_layers_that_inspect_knows() -> None:
    """This ncnn has them all, and no others among their numbers."""
    import ncnn

    numbers = sorted(ncnn.layer_to_index(name) for name in LAYERS)
    assert numbers == list(range(len(LAYERS)))


# Refusals


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (Memory(outside=("weights",)), "has a copy of its own"),
        (Memory(zero_copy=("model",)), "has a copy of its own"),
        (Memory(zero_copy=("native_output",)), "in the model's order only"),
        (Memory(allocator="dma_heap"), "dma_heap is a way of Rockchip's"),
        (Memory(device_io=True), "runs ncnn on the CPU"),
        (Memory(device="cuda"), "runs ncnn on the CPU"),
        (Memory(options=("use_winograd_convolution=2",)), "valid: 0, 1, false, true"),
        (Memory(options=("num_threads=many",)), "valid: a whole number"),
        (Memory(options=("use_winograd=0",)), "valid: .*, use_winograd_convolution"),
        (Memory(options=("blob_allocator=1",)), "has no option blob_allocator"),
        (Memory(options=("use_vulkan_compute=1",)), "runs ncnn on the CPU"),
    ],
)
def test_what_ncnn_cannot_do(runtime: Runtime, detector: str, memory: Memory, words: str) -> None:
    """It is refused when a context is made, with the reason."""
    with pytest.raises(NotSupported, match=words):
        runtime.load(detector, None, memory)


def test_every_option_runs_and_some_change_memory(runtime: Runtime, detector: str) -> None:
    """Outputs are those without the option, within what the option's arithmetic allows."""
    plain = [
        np.frombuffer(output, np.float32)
        for output in _outputs(runtime.load(detector, None, Memory()))
    ]
    switches = (
        "use_winograd23_convolution=0",
        "use_winograd43_convolution=0",
        "openmp_blocktime=0",
    )
    for option in (*find_runtime("ncnn").options, *switches, "use_fp16_storage=true"):
        context = runtime.load(detector, None, Memory(options=(option,)))
        for expected, output in zip(plain, _outputs(context)):
            tolerance = 0.05 if "16" in option else 1e-4
            assert np.allclose(
                np.frombuffer(output, np.float32),
                expected,
                rtol=tolerance,
                atol=tolerance,
            ), option
        dup = runtime.dup(context, Memory())
        assert _outputs(dup) == _outputs(context)


# Ends


def test_destroying_frees_the_net(runtime: Runtime, detector: str) -> None:
    """Nothing waits for the garbage collector, or for the context itself to be dropped."""
    gc.collect()
    gc.disable()
    try:
        for memory in (Memory(), Memory(zero_copy=("input", "output"), outside=("internal",))):
            context = runtime.load(detector, None, memory)
            dup = runtime.dup(context, memory)
            net = weakref.ref(context.net)  # type: ignore[attr-defined]
            for one in (context, dup):
                one.infer()
            context.destroy()
            assert net() is not None, "a dup still infers over it"
            dup.destroy()
            assert net() is None
            assert dup.allocations() == []
    finally:
        gc.enable()


# In the measured process


def test_contexts_over_one_net_add_next_to_nothing(tmp_path: Path) -> None:
    """A loaded context takes weights and pools of its own; a dup hardly anything."""
    model = write_net(tmp_path / "wide.param", DETECTOR.layers(256), DETECTOR.weights())
    taken = {}
    for name in ("no_reuse_one_model", "full_dup", "full_dup_internal_reuse"):
        observer = StubObserver(lambda pid: read_process(LOCAL_HOST, pid).rss_anon_bytes or 0)
        plan = make_plan(name, model, contexts=4, runtime="ncnn", cores=1)
        run = walk(plan, THIS_INTERPRETER, observer)
        assert run.failure is None
        levels = dict(zip([reading.phase for reading in run.barriers], observer.answers))
        taken[name] = levels["steady"] - levels["imported"]
    assert taken["full_dup"] < 0.6 * taken["no_reuse_one_model"]
    assert taken["full_dup_internal_reuse"] < taken["full_dup"]


def test_an_allocation_names_the_arena(runtime: Runtime, detector: str) -> None:
    """The account has it once, as large as it ever was."""
    memory = Memory(internal=1)
    source = runtime.load(detector, None, memory)
    dup = runtime.dup(source, memory)
    dup.infer()
    (arena,) = source.allocations()
    assert arena == Allocation("internal", arena.asked_bytes, 0)
    assert arena.asked_bytes > _PICTURE
    assert dup.allocations() == []
