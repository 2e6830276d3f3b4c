"""Messages that are stored in English, in the words of another language: what failed, why, and what could be read."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

from reports.base.texts import LANGUAGES, Texts

__all__ = ["said"]

_FOLDER = Path(__file__).parent.parent / "data"
#: {name}, as re.escape leaves it.
_FIELD = re.compile(r"\\\{(\w+)\\\}")


def said(message: str, texts: Texts) -> str:
    """Return a stored message in the language of the texts, its fields too; as it is where no translation fits."""
    for pattern, text in _translations(texts.language):
        found = pattern.fullmatch(message)
        if found:
            return text.format(**{name: said(value, texts) for name, value in found.groupdict().items()})
    return message


@functools.cache
def _translations(language: str) -> list[tuple[re.Pattern[str], str]]:
    """Return each message of the language's file as a pattern, with its translation; the first that fits counts."""
    if language == LANGUAGES[0]:
        return []
    file = _FOLDER / f"messages.{language}.json"
    return [(_pattern(message), text) for message, text in json.loads(file.read_text(encoding="utf-8")).items()]


def _pattern(message: str) -> re.Pattern[str]:
    return re.compile(_FIELD.sub(r"(?P<\1>.+?)", re.escape(message)), re.DOTALL)
