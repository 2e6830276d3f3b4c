"""The steady state of language models: rounds in which every context holds one turn."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Sequence

from reusebench.measured.plan import SEQUENCE, SHARED_PROMPT, Plan
from reusebench.measured.runtimes.base import Runtime, RuntimeContext, Turn
from reusebench.measured.schedule import Worker, run_on_all

__all__ = ["hold_conversations"]


def hold_conversations(
    plan: Plan, runtime: Runtime, contexts: Sequence[RuntimeContext], worker: Worker
) -> Dict[str, Any]:
    """Run the rounds of a plan on one thread, and return the data of the steady phase.

    Contexts take turns, each with all threads of the runtime; a context and the sequences over it
    are one inference. The latency of a turn is that of its inference.
    """
    groups = _groups(plan)
    latencies: List[List[int]] = [[] for _ in contexts]
    turns: List[List[Turn]] = [[] for _ in contexts]

    def run() -> None:
        for _ in range(plan.rounds):
            for group in groups:
                started = time.perf_counter_ns()
                runtime.infer_together([contexts[index] for index in group])
                latency_ns = time.perf_counter_ns() - started
                for index in group:
                    latencies[index].append(latency_ns)
                    turn = contexts[index].turn()
                    assert turn is not None  # an inference of a language model has one
                    turns[index].append(turn)

    started = time.monotonic_ns()
    run_on_all([worker], [run])
    elapsed_ns = time.monotonic_ns() - started
    return {
        "elapsed_ns": elapsed_ns,
        "latencies_ns": latencies,
        "digests": [f"{context.checksum():08x}" for context in contexts],
        "turns": turns,
    }


def _groups(plan: Plan) -> List[List[int]]:
    """Return the contexts of each inference: a context and the sequences over it."""
    groups = []
    for index, context in enumerate(plan.contexts):
        if context.mechanism not in (SEQUENCE, SHARED_PROMPT):
            groups.append([index, *plan.sequences_over(index)])
    return groups
