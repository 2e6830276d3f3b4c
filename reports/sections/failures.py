"""What failed or is not supported, and why: equal reasons once, with all scenarios that they are of."""

from __future__ import annotations

from reports.base.format import EMPTY
from reports.base.messages import message_words
from reports.base.texts import Texts
from reports.results.rows import Group, Row

__all__ = ["failures"]


def failures(group: Group, texts: Texts) -> list[dict[str, str]]:
    """Return each reason with its scenarios, in the order of the first of them."""
    scenarios: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for row in group.rows:
        if not row.measured:
            what = {"outcome": texts(f"outcome_{row.outcome}"), **_what_happened(row, texts)}
            scenarios.setdefault(tuple(what.items()), []).append(texts.scenario(row.scenario))
    return [{"scenarios": texts.joined(names), **dict(what)} for what, names in scenarios.items()]


def _what_happened(row: Row, texts: Texts) -> dict[str, str]:
    failure = row.info.failure
    if failure is None:
        return {"phase": EMPTY, "message": texts("differs_from_baseline"), "last_words": ""}
    message = message_words(failure["message"], texts)
    if not row.supported:
        # Where the runtime said that it lacks the mechanism, and what it had said before, bear on nothing.
        return {"phase": "", "message": message, "last_words": ""}
    phase = _phase(failure["phase"], failure["context"], texts)
    return {"phase": phase, "message": message, "last_words": failure["last_words"]}


def _phase(name: str, context: int | None, texts: Texts) -> str:
    phase = texts.words.get(f"phase_{name}", name)
    return phase if context is None else f"{phase}, {context + 1}"
