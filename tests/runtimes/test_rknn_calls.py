"""The calls that Rockchip's adapter makes, against a double of the library that is compiled here (rknn_double.c).

A client-side check of order, flags, sizes and errors: it says nothing about Rockchip's own library. The driver walks
plans on the double in a process of its own; the double aborts where the real library would crash.
"""

from __future__ import annotations

import ctypes.util
import dataclasses
import json
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from runtimes.rknn.library import LIBRARY_VARIABLE
from scenarios.catalogue import SCENARIOS, Parameters, build_plans
from scenarios.plan import (
    ALLOCATORS,
    CREATE_MEM,
    CUDA,
    DMA_HEAP,
    DUP,
    INPUT,
    INTERNAL,
    MMZ,
    OUTPUT,
    PHYSICAL,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Model,
    Plan,
)
from targets.base import THIS_INTERPRETER
from targets.measured_process import Run
from tests.support import CHECKOUT, walk

_FULL, _MINI = "librknnrt version: 1.6.0 (double)", "librknnmrt version: 2.3.2 (double)"

#: Bytes of weights and internal memory of the models, which are texts that the double reads.
_SIZES = ((9000, 5000), (7000, 12345), (8000, 100))
_PLAIN = Context(0, 0)
#: The last call of a walk that leaves nothing behind.
_LAST = "rknn_destroy context=1, left: 0 contexts, 0 memories"
#: What a real board may have: then its own heaps and zone are used.
_HAS_HEAPS = any(Path(folder).exists() for folder in ("/dev/dma_heap", "/dev/rk_dma_heap"))
_HAS_ZONE = any(ctypes.util.find_library(name) for name in ("mpimmz", "rockit"))

Compile = Callable[..., Path]


@pytest.fixture
def models(tmp_path: Path) -> tuple[Model, ...]:
    """Return three models of different sizes, with one input and one output."""
    found = []
    for number, (weights, internal) in enumerate(_SIZES):
        path = tmp_path / f"model-{number}.rknn"
        path.write_text(f"{weights} {internal} 1 ")
        found.append(Model(path.stem, str(path), str(number), weightless=str(path)))
    return tuple(found)


@dataclasses.dataclass
class Walked:
    """A walk on the double, and every call that it saw."""

    run: Run
    calls: list[str]

    def named(self, name: str, context: int | None = None) -> list[str]:
        """Return the calls of a function, of one context (the double counts from 1) where that is given."""
        found = [call for call in self.calls if call.split()[0] == name]
        return [call for call in found if context is None or f"context={context}" in call.split()]

    def values(self, name: str, field: str) -> list[str]:
        """Return one field of each call of a function."""
        return [re.findall(rf"\b{field}=(\S+)", call)[0] for call in self.named(name)]

    def names(self, *names: str) -> list[str]:
        """Return the calls of these functions in order, as name and context."""
        return [" ".join(call.split()[:2]).rstrip(",") for call in self.calls if call.split()[0] in names]


class Double:
    """Walks plans on one compiled double."""

    def __init__(self, library: Path, log: Path, models: tuple[Model, ...]) -> None:
        self.library, self.log, self.models = library, log, models

    def walk(self, *contexts: Context, cores: int = 1, **environment: Any) -> Walked:
        """Walk a plan of these contexts."""
        return self.walk_plan(Plan("mine", None, "rknn", self.models, contexts, cores, rounds=2), **environment)

    def walk_plan(self, plan: Plan, **environment: Any) -> Walked:
        """Walk a plan; the environment tells the double what to fail."""
        self.log.unlink(missing_ok=True)
        variables = {LIBRARY_VARIABLE: str(self.library), "DOUBLE_LOG": str(self.log), **environment}
        run = walk(plan, dataclasses.replace(THIS_INTERPRETER, environment=variables))
        return Walked(run, self.log.read_text().splitlines() if self.log.exists() else [])


