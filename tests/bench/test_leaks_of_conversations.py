"""Leaks of conversations are found and sized; without leaks nothing is told."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from reusebench.measured.plan import Conversation, Plan
from reusebench.measured.runtimes import available, find_runtime
from reusebench.models.language import LanguageRecipe, ensure_language
from reusebench.models.language.shapes import find_shape
from reusebench.reports.results.drift import Drift, drift_of
from reusebench.reports.results.leak_limits import DEFAULT_LEAK_LIMITS
from reusebench.scenarios.catalogue import Parameters, find_scenario, scenarios_of, suits
from reusebench.targets.target import Target
from tests.helpers.support import CHECKOUT, models_of, walk

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not available(find_runtime("llama_cpp")), reason="llama-cpp-python is not installed"
    ),
]

_CONVERSATION = Conversation(tokens=256, prompt=24, generated=4)
_TOKEN_BYTES = find_shape("tiny_decoder").kv_bytes_per_token()
_CYCLES = 10
_TURNS = 3


def _plan(scenario: str) -> Plan:
    (path,) = ensure_language(".gguf", [LanguageRecipe("tiny_decoder")])
    parameters = Parameters(
        *("llama_cpp", models_of(path), 1, 2, 1),
        rounds=1,
        cycles=_CYCLES,
        cycle_inferences=_TURNS,
        conversation=_CONVERSATION,
    )
    (plan,) = find_scenario(scenario).plans(parameters)
    # Threads that wait for each other take long on a machine that does other work.
    contexts = [
        replace(context, options=("n_threads=1",) if context.source is None else ())
        for context in plan.contexts
    ]
    return replace(plan, contexts=tuple(contexts))


def _heap(scenario: str, leak: str) -> Drift:
    """Return the drift of the heap, per turn or per cycle."""
    command = (sys.executable, "-m", "tests.helpers.leaking_llama", leak)
    run = walk(_plan(scenario), Target("leaking", command, folder=CHECKOUT))
    assert run.failure is None, run.failure
    phases = [barrier.phase for barrier in run.barriers]
    usages = [barrier.data.usage for barrier in run.barriers[phases.index("cycle") - 1 :]]
    readings = [usage.heap_bytes or 0 for usage in usages[: _CYCLES + 1] if usage]
    limits = DEFAULT_LEAK_LIMITS
    if scenario == "cycles_inferences":
        return drift_of("heap", readings, _TURNS, limits.turns_per_day, limits.bytes_per_day)
    return drift_of("heap", readings, 1, limits.cycles_per_day, limits.bytes_per_day)


_SCENARIOS = [name for name in scenarios_of("leaks") if suits(name, has_conversations=True)]


@pytest.mark.parametrize("scenario", _SCENARIOS)
def test_nothing_leaks(scenario: str) -> None:
    """Models, contexts and sequences come and go, and turns are held: the heap stays as it is."""
    assert _heap(scenario, "nothing").verdict != "growing"


def test_contexts_that_are_not_freed() -> None:
    """Each cycle leaks a context: its cache of keys and values, and more."""
    heap = _heap("cycles_dups", "contexts")
    assert heap.verdict == "growing"
    assert heap.trend
    assert heap.trend.low > _CONVERSATION.tokens * _TOKEN_BYTES


def test_states_that_are_kept() -> None:
    """Each turn leaks the state of its conversation, which is told by the turn."""
    heap = _heap("cycles_inferences", "turns")
    assert heap.verdict == "growing"
    assert heap.trend
    # A turn of cycles fills its context, but for the last token, which is not computed.
    tokens = _CONVERSATION.tokens - 1
    assert heap.trend.slope == pytest.approx(tokens * _TOKEN_BYTES, rel=0.1)
