"""The one place in the harness that resolves names, options and plans to subjects."""

from __future__ import annotations

from collections.abc import Iterable

from reusebench.harness.errors import UserError
from reusebench.harness.measuring.subject import PlanSubject, ScenarioSubject, Subject
from reusebench.harness.plans.plan_file import PlanFile
from reusebench.harness.plans.python_plan import Plan, plan_file_of
from reusebench.harness.plans.writing import built_in_scenario
from reusebench.scenarios.catalogue import option_scenario

__all__ = ["Subjects"]


class Subjects:
    """The subjects that a session can measure."""

    def __init__(self, plan_files: Iterable[PlanFile]) -> None:
        """Begin with the plans of the user's files, all built-in scenarios and all options."""
        #: The user's plans and their baselines, by name.
        self._plans: dict[str, PlanSubject] = {}
        for file in plan_files:
            self._add(file)

    def of(self, scenario: str | Plan) -> Subject:
        """Return the subject of a name or a plan; raise UserError if there is none.

        A name is that of a built-in scenario, of a plan file, or an option as NAME=VALUE.
        """
        if isinstance(scenario, Plan):
            return self._of_plan(scenario)
        if scenario in self._plans:
            return self._plans[scenario]
        if "=" in scenario:
            return ScenarioSubject(option_scenario(scenario))
        return ScenarioSubject(built_in_scenario(scenario))

    def _of_plan(self, plan: Plan) -> Subject:
        file = plan_file_of(plan)
        known = self._plans.get(file.name)
        if known is None:
            self._add(file)
        elif known.file != file:
            raise UserError(
                f"{file.document.title}: this session has another plan of this name; give it"
                " another name"
            )
        without_reuse, name = file.scenarios
        return self._plans[name if plan.reuse else without_reuse]

    def _add(self, file: PlanFile) -> None:
        for subject in (PlanSubject(file, reuses=False), PlanSubject(file)):
            self._plans[subject.name] = subject
