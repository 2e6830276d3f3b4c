"""The claims ledger: what manuals and a published test say, and whether what was measured here
bears it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Optional

import msgspec

from reusebench.reports.base.formatting import EMPTY
from reusebench.reports.base.statistics import rounded, rounded_spread
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import LANGUAGES, Texts, texts_of
from reusebench.reports.claims.judges import Judgement, judge
from reusebench.reports.results.labels import group_id
from reusebench.reports.results.published import Source
from reusebench.reports.results.rows import Group

_FILE = Path(__file__).parent.parent / "data" / "claims.json"
#: Chips whose library is librknnmrt; the manual says of each call whether they have it.
_MINI_CHIPS = ("rv1103", "rv1106")
#: Columns of the exported table; the first ones tell whose runs they were.
_IDENTITY = ("runtime", "runtime_version", "target", "streams", "contexts")
CLAIMS_COLUMNS = (*_IDENTITY, "claim", "verdict", "figure", "spread", "unit", "reason", "source")


class Claim(msgspec.Struct, frozen=True):
    """One claim, with what is looked at to judge it."""

    id: str
    #: In the file, the name of the source.
    source_name: str = msgspec.field(name="source")
    #: Runtimes that it is about; None: any.
    runtimes: Optional[tuple[str, ...]]
    #: Which of Rockchip's libraries: "full", or "mini" as its small chips have it; None: either.
    library: Optional[str]
    #: By language.
    claim: dict[str, str]
    test: dict[str, str]
    #: A name of judges.JUDGES, and its parameters.
    judge: str
    parameters: dict[str, Any]

    @property
    def source(self) -> Source:
        """Where it is made."""
        return _read_file().sources[self.source_name]

    def concerns(self, group: Group) -> bool:
        """Whether the claim is about the group's runtime and chip."""
        library = "mini" if group.info.chip in _MINI_CHIPS else "full"
        about_runtime = self.runtimes is None or group.info.runtime in self.runtimes
        return about_runtime and self.library in (None, library)


@dataclass(frozen=True)
class JudgedClaim:
    """What became of a claim in one group, which has this place among those that were judged."""

    claim: Claim
    group: int
    judgement: Judgement


class _ClaimsFile(msgspec.Struct, frozen=True):
    sources: dict[str, Source]
    claims: tuple[Claim, ...]


def read_claims() -> tuple[Claim, ...]:
    """Return every claim, in the order of the file."""
    return _read_file().claims


@cache
def _read_file() -> _ClaimsFile:
    return msgspec.json.decode(_FILE.read_bytes(), type=_ClaimsFile)


def judge_claims(groups: Sequence[Group]) -> list[JudgedClaim]:
    """Return the judgement on each claim in each group that it is about, claim by claim."""
    return [
        JudgedClaim(claim, number, judge(claim.judge, group, claim.parameters))
        for claim in read_claims()
        for number, group in enumerate(groups)
        if claim.concerns(group)
    ]


def claims_table(groups: Sequence[Group], labels: Sequence[str], texts: Texts) -> Table:
    """Return a row for each claim and group that it is about, labelled as given."""
    lines = []
    for judged in judge_claims(groups):
        judgement = judged.judgement
        verdict = (
            texts(f"claims_{judgement.verdict}") + texts("colon") + judgement.reason.in_words(texts)
        )
        measured = judgement.shown.in_words(texts) if judgement.shown else EMPTY
        cells = [judged.claim.claim[texts.language], labels[judged.group], verdict, measured]
        lines.append((group_id(judged.group), cells))
    heads = (
        "claims_column_claim",
        "claims_column_on",
        "claims_column_verdict",
        "claims_column_figure",
    )
    return Table(heads_of(heads, texts), lines, words=(0, 1, 2, 3))


def claim_tests(texts: Texts) -> list[tuple[str, str, str, str | None, str]]:
    """Return (claim, what is looked at, title, address and dates of its source) of each claim."""
    language = texts.language
    return [
        (
            one.claim[language],
            one.test[language],
            one.source.title[language],
            one.source.url,
            one.source.dates(texts),
        )
        for one in read_claims()
    ]


def claims_records(group: Group) -> list[dict[str, Any]]:
    """Return a row in CLAIMS_COLUMNS for each claim that is about the group; reasons are
    English.
    """
    texts = texts_of(LANGUAGES[0])
    identity = {name: getattr(group.info, name) for name in _IDENTITY}
    records = []
    for judged in judge_claims([group]):
        judgement = judged.judgement
        source = judged.claim.source
        # What is no percentage is a whole number.
        digits = 3 if judgement.unit == "percent" else None
        record = {
            "claim": judged.claim.id,
            "verdict": judgement.verdict,
            "figure": rounded(judgement.figure, digits),
            "spread": rounded_spread(judgement.figure, digits),
            "unit": judgement.unit,
            "reason": judgement.reason.in_words(texts),
            "source": source.url or source.title[texts.language],
        }
        records.append({**identity, **record})
    return records
