"""What is stored about an event is a code with values; the words for it, in each language, are in `LANGUAGE.json`.

Messages are made in the measured process too: standard library only, Python 3.8, and no file is read before words are
asked for.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Mapping, Tuple, Union

__all__ = ["ENGLISH", "LANGUAGES", "Message", "read_sentence", "words"]

ENGLISH = "en"
#: English first; the keys of each language's file are the codes of all messages.
LANGUAGES = (ENGLISH, "zh-CN")

_FOLDER = Path(__file__).parent
#: {name}, as re.escape leaves it.
_FIELD = re.compile(r"\\\{(\w+)\\\}")


@dataclass(frozen=True)
class Message:
    """One event: its code, and what the words for it speak of, by the names of the fields in them."""

    code: str
    values: Mapping[str, Union[Message, str, int, float]] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the English words."""
        return words(self)


def words(message: Message, language: str = ENGLISH) -> str:
    """Return the message in a language of LANGUAGES; its code and values where a newer version has stored it."""
    values: Dict[str, Union[str, int, float]] = {}
    for name, value in message.values.items():
        values[name] = words(value, language) if isinstance(value, Message) else value
    text = _texts(language).get(message.code)
    if text is None:
        said = ", ".join(f"{name} {value}" for name, value in values.items())
        return f"{message.code} ({said})" if said else message.code
    return text.format(**values)


def read_sentence(sentence: str) -> Message:
    """Return the message of an English sentence, as version 0.1.0 stored them; `text` where it is none of ours."""
    for pattern, code in _patterns():
        matched = pattern.fullmatch(sentence)
        if matched:
            return Message(code, {name: _value(value) for name, value in matched.groupdict().items()})
    return Message("text", {"text": sentence})


def _value(text: str) -> Union[Message, str]:
    """Return the message that a field of a sentence is, or the field's text."""
    message = read_sentence(text)
    return text if message.code == "text" else message


@functools.cache
def _texts(language: str) -> Dict[str, str]:
    texts: Dict[str, str] = json.loads((_FOLDER / f"{language}.json").read_text(encoding="utf-8"))
    return texts


@functools.cache
def _patterns() -> List[Tuple[re.Pattern[str], str]]:
    """Return a pattern of each English text with its code; the first that fits counts. `text` would fit anything."""
    texts = [(text, code) for code, text in _texts(ENGLISH).items() if code != "text"]
    return [(re.compile(_FIELD.sub(r"(?P<\1>.+?)", re.escape(text)), re.DOTALL), code) for text, code in texts]
