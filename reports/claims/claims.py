"""The claims ledger: what manuals and a published test say, and whether what was measured here bears it out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Optional

import msgspec

from reports.base.texts import LANGUAGES, texts_of
from reports.claims.judges import Judgement, judge
from reports.results.publication import Source
from reports.results.rows import Group

_FILE = Path(__file__).parent.parent / "data" / "claims.json"
#: Chips whose library is librknnmrt; the manual says of each call whether they have it.
_MINI_CHIPS = ("rv1103", "rv1106")
#: Columns of the exported table.
CLAIMS_COLUMNS = (
    "runtime",
    "runtime_version",
    "target",
    "streams",
    "contexts",
    "claim",
    "verdict",
    "figure",
    "spread",
    "unit",
    "reason",
    "source",
)
#: Those that tell whose runs they were.
_IDENTITY = CLAIMS_COLUMNS[:5]


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
class Judged:
    """What became of a claim in one group."""

    claim: Claim
    group: Group
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


def judge_claims(groups: Iterable[Group]) -> list[Judged]:
    """Return the judgement on each claim in each group that it is about, claim by claim."""
    groups = list(groups)
    return [
        Judged(claim, group, judge(claim.judge, group, claim.parameters))
        for claim in read_claims()
        for group in groups
        if claim.concerns(group)
    ]


def claims_rows(group: Group) -> list[dict[str, Any]]:
    """Return a row in CLAIMS_COLUMNS for each claim that is about the group; reasons are English."""
    texts = texts_of(LANGUAGES[0])
    identity = {name: getattr(group.info, name) for name in _IDENTITY}
    return [
        {
            **identity,
            "claim": each.claim.id,
            "verdict": each.judgement.verdict,
            "figure": _number(each.judgement, "median"),
            "spread": _number(each.judgement, "spread"),
            "unit": each.judgement.unit,
            "reason": each.judgement.reason.said(texts),
            "source": each.claim.source.url or each.claim.source.title[texts.language],
        }
        for each in judge_claims([group])
    ]


def _number(judgement: Judgement, part: str) -> float | None:
    """Return the median or the spread; what is not a percentage is a whole number."""
    value: float | None = getattr(judgement.figure, part, None)
    if value is None:
        return None
    return round(value, 3) if judgement.unit == "percent" else round(value)
