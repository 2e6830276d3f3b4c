"""The claims ledger: what manuals and a published test say, and whether what was measured here bears it out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from reports.base.texts import LANGUAGES, texts_of
from reports.claims.judges import Judgement, judge
from reports.results.publication import Source
from reports.results.rows import Group

__all__ = ["CLAIMS_COLUMNS", "Claim", "Judged", "claims_rows", "judge_claims", "read_claims"]

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


@dataclass(frozen=True)
class Claim:
    """One claim, with what is looked at to judge it."""

    id: str
    source: Source
    #: Runtimes that it is about; None: any.
    runtimes: tuple[str, ...] | None
    #: Which of Rockchip's libraries: "full", or "mini" as its small chips have it; None: either.
    library: str | None
    #: By language.
    claim: Mapping[str, str]
    test: Mapping[str, str]
    #: A name of judges.JUDGES, and its parameters.
    judge: str
    parameters: Mapping[str, Any]

    def concerns(self, group: Group) -> bool:
        """Whether the claim is about the group's runtime and chip."""
        library = "mini" if group.info.get("chip") in _MINI_CHIPS else "full"
        about_runtime = self.runtimes is None or group.info.runtime in self.runtimes
        return about_runtime and self.library in (None, library)


@dataclass(frozen=True)
class Judged:
    """What became of a claim in one group."""

    claim: Claim
    group: Group
    judgement: Judgement


@cache
def read_claims() -> tuple[Claim, ...]:
    """Return every claim, in the order of the file."""
    data = json.loads(_FILE.read_text(encoding="utf-8"))
    sources = {key: Source(**source) for key, source in data["sources"].items()}
    return tuple(
        Claim(
            id=each.id,
            source=sources[each.source],
            runtimes=None if each.runtimes is None else tuple(each.runtimes),
            library=each.library,
            claim=each.claim,
            test=each.test,
            judge=each.judge,
            parameters=each.parameters,
        )
        for each in data["claims"]
    )


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
    identity = {key: group.info[key] for key in _IDENTITY}
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
