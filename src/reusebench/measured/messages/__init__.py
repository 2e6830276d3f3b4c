"""Events are stored as a code with values; their texts, in each language, are in `LANGUAGE.json`.

Messages are made in the measured process too: standard library only, Python 3.8, and no file is read before a message
is put into words.
"""

from __future__ import annotations

import functools
import json
import os
import re
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Tuple, Union

__all__ = ["ENGLISH", "LANGUAGES", "Message", "Value", "read_sentence", "words"]

ENGLISH = "en"
#: English first; the keys of each language's file are the codes of all messages.
LANGUAGES = (ENGLISH, "zh-CN")

#: Of one field of a text.
Value = Union["Message", str, int, float]

_FOLDER = os.path.dirname(os.path.abspath(__file__))
#: {name}, as re.escape leaves it.
_ESCAPED_FIELD = re.compile(r"\\\{(\w+)\\\}")
#: Codes whose words come from a library or another version: no sentence is recognised by them.
_VERBATIM = ("exception", "text")


@dataclass(frozen=True)
class Message:
    """One event: its code, and the values that its text has fields for."""

    code: str
    values: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the English words."""
        return words(self)


def words(message: Message, language: str = ENGLISH) -> str:
    """Return the message in a language of LANGUAGES; its code and values if it is of another version."""
    values: Dict[str, Value] = {}
    for name, value in message.values.items():
        values[name] = words(value, language) if isinstance(value, Message) else value
    try:
        return _texts(language)[message.code].format(**values)
    except (KeyError, TypeError, ValueError):
        listed = ", ".join(f"{name} {value}" for name, value in values.items())
        return f"{message.code} ({listed})" if listed else message.code


def read_sentence(sentence: str) -> Message:
    """Return the message of an English sentence, as version 0.1.0 stored them; one of code `text` for any other."""
    for pattern, code in _patterns():
        match = pattern.fullmatch(sentence)
        if match:
            values: Dict[str, Value] = {}
            for name, text in match.groupdict().items():
                message = read_sentence(text)
                values[name] = text if message.code == "text" else message
            return Message(code, values)
    return Message("text", {"text": sentence})


@functools.lru_cache(maxsize=None)  # noqa: UP033  functools.cache needs Python 3.9
def _texts(language: str) -> Dict[str, str]:
    with open(os.path.join(_FOLDER, f"{language}.json"), encoding="utf-8") as file:
        texts: Dict[str, str] = json.load(file)
    return texts


@functools.lru_cache(maxsize=None)  # noqa: UP033
def _patterns() -> List[Tuple[re.Pattern[str], str]]:
    """Return a pattern of each English text with its code; the first that fits counts."""
    return [
        (re.compile(_ESCAPED_FIELD.sub(r"(?P<\1>.+?)", re.escape(text)), re.DOTALL), code)
        for code, text in _texts(ENGLISH).items()
        if code not in _VERBATIM
    ]
