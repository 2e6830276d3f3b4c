"""The limit of contexts, from one process that made contexts until one failed."""

from __future__ import annotations

from reusebench.accounting.domains import domain_uses
from reusebench.accounting.ledger import Ledger
from reusebench.harness.measuring.repeat_figures import application_memory, counted_by
from reusebench.measured.plan import Plan, Step
from reusebench.storage.result import ContextLimit
from reusebench.targets.measured_process import MeasuredRun

__all__ = ["limit_of"]


def limit_of(plan: Plan, run: MeasuredRun, ledger: Ledger | None) -> ContextLimit | None:
    """Return the limit; None if the plan does not fill, or the run does not tell the limit.

    A run tells the limit even if the process crashed, hung or was killed over one more context.
    """
    if not plan.fills:
        return None
    end = run.failure
    is_fatal = end is not None and plan.may_be_full_at(Step(end.phase, end.context))
    if end is not None:
        if end.kind == "not_supported" or not end.is_of_runtime:
            return None
        if run.full is None and not is_fatal:
            return None

    inferences = [barrier for barrier in run.barriers if barrier.phase == "first_inference"]
    contexts = len(inferences)
    first = inferences[0]
    last = inferences[-1]
    failure = run.full
    afterwards = end
    if is_fatal:
        failure = failure or end
        afterwards = None
    left_bytes = None
    if end is None:
        left_bytes = run.barriers[-1].npu_held_bytes
    return ContextLimit(
        contexts=contexts,
        bound=len(plan.contexts),
        failure=failure,
        survived=not is_fatal,
        afterwards=afterwards,
        npu_memory_bytes=last.npu_held_bytes,
        further_npu_bytes=_per_context(first.npu_held_bytes, last.npu_held_bytes, contexts),
        npu_after_failure_bytes=_held_when_steady(run),
        npu_left_bytes=left_bytes,
        domains=tuple(domain_uses(run.barriers, ledger)) if ledger else (),
        application_memory_bytes=application_memory(last, counted_by(run.barriers)),
        system_available_bytes=last.system.available_bytes,
        fd_count=last.process.fd_count,
        further_fds=_per_context(first.process.fd_count, last.process.fd_count, contexts),
        fd_limit=last.process.fd_limit,
    )


def _held_when_steady(run: MeasuredRun) -> int | None:
    """Return the NPU memory when the other contexts ran again; None if they did not."""
    for barrier in run.barriers:
        if barrier.phase == "steady":
            return barrier.npu_held_bytes
    return None


def _per_context(first: int | None, last: int | None, contexts: int) -> float | None:
    """Return the mean growth by each context after the first."""
    if first is None or last is None or contexts < 2:
        return None
    return (last - first) / (contexts - 1)
