"""The claims ledger as a table of the page, and the list of its sources."""

from __future__ import annotations

from collections.abc import Sequence

from reports.claims import Judged, judge_claims, read_claims
from reports.comparison import Group
from reports.format import EMPTY
from reports.labels import group_id
from reports.source import listed
from reports.table import Cell, Table
from reports.texts import Texts

__all__ = ["claim_sources", "claims_table"]

_HEADS = (
    "claims_column_claim",
    "claims_column_on",
    "claims_column_verdict",
    "claims_column_figure",
    "claims_column_test",
    "column_source",
)


def claims_table(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> Table:
    """Return a row for each claim and group that it is about, labelled as given."""
    numbers = {id(group): number for number, group in enumerate(groups)}
    judged = [(numbers[id(each.group)], each) for each in judge_claims(groups)]
    rows = [(group_id(number), _cells(each, labels[number], texts)) for number, each in judged]
    return Table([texts(head) for head in _HEADS], rows)


def claim_sources(texts: Texts) -> list[tuple[str, str | None, str]]:
    """Return (title, address, dates) of each source of the claims."""
    return listed((claim.source for claim in read_claims()), texts)


def _cells(judged: Judged, label: str, texts: Texts) -> list[Cell]:
    claim, judgement = judged.claim, judged.judgement
    verdict = texts(f"claims_{judgement.verdict}") + texts("colon") + judgement.reason.said(texts)
    source = texts("claims_source", title=claim.source.title[texts.language], dates=claim.source.dates(texts))
    return [
        Cell(claim.claim[texts.language], False),
        Cell(label, False),
        Cell(verdict, False),
        Cell(judgement.shown.said(texts) if judgement.shown else EMPTY, False),
        Cell(claim.test[texts.language], False),
        Cell(source, False),
    ]