@pytest.fixture
def full(rknn_double: Compile, tmp_path: Path, models: tuple[Model, ...]) -> Double:
    """Return a double of the full runtime."""
    return Double(rknn_double(_FULL), tmp_path / "calls", models)


@pytest.fixture
def mini(rknn_double: Compile, tmp_path: Path, models: tuple[Model, ...]) -> Double:
    """Return a double of the mini runtime."""
    return Double(rknn_double(_MINI), tmp_path / "calls", models)


def _failure(walked: Walked) -> tuple[str, str, int | None, str]:
    failure = walked.run.failure
    assert failure is not None
    return failure.kind, failure.phase, failure.context, str(failure.message)


def _whole(walked: Walked) -> Walked:
    """Hold that the walk went well, and that nothing is left in the library."""
    assert walked.run.failure is None, walked.run.failure
    assert walked.calls[-1] == _LAST
    return walked


# Order


@pytest.mark.parametrize(("version", "cores"), [(_FULL, 1), (_FULL, 3), (_MINI, 1)], ids=["one", "three", "mini"])
@pytest.mark.parametrize("scenario", [each.name for each in SCENARIOS if not each.is_variant])
def test_every_scenario_keeps_the_rules(
    rknn_double: Compile, tmp_path: Path, models: tuple[Model, ...], scenario: str, version: str, cores: int
) -> None:
    """It ends without a crash and leaves nothing behind, or says in words what is not supported."""
    double = Double(rknn_double(version), tmp_path / "calls", models)
    walked = double.walk_plan(build_plans(scenario, Parameters("rknn", models, 2, 2, cores, rounds=2))[0])
    missing = {"shared_context", "external_weights", "device_io", "cuda_copied_io", "cuda_device_io"}
    missing |= {"partial_dup", "full_dup", "full_dup_internal_reuse", "lean"} if version == _MINI else set()
    # These are there or not, by the machine.
    uncertain = {"external_dma_heap": _HAS_HEAPS, "external_mmz": _HAS_ZONE}
    missing |= {name for name, has in uncertain.items() if not has or walked.run.failure}
    if scenario in missing:
        kind, phase, _, message = _failure(walked)
        assert (kind, phase) == ("not_supported", "context"), message
        return
    _whole(walked)
    living: dict[str, int] = {}
    for call in walked.calls:
        name, *fields = call.split()
        context = fields[0].rstrip(",")
        if name.startswith("rknn_create_mem"):
            living[context] = living.get(context, 0) + 1
        elif name == "rknn_destroy_mem":
            living[context] -= 1
        elif name == "rknn_destroy":
            assert living.get(context, 0) == 0, f"{context} was destroyed before its memory"


def test_contexts_go_in_reverse_order(full: Double) -> None:
    """A slave before its master, a dup before its source, and memory before its context."""
    shared = Context(0, 1, SHARED_WEIGHTS, 0, zero_copy=(INPUT,))
    walked = _whole(full.walk(_PLAIN, shared, Context(0, 0, DUP, 0)))
    assert walked.names("rknn_destroy", "rknn_destroy_mem") == [
        "rknn_destroy context=3",
        "rknn_destroy_mem context=2",
        "rknn_destroy context=2",
        "rknn_destroy context=1",
    ]


def test_a_shared_internal_memory_goes_last(full: Double) -> None:
    """Every context gives back its own name of the memory first; the memory itself goes with its first context."""
    walked = _whole(full.walk(*[Context(0, model, internal=0, core=0) for model in range(3)]))
    memory, context = "rknn_destroy_mem context={}", "rknn_destroy context={}"
    order = [memory.format(3), context.format(3), memory.format(2), context.format(2)]
    order += [memory.format(1), memory.format(1), context.format(1)]
    assert walked.names("rknn_destroy", "rknn_destroy_mem") == order
    assert walked.values("rknn_destroy_mem", "size") == ["100", "12345", "5000", "12345"]


