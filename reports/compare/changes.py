"""The changes between two sides of runs, for every configuration and metric that both have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

from reusebench.measured.messages import Message
from reusebench.reports.compare.difference import (
    HIGHER,
    LOWER,
    Difference,
    difference_of_means,
)
from reusebench.reports.compare.noise import RunValues
from reusebench.storage.metrics import Metric
from reusebench.storage.result import BUSY_PERCENT
from reusebench.storage.runs import CONDITIONS, Configuration, Measured, Run, copies_in

#: Confidence of a whole table: 99 of 100 tables without a real change report none.
CONFIDENCE = 0.99
#: Verdict on a figure of speed if the machine was busy with other work on one side.
DISTURBED = "disturbed"
#: Verdict on a figure if memory was short on one side.
SHORT = "memory short"


@dataclass(frozen=True)
class Subject:
    """A configuration on a board."""

    configuration: Configuration
    #: The board in the head; the one in the base if the head lacks the configuration.
    board: str
    #: Whether the runs have the configuration on other boards, too.
    is_on_several_boards: bool = False

    def named(self, name: str) -> str:
        """Return a name of the configuration, with the board if that tells it from others."""
        return f"{name} on {self.board}" if self.is_on_several_boards else name

    def __str__(self) -> str:
        """Return the full name."""
        return self.named(str(self.configuration))


@dataclass(frozen=True)
class Change:
    """One figure of one configuration on both sides."""

    subject: Subject
    metric: Metric
    difference: Difference
    #: Whether other work on the machine may have changed the figure.
    is_disturbed: bool = False
    #: Whether memory was short, so that the figure may be too small.
    is_short: bool = False

    @property
    def verdict(self) -> str:
        """The difference's verdict, DISTURBED or SHORT."""
        if self.is_short:
            return SHORT
        return DISTURBED if self.is_disturbed else self.difference.verdict

    @property
    def worsening(self) -> float:
        """The change for the worse, in the metric's unit; below 0 if the figure got better."""
        change = self.difference.change
        return change if self.metric.less_is_better else -change

    @property
    def is_worse(self) -> bool:
        """Whether the figure got worse, and not by noise."""
        return self.verdict in (HIGHER, LOWER) and self.worsening > 0

    @property
    def is_better(self) -> bool:
        """Whether the figure got better, and not by noise."""
        return self.verdict in (HIGHER, LOWER) and self.worsening < 0


@dataclass(frozen=True)
class Differing:
    """A configuration that was measured under different conditions on the two sides."""

    subject: Subject
    #: Key: condition; value: that of the base, and that of the head.
    conditions: Mapping[str, tuple[str | None, str | None]]


@dataclass(frozen=True)
class Unmeasured:
    """A configuration with figures on one side only."""

    subject: Subject
    #: Outcome on each side; None if the configuration is not in its runs.
    base: str | None
    head: str | None

    @property
    def is_broken(self) -> bool:
        """Whether the configuration was measured in the base, and failed in the head."""
        return self.base == "ok" and self.head not in (None, "ok")


@dataclass(frozen=True)
class Changes:
    """The comparison of two sides."""

    base: tuple[Run, ...]
    head: tuple[Run, ...]
    rows: tuple[Change, ...]
    #: Configurations that are not compared.
    differing: tuple[Differing, ...]
    unmeasured: tuple[Unmeasured, ...]
    #: Configurations that are compared in spite of their conditions, by --across.
    across: tuple[Differing, ...]
    #: Evidence on one of the sides that memory was short.
    short: Mapping[Subject, tuple[Message, ...]] = field(default_factory=dict)
    #: Configurations whose application memory the sides count differently, so that it is left out.
    recounted: tuple[Subject, ...] = ()
    #: How the runs were chosen, if the user did not name them.
    remark: str = ""


@dataclass(frozen=True)
class _Side:
    """One configuration in the runs of a side under the conditions of the newest, oldest first."""

    measurements: tuple[Measured, ...]

    @property
    def conditions(self) -> Mapping[str, str | None]:
        return self.measurements[-1].conditions

    @property
    def is_disturbed(self) -> bool:
        return any(measured.busy_percent > BUSY_PERCENT for measured in self.measurements)

    @property
    def counted_by(self) -> set[str | None]:
        return {measured.counted_by for measured in self.measurements}

    @property
    def shortage_signs(self) -> tuple[Message, ...]:
        signs: dict[str, Message] = {}
        for measured in self.measurements:
            signs.update((sign.code, sign) for sign in measured.shortage_signs)
        return tuple(signs.values())

    def is_short(self, metric: Metric) -> bool:
        return any(measured.is_short(metric) for measured in self.measurements)

    def values(self, metric: Metric) -> list[RunValues]:
        values = [measured.values.get(metric.name) for measured in self.measurements]
        return [run_values for run_values in values if run_values is not None]


@dataclass(frozen=True)
class _Pair:
    """The measurements of one configuration on both sides, oldest first."""

    subject: Subject
    base: Sequence[Measured]
    head: Sequence[Measured]


_Sides = dict[Subject, tuple[_Side, _Side]]
_Key = tuple[Configuration, frozenset[tuple[str, Optional[str]]]]


