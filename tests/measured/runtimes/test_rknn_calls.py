"""The calls of Rockchip's adapter, against a double of the library (rknn_double.c).

They are a client-side check of order, flags, sizes and errors, and say nothing about Rockchip's own
library. The driver walks plans on the double in another process; the double aborts in places in
which the real library would crash.
"""

from __future__ import annotations

import ctypes.util
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reusebench.measured.plan import (
    ALLOCATORS,
    CREATE_MEM,
    CUDA,
    DMA_HEAP,
    DUP,
    INPUT,
    INTERNAL,
    LOAD,
    MMZ,
    MODEL,
    NATIVE_OUTPUT,
    OUTPUT,
    PHYSICAL,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Model,
    Plan,
)
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE
from reusebench.scenarios.catalogue import SCENARIOS, Parameters, find_scenario, suits
from reusebench.targets.measured_process import MeasuredRun
from tests.helpers.forks import RKNN_FORKS
from tests.helpers.support import CHECKOUT, walk

pytestmark = pytest.mark.process

_FULL = "librknnrt version: 1.6.0 (double)"
_MINI = "librknnmrt version: 2.3.2 (double)"

#: Models of the double: bytes of weights and of internal memory, and the number of inputs.
_MODELS = ("9000 5000 1 ", "7000 12345 1 ", "8000 100 1 ")
_PLAIN = Context(0, 0)
_DUP = Context(0, 0, DUP, 0)
#: Three models that run in turn in one internal memory.
_IN_TURN = tuple(Context(0, model, internal=0, core=0) for model in range(3))
#: The ways to move tensors.
_WAYS: tuple[tuple[str, ...], ...] = ((), (INPUT,), (OUTPUT,), (INPUT, OUTPUT))
#: Last call of a walk that leaves nothing behind.
_LAST = "rknn_destroy context=1, left: 0 contexts, 0 memories"
#: Heaps and zone that a real board may have, and then uses.
_HAS_HEAPS = any(Path(folder).exists() for folder in ("/dev/dma_heap", "/dev/rk_dma_heap"))
_HAS_ZONE = any(ctypes.util.find_library(name) for name in ("mpimmz", "rockit"))

Compile = Callable[..., Path]


@dataclasses.dataclass
class Walked:
    """A walk on the double, with every call that it saw."""

    run: MeasuredRun
    calls: list[str]

    def named(self, name: str) -> list[str]:
        """Return the calls of a function."""
        return [call for call in self.calls if call.split()[0] == name]

    def values(self, name: str, field: str) -> list[str]:
        """Return one field of each call of a function."""
        return [re.findall(rf"\b{field}=(\S+)", call)[0] for call in self.named(name)]

    def names(self, *names: str) -> list[str]:
        """Return the calls of these functions as name and first field; contexts count from 1."""
        return [
            " ".join(call.split()[:2]).rstrip(",")
            for call in self.calls
            if call.split()[0] in names
        ]

    def failure(self) -> tuple[str, str, int | None, str]:
        """Return kind, phase, context and sentence of the failure, which must exist."""
        failure = self.run.failure
        assert failure is not None
        return failure.kind, failure.phase, failure.context, str(failure.message)


class Double:
    """Walks of plans on one compiled double, each distinct plan once."""

    def __init__(self, library: Path, folder: Path, *contents: str) -> None:
        self.library = library
        self._folder = folder
        self._walks: dict[Any, Walked] = {}
        self.models: list[Model] = []
        for number, content in enumerate(contents or _MODELS):
            path = folder / f"model-{number}.rknn"
            path.write_text(content)
            self.models.append(Model(path.stem, str(path), str(number), weightless=str(path)))

    def walk(
        self,
        *contexts: Context,
        cores: int = 1,
        fills: bool = False,
        **environment: Any,
    ) -> Walked:
        """Walk a plan of these contexts; the environment tells the double which calls fail."""
        key = (contexts, cores, fills, *environment.items())
        if key not in self._walks:
            log = self._folder / f"calls-{len(self._walks)}"
            variables = {LIBRARY_VARIABLE: str(self.library), "DOUBLE_LOG": str(log), **environment}
            plan = Plan(
                "mine",
                None,
                "rknn",
                tuple(self.models),
                contexts,
                cores,
                rounds=2,
                fills=fills,
            )
            run = walk(plan, dataclasses.replace(RKNN_FORKS, environment=variables))
            self._walks[key] = Walked(run, log.read_text().splitlines() if log.exists() else [])
        return self._walks[key]

    def passes(self, *contexts: Context, **options: Any) -> Walked:
        """Walk a plan that must end well, with nothing left in the library."""
        walked = self.walk(*contexts, **options)
        assert walked.run.failure is None, walked.run.failure
        assert walked.calls[-1] == _LAST
        return walked