def test_the_model_is_read_into_memory(full: Double) -> None:
    """rknn_init is given the content and its size, not the path, which librknnrt 1.6.0 would count twice."""
    walked = _whole(full.walk(_PLAIN))
    size = Path(full.models[0].path).stat().st_size
    assert walked.named("rknn_init") == [f"rknn_init size={size} flags=0x0 master=0"]


# Flags and sizes


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
def test_flags_say_who_allocates(
    full: Double, mini: Double, context: Context, full_flags: str, mini_flags: str
) -> None:
    """0x200 for internal memory and 0x10 for weights too; the mini runtime does not heed 0x200 and needs 0x10."""
    for double, flags in ((full, full_flags), (mini, mini_flags)):
        walked = _whole(double.walk(context))
        assert walked.values("rknn_init", "flags") == [flags]
        weights = ["9000"] if flags == "0x10" else []
        assert walked.values("rknn_set_weight_mem", "size") == weights
        internal = [] if flags == "0x0" else ["5000"]
        assert walked.values("rknn_set_internal_mem", "size") == internal


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (Context(0, 0, outside=(WEIGHTS,)), "takes weights and internal tensors outside together"),
        (Context(0, 0, device_io=True), "with zero copy the tensors are the NPU's own memory already"),
        (Context(0, 0, device=CUDA), "on its NPU alone, not on cuda"),
    ],
)
def test_what_the_library_has_no_way_to(full: Double, mini: Double, context: Context, words: str) -> None:
    """It is refused before the library is asked: the mini runtime would run in memory that nobody allocated."""
    for double in (full, mini):
        walked = double.walk(context)
        kind, _, _, message = _failure(walked)
        assert kind == "not_supported"
        assert words in message
        assert walked.named("rknn_init") == []


@pytest.mark.parametrize(
    ("zero_copy", "copied"),
    [((), (True, True)), ((INPUT,), (False, True)), ((OUTPUT,), (True, False)), ((INPUT, OUTPUT), (False, False))],
)
def test_what_is_copied_is_counted(
    full: Double, mini: Double, zero_copy: tuple[str, ...], copied: tuple[bool, bool]
) -> None:
    """The application's buffers, by the library or by us for the mini runtime; nothing of what is in place."""
    for double in (full, mini):
        walked = _whole(double.walk(Context(0, 0, zero_copy=zero_copy)))
        (copies,) = (reading.data.copies for reading in walked.run.barriers if reading.phase == "first_inference")
        assert copies is not None
        assert (copies.input_bytes > 0, copies.output_bytes > 0) == copied


@pytest.mark.parametrize(("internal", "flags"), [(None, "0x20"), (0, "0x220")])
def test_a_slave_names_its_master(full: Double, internal: int | None, flags: str) -> None:
    """0x20 beside who allocates, with the master's handle; its weights are not given a second time."""
    contexts = [Context(0, 0, internal=internal), Context(0, 1, SHARED_WEIGHTS, 0, internal=internal)]
    walked = _whole(full.walk(*contexts))
    assert walked.values("rknn_init", "flags")[1] == flags
    assert walked.values("rknn_init", "master") == ["0", "1"]
    assert walked.named("rknn_set_weight_mem") == []


def test_internal_memory_is_as_large_as_the_largest(full: Double) -> None:
    """One allocation, for the first context; each context is given a name of it with its own size."""
    walked = _whole(full.walk(*[Context(0, model, internal=0, core=0) for model in range(3)]))
    assert walked.named("rknn_create_mem") == ["rknn_create_mem context=1 size=12345"]
    sizes = [internal for _, internal in _SIZES]
    given = [f"context={number} size={size}" for number, size in enumerate(sizes, start=1)]
    assert walked.named("rknn_create_mem_from_fd") == [f"rknn_create_mem_from_fd {each} offset=0" for each in given]
    assert [call.split(" ", 1)[1] for call in walked.named("rknn_set_internal_mem")] == [
        f"{each} flags=1" for each in given
    ]


