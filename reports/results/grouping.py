"""The comparison: which stored results stand together in a group."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Optional, Union

from reusebench.reports.base.stored_scenario import StoredScenario
from reusebench.reports.results.leak_limits import DEFAULT_LEAK_LIMITS, LeakLimits
from reusebench.reports.results.rows import Group, Row, stored_scenario_of
from reusebench.scenarios.catalogue import MERGED, without_reuse
from reusebench.storage.result import Result
from reusebench.storage.result_summary import PROGRAM, ResultSummary, summaries_of
from reusebench.storage.run_file import StoredResult, StoredRun

#: Fields of a result that must be equal, like the board, before two stand in one table. A saving
#: also needs equal models. Results that were stored before there was a `chip` have none.
_CONDITIONS = (
    "runtime",
    "runtime_version",
    "target",
    "chip",
    "npu_memory_limit_bytes",
    "python_version",
    "streams",
    "contexts",
    "cores",
    "counted_by",
)

#: Conditions that a user's plan decides itself: plans of several layouts stand in one table.
_LAYOUT_CONDITIONS = ("streams", "contexts", "cores")

_Conditions = tuple[Union[str, int, None], ...]
#: Digests of the models, and the workload that a scenario was measured with.
_Inputs = tuple[tuple[str, ...], Optional[str]]


class Place(NamedTuple):
    """The place of a stored result: its run, by position in a list, and its position in the run."""

    run: int
    position: int


#: Stored results with the runs that have them, by place.
Loaded = Mapping[Place, tuple[StoredResult, StoredRun]]


@dataclass(frozen=True, eq=False)
class Gathering:
    """Results that are to become a group, from runs taken newest first."""

    #: The first model of each set, which tells the sets of two runs apart: some scenarios use only
    #: that one.
    first_models: dict[str, str]
    #: Key: scenario, then its inputs.
    members: dict[tuple[str, _Inputs], Place]

    def takes(self, first_models: dict[str, str]) -> bool:
        """Whether a run has the same models in each set that both have."""
        return all(
            self.first_models.get(name, model) == model for name, model in first_models.items()
        )

    def add(
        self,
        results: Iterable[tuple[Place, ResultSummary]],
        first_models: dict[str, str],
    ) -> None:
        """Take the results that no newer run has."""
        self.first_models.update(first_models)
        for place, summary in results:
            inputs = (tuple(summary.model_digests), summary.workload)
            self.members.setdefault((summary.scenario, inputs), place)

    def group(self, loaded: Loaded, leak_limits: LeakLimits) -> Group:
        """Return the rows in order, each joined to the baseline with the same inputs.

        Of scenarios with equal plans the first in the order is the row, whichever was measured.
        """
        members = {key: loaded[place] for key, place in self.members.items()}
        ordered = sorted(
            members.items(),
            key=lambda member: stored_scenario_of(member[1][0].info).sort_key,
        )
        names: dict[Hashable, list[str]] = {}
        for (scenario, inputs), (result, _) in ordered:
            names.setdefault((_measurement(result.info), inputs), []).append(scenario)

        originals: dict[Hashable, Row] = {}
        baselines: dict[tuple[str | None, _Inputs], Row] = {}
        copies = []
        for (scenario, inputs), (result, file) in ordered:
            info = result.info
            baseline = baselines.get((info.baseline, inputs))
            if baseline is None:
                baseline = baselines.get((info.baseline, _of_the_base(inputs)))
            if baseline and not _is_comparable(info, baseline.info):
                baseline = None

            measurement = (_measurement(info), inputs)
            original = originals.get(measurement)
            equal = tuple(name for name in names[measurement] if name != scenario)
            row = Row(result, file, baseline, original, equal, leak_limits)
            if original is None:
                originals[measurement] = row
            else:
                copies.append(row)
            # A copy that is left out of the table is no baseline either: its original is.
            measured = original if original and row.is_left_out else row
            baselines[(scenario, inputs)] = measured
            if row.model_set == MERGED:
                baselines[(scenario, _of_the_base(inputs))] = measured
        return Group(tuple(originals.values()), tuple(copies))


def gatherings_of(
    runs: Iterable[Sequence[tuple[Place, ResultSummary]]],
) -> list[Gathering]:
    """Return the places of the newest result of every configuration; the newest run comes first.

    The results of a run that were measured under the same conditions stand in one group, whatever
    models they use. An older run joins the newest group under these conditions in which no set of
    models is another one.
    """
    gatherings: list[Gathering] = []
    by_their_conditions: dict[_Conditions, list[Gathering]] = {}
    for results in runs:
        by_conditions: dict[_Conditions, list[tuple[Place, ResultSummary]]] = {}
        for place, summary in results:
            if summary.has_machine and summary.runtime != PROGRAM:
                by_conditions.setdefault(_conditions(summary), []).append((place, summary))

        for conditions, members in by_conditions.items():
            first_models = {
                _scenario(summary).model_set: summary.model_digests[0] for _, summary in members
            }
            alike = by_their_conditions.setdefault(conditions, [])
            for gathering in alike:
                if gathering.takes(first_models):
                    break
            else:
                gathering = Gathering(first_models={}, members={})
                alike.append(gathering)
                gatherings.append(gathering)
            gathering.add(members, first_models)
    return gatherings


def groups_of(
    gatherings: Iterable[Gathering], loaded: Loaded, leak_limits: LeakLimits = DEFAULT_LEAK_LIMITS
) -> list[Group]:
    """Return the groups of loaded results, newest first."""
    groups = [gathering.group(loaded, leak_limits) for gathering in gatherings]
    return sorted(groups, key=lambda group: group.newest.order, reverse=True)


def group_results(
    files: Iterable[StoredRun], leak_limits: LeakLimits = DEFAULT_LEAK_LIMITS
) -> list[Group]:
    """Return the groups, newest first, each with the newest result of every configuration."""
    # If two runs have the same time, the later file is the newer one.
    newest_first = sorted(files, key=lambda file: file.order)[::-1]
    loaded: dict[Place, tuple[StoredResult, StoredRun]] = {}
    runs = []
    for number, file in enumerate(newest_first):
        places = [Place(number, position) for position in range(len(file.results))]
        loaded.update(zip(places, with_boards(file)))
        runs.append(list(zip(places, summaries_of(file))))
    return groups_of(gatherings_of(runs), loaded, leak_limits)


def with_boards(file: StoredRun) -> list[tuple[StoredResult, StoredRun]]:
    """Return the results of a file, each with the run of its board."""
    if not file.machines:
        return [(result, file) for result in file.results]
    by_board = {part.board: part for part in file.by_board()}
    # A board that was never reached has no run.
    return [(result, by_board.get(file.board_of(result.info), file)) for result in file.results]


def newest_groups(groups: Iterable[Group]) -> list[Group]:
    """Return the first group of scenarios and of plans of each board, runtime and target.

    The groups come newest first.
    """
    newest: dict[tuple[str, str, str, bool], Group] = {}
    for group in groups:
        key = (group.board, group.info.runtime, group.info.target, group.is_of_plans)
        newest.setdefault(key, group)
    return list(newest.values())


def _scenario(summary: ResultSummary) -> StoredScenario:
    return StoredScenario(summary.scenario, summary.baseline)


def _of_the_base(inputs: _Inputs) -> _Inputs:
    """Return the inputs as the base model, and the number of models.

    Adapters over a model are compared with the model merged with each: other files.
    """
    digests, workload = inputs
    return (*digests[:1], str(len(digests))), workload


def _conditions(summary: ResultSummary) -> _Conditions:
    """Return the values that must be equal before two results stand in one table."""
    is_plan = _scenario(summary).is_plan
    values: list[str | int | None] = [summary.board]
    for name in _CONDITIONS:
        is_ignored = is_plan and name in _LAYOUT_CONDITIONS
        values.append(None if is_ignored else getattr(summary, name))
    return tuple(values)


def _measurement(info: Result) -> tuple[str, str]:
    """Return the key of a measurement within a group.

    A failure is never a copy: it is listed with its own reason.
    """
    if info.failure is not None:
        return info.run, info.scenario
    return info.run, info.measured_as or info.scenario


def _is_comparable(info: Result, baseline: Result) -> bool:
    """Whether the baseline had the same contexts; a user may have changed a plan of one name."""
    is_plan = stored_scenario_of(info).is_plan
    return not is_plan or without_reuse(info.plan).contexts == baseline.plan.contexts