@pytest.fixture(scope="module")
def full(rknn_double: Compile, tmp_path_factory: pytest.TempPathFactory) -> Double:
    """Return a double of the full runtime."""
    return Double(rknn_double(_FULL), tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def mini(rknn_double: Compile, tmp_path_factory: pytest.TempPathFactory) -> Double:
    """Return a double of the mini runtime."""
    return Double(rknn_double(_MINI), tmp_path_factory.mktemp("mini"))


# Order


@pytest.mark.parametrize(
    ("is_mini", "cores"), [(False, 1), (False, 3), (True, 1)], ids=["one", "three", "mini"]
)
@pytest.mark.parametrize(
    "scenario",
    [
        scenario.name
        for scenario in SCENARIOS
        if not scenario.is_variant and suits(scenario.name, has_conversations=False)
    ],
)
def test_every_scenario_keeps_the_rules(
    full: Double,
    mini: Double,
    scenario: str,
    is_mini: bool,
    cores: int,
) -> None:
    """It ends without a crash and leaves nothing behind, or says what is not supported."""
    double = mini if is_mini else full
    plan = find_scenario(scenario).plans(
        Parameters("rknn", tuple(double.models), 2, 2, cores, rounds=2)
    )[0]
    walked = double.walk(*plan.contexts, cores=cores)
    missing = {
        "shared_context",
        "external_weights",
        "device_io",
        "cuda_copied_io",
        "cuda_device_io",
    }
    if is_mini:
        missing |= {"partial_dup", "full_dup", "full_dup_internal_reuse", "lean", "model_in_place"}
    # Scenarios that depend on the machine.
    uncertain = {"external_dma_heap": _HAS_HEAPS, "external_mmz": _HAS_ZONE}
    for name, has in uncertain.items():
        if not has or walked.run.failure:
            missing.add(name)
    if scenario in missing:
        kind, phase, _, message = walked.failure()
        assert (kind, phase) == ("not_supported", "context"), message
        return
    double.passes(*plan.contexts, cores=cores)
    living = Counter[str]()
    for call in walked.calls:
        name, context = call.replace(",", "").split()[:2]
        if name.startswith("rknn_create_mem"):
            living[context] += 1
        elif name == "rknn_destroy_mem":
            living[context] -= 1
        elif name == "rknn_destroy":
            # The memory of a model in place is made before there is a context.
            assert living[context] <= 0, f"{context} was destroyed before its memory"


def test_contexts_go_in_reverse_order(full: Double) -> None:
    """A slave goes before its master, a dup before its source, and memory before its context."""
    walked = full.passes(_PLAIN, Context(0, 1, SHARED_WEIGHTS, 0, zero_copy=(INPUT,)), _DUP)
    assert walked.names("rknn_destroy", "rknn_destroy_mem") == [
        "rknn_destroy context=3",
        "rknn_destroy_mem context=2",
        "rknn_destroy context=2",
        "rknn_destroy context=1",
    ]


def test_an_internal_memory_is_as_large_as_the_largest_and_goes_last(full: Double) -> None:
    """It is allocated once, for the first context; the others name it again, and go first."""
    walked = full.passes(*_IN_TURN)
    assert walked.named("rknn_create_mem") == ["rknn_create_mem context=1 size=12345"]
    names = ["context=1 size=5000", "context=2 size=12345", "context=3 size=100"]
    assert walked.named("rknn_create_mem_from_fd") == [
        f"rknn_create_mem_from_fd {name} offset=0" for name in names
    ]
    assert walked.named("rknn_set_internal_mem") == [
        f"rknn_set_internal_mem {name} flags=1" for name in names
    ]
    memory = "rknn_destroy_mem context={}"
    context = "rknn_destroy context={}"
    order = [memory.format(3), context.format(3), memory.format(2), context.format(2)]
    order += [memory.format(1), memory.format(1), context.format(1)]
    assert walked.names("rknn_destroy", "rknn_destroy_mem") == order
    assert walked.values("rknn_destroy_mem", "size") == ["100", "12345", "5000", "12345"]


def test_internal_memory_comes_before_tensors(mini: Double) -> None:
    """The mini runtime takes no tensors before the internal memory; the double aborts."""
    order = [call.split()[0] for call in mini.passes(*_IN_TURN).calls]
    last_internal = len(order) - 1 - order[::-1].index("rknn_set_internal_mem")
    assert last_internal < order.index("rknn_set_io_mem")


def test_one_internal_memory_for_dups_of_each_core(full: Double) -> None:
    """A dup gets the memory of its core like any context, and is made with its source's flags."""
    contexts = [
        Context(0, 0, internal=0, core=0),
        Context(0, 0, DUP, 0, internal=1, core=1),
        Context(0, 0, DUP, 0, internal=0, core=0),
        Context(0, 0, DUP, 0, internal=1, core=1),
    ]
    walked = full.passes(*contexts, cores=2)
    assert walked.values("rknn_init", "flags") == ["0x200"]
    assert walked.values("rknn_dup_context", "source") == ["1"] * 3
    assert walked.named("rknn_create_mem") == [
        f"rknn_create_mem context={number} size=5000" for number in (1, 2)
    ]
    assert walked.values("rknn_set_internal_mem", "context") == ["1", "3", "2", "4"]


# Flags, sizes and the library's own figures


#: More contexts than fit, over one internal memory: 9,000 bytes of weights each, or shared, and
#: 5,000 of internal tensors.
_MANY_LOADED = (Context(0, 0, internal=0, core=0),) * 9
_MANY_DUPS = (_MANY_LOADED[0], *(Context(0, 0, DUP, 0, internal=0, core=0),) * 8)


def test_contexts_until_memory_ends(full: Double) -> None:
    """Contexts join the internal memory; the one that fails is destroyed, the others run."""
    walked = full.passes(*_MANY_LOADED, fills=True, DOUBLE_MEMORY=str(4 * 9000 + 5000))
    failure = walked.run.full
    assert failure is not None
    assert (failure.phase, failure.context, failure.message.values["code"]) == ("context", 4, -4)
    assert "failed to malloc npu memory, size: 9000" in str(failure.message)
    assert walked.values("rknn_create_mem", "size") == ["5000"]
    assert walked.values("rknn_set_internal_mem", "context") == ["1", "2", "3", "4"]
    # In the first inference and the second of each, and in two rounds.
    assert len(walked.named("rknn_run")) == 4 * (2 + 2)


def test_dups_over_one_internal_memory_never_end_it(full: Double) -> None:
    """Dups take no internal memory of their own, so all fit; without sharing, two would."""
    assert full.passes(*_MANY_DUPS, fills=True, DOUBLE_MEMORY=str(9000 + 5000)).run.full is None
    alone = (_PLAIN, *(_DUP,) * 8)
    full_at = full.passes(*alone, fills=True, DOUBLE_MEMORY=str(9000 + 2 * 5000)).run.full
    assert full_at is not None
    assert full_at.context == 2


def test_a_library_that_dies_of_the_limit(full: Double) -> None:
    """The crash is the answer."""
    run = full.walk(*(_PLAIN,) * 3, fills=True, DOUBLE_MEMORY=str(2 * 14000), DOUBLE_DIES="1").run
    assert run.failure is not None
    assert (run.full, run.failure.kind, run.failure.phase, run.failure.context) == (
        None,
        "crashed",
        "context",
        2,
    )


def test_a_plain_context(full: Double) -> None:
    """rknn_init gets the file's content: librknnrt 1.6.0 counts a path's model twice."""
    walked = full.passes(_PLAIN)
    assert walked.named("rknn_init") == [f"rknn_init size={len(_MODELS[0])} flags=0x0 master=0"]
    imported, made = (reading.data for reading in walked.run.barriers[:2])
    assert (imported.runtime_version, imported.driver_version) == ("1.6.0 (double)", None)
    assert (made.runtime_version, made.driver_version) == ("1.6.0 (double)", "0.9.8")
    assert made.account == {"weights_bytes": 9000, "internal_bytes": 5000, "dma_bytes": 14000}


@pytest.mark.parametrize(
    ("context", "full_flags", "mini_flags"),
    [
        (_PLAIN, "0x0", "0x0"),
        (Context(0, 0, zero_copy=(INPUT, OUTPUT)), "0x0", "0x0"),
        (Context(0, 0, internal=0), "0x200", "0x10"),
        (Context(0, 0, outside=(INTERNAL,)), "0x200", "0x10"),
        (Context(0, 0, outside=(WEIGHTS, INTERNAL)), "0x10", "0x10"),
    ],
)
def test_flags_name_who_allocates(
    full: Double,
    mini: Double,
    context: Context,
    full_flags: str,
    mini_flags: str,
) -> None:
    """0x200 is for internal memory, 0x10 for weights too; the mini runtime ignores 0x200."""
    for double, flags in ((full, full_flags), (mini, mini_flags)):
        walked = double.passes(context)
        assert walked.values("rknn_init", "flags") == [flags]
        assert walked.values("rknn_set_weight_mem", "size") == (["9000"] if flags == "0x10" else [])
        assert walked.values("rknn_set_internal_mem", "size") == (
            [] if flags == "0x0" else ["5000"]
        )


@pytest.mark.parametrize(("internal", "flags"), [(None, "0x20"), (0, "0x220")])
def test_a_slave_names_its_master(full: Double, internal: int | None, flags: str) -> None:
    """It has 0x20 and the master's handle; its weights are not given a second time."""
    walked = full.passes(
        Context(0, 0, internal=internal), Context(0, 1, SHARED_WEIGHTS, 0, internal=internal)
    )
    assert walked.values("rknn_init", "flags")[1] == flags
    assert walked.values("rknn_init", "master") == ["0", "1"]
    assert walked.named("rknn_set_weight_mem") == []


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (Context(0, 0, outside=(WEIGHTS,)), "takes weights and internal tensors outside together"),
        (
            Context(0, 0, device_io=True),
            "with zero copy the tensors are the NPU's own memory already",
        ),
        (Context(0, 0, device=CUDA), "on its NPU alone, not on cuda"),
    ],
)
def test_what_the_library_cannot_do(
    full: Double,
    mini: Double,
    context: Context,
    words: str,
) -> None:
    """It is refused before any call: the mini runtime would run in memory that nobody allocated."""
    for double in (full, mini):
        walked = double.walk(context)
        kind, _, _, message = walked.failure()
        assert kind == "not_supported"
        assert words in message
        assert walked.named("rknn_init") == []