def test_one_internal_memory_for_dups_of_each_core(full: Double) -> None:
    """A dup gets the memory of its core like any context, and is made with its source's flags."""
    contexts = [
        Context(0, 0, DUP if index else "load", 0 if index else None, index % 2, core=index % 2) for index in range(4)
    ]
    walked = _whole(full.walk(*contexts, cores=2))
    assert walked.values("rknn_init", "flags") == ["0x200"]
    assert walked.values("rknn_dup_context", "source") == ["1"] * 3
    assert walked.named("rknn_create_mem") == [f"rknn_create_mem context={number} size=5000" for number in (1, 2)]
    assert walked.values("rknn_set_internal_mem", "context") == ["1", "3", "2", "4"]


def test_cores_are_masks(full: Double) -> None:
    """Core N is bit N; a context of no core is left to the library, and so is every one where there is one core."""
    bound = [Context(0, 0, core=core) for core in (0, 1, 2)]
    assert _whole(full.walk(*bound, cores=3)).values("rknn_set_core_mask", "mask") == ["1", "2", "4"]
    assert _whole(full.walk(_PLAIN, cores=3)).named("rknn_set_core_mask") == []
    assert _whole(full.walk(bound[0], cores=1)).named("rknn_set_core_mask") == []


# Who gives the memory


def test_memory_by_the_runtimes_own_call(full: Double) -> None:
    """Weights, internal memory, input and output are four allocations of the context, as large as the library says."""
    walked = _whole(full.walk(Context(0, 0, outside=(WEIGHTS, INTERNAL), zero_copy=(INPUT, OUTPUT))))
    assert walked.values("rknn_create_mem", "size") == ["9000", "5000", "360", "320"]
    allocations = walked.run.barriers[2].data.allocations
    assert [(allocation.kind, allocation.asked_bytes) for allocation in allocations] == [
        ("weights", 9000),
        ("internal", 5000),
        ("input", 360),
        ("output", 320),
    ]
    assert len({allocation.inode for allocation in allocations} - {0}) == 4


def test_memory_by_its_physical_address(full: Double) -> None:
    """Each piece is a name by its address for memory that the library made, and goes before it."""
    walked = _whole(full.walk(Context(0, 0, outside=(WEIGHTS, INTERNAL), allocator=PHYSICAL)))
    for name in ("rknn_create_mem", "rknn_create_mem_from_phys"):
        assert walked.values(name, "size") == ["9000", "5000"]
    assert len(walked.named("rknn_destroy_mem")) == 4


@pytest.mark.skipif(_HAS_HEAPS, reason="this machine has dma-heaps")
def test_no_dma_heap(full: Double) -> None:
    """It is not supported, with every heap that was tried and why, and the context does not stay."""
    walked = full.walk(Context(0, 0, outside=(INTERNAL,), allocator=DMA_HEAP))
    kind, phase, context, message = _failure(walked)
    assert (kind, phase, context) == ("not_supported", "context", 0)
    assert message.startswith("no dma-heap gives 5000 bytes (")
    assert "/dev/dma_heap/system: No such file or directory" in message
    assert walked.calls[-1] == _LAST


@pytest.mark.skipif(_HAS_ZONE, reason="this machine has Rockchip's media memory zone")
def test_no_media_memory_zone(full: Double) -> None:
    """Rockchip's MMZ library is named where it is missing."""
    kind, _, _, message = _failure(full.walk(Context(0, 0, outside=(INTERNAL,), allocator=MMZ)))
    assert kind == "not_supported"
    assert message == (
        "Rockchip's MMZ library (libmpimmz.so or librockit.so) is not here: neither in the loader's path nor beside "
        "the runtime's library"
    )


def _with_zone(full: Double, folder: Path, **environment: Any) -> Walked:
    shutil.copy(full.library, folder / "libmpimmz.so")
    context = Context(0, 0, outside=(WEIGHTS, INTERNAL), allocator=MMZ)
    return full.walk(context, LD_LIBRARY_PATH=str(folder), **environment)


