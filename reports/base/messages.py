"""What is stored of events, in words: what failed, why, and what could be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from messages import Message, words
from reports.base.texts import Texts

__all__ = ["message_words"]


def message_words(stored: str | Mapping[str, Any], texts: Texts) -> str:
    """Return a stored message, of version 0.1.0 a sentence, in the language of the texts."""
    return words(Message.from_json(stored), texts.language)