def test_cores_are_masks(full: Double) -> None:
    """Core N is bit N; without a core, or with one core, the library chooses."""
    bound = [Context(0, 0, core=core) for core in (0, 1, 2)]
    assert full.passes(*bound, cores=3).values("rknn_set_core_mask", "mask") == ["1", "2", "4"]
    assert full.passes(_PLAIN, cores=3).named("rknn_set_core_mask") == []
    assert full.passes(bound[0]).named("rknn_set_core_mask") == []


# Sources of memory


def test_memory_by_the_runtimes_own_call(full: Double) -> None:
    """Weights, internal memory, input and output have the sizes that the library tells."""
    walked = full.passes(Context(0, 0, outside=(WEIGHTS, INTERNAL), zero_copy=(INPUT, OUTPUT)))
    assert walked.values("rknn_create_mem", "size") == ["9000", "5000", "360", "320"]
    allocations = walked.run.barriers[2].data.allocations
    sizes = {allocation.kind: allocation.asked_bytes for allocation in allocations}
    assert sizes == {"weights": 9000, "internal": 5000, "input": 360, "output": 320}
    assert len({allocation.inode for allocation in allocations} - {0}) == 4


def test_memory_by_its_physical_address(full: Double) -> None:
    """Each piece names memory of the library by its address, and goes before it."""
    walked = full.passes(Context(0, 0, outside=(WEIGHTS, INTERNAL), allocator=PHYSICAL))
    for name in ("rknn_create_mem", "rknn_create_mem_from_phys"):
        assert walked.values(name, "size") == ["9000", "5000"]
    assert len(walked.named("rknn_destroy_mem")) == 4


