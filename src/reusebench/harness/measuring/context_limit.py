"""How many contexts fitted: the figures of one process that made contexts until one failed."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.accounting.domains import domain_uses
from reusebench.accounting.ledger import Ledger
from reusebench.measured.plan import Plan, Step
from reusebench.storage.result import ContextLimit
from reusebench.targets.measured_process import MeasuredRun

__all__ = ["limit_of"]


def limit_of(plan: Plan, run: MeasuredRun, ledger: Ledger | None) -> ContextLimit | None:
    """Return the limit; None if the plan does not fill, or the process failed otherwise than by
    one context more.

    A process that crashed, hung or was killed over a further context has told the limit too.
    """
    end = run.failure
    dies_of_it = end is not None and plan.may_be_full_at(Step(end.phase, end.context))
    if not plan.fills or (
        end is not None and (end.kind == "not_supported" or not (run.full or dies_of_it))
    ):
        return None
    ran = [barrier for barrier in run.barriers if barrier.phase == "first_inference"]
    first = ran[0]
    last = ran[-1]
    steady = next((barrier for barrier in run.barriers if barrier.phase == "steady"), None)
    end_of_all = run.barriers[-1] if end is None else None
    memory = [barrier.npu_held_bytes for barrier in (first, last)]
    return ContextLimit(
        contexts=len(ran),
        bound=len(plan.contexts),
        failure=run.full or (end if dies_of_it else None),
        survived=not dies_of_it,
        afterwards=None if dies_of_it else end,
        npu_memory_bytes=memory[1],
        further_npu_bytes=_per_context(memory, len(ran)),
        npu_after_failure_bytes=steady.npu_held_bytes if steady else None,
        npu_left_bytes=end_of_all.npu_held_bytes if end_of_all else None,
        domains=tuple(domain_uses(run.barriers, ledger)) if ledger else (),
        application_memory_bytes=last.process.pss_bytes,
        system_available_bytes=last.system.available_bytes,
        fd_count=last.process.fd_count,
        further_fds=_per_context([first.process.fd_count, last.process.fd_count], len(ran)),
        fd_limit=last.process.fd_limit,
    )


def _per_context(ends: Sequence[int | None], contexts: int) -> float | None:
    """Return the mean that a context after the first added, by what there was with the first and
    with all.
    """
    first, last = ends
    return (
        None if first is None or last is None or contexts < 2 else (last - first) / (contexts - 1)
    )
