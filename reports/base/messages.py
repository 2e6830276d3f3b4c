"""Stored messages in words: what failed, why, and what could be read."""

from __future__ import annotations

from messages import Message, read_sentence, words
from reports.base.texts import Texts


def in_words(message: Message | str, texts: Texts) -> str:
    """Return a message, or a sentence of version 0.1.0, in the language of the texts."""
    return words(message if isinstance(message, Message) else read_sentence(message), texts.language)