@pytest.mark.skipif(_HAS_HEAPS, reason="this machine has dma-heaps")
def test_no_dma_heap(full: Double) -> None:
    """It is not supported, every heap is named with its reason, and the context does not stay."""
    walked = full.walk(Context(0, 0, outside=(INTERNAL,), allocator=DMA_HEAP))
    kind, phase, context, message = walked.failure()
    assert (kind, phase, context) == ("not_supported", "context", 0)
    assert message.startswith("no dma-heap gives 5000 bytes (")
    assert "/dev/dma_heap/system: No such file or directory" in message
    assert walked.calls[-1] == _LAST


@pytest.mark.skipif(_HAS_ZONE, reason="this machine has Rockchip's media memory zone")
def test_no_media_memory_zone(full: Double) -> None:
    """Rockchip's MMZ library is named if it is missing."""
    kind, _, _, message = full.walk(Context(0, 0, outside=(INTERNAL,), allocator=MMZ)).failure()
    assert kind == "not_supported"
    assert (
        message
        == "Rockchip's MMZ library (libmpimmz.so or librockit.so) is not here: neither in the"
        " loader's path nor in the folder of the runtime's library"
    )


def test_memory_by_the_media_memory_zone(full: Double, tmp_path: Path) -> None:
    """Each piece is a block of the zone, which goes after the library's name for it.

    A full zone is reported. The name has no flag while it is set, because librknnrt 1.5.2 and 1.6.0
    hang with it; the double checks that the flag is back when the struct is freed.
    """
    shutil.copy(full.library, tmp_path / "libmpimmz.so")
    context = Context(0, 0, outside=(WEIGHTS, INTERNAL), allocator=MMZ)
    walked = full.passes(context, LD_LIBRARY_PATH=str(tmp_path))
    assert walked.values("RK_MPI_MMZ_Alloc", "size") == ["9000", "5000"]
    assert walked.values("rknn_create_mem_from_fd", "size") == ["9000", "5000"]
    assert walked.values("rknn_set_internal_mem", "flags") == ["0"]
    assert walked.names("rknn_destroy_mem", "RK_MPI_MMZ_Free", "rknn_destroy") == [
        "rknn_destroy_mem context=1",
        "RK_MPI_MMZ_Free size=5000",
        "rknn_destroy_mem context=1",
        "RK_MPI_MMZ_Free size=9000",
        "rknn_destroy context=1",
    ]
    kind, _, _, message = full.walk(
        context, LD_LIBRARY_PATH=str(tmp_path), DOUBLE_FAIL="RK_MPI_MMZ_Alloc=-3"
    ).failure()
    assert (kind, message) == ("not_supported", "RK_MPI_MMZ_Alloc of 9000 bytes returned -3")


def test_every_allocator_is_tried_here() -> None:
    """A new allocator needs a test."""
    assert set(ALLOCATORS) == {CREATE_MEM, PHYSICAL, DMA_HEAP, MMZ}


# Inputs and outputs


@pytest.mark.parametrize("zero_copy", _WAYS)
def test_tensors_of_the_full_runtime(full: Double, zero_copy: tuple[str, ...]) -> None:
    """Copied tensors go through the library's calls; others are bound once, and synced."""
    walked = full.passes(Context(0, 0, zero_copy=zero_copy))
    runs = len(walked.named("rknn_run"))
    assert len(walked.named("rknn_inputs_set")) == (0 if INPUT in zero_copy else runs)
    assert len(walked.named("rknn_outputs_get")) == (0 if OUTPUT in zero_copy else runs)
    assert len(walked.named("rknn_set_io_mem")) == len(zero_copy)
    synced = walked.values("rknn_mem_sync", "mode")
    assert synced.count("1") == (1 if INPUT in zero_copy else 0)
    assert synced.count("2") == (runs if OUTPUT in zero_copy else 0)


