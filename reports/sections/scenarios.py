"""Explanations of scenarios."""

from __future__ import annotations

from reusebench.reports.base.stored_scenario import StoredScenario
from reusebench.reports.sections.section import Page, Section, Values


class ScenariosSection(Section):
    """Explanations of the scenarios that the page shows."""

    name = "scenarios"

    def values(self, page: Page) -> Values:
        """Return (scenario, explanation), then the same for plans without reuse."""
        texts = page.texts
        shown: dict[str, None] = {}
        for group in page.groups:
            shown.update(dict.fromkeys(row.scenario for row in group.all_rows))
        explanations = []
        for name, text in texts.starting_with("about_").items():
            if name in shown:
                explanations.append((texts.scenario(name), text))
        for name in shown:
            if StoredScenario(name).plan_without_reuse:
                explanations.append((texts.scenario(name), texts("about_plan_without_reuse")))
        return {"scenarios": explanations}
