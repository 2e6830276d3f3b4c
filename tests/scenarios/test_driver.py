"""The driver on a scripted runtime: what reaches the runtime of a plan, and who infers at the same time as whom."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from scenarios.plan import (
    CUDA,
    DMA_HEAP,
    DUP,
    INPUT,
    INTERNAL,
    OUTPUT,
    SHARED_CONTEXT,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Model,
    Plan,
    Step,
)
from targets.base import THIS_INTERPRETER
from targets.measured_process import Run
from tests.support import make_plan, walk

_ROUNDS = 10


class Told:
    """A walk of these contexts, and what the scripted runtime wrote down during it."""

    def __init__(self, folder: Path, *contexts: Context, cores: int = 2, script: str = "") -> None:
        path = folder / "told"
        models = tuple(Model(f"model-{index}", f"told={path};{script};{index}", str(index)) for index in range(2))
        self.models = models
        self.run = walk(Plan("mine", None, "scripted", models, contexts, cores, _ROUNDS))
        assert self.run.failure is None, self.run.failure
        self._lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]

    def operations(self) -> list[dict[str, Any]]:
        """Return what was asked for of contexts and internal memories, in order."""
        return [line for line in self._lines if "operation" in line]

    def most_at_once(self) -> int:
        """Return how many contexts were in an inference at most."""
        return 1 + max(len(line["inside"]) for line in self._lines if "inside" in line)

    def at_once(self) -> set[tuple[int, int]]:
        """Return the pairs of contexts of which one began an inference while the other was in one."""
        met = ((line["context"], other) for line in self._lines if "inside" in line for other in line["inside"])
        return {(min(pair), max(pair)) for pair in met}


def _data(run: Run, phase: str) -> list[dict[str, Any]]:
    return [each["data"] for each in run.phases if each["phase"] == phase]


def test_each_context_is_asked_for_with_its_memory(tmp_path: Path) -> None:
    """What the plan says of memory reaches the runtime, whichever way the context is made."""
    told = Told(
        tmp_path,
        Context(0, 0, outside=(WEIGHTS, INTERNAL), allocator=DMA_HEAP, zero_copy=(INPUT,), core=0),
        Context(0, 0, DUP, 0, internal=4, zero_copy=(INPUT, OUTPUT), core=1),
        Context(0, 1, SHARED_WEIGHTS, 0, internal=4, device_io=True, device=CUDA, core=1),
    )
    nothing: dict[str, Any] = {"internal": None, "outside": [], "allocator": "create_mem", "zero_copy": []}
    plain = {**nothing, "device_io": False, "device": None, "core": None}
    first, dup, slave, _ = told.operations()
    outside = {"outside": ["weights", "internal"], "allocator": "dma_heap", "zero_copy": ["input"], "core": 0}
    assert first["memory"] == {**plain, **outside}
    assert dup["memory"] == {**plain, "internal": 4, "zero_copy": ["input", "output"], "core": 1}
    assert slave["memory"] == {**plain, "internal": 4, "device_io": True, "device": "cuda", "core": 1}
    assert [each["operation"] for each in (first, dup, slave)] == ["load", "dup", "share_weights"]
    assert [each["source"] for each in (first, dup, slave)] == [None, 0, 0]


def test_a_plan_that_says_nothing_of_memory_leaves_it_to_the_runtime(tmp_path: Path) -> None:
    """Then the runtime allocates everything, copies tensors and chooses the core."""
    told = Told(tmp_path, Context(0, 0), Context(0, 0, SHARED_CONTEXT, 0))
    load, shared = told.operations()
    assert {key: value for key, value in load["memory"].items() if value} == {"allocator": "create_mem"}
    assert (shared["operation"], shared["source"]) == ("shared_context", 0)


def test_where_there_is_one_core_none_is_chosen(tmp_path: Path) -> None:
    """A chip with one core has no mask to set: the plan's core is then the schedule's concern alone."""
    told = Told(tmp_path, Context(0, 0, core=0), Context(0, 1, core=0), cores=1)
    assert [each["memory"]["core"] for each in told.operations()] == [None, None]


def test_a_context_over_foreign_weights_is_made_from_the_weightless_model(tmp_path: Path) -> None:
    """Where there is one; where there is none, from what was prepared of it, or from the model itself."""
    path = tmp_path / "told"
    script = f"told={path}"
    models = (Model("a", script, "a", weightless=f"{script};never"), Model("b", script, "b", weightless=f"{script};wl"))
    contexts = (Context(0, 0), Context(0, 1, SHARED_WEIGHTS, 0))
    prepared = Model("d", f"{script};never", "d", prepared=f"{script};prepared")
    for second in (models[1], Model("c", f"{script};whole", "c"), prepared):
        assert walk(Plan("mine", None, "scripted", (models[0], second), contexts, 1, 1)).failure is None
    asked = [json.loads(line) for line in path.read_text().splitlines()]
    assert [each["model"] for each in asked if each.get("operation") == "share_weights"] == [
        f"{script};wl",
        f"{script};whole",
        f"{script};prepared",
    ]
    assert [each["model"] for each in asked if each.get("operation") == "load"] == [script] * 3


def test_internal_memory_is_shared_by_its_group(tmp_path: Path) -> None:
    """Once all contexts are made each memory is asked for once, with its contexts in order and no others."""
    told = Told(
        tmp_path,
        Context(0, 0, internal=5, core=0),
        Context(0, 0, internal=2, core=1),
        Context(0, 0, DUP, 0, internal=5, core=0),
        Context(0, 0, core=1),
    )
    operations = told.operations()
    assert [each["operation"] for each in operations] == ["load", "load", "dup", "load", *["share_internal"] * 2]
    assert [each["contexts"] for each in operations[4:]] == [[0, 2], [1]]
    steps = [Step(each["phase"], each["context"]) for each in told.run.phases]
    assert steps[5:7] == [Step("internal_memory", 0), Step("internal_memory", 1)]


def test_contexts_of_one_core_run_in_turn(tmp_path: Path) -> None:
    """However many threads there are, of the contexts of one core never two infer at the same time."""
    cores = (0, 1, 0, 1, 0)
    told = Told(tmp_path, *(Context(0, 0, internal=core, core=core) for core in cores))
    same = {pair for pair in itertools.combinations(range(5), 2) if cores[pair[0]] == cores[pair[1]]}
    assert told.at_once() & same == set()


def test_contexts_of_two_cores_run_at_once(tmp_path: Path) -> None:
    """A context of core 0 and one of core 1 meet inside their first timed inference: neither waits for the other."""
    contexts = [Context(0, 0, core=core) for core in (0, 0, 1)]
    told = Told(tmp_path, *contexts, script="meet@infer1;meet@infer2")
    assert (1, 2) in told.at_once()
    assert (0, 1) not in told.at_once()


def test_contexts_of_no_core_take_any(tmp_path: Path) -> None:
    """Unbound contexts run at once as far as there are cores, and never one more."""
    told = Told(tmp_path, *[Context(0, 0)] * 4, cores=2, script="meet@infer0;meet@infer3")
    assert (0, 3) in told.at_once()
    assert told.most_at_once() == 2


def test_on_one_core_nothing_runs_at_once(tmp_path: Path) -> None:
    """Bound or not."""
    for folder, core in (("bound", 0), ("free", None)):
        (tmp_path / folder).mkdir()
        assert Told(tmp_path / folder, *[Context(0, 0, core=core)] * 3, cores=1).at_once() == set()


def test_allocations_of_the_adapter_are_told(tmp_path: Path) -> None:
    """What is allocated in the application's place arrives with its kind, size and inode, step by step."""
    script = "create-1-5000-weights@load0;create-2-900-internal@share_internal0;create-3-70-input@infer1"
    told = Told(tmp_path, *[Context(0, 0, internal=0, core=0)] * 2, script=script)
    weights = {"kind": "weights", "asked_bytes": 5000, "inode": 1001}
    internal = {"kind": "internal", "asked_bytes": 900, "inode": 1002}
    made = _data(told.run, "context")
    assert [each["allocations"] for each in made] == [[weights], []]
    (given,) = _data(told.run, "internal_memory")
    assert given == {"allocations": [weights, internal]}
    assert [each["allocations"] for each in _data(told.run, "first_inference")] == [[weights, internal], []]