def test_memory_by_the_media_memory_zone(full: Double, tmp_path: Path) -> None:
    """Each piece is a block of the zone; the library's name of it goes before the block."""
    walked = _whole(_with_zone(full, tmp_path))
    assert walked.values("RK_MPI_MMZ_Alloc", "size") == ["9000", "5000"]
    assert walked.values("rknn_create_mem_from_fd", "size") == ["9000", "5000"]
    assert walked.names("rknn_destroy_mem", "RK_MPI_MMZ_Free", "rknn_destroy") == [
        "rknn_destroy_mem context=1",
        "RK_MPI_MMZ_Free size=5000",
        "rknn_destroy_mem context=1",
        "RK_MPI_MMZ_Free size=9000",
        "rknn_destroy context=1",
    ]


def test_foreign_memory_has_no_flag_while_it_is_set(full: Double, tmp_path: Path) -> None:
    """librknnrt 1.5.2 and 1.6.0 hang where it has; the flag is back when the struct is to be freed."""
    walked = _whole(_with_zone(full, tmp_path))
    assert walked.values("rknn_set_internal_mem", "flags") == ["0"]
    assert len(walked.named("rknn_destroy_mem")) == 2


def test_a_zone_that_is_full(full: Double, tmp_path: Path) -> None:
    """The call, the size and the code are said."""
    kind, _, _, message = _failure(_with_zone(full, tmp_path, DOUBLE_FAIL="RK_MPI_MMZ_Alloc=-3"))
    assert (kind, message) == ("not_supported", "RK_MPI_MMZ_Alloc of 9000 bytes returned -3")


def test_every_allocator_is_tried_here() -> None:
    """A further one needs a test."""
    assert set(ALLOCATORS) == {CREATE_MEM, PHYSICAL, DMA_HEAP, MMZ}


# Inputs and outputs


@pytest.mark.parametrize(
    ("zero_copy", "in_place"),
    [((), 0), ((INPUT,), 1), ((OUTPUT,), 1), ((INPUT, OUTPUT), 2)],
)
def test_tensors_of_the_full_runtime(full: Double, zero_copy: tuple[str, ...], in_place: int) -> None:
    """What is copied goes through the library's own calls; what is not is bound once, with its stride, and synced."""
    walked = _whole(full.walk(Context(0, 0, zero_copy=zero_copy)))
    runs = len(walked.named("rknn_run"))
    assert len(walked.named("rknn_inputs_set")) == (0 if INPUT in zero_copy else runs)
    assert len(walked.named("rknn_outputs_get")) == (0 if OUTPUT in zero_copy else runs)
    assert len(walked.named("rknn_set_io_mem")) == in_place
    synced = walked.values("rknn_mem_sync", "mode")
    assert synced.count("1") == (1 if INPUT in zero_copy else 0)
    assert synced.count("2") == (runs if OUTPUT in zero_copy else 0)


@pytest.mark.parametrize("zero_copy", [(), (INPUT, OUTPUT)])
def test_tensors_of_the_mini_runtime(mini: Double, zero_copy: tuple[str, ...]) -> None:
    """It has no calls that copy: native tensors are bound, and the adapter copies where the plan says so."""
    walked = _whole(mini.walk(Context(0, 0, zero_copy=zero_copy)))
    assert walked.named("rknn_inputs_set") == walked.named("rknn_outputs_get") == []
    assert walked.values("rknn_set_io_mem", "size") == ["360", "512"]
    assert {"8", "9"} <= set(walked.values("rknn_query", "command"))
    runs = len(walked.named("rknn_run"))
    # An input that is copied is synced before each run, and once when it is made.
    assert walked.values("rknn_mem_sync", "mode").count("1") == (1 if zero_copy else 1 + runs)


def test_internal_memory_before_tensors(mini: Double) -> None:
    """The mini runtime takes no tensors as long as the internal memory is missing; the double holds it to that."""
    walked = _whole(mini.walk(*[Context(0, model, internal=0) for model in range(2)]))
    order = [call.split()[0] for call in walked.calls]
    last_internal = max(at for at, name in enumerate(order) if name == "rknn_set_internal_mem")
    assert last_internal < order.index("rknn_set_io_mem")


