"""Sentences about figures that were measured while memory was short."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.measured.messages import Message
from reusebench.reports.base.texts import Texts


def outcome_in_words(outcome: str, signs: Sequence[Message], texts: Texts) -> str:
    """Return the outcome, and what shows that memory was short."""
    return (
        texts("outcome_short", outcome=outcome, signs=_in_words(signs, texts)) if signs else outcome
    )


def short_row(name: str, signs: Sequence[Message], texts: Texts) -> str:
    """Return what was measured while memory was short, and what shows that."""
    return texts("short_row", scenario=name, signs=_in_words(signs, texts))


def _in_words(signs: Sequence[Message], texts: Texts) -> str:
    return texts("list_separator").join(map(texts.message, signs))
