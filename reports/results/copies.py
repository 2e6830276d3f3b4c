"""Copies of input and output that one inference makes."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from reusebench.reports.results.rows import Row


@dataclass(frozen=True)
class Copied:
    """Bytes that one inference copies; the mean over contexts, whose models may differ."""

    input_bytes: float
    output_bytes: float

    @property
    def total_bytes(self) -> float:
        """Bytes of input and output together."""
        return self.input_bytes + self.output_bytes


def copied(row: Row) -> Copied | None:
    """Return the copies of a configuration; None if they were not counted."""
    contexts = row.info.copies if row.measured else None
    if not contexts:
        return None
    return Copied(
        statistics.fmean(copies.input_bytes for copies in contexts),
        statistics.fmean(copies.output_bytes for copies in contexts),
    )


def avoided_bytes(row: Row) -> float | None:
    """Return the additional bytes that the baseline copies; None if either was not counted."""
    own = copied(row)
    baseline = copied(row.baseline) if row.baseline else None
    if own is None or baseline is None:
        return None
    return baseline.total_bytes - own.total_bytes
