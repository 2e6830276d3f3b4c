"""The figures of both sides, and which of them became worse.

A change is known with an interval, as in `reusebench compare`: it is worse if it is beyond its
limit and more than noise, within the limit if the whole interval is, and otherwise undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from reusebench.apply.comparison.runs import Run
from reusebench.recorder.phase_figures import WeightedReadings
from reusebench.recorder.recording import Recording
from reusebench.reports.compare.difference import Difference, difference_of_means
from reusebench.storage.measured_figure import Figure
from reusebench.storage.metrics import BYTES, NANOSECONDS, Metric

__all__ = ["UNDECIDED", "WITHIN", "WORSE", "Comparison", "compare_figures"]

WITHIN = "within"
WORSE = "worse"
UNDECIDED = "undecided"

_CONFIDENCE = 0.95
_PAGE_BYTES = 4096
#: Allowed share of the figure as it is.
_LIMIT = 0.05
#: Weight of the library and the hooks themselves, which may be added to application memory.
_OWN_BYTES = 2 << 20


def _metric(name: str, unit: str, resolution: float) -> Metric:
    return Metric(name, "", "", unit, resolution)


@dataclass(frozen=True)
class _Kind:
    """A figure that a run gives."""

    name: str
    metric: Metric
    value: Callable[[Run], float | None]
    #: The change for the worse that is allowed, in addition to _LIMIT.
    allowed: float = 0.0
    #: The same in place of _LIMIT.
    limit: float = _LIMIT
    #: Whether a change for the worse counts.
    is_judged: bool = True
    #: Whether its bytes are counted, so that one run tells its value.
    is_counted: bool = False


@dataclass(frozen=True)
class Comparison:
    """A figure of both sides, in its unit."""

    name: str
    as_is: Figure
    applied: Figure
    difference: Difference
    allowed: float
    is_judged: bool
    is_counted: bool

    @property
    def outcome(self) -> str:
        """WITHIN, WORSE or UNDECIDED."""
        error = self.difference.error
        if error is None and self.is_counted:
            error = 0.0
        if error is None:
            return UNDECIDED
        if self.difference.change > max(self.allowed, error):
            return WORSE
        return WITHIN if self.difference.change + error <= self.allowed else UNDECIDED


def compare_figures(
    as_is: Sequence[Run], applied: Sequence[Run], is_timed: bool
) -> list[Comparison]:
    """Return all figures that each run of both sides gives; of time only if it tells something."""
    comparisons = []
    for kind in _KINDS:
        if kind.metric.unit == NANOSECONDS and not is_timed:
            continue
        before = _known(kind.value(run) for run in as_is)
        after = _known(kind.value(run) for run in applied)
        if len(before) < len(as_is) or len(after) < len(applied) or not (before and after):
            continue
        difference = difference_of_means(kind.metric, [before], [after], [], _CONFIDENCE)
        allowed = kind.limit * difference.base_mean + kind.allowed
        figures = [Figure.of(before), Figure.of(after)]
        first, second = [figure for figure in figures if figure]
        comparisons.append(
            Comparison(
                kind.name, first, second, difference, allowed, kind.is_judged, kind.is_counted
            )
        )
    return comparisons


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _highest_memory(run: Run) -> float | None:
    """Return the highest RSS, which the kernel notes, without the parts that others have by PSS.

    PSS itself is read too rarely to meet the peak of a program that runs for a few seconds.
    """
    recording = run.recording
    peak_bytes = max((phase.peak_bytes or 0 for phase in recording.phases.values()), default=0)
    return max(peak_bytes - _shared_bytes(recording), *recording.pss.values, 0) or None


def _shared_bytes(recording: Recording) -> int:
    """Return the excess of RSS over PSS, when PSS was highest."""
    highest_bytes, at_ns = max(zip(recording.pss.values, recording.pss.times_ns), default=(0, 0))
    rss_bytes = dict(zip(recording.rss.times_ns, recording.rss.values))
    return max(rss_bytes.get(at_ns, highest_bytes) - highest_bytes, 0)


def _usual_memory(run: Run) -> float | None:
    """Return the median over the time of the run."""
    recording = run.recording
    readings = WeightedReadings()
    readings.begin(recording.begin_ns)
    for at_ns, value in zip(recording.pss.times_ns, recording.pss.values):
        readings.add(value, at_ns)
    readings.end(recording.end_ns)
    return readings.median()


def _peak_rss(run: Run) -> float | None:
    phases = run.recording.phases.values()
    return max((phase.process_peak_bytes or 0 for phase in phases), default=0) or None


def _npu_memory(run: Run) -> float | None:
    return max(run.recording.npu.values, default=None)


def _wall_time(run: Run) -> float | None:
    return run.recording.end_ns - run.recording.begin_ns


def _cpu_time(run: Run) -> float | None:
    return run.recording.cpu_ns


_KINDS = (
    _Kind(
        "application_memory",
        _metric("application_memory", BYTES, _PAGE_BYTES),
        _highest_memory,
        _OWN_BYTES,
    ),
    _Kind(
        "usual_application_memory",
        _metric("application_memory", BYTES, _PAGE_BYTES),
        _usual_memory,
        is_judged=False,
    ),
    _Kind(
        "peak_rss",
        _metric("process_peak_rss", BYTES, _PAGE_BYTES),
        _peak_rss,
        _OWN_BYTES,
        is_judged=False,
    ),
    _Kind(
        "npu_memory",
        _metric("npu_memory", BYTES, 0),  # equal counts are equal, without a rest
        _npu_memory,
        limit=0.0,
        is_counted=True,
    ),
    _Kind("time", _metric("time", NANOSECONDS, 0), _wall_time),
    _Kind("cpu_time", _metric("cpu_time", NANOSECONDS, 0), _cpu_time, is_judged=False),
)
