"""The comparison: which stored results stand together in a group."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Optional, Union

from reusebench.reports.results.leak_limits import DEFAULT_LEAK_LIMITS, LeakLimits
from reusebench.reports.results.rows import (
    Group,
    Row,
    WorkloadKey,
    stored_scenario_of,
    workload_key,
)
from reusebench.scenarios.catalogue import without_reuse
from reusebench.storage.result import Result
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
#: Digests of the models.
_Models = tuple[str, ...]
#: The models and the workload that a scenario was measured with.
_Inputs = tuple[_Models, Optional[WorkloadKey]]


@dataclass(frozen=True, eq=False)
class _Gathering:
    """Results that are to become a group, from runs taken newest first."""

    conditions: _Conditions
    #: The first model of each set, which tells the sets of two runs apart: some scenarios use only
    #: that one.
    first_models: dict[str, str]
    #: Key: scenario, then its inputs.
    members: dict[tuple[str, _Inputs], tuple[StoredResult, StoredRun]]

    def takes(self, conditions: _Conditions, first_models: dict[str, str]) -> bool:
        """Whether a run has these conditions, and the same models in each set that both have."""
        if self.conditions != conditions:
            return False
        return all(
            self.first_models.get(name, model) == model for name, model in first_models.items()
        )

    def add(
        self,
        results: Iterable[StoredResult],
        file: StoredRun,
        first_models: dict[str, str],
    ) -> None:
        """Take the results that no newer run has."""
        self.first_models.update(first_models)
        for result in results:
            info = result.info
            inputs = (_models(info), workload_key(info))
            self.members.setdefault((info.scenario, inputs), (result, file))

    def group(self, leak_limits: LeakLimits) -> Group:
        """Return the rows in order, each joined to the baseline with the same inputs.

        Of scenarios with equal plans the first in the order is the row, whichever was measured.
        """
        ordered = sorted(
            self.members.items(),
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
            baselines[(scenario, inputs)] = original if original and row.is_left_out else row
        return Group(tuple(originals.values()), tuple(copies))


def group_results(
    files: Iterable[StoredRun], leak_limits: LeakLimits = DEFAULT_LEAK_LIMITS
) -> list[Group]:
    """Return the groups, newest first, each with the newest result of every configuration.

    The results of a run that were measured under the same conditions stand in one group, whatever
    models they use. An older run joins the newest group under these conditions in which no set of
    models is another one.
    """
    gatherings: list[_Gathering] = []
    # If two runs have the same time, the later file is the newer one.
    newest_first = sorted(files, key=lambda file: file.order)[::-1]
    for file in chain.from_iterable(file.by_board() for file in newest_first):
        by_conditions: dict[_Conditions, list[StoredResult]] = {}
        for result in file.results:
            by_conditions.setdefault(_conditions(file.board, result.info), []).append(result)

        for conditions, results in by_conditions.items():
            first_models = {
                stored_scenario_of(result.info).model_set: _models(result.info)[0]
                for result in results
            }
            for gathering in gatherings:
                if gathering.takes(conditions, first_models):
                    break
            else:
                gathering = _Gathering(conditions, {}, {})
                gatherings.append(gathering)
            gathering.add(results, file, first_models)

    groups = [gathering.group(leak_limits) for gathering in gatherings]
    return sorted(groups, key=lambda group: group.newest.order, reverse=True)


def newest_groups(groups: Iterable[Group]) -> list[Group]:
    """Return the first group of scenarios and of plans of each board, runtime and target.

    The groups come newest first.
    """
    newest: dict[tuple[str, str, str, bool], Group] = {}
    for group in groups:
        key = (group.board, group.info.runtime, group.info.target, group.is_of_plans)
        newest.setdefault(key, group)
    return list(newest.values())


def _conditions(board: str, info: Result) -> _Conditions:
    """Return the values that must be equal before two results stand in one table."""
    is_plan = stored_scenario_of(info).is_plan
    values: list[str | int | None] = [board]
    for name in _CONDITIONS:
        is_ignored = is_plan and name in _LAYOUT_CONDITIONS
        values.append(None if is_ignored else getattr(info, name))
    return tuple(values)


def _models(info: Result) -> _Models:
    return tuple(model.digest for model in info.models)


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
