"""Claims of others, judged by results measured here."""

from __future__ import annotations

from reusebench.reports.claims.claims import claim_tests, claims_table
from reusebench.reports.explanation.sentences import prediction_summary
from reusebench.reports.results.published import published_breakdown
from reusebench.reports.sections.section import Page, Section, Values


class ClaimsSection(Section):
    """The verdict on each claim, and how well plans predict memory."""

    name = "claims"

    def values(self, page: Page) -> Values:
        """Return verdicts and tests of claims, errors of predictions, and a published breakdown."""
        return {
            "claims": claims_table(page.material.of_scenarios, page.labels, page.texts),
            "tests": claim_tests(page.texts),
            "predictions": prediction_summary(page.groups, page.labels, page.texts),
            "published": published_breakdown(page.texts),
        }