def compare_runs(
    base: Sequence[Run],
    head: Sequence[Run],
    known: Iterable[Run],
    metrics: Sequence[Metric],
    across: Collection[str] = (),
) -> Changes:
    """Compare the head with the base; the `known` runs before the head show the noise.

    Conditions named in `across` may differ. The confidence is divided over the rows.
    """
    copies = copies_in([*base, *head])
    pairs = list(_pairs(_by_configuration(base, copies), _by_configuration(head, copies)))
    sides: _Sides = {}
    refused = []
    allowed = []
    short = {}
    for pair in pairs:
        before, after = _side(pair.base), _side(pair.head)
        if before is None or after is None:
            continue
        differing = _differing_conditions(before, after)
        if not set(differing) <= set(across):
            refused.append(Differing(pair.subject, differing))
            continue
        if differing:
            allowed.append(Differing(pair.subject, differing))
        sides[pair.subject] = (before, after)
        signs = before.shortage_signs + after.shortage_signs
        if signs:
            short[pair.subject] = signs

    return Changes(
        base=tuple(base),
        head=tuple(head),
        rows=tuple(_rows(sides, _runs_before(head, known), metrics)),
        differing=tuple(refused),
        unmeasured=tuple(_unmeasured(pairs)),
        across=tuple(allowed),
        short=short,
        recounted=tuple(
            subject
            for subject, (before, after) in sides.items()
            if before.counted_by != after.counted_by
        ),
    )


def _pairs(
    bases: Mapping[Configuration, Sequence[Measured]],
    heads: Mapping[Configuration, Sequence[Measured]],
) -> Iterator[_Pair]:
    """Yield the measurements of each configuration, in the head's order.

    A board is compared with itself. Without a board that both sides have, the newest of each side
    are compared.
    """
    for configuration in dict.fromkeys((*heads, *bases)):
        base = bases.get(configuration, ())
        head = heads.get(configuration, ())
        before = _by_board(base)
        after = _by_board(head)
        boards = list(dict.fromkeys((*after, *before)))
        if not before.keys() & after.keys():
            newest = (*base, *head)[-1]
            yield _Pair(Subject(configuration, _board(newest)), base, head)
            continue
        for board in boards:
            subject = Subject(configuration, board, is_on_several_boards=len(boards) > 1)
            yield _Pair(subject, before.get(board, ()), after.get(board, ()))


def _by_board(measurements: Iterable[Measured]) -> dict[str, list[Measured]]:
    boards: dict[str, list[Measured]] = {}
    for measured in measurements:
        boards.setdefault(_board(measured), []).append(measured)
    return boards


def _board(measured: Measured) -> str:
    return measured.conditions["board"] or ""


def _by_configuration(
    runs: Iterable[Run], left_out: Collection[Configuration] = ()
) -> dict[Configuration, list[Measured]]:
    """Return the measurements of each configuration, oldest first."""
    measurements: dict[Configuration, list[Measured]] = {}
    for run in sorted(runs, key=lambda run: run.order):
        for measured in run.measured:
            if measured.configuration not in left_out:
                measurements.setdefault(measured.configuration, []).append(measured)
    return measurements


def _side(measurements: Sequence[Measured]) -> _Side | None:
    """Return the side; None if every measurement failed."""
    good = [measured for measured in measurements if measured.outcome == "ok"]
    if not good:
        return None
    conditions = good[-1].conditions
    return _Side(tuple(measured for measured in good if measured.conditions == conditions))


def _differing_conditions(before: _Side, after: _Side) -> dict[str, tuple[str | None, str | None]]:
    differing = {}
    for name in CONDITIONS:
        pair = (before.conditions[name], after.conditions[name])
        if pair[0] != pair[1]:
            differing[name] = pair
    return differing


def _unmeasured(pairs: Iterable[_Pair]) -> Iterator[Unmeasured]:
    """Yield the configurations with figures on one side only."""
    for pair in pairs:
        base = _outcome(pair.base)
        head = _outcome(pair.head)
        if (base == "ok") != (head == "ok"):
            yield Unmeasured(pair.subject, base, head)


def _outcome(measurements: Sequence[Measured]) -> str | None:
    """Return "ok" if a measurement succeeded, otherwise the last outcome; None if there is none."""
    outcomes = [measured.outcome for measured in measurements]
    if "ok" in outcomes:
        return "ok"
    return outcomes[-1] if outcomes else None


def _runs_before(head: Sequence[Run], known: Iterable[Run]) -> list[Run]:
    first = min(run.order for run in head)
    paths = {run.path for run in head}
    return [run for run in known if run.order < first and run.path not in paths]


def _rows(
    sides: _Sides,
    earlier_runs: Iterable[Run],
    metrics: Sequence[Metric],
) -> Iterator[Change]:
    compared = []
    for subject, (before, after) in sides.items():
        for metric in metrics:
            if before.values(metric) and after.values(metric):
                compared.append((subject, metric))

    # Runs under other conditions than the base's have another noise, and another level.
    earlier: dict[_Key, list[Measured]] = {}
    for run in sorted(earlier_runs, key=lambda run: run.order):
        for measured in run.measured:
            earlier.setdefault(_key(measured.configuration, measured.conditions), []).append(
                measured
            )
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(compared))
    for subject, metric in compared:
        before, after = sides[subject]
        known = []
        for measured in earlier.get(_key(subject.configuration, before.conditions), ()):
            if not measured.is_short(metric):
                known.append(measured)
        yield Change(
            subject,
            metric,
            difference_of_means(
                metric,
                before.values(metric),
                after.values(metric),
                _Side(tuple(known)).values(metric),
                confidence,
            ),
            is_disturbed=metric.part == "speed" and (before.is_disturbed or after.is_disturbed),
            is_short=before.is_short(metric) or after.is_short(metric),
        )


def _key(configuration: Configuration, conditions: Mapping[str, str | None]) -> _Key:
    return configuration, frozenset(conditions.items())