@pytest.mark.parametrize("version", [_FULL, _MINI])
def test_outputs_are_the_same_copied_or_in_place(
    rknn_double: Compile, tmp_path: Path, models: tuple[Model, ...], version: str
) -> None:
    """Rows are where the NPU looks for them, which may be further apart than they are long; padding is no output."""
    double = Double(rknn_double(version), tmp_path / "calls", models)
    walks = [_whole(double.walk(Context(0, 0, zero_copy=each))) for each in ((), (INPUT,), (OUTPUT,), (INPUT, OUTPUT))]
    readings = [reading for walked in walks for reading in walked.run.barriers]
    digests = [reading.data.digests for reading in readings if reading.phase == "steady"]
    assert digests == [digests[0]] * 4
    if version == _FULL:
        without_input = zlib.crc32(bytes(300))
        assert digests[0] != (f"{without_input:08x}",)


def test_several_inputs(full: Double) -> None:
    """All inputs of a model go in one call."""
    Path(full.models[0].path).write_text("9000 5000 3 ")
    assert set(_whole(full.walk(_PLAIN)).values("rknn_inputs_set", "count")) == {"3"}
    in_place = _whole(full.walk(Context(0, 0, zero_copy=(INPUT,))))
    assert len(in_place.named("rknn_set_io_mem")) == 3


# Errors


def test_a_code_is_said_with_call_and_name(full: Double) -> None:
    """The sentence has what to search for."""
    walked = full.walk(_PLAIN, DOUBLE_FAIL="rknn_run=-10")
    assert _failure(walked) == ("failed", "first_inference", 0, "rknn_run returned -10 (RKNN_ERR_DEVICE_UNMATCH)")


def test_a_code_without_a_name(full: Double) -> None:
    """A newer library may have further codes."""
    walked = full.walk(_PLAIN, DOUBLE_FAIL="rknn_run=-99")
    assert _failure(walked)[3] == "rknn_run returned -99 (an unknown code)"


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
    """The library returns 0 and prints "E RKNN" where it has failed: the line is the message, without its colours."""
    words = "\x1b[1;31mE RKNN: [10:01:02.345] something is wrong\x1b[0m"
    kind, where, context, message = _failure(full.walk(_PLAIN, DOUBLE_SAY=f"{call}={words}"))
    assert (kind, where, context) == ("failed", phase, 0)
    success = f"{call} returned 0 (RKNN_SUCC, but the library reports an error)"
    assert message == f"{success}: E RKNN: [10:01:02.345] something is wrong"


@pytest.mark.parametrize("words", ["W RKNN: a warning", "I RKNN: E RKNN is not the beginning", "model E RKNN"])
def test_other_lines_are_no_failure(full: Double, words: str) -> None:
    """Warnings and notices are heard in the last words and no more."""
    _whole(full.walk(_PLAIN, DOUBLE_SAY=f"rknn_run={words}"))


def test_an_error_line_with_a_code(full: Double) -> None:
    """Both are said; several lines stand one after the other."""
    walked = full.walk(
        _PLAIN, DOUBLE_FAIL="rknn_init=-6", DOUBLE_SAY="rknn_init=E RKNN: one\nI RKNN: between\nE RKNN: two"
    )
    assert _failure(walked)[3] == "rknn_init returned -6 (RKNN_ERR_MODEL_INVALID): E RKNN: one | E RKNN: two"


@pytest.mark.parametrize("call", ["rknn_create_mem", "rknn_create_mem_from_fd"])
def test_memory_that_is_not_given(full: Double, call: str) -> None:
    """These calls return a pointer and no code; a null pointer is a failure of that call."""
    walked = full.walk(Context(0, 0, internal=0), DOUBLE_FAIL=f"{call}=-4")
    assert _failure(walked) == ("failed", "internal_memory", 0, f"{call} returned -1 (RKNN_ERR_FAIL)")


