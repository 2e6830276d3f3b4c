"""Messages about events: a code with values, whose texts in each language are in `LANGUAGE.json`.

Messages are made in the measured process too: standard library only, Python 3.8, and no file is
read before the text of a message is needed.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass, field
from typing import Dict, Mapping, Union

__all__ = ["ENGLISH", "LANGUAGES", "Message", "Value", "words"]

ENGLISH = "en"
#: All languages. English is first: exported tables are English, and it is the default. The keys of
#: each language's file are the codes of all messages.
LANGUAGES = (ENGLISH, "zh-CN")

#: A value for one field of a text.
Value = Union["Message", str, int, float]

_FOLDER = os.path.dirname(os.path.abspath(__file__))


@dataclass(frozen=True)
class Message:
    """One event: its code, and the values for the fields of its text."""

    code: str
    values: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the text in English."""
        return words(self)


def words(message: Message, language: str = ENGLISH) -> str:
    """Return the text of a message; its code and values if another version wrote it."""
    values: Dict[str, Value] = {}
    for name, value in message.values.items():
        values[name] = words(value, language) if isinstance(value, Message) else value
    try:
        return _texts(language)[message.code].format(**values)
    except (KeyError, TypeError, ValueError):
        listed = ", ".join(f"{name} {value}" for name, value in values.items())
        return f"{message.code} ({listed})" if listed else message.code


@functools.lru_cache(maxsize=None)  # noqa: UP033  functools.cache needs Python 3.9
def _texts(language: str) -> Dict[str, str]:
    with open(os.path.join(_FOLDER, f"{language}.json"), encoding="utf-8") as file:
        texts: Dict[str, str] = json.load(file)
    return texts
