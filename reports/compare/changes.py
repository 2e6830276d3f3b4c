"""What has changed between two sides of runs: every configuration and metric of both, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from reports.compare.difference import Difference, difference
from reports.compare.noise import RunValues
from reports.results.rows import BUSY_PERCENT
from storage.metrics import Metric
from storage.runs import CONDITIONS, Configuration, Measured, Run

#: Of a whole table: in so many of a hundred tables without a change no row tells of one.
CONFIDENCE = 0.99
#: The verdict on a figure of speed where the machine was busy with other work on one side.
DISTURBED = "disturbed"


@dataclass(frozen=True)
class Change:
    """One figure of one configuration on both sides."""

    configuration: Configuration
    metric: Metric
    difference: Difference
    #: Whether other work on the machine may show in it.
    is_disturbed: bool = False

    @property
    def verdict(self) -> str:
        """The difference's verdict, or DISTURBED."""
        return DISTURBED if self.is_disturbed else self.difference.verdict


@dataclass(frozen=True)
class Differing:
    """A configuration that was measured under other conditions."""

    configuration: Configuration
    #: By condition: that of the base, and that of the head.
    conditions: Mapping[str, tuple[str | None, str | None]]


@dataclass(frozen=True)
class Unmeasured:
    """A configuration that only one side has figures of."""

    configuration: Configuration
    #: Its outcome on each side; None where it is not in these runs.
    base: str | None
    head: str | None

    @property
    def is_broken(self) -> bool:
        """Whether it could be measured before, and was tried and could not any more."""
        return self.base == "ok" and self.head not in (None, "ok")


@dataclass(frozen=True)
class Changes:
    """The comparison of two sides."""

    base: tuple[Run, ...]
    head: tuple[Run, ...]
    rows: tuple[Change, ...]
    #: Not compared.
    differing: tuple[Differing, ...]
    unmeasured: tuple[Unmeasured, ...]
    #: Compared all the same, because the user said so.
    across: tuple[Differing, ...]


@dataclass(frozen=True)
class _Side:
    """What one side has of one configuration, oldest first, under the conditions of its newest run."""

    measured: tuple[Measured, ...]

    @property
    def conditions(self) -> Mapping[str, str | None]:
        return self.measured[-1].conditions

    @property
    def is_disturbed(self) -> bool:
        return any(each.busy_percent > BUSY_PERCENT for each in self.measured)

    def values(self, metric: Metric) -> list[RunValues]:
        return [each.values[metric.name] for each in self.measured if metric.name in each.values]


def compare_runs(
    base: Sequence[Run],
    head: Sequence[Run],
    known: Iterable[Run],
    metrics: Sequence[Metric],
    across: Collection[str] = (),
) -> Changes:
    """Compare the head with the base; of all known runs those before the head show the noise.

    Conditions named in `across` may differ. The confidence is divided over the rows.
    """
    bases, heads = _by_configuration(base), _by_configuration(head)
    both = [each for each in heads if _is_ok(heads[each]) and each in bases and _is_ok(bases[each])]
    sides = {each: (_side(bases[each]), _side(heads[each])) for each in both}
    differing = {each: found for each, (one, other) in sides.items() if (found := _differing(one, other))}
    refused = {each for each, found in differing.items() if not set(found) <= set(across)}
    compared = {each: pair for each, pair in sides.items() if each not in refused}
    return Changes(
        tuple(base),
        tuple(head),
        tuple(_rows(compared, _earlier(known, head), metrics)),
        tuple(Differing(each, differing[each]) for each in both if each in refused),
        tuple(_unmeasured(bases, heads)),
        tuple(Differing(each, found) for each, found in differing.items() if each not in refused),
    )


def _by_configuration(runs: Iterable[Run]) -> dict[Configuration, list[Measured]]:
    """Return what the runs have of each configuration, oldest first."""
    found: dict[Configuration, list[Measured]] = {}
    for run in sorted(runs, key=lambda run: run.recorded_at):
        for measured in run.measured:
            found.setdefault(measured.configuration, []).append(measured)
    return found


def _is_ok(measured: Sequence[Measured]) -> bool:
    return any(each.outcome == "ok" for each in measured)


def _side(measured: Sequence[Measured]) -> _Side:
    good = [each for each in measured if each.outcome == "ok"]
    return _Side(tuple(each for each in good if each.conditions == good[-1].conditions))


def _differing(base: _Side, head: _Side) -> dict[str, tuple[str | None, str | None]]:
    pairs = {name: (base.conditions[name], head.conditions[name]) for name in CONDITIONS}
    return {name: (one, other) for name, (one, other) in pairs.items() if one != other}


def _unmeasured(
    bases: Mapping[Configuration, Sequence[Measured]], heads: Mapping[Configuration, Sequence[Measured]]
) -> Iterable[Unmeasured]:
    """Yield what only one side has figures of; what neither has is no news."""
    for each in (*heads, *(name for name in bases if name not in heads)):
        base, head = (side[each][-1].outcome if each in side else None for side in (bases, heads))
        outcomes = ["ok" if _is_ok(side.get(each, ())) else said for side, said in ((bases, base), (heads, head))]
        if outcomes.count("ok") == 1:
            yield Unmeasured(each, *outcomes)


def _earlier(known: Iterable[Run], head: Sequence[Run]) -> dict[Configuration, list[Measured]]:
    """Return what was measured before the head."""
    first = min(run.recorded_at for run in head)
    own = {run.path for run in head}
    return _by_configuration(run for run in known if run.recorded_at < first and run.path not in own)


def _rows(
    sides: Mapping[Configuration, tuple[_Side, _Side]],
    earlier: Mapping[Configuration, Sequence[Measured]],
    metrics: Sequence[Metric],
) -> Iterable[Change]:
    found = [(each, metric) for each in sides for metric in metrics if all(side.values(metric) for side in sides[each])]
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(found))
    for each, metric in found:
        before, after = sides[each]
        # Those under the base's conditions: others have another noise, and another level.
        alike = _Side(tuple(run for run in earlier.get(each, ()) if run.conditions == before.conditions))
        sampled = difference(metric, before.values(metric), after.values(metric), alike.values(metric), confidence)
        yield Change(each, metric, sampled, metric.part == "speed" and (before.is_disturbed or after.is_disturbed))
