"""Sentences about figures that were measured while memory was short."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.measured.messages import Message
from reusebench.reports.base.texts import Texts


def outcome_in_words(outcome: str, signs: Sequence[Message], texts: Texts) -> str:
    """Return the outcome, with the signs of short memory if there are any."""
    if not signs:
        return outcome
    return texts("outcome_short", outcome=outcome, signs=_joined(signs, texts))


def short_row(name: str, signs: Sequence[Message], texts: Texts) -> str:
    """Return the name of what was measured, with the signs of short memory, or other remarks."""
    return texts("short_row", scenario=name, signs=_joined(signs, texts))


def codes_of(messages: Sequence[Message]) -> str | None:
    """Return the codes, as exported tables have them; None if there is no message."""
    return " ".join(message.code for message in messages) or None


def _joined(signs: Sequence[Message], texts: Texts) -> str:
    return texts.joined(map(texts.message, signs))
