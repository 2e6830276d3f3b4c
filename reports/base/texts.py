"""The words of the report in each language, from texts/LANGUAGE/*.json with the same keys."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from reusebench.measured.messages import LANGUAGES, Message, words
from reusebench.measured.runtimes import RUNTIMES
from reusebench.scenarios.titles import title_of

__all__ = ["LANGUAGES", "Texts", "texts_of"]

_FOLDER = Path(__file__).parent.parent / "texts"
#: The file whose texts come first in all lists, above all in the list of definitions.
_FIRST_FILE = "report.json"
_TITLES = {runtime.name: runtime.title for runtime in RUNTIMES}


@dataclass(frozen=True)
class Texts:
    """The words of one language."""

    language: str
    words: dict[str, str]

    def __call__(self, key: str, **values: object) -> str:
        """Return the text of a key, with the values filled in."""
        return self.words[key].format(**values)

    def of_runtime(self, key: str, runtime: str, **values: object) -> str:
        """Return the text KEY_RUNTIME if there is one, otherwise that of KEY."""
        own = f"{key}_{runtime}"
        return self(own if own in self.words else key, **values)

    def scenario(self, name: str) -> str:
        """Return the name of a scenario or a user's plan in the language, if it has one."""
        return title_of(name, self.language)

    def scenarios(self, names: Iterable[str]) -> str:
        """Return the names of these scenarios, as one list."""
        return self.joined(map(self.scenario, names))

    def runtime(self, name: str) -> str:
        """Return a runtime's title; for an unknown runtime its text, or without one its name."""
        return _TITLES.get(name) or self.words.get(f"runtime_{name}", name)

    def joined(self, names: Iterable[str]) -> str:
        """Return the names as one list."""
        return self("list_separator").join(names)

    def sentences(self, parts: Iterable[str | None]) -> str:
        """Return the sentences that are not empty, one after the other."""
        return self("sentence_separator").join(filter(None, parts))

    def message(self, message: Message) -> str:
        """Return a stored message in the language."""
        return words(message, self.language)

    def starting_with(self, prefix: str) -> dict[str, str]:
        """Return the texts whose keys have the prefix, in file order. Key: the rest of the key."""
        texts = {}
        for key, text in self.words.items():
            if key.startswith(prefix):
                texts[key[len(prefix) :]] = text
        return texts


@functools.cache
def texts_of(language: str) -> Texts:
    """Return the words of a language of LANGUAGES."""
    files = (_FOLDER / language).glob("*.json")
    words: dict[str, str] = {}
    for file in sorted(files, key=lambda file: (file.name != _FIRST_FILE, file.name)):
        words.update(json.loads(file.read_text(encoding="utf-8")))
    return Texts(language, words)
