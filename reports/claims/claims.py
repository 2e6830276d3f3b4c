"""Claims of manuals and of a published test, and whether own measurements support them."""

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
from reusebench.reports.claims.judgement import OPEN, Judgement
from reusebench.reports.claims.judges import judge
from reusebench.reports.results.labels import group_id
from reusebench.reports.results.published import Source
from reusebench.reports.results.rows import Group

_FILE = Path(__file__).parent.parent / "data" / "claims.json"
#: Chips whose library is librknnmrt. The manual says which of its calls they have.
_MINI_CHIPS = ("rv1103", "rv1106")
#: Columns of the exported table that identify the group.
_IDENTITY = ("runtime", "runtime_version", "target", "streams", "contexts")
CLAIMS_COLUMNS = (*_IDENTITY, "claim", "verdict", "figure", "spread", "unit", "reason", "source")


class Claim(msgspec.Struct, frozen=True):
    """One claim, with the test that judges it."""

    id: str
    #: The key of the source in the file.
    source_name: str = msgspec.field(name="source")
    #: Runtimes that it is about; None means any.
    runtimes: Optional[tuple[str, ...]]
    #: Rockchip's library: "full", or "mini" on small chips; None means either.
    library: Optional[str]
    #: Key: language.
    claim: dict[str, str]
    #: The words for the test. Key: language.
    test: dict[str, str]
    #: A name in judges.JUDGES.
    judge: str
    #: The arguments of the judge.
    parameters: dict[str, Any]
    #: Rockchip's chips that it is about; None means any.
    chips: Optional[tuple[str, ...]] = None

    @property
    def source(self) -> Source:
        """The document that makes the claim."""
        return _read_file().sources[self.source_name]

    def concerns(self, group: Group) -> bool:
        """Whether the claim is about the group's runtime and chip."""
        if self.runtimes is not None and group.info.runtime not in self.runtimes:
            return False
        if self.chips is not None and group.info.chip not in self.chips:
            return False
        library = "mini" if group.info.chip in _MINI_CHIPS else "full"
        return self.library in (None, library)


@dataclass(frozen=True)
class JudgedClaim:
    """The judgement on a claim in one group."""

    claim: Claim
    #: The position of the group among the judged ones.
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
    judged = []
    for claim in read_claims():
        for number, group in enumerate(groups):
            if claim.concerns(group):
                judgement = judge(claim.judge, group, claim.parameters)
                judged.append(JudgedClaim(claim, number, judgement))
    return judged


def decided_claims(groups: Sequence[Group]) -> list[JudgedClaim]:
    """Return the judgements that say that a claim holds, or that it does not."""
    return [judged for judged in judge_claims(groups) if judged.judgement.verdict != OPEN]


def claims_table(claims: Sequence[JudgedClaim], labels: Sequence[str], texts: Texts) -> Table:
    """Return a row for each judged claim; groups have these labels."""
    lines = []
    for judged in claims:
        judgement = judged.judgement
        reason = judgement.reason.in_words(texts)
        verdict = texts(f"claims_{judgement.verdict}") + texts("colon") + reason
        measured = judgement.shown.in_words(texts) if judgement.shown else EMPTY
        cells = [judged.claim.claim[texts.language], labels[judged.group], verdict, measured]
        lines.append((group_id(judged.group), cells))
    heads = (
        "claims_column_claim",
        "claims_column_on",
        "claims_column_verdict",
        "claims_column_figure",
    )
    return Table(heads_of(heads, texts), lines, words=(0, 1, 2, 3), exported="claims")


def claim_tests(
    claims: Sequence[JudgedClaim], texts: Texts
) -> list[tuple[str, str, str, str | None, str]]:
    """Return (claim, test, title of the source, its address, its dates) of each claim once."""
    language = texts.language
    tests = []
    for claim in {judged.claim.id: judged.claim for judged in claims}.values():
        source = claim.source
        title = source.title[language]
        dates = source.dates(texts)
        tests.append((claim.claim[language], claim.test[language], title, source.url, dates))
    return tests


def claims_records(group: Group) -> list[dict[str, Any]]:
    """Return a row in CLAIMS_COLUMNS for each claim about the group, with reasons in English."""
    texts = texts_of(LANGUAGES[0])
    identity = {name: getattr(group.info, name) for name in _IDENTITY}
    records = []
    for judged in judge_claims([group]):
        judgement = judged.judgement
        source = judged.claim.source
        # Bytes and buffers are whole numbers.
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