@pytest.mark.parametrize("zero_copy", _WAYS)
def test_tensors_of_the_mini_runtime(mini: Double, zero_copy: tuple[str, ...]) -> None:
    """It has no calls that copy: native tensors are bound, and the adapter copies."""
    walked = mini.passes(Context(0, 0, zero_copy=zero_copy))
    assert walked.named("rknn_inputs_set") == walked.named("rknn_outputs_get") == []
    assert walked.values("rknn_set_io_mem", "size") == ["360", "512"]
    assert {"8", "9"} <= set(walked.values("rknn_query", "command"))
    # A copied input is synced before each run, and once when it is made.
    runs = len(walked.named("rknn_run"))
    assert walked.values("rknn_mem_sync", "mode").count("1") == (
        1 if INPUT in zero_copy else 1 + runs
    )


@pytest.mark.parametrize("name", ["full", "mini"])
def test_outputs_are_the_same_copied_or_in_place(name: str, request: pytest.FixtureRequest) -> None:
    """Rows are where the NPU expects them, padding is no output, and copies are counted."""
    double: Double = request.getfixturevalue(name)
    digests = []
    for way in _WAYS:
        data = {
            reading.phase: reading.data
            for reading in double.passes(Context(0, 0, zero_copy=way)).run.barriers
        }
        digests.append(data["steady"].digests)
        copies = data["first_inference"].copies
        assert copies is not None
        assert (copies.input_bytes, copies.output_bytes) == (
            0 if INPUT in way else 300,
            0 if OUTPUT in way else 300,
        )
    assert digests == [digests[0]] * 4
    without_input = f"{zlib.crc32(bytes(300)):08x}"
    assert digests[0] != (without_input,)


def test_several_inputs(full: Double, tmp_path: Path) -> None:
    """All inputs of a model go in one call."""
    double = Double(full.library, tmp_path, "9000 5000 3 ")
    assert set(double.passes(_PLAIN).values("rknn_inputs_set", "count")) == {"3"}
    assert len(double.passes(Context(0, 0, zero_copy=(INPUT,))).named("rknn_set_io_mem")) == 3


#: Writes rows of its own into the input, as a letterbox does, and prints the output; run on the
#: double.
_WRITE_FRAMES = """
import json, sys
from reusebench.measured.runtimes import open_runtime
from reusebench.measured.runtimes.base import Memory
context = open_runtime("rknn").load(sys.argv[1], None, Memory(zero_copy=tuple(sys.argv[2:])))
context.infer()
image = context.image_input()
sums = []
for value in (1, 2, 1):
    for row in range(image.height):
        start = row * image.pitch_bytes
        image.memory[start : start + image.width * 3] = bytes((value + row,)) * (image.width * 3)
    context.infer()
    sums.append(bytes(context.outputs()[0])[0])
print(json.dumps([sums, image[1:], len(image.memory)]))
context.destroy()
"""


def _sum_of_rows(value: int) -> int:
    """Return the double's sum over those rows."""
    total = 0
    for row in range(10):
        for _ in range(10 * 3):
            total = (31 * total + value + row) & 0xFF
    return total