@pytest.mark.parametrize("leaves", [True, False])
def test_a_failed_init(full: Double, leaves: bool) -> None:
    """What it leaves behind is destroyed; where it leaves nothing, nothing is."""
    environment: dict[str, Any] = {"DOUBLE_LEAVES": "1"} if leaves else {}
    walked = full.walk(_PLAIN, DOUBLE_FAIL="rknn_init=-6", **environment)
    assert _failure(walked)[3] == "rknn_init returned -6 (RKNN_ERR_MODEL_INVALID)"
    assert walked.names("rknn_destroy") == (["rknn_destroy context=1"] if leaves else [])


@pytest.mark.parametrize("call", ["rknn_set_core_mask", "rknn_set_weight_mem", "rknn_set_internal_mem"])
def test_a_context_that_cannot_be_furnished_is_destroyed(full: Double, call: str) -> None:
    """The memory that it has by then goes first."""
    context = Context(0, 0, outside=(WEIGHTS, INTERNAL), core=1)
    walked = full.walk(context, cores=2, DOUBLE_FAIL=f"{call}=-5")
    assert _failure(walked)[3] == f"{call} returned -5 (RKNN_ERR_PARAM_INVALID)"
    assert len(walked.named("rknn_destroy_mem")) == len(walked.named("rknn_create_mem"))
    assert walked.calls[-1] == _LAST


def test_a_file_that_is_no_model(full: Double, tmp_path: Path) -> None:
    """The library's code is all there is to say."""
    (tmp_path / "model-0.rknn").write_text("no model")
    assert _failure(full.walk(_PLAIN))[3] == "rknn_init returned -6 (RKNN_ERR_MODEL_INVALID)"


def test_a_model_that_cannot_be_read(full: Double) -> None:
    """The system's own words name the file."""
    Path(full.models[0].path).unlink()
    kind, phase, _, message = _failure(full.walk(_PLAIN))
    assert (kind, phase) == ("failed", "context")
    assert full.models[0].path in message


# What a library does not have


def test_dup_on_the_mini_runtime_is_not_supported(mini: Double) -> None:
    """It is tried, and the library's own words are the message."""
    walked = mini.walk(_PLAIN, Context(0, 0, DUP, 0))
    kind, phase, context, message = _failure(walked)
    assert (kind, phase, context) == ("not_supported", "context", 1)
    assert message.startswith("rknn_dup_context returned -1 (RKNN_ERR_FAIL): E RKNN: ")
    assert message.endswith("not supported in mini runtime")


def test_dup_that_fails_on_the_full_runtime_has_failed(full: Double) -> None:
    """There the mechanism exists."""
    walked = full.walk(_PLAIN, Context(0, 0, DUP, 0), DOUBLE_FAIL="rknn_dup_context=-1")
    assert _failure(walked)[:3] == ("failed", "context", 1)


@pytest.mark.parametrize(
    ("without", "call", "contexts"),
    [
        ("DUP", "rknn_dup_context", (_PLAIN, Context(0, 0, DUP, 0))),
        ("CORE_MASK", "rknn_set_core_mask", (Context(0, 0, core=1),)),
    ],
)
def test_a_function_that_is_missing_is_not_supported(
    rknn_double: Compile,
    tmp_path: Path,
    models: tuple[Model, ...],
    without: str,
    call: str,
    contexts: Sequence[Context],
) -> None:
    """An old library has not all of the API; the function is named."""
    walked = Double(rknn_double(_FULL, without), tmp_path / "calls", models).walk(*contexts, cores=2)
    kind, phase, _, message = _failure(walked)
    assert (kind, phase, message) == ("not_supported", "context", f"this library has no {call}")


def test_a_library_that_syncs_by_itself(rknn_double: Compile, tmp_path: Path, models: tuple[Model, ...]) -> None:
    """Before 1.6.0 there is no rknn_mem_sync, and no need of it."""
    double = Double(rknn_double(_FULL, "MEM_SYNC"), tmp_path / "calls", models)
    _whole(double.walk(Context(0, 0, zero_copy=(INPUT, OUTPUT))))


