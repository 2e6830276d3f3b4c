"""Stored messages in words: what failed, why, and what could be read."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

from messages import Message, read_sentence, words
from reports.base.texts import LANGUAGES, Texts

__all__ = ["in_words"]

_FOLDER = Path(__file__).parent.parent / "data"
#: {name}, as re.escape leaves it.
_FIELD = re.compile(r"\\\{(\w+)\\\}")


def in_words(message: Message | str, texts: Texts) -> str:
    """Return a message, or a sentence of version 0.1.0, in the language of the texts; as it is where it is unknown."""
    known = message if isinstance(message, Message) else read_sentence(message)
    return _translated(words(known, texts.language), texts.language)


def _translated(sentence: str, language: str) -> str:
    """Return an English sentence in the language, its fields too."""
    for pattern, text in _translations(language):
        fields = pattern.fullmatch(sentence)
        if fields:
            return text.format(**{name: _translated(value, language) for name, value in fields.groupdict().items()})
    return sentence


@functools.cache
def _translations(language: str) -> list[tuple[re.Pattern[str], str]]:
    """Return each message of the language's file as a pattern, with its translation; the first that fits counts."""
    if language == LANGUAGES[0]:
        return []
    file = _FOLDER / f"messages.{language}.json"
    return [(_pattern(message), text) for message, text in json.loads(file.read_text(encoding="utf-8")).items()]


def _pattern(message: str) -> re.Pattern[str]:
    return re.compile(_FIELD.sub(r"(?P<\1>.+?)", re.escape(message)), re.DOTALL)
