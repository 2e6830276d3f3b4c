"""The claims ledger as a table of the page, and what is looked at for each claim, with its source."""

from __future__ import annotations

from collections.abc import Sequence

from reports.base.formatting import EMPTY
from reports.base.table import Cell, Table
from reports.base.texts import Texts
from reports.claims.claims import Claim, Judged, judge_claims, read_claims
from reports.results.labels import group_id
from reports.results.rows import Group

_HEADS = ("claims_column_claim", "claims_column_on", "claims_column_verdict", "claims_column_figure")


def claims_table(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> Table:
    """Return a row for each claim and group that it is about, labelled as given."""
    numbers = {id(group): number for number, group in enumerate(groups)}
    judged = [(numbers[id(each.group)], each) for each in judge_claims(groups)]
    rows = [(group_id(number), _cells(each, labels[number], texts)) for number, each in judged]
    return Table([texts(head) for head in _HEADS], rows)


def claim_tests(texts: Texts) -> list[tuple[str, str, str, str | None, str]]:
    """Return (claim, what is looked at, title, address and dates of its source) of each claim."""
    return [_test(claim, texts) for claim in read_claims()]


def _test(claim: Claim, texts: Texts) -> tuple[str, str, str, str | None, str]:
    language, source = texts.language, claim.source
    return claim.claim[language], claim.test[language], source.title[language], source.url, source.dates(texts)


def _cells(judged: Judged, label: str, texts: Texts) -> list[Cell]:
    judgement = judged.judgement
    verdict = texts(f"claims_{judgement.verdict}") + texts("colon") + judgement.reason.said(texts)
    return [
        Cell(judged.claim.claim[texts.language], False),
        Cell(label, False),
        Cell(verdict, False),
        Cell(judgement.shown.said(texts) if judgement.shown else EMPTY, False),
    ]
