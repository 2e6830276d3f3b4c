"""What an inference copies between the application's tensors and those of the runtime, and what a baseline more."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from reports.results.rows import Row


@dataclass(frozen=True)
class Copied:
    """Bytes that one inference of one context copies: the mean over the contexts, whose models may differ."""

    input_bytes: float
    output_bytes: float

    @property
    def total_bytes(self) -> float:
        """Input and output together."""
        return self.input_bytes + self.output_bytes


def copied(row: Row) -> Copied | None:
    """Return what was counted; None where the configuration was not measured, or before copies were counted."""
    contexts = row.info.copies if row.measured else None
    if not contexts:
        return None
    return Copied(
        statistics.fmean(copies.input_bytes for copies in contexts),
        statistics.fmean(copies.output_bytes for copies in contexts),
    )


def avoided_bytes(row: Row) -> float | None:
    """Return what an inference of the baseline copies more; None where either was not counted."""
    own, baseline = copied(row), copied(row.baseline) if row.baseline else None
    return baseline.total_bytes - own.total_bytes if own and baseline else None
