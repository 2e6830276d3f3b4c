"""The change of speed: a configuration's rate compared with its baseline's."""

from __future__ import annotations

from dataclasses import dataclass

from reusebench.reports.base.statistics import Figure
from reusebench.reports.results.rows import Row

#: Verdicts on a change of speed; a difference that is not larger than its spread is none.
SLOWER = "slower"
AS_FAST = "as_fast"
FASTER = "faster"
#: Reasons for no verdict: a single repeat has no spread; the machine was busy with other work.
ONE_REPEAT = "one_repeat"
DISTURBED = "disturbed"


@dataclass(frozen=True)
class SpeedChange:
    """The rates of a configuration and of its baseline; see rate."""

    row: Row
    rate: Figure
    baseline_rate: Figure
    #: Percent of the baseline's rate; below zero the configuration is slower.
    change_percent: Figure

    @property
    def verdict(self) -> str:
        """SLOWER, AS_FAST or FASTER; DISTURBED or ONE_REPEAT if it is not judged."""
        if self.row.is_disturbed:
            return DISTURBED
        if self.change_percent.spread is None:
            return ONE_REPEAT
        if not self.change_percent.exceeds_spread:
            return AS_FAST
        return FASTER if self.change_percent.median > 0 else SLOWER


def speed_change(row: Row) -> SpeedChange | None:
    """Return the change; None if a rate is not known, for example if nothing computes."""
    if row.baseline is None or not row.computes:
        return None
    own = rate(row)
    baseline = rate(row.baseline)
    if own is None or baseline is None:
        return None
    change_percent = own.percent_above(baseline)
    return SpeedChange(row, own, baseline, change_percent) if change_percent else None


def rate(row: Row) -> Figure | None:
    """Return the inferences of all contexts, or the frames of all streams, per second."""
    if row.schedule is None or not row.measured:
        return row.throughput
    return Figure.of(streams.all.per_s for streams in row.frames if streams.all)