def test_a_shared_context_is_not_supported(full: Double) -> None:
    """Two threads may not run one context: the sentence says what to use."""
    kind, phase, context, message = _failure(full.walk(_PLAIN, Context(0, 0, "shared_context", 0)))
    assert (kind, phase, context) == ("not_supported", "context", 1)
    assert "a further thread needs a dup" in message


# The library and what it says


def test_versions_and_the_account_are_the_librarys(full: Double) -> None:
    """Runtime and driver as the library says them, and its own sizes of each context."""
    walked = _whole(full.walk(_PLAIN))
    imported, made = (reading.data for reading in walked.run.barriers[:2])
    assert (imported.runtime_version, imported.driver_version) == ("1.6.0 (double)", None)
    assert (made.runtime_version, made.driver_version) == ("1.6.0 (double)", "0.9.8")
    assert made.account == {"weights_bytes": 9000, "internal_bytes": 5000, "dma_bytes": 14000}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory. Give librknnrt.so or librknnmrt.so"),
        (b"text", ". Give librknnrt.so or librknnmrt.so"),
        (b"\x7fELF" + bytes(14) + b"\x28\x00" + b"librknnrt version: 1.6.0", "cannot be loaded here: "),
    ],
)
def test_a_library_that_cannot_be_used(full: Double, tmp_path: Path, content: bytes | None, words: str) -> None:
    """Missing, foreign, or of another machine: it is said before anything is made."""
    full.library = tmp_path / "library.so"
    if content is not None:
        full.library.write_bytes(content)
    kind, phase, _, message = _failure(full.walk(_PLAIN))
    assert (kind, phase) == ("failed", "imported")
    assert str(full.library) in message
    assert words in message


_NO_LIBRARY = """
from runtimes.rknn import library
library._FOLDERS = ()
from runtimes.base import AdapterError
from runtimes.rknn.adapter import open_runtime
try:
    open_runtime()
except AdapterError as error:
    print(error)
"""


def test_no_library_at_all() -> None:
    """The option and the variable are named."""
    done = subprocess.run(
        [sys.executable, "-c", _NO_LIBRARY], cwd=CHECKOUT, capture_output=True, text=True, check=True, env={}
    )
    for words in ("no librknnrt.so or librknnmrt.so", "--rknn-library FILE", f"{LIBRARY_VARIABLE}=FILE"):
        assert words in done.stdout


_CATCH = """
import json, sys
from runtimes.base import AdapterError
from runtimes.rknn.binding import Binding
binding = Binding(sys.argv[1])
context = binding.init(bytearray(b"9000 5000 1 "), 0, None)
found = []
for _ in range(2):
    try:
        binding.run(context)
    except AdapterError as error:
        found.append([error.message.code, error.message.values])
binding.destroy(context)
print(json.dumps(found))
"""


_FAILED_RUN = ["rknn_call_failed", {"call": "rknn_run", "code": -7, "name": "RKNN_ERR_CTX_INVALID"}]


def _caught(library: Path, stderr: Any, **environment: str) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-c", _CATCH, str(library)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        check=True,
        env=environment,
    )
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_an_error_carries_its_parts(rknn_double: Compile, tmp_path: Path) -> None:
    """The call, its return code and the code's name; each line belongs to one call alone."""
    with (tmp_path / "stderr").open("w+") as stderr:
        found = _caught(rknn_double(_FULL), stderr, DOUBLE_FAIL="rknn_run=-7")
    assert found == [_FAILED_RUN] * 2


def test_standard_error_that_is_no_file(rknn_double: Compile) -> None:
    """Run by hand, on a terminal or a pipe, lines cannot be looked up: codes still count."""
    found = _caught(rknn_double(_FULL), subprocess.PIPE, DOUBLE_FAIL="rknn_run=-7", DOUBLE_SAY="rknn_run=E RKNN: no")
    assert found == [_FAILED_RUN] * 2