@pytest.mark.parametrize(
    ("name", "zero_copy", "pitch", "syncs"),
    [
        ("full", (), 30, 0),
        # In place: once when it is bound, then before each run that may have new data.
        ("full", (INPUT,), 36, 1 + 3),
        ("mini", (INPUT,), 36, 1 + 3),
        # Staged: once at first, then before each run.
        ("mini", (), 30, 1 + 4),
    ],
)
def test_frames_are_written_with_room_behind_rows(
    name: str,
    zero_copy: tuple[str, ...],
    pitch: int,
    syncs: int,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    """8-bit RGB goes into the application's buffer, or into bound memory, which is then synced."""
    double: Double = request.getfixturevalue(name)
    log = tmp_path / "calls"
    environment = {**os.environ, LIBRARY_VARIABLE: str(double.library), "DOUBLE_LOG": str(log)}
    command = [sys.executable, "-c", _WRITE_FRAMES, double.models[0].path, *zero_copy]
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sums, image, size_bytes = json.loads(done.stdout)
    assert image == [10, 10, 3, "nhwc", "uint8", pitch]
    assert size_bytes == 9 * pitch + 30
    assert sums == [_sum_of_rows(value) for value in (1, 2, 1)]
    mem_syncs = [line for line in log.read_text().splitlines() if line.startswith("rknn_mem_sync")]
    to_device = [line for line in mem_syncs if "mode=1" in line]
    assert len(to_device) == syncs


# Models in place, weights in one memory, shared tensors


def test_a_model_in_place(full: Double) -> None:
    """Its file is read into memory before there is a context, and goes with it.

    The double aborts if the library would crash: sizes asked for before a dup, two contexts over
    one memory.
    """
    size = len(_MODELS[0])
    loaded = Context(0, 0, zero_copy=(MODEL,))
    walked = full.passes(loaded, _DUP, loaded)
    assert (
        walked.named("rknn_create_mem2")
        == [f"rknn_create_mem2 context=0 size={size} flags=0x20000"] * 2
    )
    assert walked.named("rknn_init") == [f"rknn_init size={size} flags=0x10000 master=0"] * 2
    assert walked.names("rknn_destroy", "rknn_destroy_mem") == [
        "rknn_destroy_mem context=3",
        "rknn_destroy context=3",
        "rknn_destroy context=2",
        "rknn_destroy_mem context=1",
        "rknn_destroy context=1",
    ]
    accounts = {(row.phase, row.context): bool(row.data.account) for row in walked.run.barriers}
    assert not accounts["context", 0]
    assert accounts["context", 1]
    assert accounts["first_inference", 0]


def test_where_no_model_is_used_in_place(
    full: Double,
    mini: Double,
    rknn_double: Compile,
    tmp_path: Path,
) -> None:
    """The mini runtime gives no memory without a context; old libraries lack the function."""
    contexts = Context(0, 0, zero_copy=(MODEL,))
    older = Double(rknn_double(_FULL, "CREATE_MEM2"), tmp_path)
    for double, words in ((mini, "gives no memory without a context"), (older, "rknn_create_mem2")):
        kind, phase, _, message = double.walk(contexts).failure()
        assert (kind, phase) == ("not_supported", "context")
        assert words in message
    twice = full.walk(Context(0, 0, zero_copy=(MODEL,), outside=(WEIGHTS, INTERNAL))).failure()
    assert (twice[0], "keeps the weights twice" in twice[3]) == ("not_supported", True)


def test_no_memory_for_a_model_in_place(full: Double) -> None:
    """It is a lack of memory if the library says so, and no missing mechanism."""
    words = "E RKNN: DMA Heap allocation failed"
    walked = full.walk(
        Context(0, 0, zero_copy=(MODEL,)),
        DOUBLE_FAIL="rknn_create_mem2=-1",
        DOUBLE_SAY=f"rknn_create_mem2={words}",
    )
    kind, phase, _, message = walked.failure()
    assert (kind, phase) == ("out_of_memory", "context")
    assert "an NPU buffer of an unknown number of bytes" in message
    assert words in message


@pytest.mark.parametrize("name", ["full", "mini"])
def test_one_weight_memory_for_several_contexts(name: str, request: pytest.FixtureRequest) -> None:
    """The first context's memory is named again for the others, and all outputs are equal."""
    double: Double = request.getfixturevalue(name)
    own = Context(0, 0, SHARED_WEIGHT_MEMORY, 0, outside=(INTERNAL,))
    shared = Context(0, 0, SHARED_WEIGHT_MEMORY, 0, internal=0)
    for other in (own, shared):
        outside = (WEIGHTS, *other.outside)
        first = dataclasses.replace(other, mechanism=LOAD, source=None, outside=outside)
        walked = double.passes(first, other, other)
        assert walked.values("rknn_create_mem", "size").count("9000") == 1
        assert walked.values("rknn_set_weight_mem", "size") == ["9000"] * 3
        assert {line.split()[2] for line in walked.named("rknn_init")} == {"flags=0x10"}
        digests = next(row.data.digests for row in walked.run.barriers if row.phase == "steady")
        assert len(set(digests)) == 1


def test_weights_that_are_overwritten_are_noticed(full: Double) -> None:
    """The library writes into the memory again; the adapter compares its content."""
    first = Context(0, 0, outside=(WEIGHTS, INTERNAL))
    other = Context(0, 0, SHARED_WEIGHT_MEMORY, 0, outside=(INTERNAL,))
    walked = full.walk(first, other, DOUBLE_REWRITES="1")
    kind, phase, context, message = walked.failure()
    assert (kind, phase, context) == ("failed", "context", 1)
    assert "has written other weights" in message


@pytest.mark.parametrize("name", ["full", "mini"])
def test_tensors_of_contexts_in_turn_are_one_memory(
    name: str, request: pytest.FixtureRequest
) -> None:
    """The first context allocates input and output; the others name them, and release first."""
    double: Double = request.getfixturevalue(name)
    contexts = [Context(0, 0, zero_copy=(INPUT, NATIVE_OUTPUT), io=0) for _ in range(3)]
    walked = double.passes(*contexts)
    assert walked.values("rknn_create_mem", "size") == ["360", "512"]
    assert walked.values("rknn_create_mem_from_fd", "size") == ["360", "512"] * 2
    assert walked.values("rknn_set_io_mem", "size") == ["360", "512"] * 3
    allocations = [
        row.data.allocations for row in walked.run.barriers if row.phase == "first_inference"
    ]
    assert [[allocation.kind for allocation in of_context] for of_context in allocations] == [
        ["input", "output"],
        [],
        [],
    ]


def test_native_outputs_are_bound_in_the_npus_order(full: Double) -> None:
    """They have that order's attributes and no copy; the checksum is that of a copied output."""
    native, copied = (full.passes(Context(0, 0, zero_copy=ways)) for ways in ((NATIVE_OUTPUT,), ()))
    assert native.named("rknn_outputs_get") == []
    assert native.values("rknn_set_io_mem", "size") == ["512"]
    assert "9" in native.values("rknn_query", "command")
    digests = [
        next(row.data.digests for row in walked.run.barriers if row.phase == "steady")
        for walked in (native, copied)
    ]
    assert digests[0] == digests[1]


# Errors


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"DOUBLE_FAIL": "rknn_run=-10"}, "rknn_run returned -10 (RKNN_ERR_DEVICE_UNMATCH)"),
        # A newer library may have other codes.
        ({"DOUBLE_FAIL": "rknn_run=-99"}, "rknn_run returned -99 (an unknown code)"),
        (
            {
                "DOUBLE_FAIL": "rknn_run=-6",
                "DOUBLE_SAY": "rknn_run=E RKNN: one\nI RKNN: between\nE RKNN: two",
            },
            "rknn_run returned -6 (RKNN_ERR_MODEL_INVALID): E RKNN: one | E RKNN: two",
        ),
    ],
)
def test_a_code_is_reported_with_call_and_name(
    full: Double, environment: dict[str, Any], words: str
) -> None:
    """The sentence also has the library's own lines, if it wrote any."""
    assert full.walk(_PLAIN, **environment).failure() == ("failed", "first_inference", 0, words)


