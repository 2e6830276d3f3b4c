"""What a configuration costs in speed: its rate beside that of its baseline, and whether a
difference is measurable.
"""

from __future__ import annotations

from dataclasses import dataclass

from reusebench.reports.base.statistics import Figure
from reusebench.reports.results.rows import Row

#: What a change of speed may be; a difference that is not larger than its spread is none.
SLOWER = "slower"
AS_FAST = "as_fast"
FASTER = "faster"
#: Why it is not judged: a single repeat has no spread; the machine was busy with other work.
ONE_REPEAT = "repeat_measurement"
DISTURBED = "disturbed"


@dataclass(frozen=True)
class SpeedChange:
    """A configuration beside its baseline, per second: inferences of all contexts, or frames of all
    streams.
    """

    row: Row
    rate: Figure
    baseline_rate: Figure
    #: Of the baseline's rate; below zero it is slower.
    change_percent: Figure

    @property
    def verdict(self) -> str:
        """SLOWER, AS_FAST or FASTER; else why it is not judged."""
        if self.row.is_disturbed:
            return DISTURBED
        if self.change_percent.spread is None:
            return ONE_REPEAT
        if not self.change_percent.exceeds_spread:
            return AS_FAST
        return FASTER if self.change_percent.median > 0 else SLOWER


def speed_change(row: Row) -> SpeedChange | None:
    """Return it; None if the rate of one of the two is not known, as where nothing computes."""
    if row.baseline is None or not row.computes:
        return None
    own = rate(row)
    baseline = rate(row.baseline)
    change = own.percent_above(baseline) if own and baseline else None
    return SpeedChange(row, own, baseline, change) if own and baseline and change else None


def rate(row: Row) -> Figure | None:
    """Return what a row does a second: inferences of all contexts, or frames of all streams."""
    if row.schedule is None or not row.measured:
        return row.throughput
    return Figure.of(streams.all.per_s for streams in row.frames if streams.all)
