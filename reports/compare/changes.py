"""What has changed between two sides of runs: every configuration and metric of both, and what
cannot be compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reusebench.measured.messages import Message
from reusebench.reports.compare.difference import Difference, difference_of_means
from reusebench.reports.compare.noise import RunValues
from reusebench.storage.metrics import Metric
from reusebench.storage.result import BUSY_PERCENT
from reusebench.storage.runs import CONDITIONS, Configuration, Measured, Run, copies_in

#: Of a whole table: in so many of a hundred tables without a change no row tells of one.
CONFIDENCE = 0.99
#: The verdict on a figure of speed where the machine was busy with other work on one side.
DISTURBED = "disturbed"
#: The verdict on a figure where memory was short on one side.
SHORT = "memory short"


@dataclass(frozen=True)
class Change:
    """One figure of one configuration on both sides."""

    configuration: Configuration
    metric: Metric
    difference: Difference
    #: Whether other work on the machine may show in it.
    is_disturbed: bool = False
    #: Whether memory was short while it was measured, so that it may be too small.
    is_short: bool = False

    @property
    def verdict(self) -> str:
        """The difference's verdict, DISTURBED or SHORT."""
        if self.is_short:
            return SHORT
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
    #: Its outcome on each side; None if it is not in these runs.
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
    #: Compared although conditions differ, by --across.
    across: tuple[Differing, ...]
    #: By configuration: what shows on one of the sides that memory was short.
    short: Mapping[Configuration, tuple[Message, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Side:
    """What one side has of one configuration, oldest first, under the conditions of its newest
    run.
    """

    measured: tuple[Measured, ...]

    @property
    def conditions(self) -> Mapping[str, str | None]:
        return self.measured[-1].conditions

    @property
    def is_disturbed(self) -> bool:
        return any(one.busy_percent > BUSY_PERCENT for one in self.measured)

    @property
    def shortage_signs(self) -> tuple[Message, ...]:
        return tuple(
            {sign.code: sign for one in self.measured for sign in one.shortage_signs}.values()
        )

    def is_short(self, metric: Metric) -> bool:
        return any(one.is_short(metric) for one in self.measured)

    def values(self, metric: Metric) -> list[RunValues]:
        return [one.values[metric.name] for one in self.measured if metric.name in one.values]


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
    copies = copies_in([*base, *head])
    bases, heads = (_by_configuration(side, copies) for side in (base, head))
    sides: dict[Configuration, tuple[_Side, _Side]] = {}
    refused = []
    allowed = []
    for configuration in heads:
        before = _side(bases.get(configuration, ()))
        after = _side(heads[configuration])
        if before is None or after is None:
            continue
        pairs = {name: (before.conditions[name], after.conditions[name]) for name in CONDITIONS}
        differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        if not set(differing) <= set(across):
            refused.append(Differing(configuration, differing))
            continue
        if differing:
            allowed.append(Differing(configuration, differing))
        sides[configuration] = (before, after)
    # What was measured before the head.
    first = min(run.order for run in head)
    paths = {run.path for run in head}
    earlier = _by_configuration(run for run in known if run.order < first and run.path not in paths)
    return Changes(
        tuple(base),
        tuple(head),
        tuple(_rows(sides, earlier, metrics)),
        tuple(refused),
        tuple(_unmeasured(bases, heads)),
        tuple(allowed),
        {
            name: signs
            for name, (before, after) in sides.items()
            if (signs := before.shortage_signs + after.shortage_signs)
        },
    )


def _by_configuration(
    runs: Iterable[Run], left_out: Collection[Configuration] = ()
) -> dict[Configuration, list[Measured]]:
    """Return what the runs have of each configuration, oldest first."""
    measured: dict[Configuration, list[Measured]] = {}
    for run in sorted(runs, key=lambda run: run.order):
        for one in run.measured:
            if one.configuration not in left_out:
                measured.setdefault(one.configuration, []).append(one)
    return measured


def _side(measured: Sequence[Measured]) -> _Side | None:
    """Return the side; None if nothing could be measured."""
    good = [one for one in measured if one.outcome == "ok"]
    return (
        _Side(tuple(one for one in good if one.conditions == good[-1].conditions)) if good else None
    )


def _unmeasured(
    bases: Mapping[Configuration, Sequence[Measured]],
    heads: Mapping[Configuration, Sequence[Measured]],
) -> Iterable[Unmeasured]:
    """Yield what only one side has figures of; what neither has is no news."""
    for configuration in dict.fromkeys((*heads, *bases)):
        outcomes = []
        for side in (bases, heads):
            of_runs = [one.outcome for one in side.get(configuration, ())]
            outcomes.append("ok" if "ok" in of_runs else of_runs[-1] if of_runs else None)
        if outcomes.count("ok") == 1:
            yield Unmeasured(configuration, *outcomes)


def _rows(
    sides: Mapping[Configuration, tuple[_Side, _Side]],
    earlier: Mapping[Configuration, Sequence[Measured]],
    metrics: Sequence[Metric],
) -> Iterable[Change]:
    pairs = [
        (one, metric)
        for one in sides
        for metric in metrics
        if all(side.values(metric) for side in sides[one])
    ]
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(pairs))
    for configuration, metric in pairs:
        before, after = sides[configuration]
        # Those under the base's conditions: others have another noise, and another level.
        alike = [
            one for one in earlier.get(configuration, ()) if one.conditions == before.conditions
        ]
        known = _Side(tuple(one for one in alike if not one.is_short(metric)))
        values = (before.values(metric), after.values(metric), known.values(metric))
        is_disturbed = metric.part == "speed" and (before.is_disturbed or after.is_disturbed)
        is_short = before.is_short(metric) or after.is_short(metric)
        yield Change(
            configuration,
            metric,
            difference_of_means(metric, *values, confidence),
            is_disturbed,
            is_short,
        )