@pytest.mark.parametrize("script", ["driver=0.9.8", ""])
def test_versions_are_told_as_soon_as_they_are_known(tmp_path: Path, script: str) -> None:
    """The library knows the driver under it only once there is a context."""
    told = Told(tmp_path, Context(0, 0), script=script)
    (imported,), (made,) = _data(told.run, "imported"), _data(told.run, "context")
    assert (imported["runtime_version"], imported["driver_version"]) == ("1.2.3", None)
    assert (made["runtime_version"], made["driver_version"]) == ("1.2.3", "0.9.8" if script else None)


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ("raise@share_internal0", ("internal_memory", 0)),
        ("not_supported@share_internal0", ("internal_memory", 0)),
        ("abort@dup0", ("context", 1)),
    ],
)
def test_a_failure_while_memory_is_given_has_its_place(script: str, place: tuple[str, int]) -> None:
    """The step is named with the first context of the internal memory."""
    failure = walk(make_plan("full_dup_internal_reuse", script)).failure
    assert failure is not None
    assert (failure.phase, failure.context) == place


def test_resolutions_that_cannot_share_are_not_supported() -> None:
    """A runtime without the mechanism is told apart from one that failed."""
    failure = walk(make_plan("shared_weights", *["not_supported@share_weights0"] * 2)).failure
    assert failure is not None
    assert (failure.kind, failure.phase, failure.context) == ("not_supported", "context", 1)


def test_a_long_text_of_the_runtime_is_cut() -> None:
    """What is no adapter's error has its type and its text, as far as a message goes."""
    run = walk(make_plan("no_reuse", "absent" * 1000, runtime="onnxruntime"), THIS_INTERPRETER)
    assert run.failure is not None
    assert run.failure.message.code == "exception"
    assert set(run.failure.message.values) == {"type", "text"}
    assert len(str(run.failure.message.values["text"])) == 2000
