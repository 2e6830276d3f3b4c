"""Limits of the commands' time and memory, for storages of the size that each limit is for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.report_scale.costs import Cost

__all__ = ["LIMITS", "Limit", "verdicts"]

_GIB = 2**30


@dataclass(frozen=True)
class Limit:
    """The most that a command may take."""

    results: int
    command: str
    elapsed_s: float
    pss_bytes: float | None = None

    def verdict(self, costs: Sequence[Cost]) -> tuple[bool, str]:
        """Return whether the medians of the costs are within the limit, and a line on that."""
        elapsed_s = median(cost.elapsed_s for cost in costs)
        cpu_s = median(cost.cpu_s for cost in costs)
        pss_bytes = max(cost.pss_bytes for cost in costs)
        is_kept = elapsed_s <= self.elapsed_s
        words = f"{elapsed_s:.2f} s of {self.elapsed_s:g} s (CPU {cpu_s:.2f} s)"
        if self.pss_bytes is not None:
            is_kept = is_kept and pss_bytes <= self.pss_bytes
            words += f", {pss_bytes / _GIB:.2f} GiB of {self.pss_bytes / _GIB:g} GiB"
        outcome = "pass" if is_kept else "FAIL"
        return is_kept, f"{outcome} {self.command}, {costs[0].results:,} results: {words}"


LIMITS = (
    Limit(20_000, "list", 0.5),
    Limit(20_000, "export csv", 0.5),
    Limit(20_000, "compare", 1.5),
    Limit(20_000, "history", 8),
    Limit(20_000, "report", 10, 0.6 * _GIB),
    Limit(1_000_000, "list", 2, 1.5 * _GIB),
    Limit(1_000_000, "compare", 3, 1.5 * _GIB),
    Limit(1_000_000, "history of a board", 5, 1.5 * _GIB),
    Limit(1_000_000, "history", 60, 1.5 * _GIB),
)


def verdicts(costs: Iterable[Cost]) -> Iterator[tuple[bool, str]]:
    """Yield the verdict of each limit that is for a measured storage."""
    measured: dict[tuple[str, int], list[Cost]] = {}
    for cost in costs:
        measured.setdefault((cost.command, cost.results), []).append(cost)
    for limit in LIMITS:
        for (command, results), members in measured.items():
            # Runs are whole, so that a storage has somewhat more results than asked for.
            if command == limit.command and limit.results <= results <= 1.05 * limit.results:
                yield limit.verdict(members)
