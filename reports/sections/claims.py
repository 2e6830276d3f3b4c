"""Claims of others, judged by results measured here."""

from __future__ import annotations

from reusebench.reports.claims.claims import claim_tests, claims_table, decided_claims
from reusebench.reports.sections.section import Page, Section, Values


class ClaimsSection(Section):
    """The verdict on each claim that the measurements decide."""

    name = "claims"

    def applies(self, page: Page) -> bool:
        """Whether the measurements decide any claim."""
        return bool(decided_claims(page.material.of_scenarios))

    def summary(self, page: Page) -> str:
        """Return the number of claims with each verdict."""
        verdicts = [claim.judgement.verdict for claim in decided_claims(page.material.of_scenarios)]
        texts = page.texts
        return texts.joined(
            texts("summary_count", count=verdicts.count(verdict), words=texts(f"claims_{verdict}"))
            for verdict in dict.fromkeys(verdicts)
        )

    def values(self, page: Page) -> Values:
        """Return the verdicts on claims, and how each is judged."""
        judged = decided_claims(page.material.of_scenarios)
        return {
            "claims": claims_table(judged, page.labels, page.texts),
            "tests": claim_tests(judged, page.texts),
        }