@pytest.mark.parametrize(
    ("call", "phase"),
    [
        ("rknn_init", "context"),
        ("rknn_query", "context"),
        ("rknn_run", "first_inference"),
        ("rknn_inputs_set", "first_inference"),
        ("rknn_outputs_get", "first_inference"),
        ("rknn_destroy", "destroy"),
    ],
)
def test_an_error_line_is_a_failure_whatever_the_code(full: Double, call: str, phase: str) -> None:
    """The line is the message, without colours or time, although the library returns 0."""
    line = "\x1b[1;31mE RKNN: [10:01:02.345] something is wrong\x1b[0m"
    kind, where, context, message = full.walk(_PLAIN, DOUBLE_SAY=f"{call}={line}").failure()
    assert (kind, where, context) == ("failed", phase, 0)
    success = f"{call} returned 0 (RKNN_SUCC, but the library reports an error)"
    assert message == f"{success}: E RKNN: something is wrong"


@pytest.mark.parametrize(
    "line", ["W RKNN: a warning", "I RKNN: E RKNN is not the beginning", "model E RKNN"]
)
def test_other_lines_are_no_failure(full: Double, line: str) -> None:
    """Warnings and notices only go to standard error."""
    full.passes(_PLAIN, DOUBLE_SAY=f"rknn_run={line}")


@pytest.mark.parametrize("call", ["rknn_create_mem", "rknn_create_mem_from_fd"])
def test_memory_that_is_not_given(full: Double, call: str) -> None:
    """These calls return a pointer and no code; a null pointer is a failure of the call."""
    walked = full.walk(Context(0, 0, internal=0), DOUBLE_FAIL=f"{call}=-4")
    assert walked.failure() == (
        "failed",
        "internal_memory",
        0,
        f"{call} returned -1 (RKNN_ERR_FAIL)",
    )


@pytest.mark.parametrize("environment", [{"DOUBLE_LEAVES": "1"}, {}])
def test_a_failed_init(full: Double, environment: dict[str, Any]) -> None:
    """A context that it leaves behind is destroyed."""
    walked = full.walk(_PLAIN, DOUBLE_FAIL="rknn_init=-6", **environment)
    assert walked.failure()[3] == "rknn_init returned -6 (RKNN_ERR_MODEL_INVALID)"
    assert walked.names("rknn_destroy") == (["rknn_destroy context=1"] if environment else [])


@pytest.mark.parametrize(
    "call", ["rknn_set_core_mask", "rknn_set_weight_mem", "rknn_set_internal_mem"]
)
def test_a_context_that_cannot_be_furnished_is_destroyed(full: Double, call: str) -> None:
    """The memory that it has by then goes first."""
    walked = full.walk(
        Context(0, 0, outside=(WEIGHTS, INTERNAL), core=1), cores=2, DOUBLE_FAIL=f"{call}=-5"
    )
    assert walked.failure()[3] == f"{call} returned -5 (RKNN_ERR_PARAM_INVALID)"
    assert len(walked.named("rknn_destroy_mem")) == len(walked.named("rknn_create_mem"))
    assert walked.calls[-1] == _LAST


def test_a_file_that_is_no_model(full: Double, tmp_path: Path) -> None:
    """The library's code is all there is to say; the system names a file that is unreadable."""
    double = Double(full.library, tmp_path, "no model", "9000 5000 1 ")
    assert double.walk(_PLAIN).failure()[3] == "rknn_init returned -6 (RKNN_ERR_MODEL_INVALID)"
    Path(double.models[1].path).unlink()
    kind, phase, _, message = double.walk(Context(0, 1)).failure()
    assert (kind, phase) == ("failed", "context")
    assert double.models[1].path in message


# Functions that a library lacks


def test_dup_on_the_mini_runtime_is_not_supported(mini: Double, full: Double) -> None:
    """It is tried, and the library's words are the message; on the full runtime it has failed."""
    kind, phase, context, message = mini.walk(_PLAIN, _DUP).failure()
    assert (kind, phase, context) == ("not_supported", "context", 1)
    assert message.startswith("rknn_dup_context returned -1 (RKNN_ERR_FAIL): E RKNN: ")
    assert message.endswith("not supported in mini runtime")
    assert full.walk(_PLAIN, _DUP, DOUBLE_FAIL="rknn_dup_context=-1").failure()[:3] == (
        "failed",
        "context",
        1,
    )


