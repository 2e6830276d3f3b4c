"""Processes that add contexts until one fails, and the contexts that fit."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan, Step
from reusebench.samplers.readings import Reading, SystemMemory
from reusebench.scenarios.catalogue import Parameters, find_scenario
from reusebench.targets.measured_process import MeasuredRun
from tests.helpers.support import CHECKOUT, StubObserver, known, models_of, walk

pytestmark = pytest.mark.process


def _plan(script: str, scenario: str = "limit_no_reuse", most: int = 6, cores: int = 2) -> Plan:
    parameters = Parameters(
        "scripted", models_of(script), 1, 1, cores, rounds=3, most_contexts=most
    )
    return find_scenario(scenario).plans(parameters)[0]


def _steps(run: MeasuredRun) -> list[Step]:
    """Return the steps of the barriers, without the barrier of the trimmed heap."""
    return [
        Step(barrier.phase, barrier.context)
        for barrier in run.barriers
        if barrier.phase != "trimmed"
    ]


def _made(contexts: int) -> list[Step]:
    """Return the steps that make and run `contexts` contexts."""
    steps = [Step("imported")]
    for index in range(contexts):
        steps += [Step("context", index), Step("first_inference", index)]
    return steps


def _gone(contexts: int) -> list[Step]:
    """Return the steps in which `contexts` contexts run once more and go."""
    return [Step("steady"), *(Step("destroy", index) for index in reversed(range(contexts)))]


def test_threads_of_many_contexts_have_small_stacks() -> None:
    """Otherwise stacks have their usual size, and 300 of 8 MiB use up a 32-bit address space."""
    script = """if True:
        import threading
        from reusebench.measured.driver import Walk
        from reusebench.measured.plan import Context, Model, Plan
        for fills in (False, True):
            models = (Model("m", "m", "0"),)
            plan = Plan("mine", None, "rknn", models, (Context(None, 0),), 1, 1, fills=fills)
            Walk(plan, None, None)
            print(threading.stack_size())
    """
    done = subprocess.run(
        (sys.executable, "-c", script), capture_output=True, text=True, check=True, cwd=CHECKOUT
    )
    usual, small = map(int, done.stdout.split())
    assert (usual, small) == (0, 1 << 20)


def test_all_fit() -> None:
    """If none fails, the plan is walked to its end."""
    run = walk(_plan("plain", most=3))
    assert (run.failure, run.full) == (None, None)
    assert _steps(run) == _made(3) + _gone(3)


@pytest.mark.parametrize("word", ["raise", "memory"])
def test_a_context_that_is_not_made(word: str) -> None:
    """Memory is read then; the others run once more and go, and the process ends."""
    run = walk(_plan(f"{word}@load3"))
    assert run.failure is None
    assert (known(run.full).kind, known(run.full).phase, known(run.full).context) == (
        {"raise": "failed", "memory": "out_of_memory"}[word],
        "context",
        3,
    )
    assert known(run.full).message.code == "exception"
    assert _steps(run) == [*_made(3), Step("full", 3), *_gone(3)]
    (steady,) = (barrier.data for barrier in run.barriers if barrier.phase == "steady")
    assert len(steady.latencies_ns) == len(steady.digests) == 3


def test_a_context_that_does_not_run() -> None:
    """It was made, so it is destroyed before the others run again."""
    run = walk(_plan("raise@infer2"))
    assert (run.failure, known(run.full).phase) == (None, "first_inference")
    assert _steps(run) == [
        *_made(2),
        Step("context", 2),
        Step("full", 2),
        Step("destroy", 2),
        *_gone(2),
    ]


def test_further_contexts_join_the_internal_memory_of_their_core(tmp_path: Path) -> None:
    """The first context of a core gets it; a failure there also is a limit."""
    calls = tmp_path / "calls"
    run = walk(_plan(f"calls={calls};raise@join_internal2", "limit_internal_reuse"))
    assert (run.failure, known(run.full).phase, known(run.full).context) == (
        None,
        "internal_memory",
        4,
    )
    lines = [json.loads(line) for line in calls.read_text().splitlines()]
    internal = [
        (line["operation"], line["contexts"])
        for line in lines
        if "internal" in line.get("operation", "")
    ]
    assert internal == [
        ("share_internal", [0]),
        ("share_internal", [1]),
        *(("join_internal", [index, index - 2]) for index in (2, 3)),
        ("join_internal", [4, 0]),
    ]


@pytest.mark.parametrize(
    ("script", "kind", "step"),
    [
        ("abort@load2", "crashed", Step("context", 2)),
        ("abort@infer2", "crashed", Step("first_inference", 2)),
        ("raise@load0", "failed", Step("context", 0)),
        ("not_supported@load1", "not_supported", Step("context", 1)),
    ],
)
def test_a_process_that_does_not_go_on(script: str, kind: str, step: Step) -> None:
    """A crash, a failing first context and a missing mechanism are failures as in other plans."""
    run = walk(_plan(script))
    failure = known(run.failure)
    assert (failure.kind, Step(failure.phase, failure.context), run.full) == (kind, step, None)


def test_the_others_fail_then() -> None:
    """Both failures are reported: of the additional context, and of the contexts that did fit."""
    run = walk(_plan("raise@load2;raise@destroy0"))
    assert (known(run.full).context, known(run.failure).phase, known(run.failure).context) == (
        2,
        "destroy",
        1,
    )


class _ScarceMemory(StubObserver):
    """An observer that reads less and less available memory of the system."""

    def snapshot(self) -> Reading:
        """Return a reading; from the seventh on less than a tenth is available."""
        reading = super().snapshot()
        available = 100 if len(self.answers) < 7 else 9
        return Reading(
            reading.process, SystemMemory(100, available, available, 0, 0, 0, 0, None, None)
        )


def test_the_systems_memory_is_not_filled() -> None:
    """No more contexts are added if little is available after one has run: not a failure."""
    run = walk(_plan("plain"), observer=_ScarceMemory())
    assert (run.failure, run.full) == (None, None)
    assert _steps(run) == _made(3) + _gone(3)
    # Other plans are walked in any case.
    plan = replace(_plan("plain", most=4), fills=False)
    assert _steps(walk(plan, observer=_ScarceMemory())) == list(plan.steps())


def test_words_of_the_failure() -> None:
    """Output of the runtime up to that point belongs to the failure."""
    run = walk(_plan("print@load1;raise@load1"))
    full = known(run.full)
    assert "printed by the runtime" in full.last_words
    assert full.message == Message(
        "exception", {"type": "RuntimeError", "text": "the script says so"}
    )