@pytest.mark.parametrize("source", [Context(0, 0, outside=(INTERNAL,)), Context(0, 0, internal=0)])
def test_a_dup_is_not_left_without_internal_memory(full: Double, source: Context) -> None:
    """A dup has its source's flags: if internal memory is the application's, it must get some."""
    walked = full.walk(source, _DUP)
    assert walked.failure()[:3] == ("not_supported", "context", 1)
    assert walked.named("rknn_dup_context") == []
    full.passes(source, dataclasses.replace(_DUP, outside=(INTERNAL,)))


@pytest.mark.parametrize(
    ("without", "call", "contexts"),
    [
        ("DUP", "rknn_dup_context", (_PLAIN, _DUP)),
        ("CORE_MASK", "rknn_set_core_mask", (Context(0, 0, core=1),)),
    ],
)
def test_a_function_that_is_missing_is_not_supported(
    rknn_double: Compile,
    tmp_path: Path,
    without: str,
    call: str,
    contexts: tuple[Context, ...],
) -> None:
    """An old library lacks a part of the API; the function is named."""
    walked = Double(rknn_double(_FULL, without), tmp_path).walk(*contexts, cores=2)
    kind, phase, _, message = walked.failure()
    assert (kind, phase, message) == ("not_supported", "context", f"this library has no {call}")


def test_a_library_that_syncs_by_itself(rknn_double: Compile, tmp_path: Path) -> None:
    """Before 1.6.0 there is no rknn_mem_sync, and no need of it."""
    Double(rknn_double(_FULL, "MEM_SYNC"), tmp_path).passes(
        Context(0, 0, zero_copy=(INPUT, OUTPUT))
    )


def test_a_shared_context_is_not_supported(full: Double) -> None:
    """Two threads may not run one context: the sentence tells what to use."""
    kind, phase, context, message = full.walk(_PLAIN, Context(0, 0, SHARED_CONTEXT, 0)).failure()
    assert (kind, phase, context) == ("not_supported", "context", 1)
    assert "another thread needs a dup" in message


# The library and its output


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory. Give librknnrt.so or librknnmrt.so"),
        (b"text", ". Give librknnrt.so or librknnmrt.so"),
        (
            b"\x7fELF" + bytes(14) + b"\x28\x00" + b"librknnrt version: 1.6.0",
            "cannot be loaded here: ",
        ),
    ],
)
def test_a_library_that_cannot_be_used(tmp_path: Path, content: bytes | None, words: str) -> None:
    """A missing or foreign library, or another machine's, is reported before anything is made."""
    library = tmp_path / "library.so"
    if content is not None:
        library.write_bytes(content)
    kind, phase, _, message = Double(library, tmp_path).walk(_PLAIN).failure()
    assert (kind, phase) == ("failed", "imported")
    assert str(library) in message
    assert words in message


_NO_LIBRARY = """
from reusebench.measured.runtimes.rknn import adapter, library_file
library_file._FOLDERS = ()
try:
    adapter.open_runtime()
except adapter.AdapterError as error:
    print(error)
"""


def test_no_library_at_all() -> None:
    """The option and the variable are named."""
    done = subprocess.run(
        [sys.executable, "-c", _NO_LIBRARY],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
        env={},
    )
    for words in (
        "no librknnrt.so or librknnmrt.so",
        "--rknn-library FILE",
        f"{LIBRARY_VARIABLE}=FILE",
    ):
        assert words in done.stdout


_FAIL_TWICE = """
import json, sys
from reusebench.measured.runtimes.base import AdapterError
from reusebench.measured.runtimes.rknn.binding import Binding
binding = Binding(sys.argv[1])
context = binding.init(bytearray(b"9000 5000 1 "), 0, None)
errors = []
for _ in range(2):
    try:
        binding.run(context)
    except AdapterError as error:
        errors.append([error.message.code, error.message.values])
binding.destroy(context)
print(json.dumps(errors))
"""


@pytest.mark.parametrize("is_file", [True, False])
def test_an_error_carries_its_parts(rknn_double: Compile, tmp_path: Path, is_file: bool) -> None:
    """It has call, code and name; without a file as standard error there are no lines."""
    environment = {
        "DOUBLE_FAIL": "rknn_run=-7",
        **({} if is_file else {"DOUBLE_SAY": "rknn_run=E RKNN: no"}),
    }
    with (tmp_path / "stderr").open("w") as file:
        done = subprocess.run(
            [sys.executable, "-c", _FAIL_TWICE, str(rknn_double(_FULL))],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=file if is_file else subprocess.PIPE,
            text=True,
            check=True,
            env=environment,
        )
    failed_run = [
        "rknn_call_failed",
        {"call": "rknn_run", "code": -7, "name": "RKNN_ERR_CTX_INVALID"},
    ]
    assert json.loads(done.stdout.splitlines()[-1]) == [failed_run] * 2
