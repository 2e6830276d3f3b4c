"""The text of a plan file: its values, and the line of each key for messages about mistakes."""

from __future__ import annotations

import difflib
import json
import re
import reprlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from reusebench.harness.errors import UserError
from reusebench.harness.plans.key_lines import Keys, lines_of_json, lines_of_toml
from reusebench.system.files import printable, read_regular
from reusebench.system.user_files import UserFileError, check_file, problem_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "Document",
    "DocumentTable",
    "Keys",
    "PlanFileError",
    "nearest",
    "read_document",
    "shown",
]

_Value = TypeVar("_Value", str, int, float, bool)

#: A plan with the most contexts has a quarter of this.
_MOST_BYTES = 1 << 20
#: A plan has three levels of tables.
_DEEPEST = 20
_TOO_DEEP = f"it is no plan: it is nested more than {_DEEPEST} levels deep"
#: A long dotted key of TOML. To read one takes memory that grows with the square of its parts.
_DOTTED_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')\s*\.\s*){{{_DEEPEST}}}""")
#: Characters that JSON can write, and UTF-8 cannot.
_LONE_SURROGATES = frozenset(map(chr, range(0xD800, 0xE000)))
#: TOML's bound: whole numbers have 64 bits.
_LARGEST = 2**63 - 1
#: Most characters of a name; an error repeats only the beginning of a longer value.
_LONGEST_WORD = 100
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = _LONGEST_WORD
#: Names of the types that a key may have.
_KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


class PlanFileError(UserError):
    """A plan file is wrong: the message names the file, the line and the key, and what is valid."""


@dataclass(frozen=True)
class Document:
    """The values of a file with their lines."""

    path: Path
    values: Mapping[str, object]
    lines: Mapping[Keys, int]
    #: Name of the file in errors.
    title: str

    def error(self, keys: Keys, problem: str) -> PlanFileError:
        """Return the error of a value, with its line or that of the innermost table around it."""
        place = self.title
        for count in range(len(keys), 0, -1):
            if keys[:count] in self.lines:
                place = f"{place}, line {self.lines[keys[:count]]}"
                break
        if keys:
            place = f"{place}, {'.'.join(keys)}"
        return PlanFileError(printable(f"{place}: {problem}"))

    def section(self) -> DocumentTable:
        """Return the outermost table."""
        return DocumentTable.of(self, (), self.values)


@dataclass(frozen=True)
class DocumentTable:
    """A table of a file, whose methods return checked values or raise PlanFileError."""

    document: Document
    keys: Keys
    values: Mapping[str, object]

    @classmethod
    def of(cls, document: Document, keys: Keys, values: Mapping[str, object]) -> DocumentTable:
        """Return a table; a value that is null in JSON counts as missing."""
        given = {key: value for key, value in values.items() if value is not None}
        return cls(document, keys, given)

    def error(self, key: str, problem: str) -> PlanFileError:
        """Return the error of a key of this table."""
        return self.document.error((*self.keys, key), problem)

    def expect(self, *valid: str) -> None:
        """Raise PlanFileError if there is any other key."""
        for key in self.values:
            if key not in valid:
                raise self.error(key, f"there is no such key here{nearest(key, valid)}")

    def text(self, key: str) -> str | None:
        """Return a text; None if the key is missing."""
        return self._value(key, str)

    def flag(self, key: str) -> bool:
        """Return true or false; false if the key is missing."""
        return self._value(key, bool) or False

    def whole(self, key: str, least: int, most: int = _LARGEST) -> int | None:
        """Return a whole number from `least` to `most`; None if the key is missing."""
        number = self._value(key, int)
        if number is not None and not least <= number <= most:
            limit = f" to {most:,}" if most < _LARGEST else ""
            raise self.error(
                key, f"{shown(number)} is not valid; valid: a whole number from {least}{limit}"
            )
        return number

    def number(self, key: str, most: float) -> float | None:
        """Return a number from 0 to `most`; None if the key is missing."""
        is_whole = isinstance(self.values.get(key), int)
        number = self._value(key, int if is_whole else float)
        if number is None:
            return None
        if not 0 <= number <= most:
            raise self.error(
                key, f"{shown(number)} is not valid; valid: a number from 0 to {most:,}"
            )
        return float(number)

    def word(self, key: str, valid: Iterable[str], what: str) -> str | None:
        """Return a text that is one of these; None if the key is missing.

        `what` is the noun for these names in an error.
        """
        word = self.text(key)
        choices = list(valid)
        if word is not None and word not in choices:
            raise self.error(key, f"there is no {what} {shown(word)}{nearest(word, choices)}")
        return word

    def words(self, key: str, valid: Iterable[str]) -> tuple[str, ...]:
        """Return a list of texts, each one of these; empty if the key is missing."""
        choices = list(valid)
        words = self.values.get(key, [])
        if not isinstance(words, list):
            raise self.error(
                key, f"{shown(words)} is not valid; valid: a list of {', '.join(choices)}"
            )
        for word in words:
            if word not in choices:
                raise self.error(key, f"{shown(word)} is unknown{nearest(shown(word), choices)}")
        return tuple(words)

    def names(self, key: str) -> list[str]:
        """Return the keys of a table in this table, in their order; empty if it is missing."""
        return list(self.section(key).values)

    def section(self, key: str) -> DocumentTable:
        """Return a table in this table, empty if it is missing."""
        values = self.values.get(key, {})
        if not isinstance(values, dict):
            raise self.error(
                key, f"{shown(values)} is not valid; valid: a table of keys and values"
            )
        return DocumentTable.of(self.document, (*self.keys, key), values)

    def _value(self, key: str, kind: type[_Value]) -> _Value | None:
        value = self.values.get(key)
        if value is None:
            return None
        if type(value) is not kind:
            raise self.error(key, f"{shown(value)} is not valid; valid: {_KINDS[kind]}")
        return value


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown word: the nearest valid word, and all."""
    choices = list(valid)
    if not choices:
        return ", as there is none at all"
    close = difflib.get_close_matches(word[:_LONGEST_WORD], choices, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{hint} valid: {', '.join(choices)}"


def shown(value: object) -> str:
    """Return a value as an error repeats it: only the beginning if it is long or deep."""
    return _SHOWN.repr(value)


def read_document(path: Path) -> Document:
    """Return the values of a file of JSON, if its name ends with .json, or of TOML.

    Raises PlanFileError if it is neither.
    """
    empty = Document(path, {}, {}, f"--plan {path}")
    try:
        text = read_regular(check_file(path, _MOST_BYTES), _MOST_BYTES).decode()
    except UserFileError as error:
        raise PlanFileError(f"--plan {error}. Give a plan file (docs/reference/plans.md)") from None
    except UnicodeDecodeError:
        raise empty.error(
            (), "it is not UTF-8. Give a plan file (docs/reference/plans.md)"
        ) from None
    except OSError as error:
        problem = f"{problem_of(error)}. Give a plan file (docs/reference/plans.md)"
        raise empty.error((), problem) from None

    if path.suffix == ".json":
        values = _parsed_json(empty, text)
        lines_of = lines_of_json
    else:
        values = _parsed_toml(empty, text)
        lines_of = lines_of_toml
    # json of Python 3.14 and later reads thousands of levels itself.
    forbidden = _problem(values)
    if forbidden:
        raise empty.error((), forbidden)
    if not isinstance(values, dict):
        raise empty.error(
            (), "it has no keys; a plan has models and contexts (docs/reference/plans.md)"
        )
    return replace(empty, values=values, lines=lines_of(text))


def _parsed_json(document: Document, text: str) -> object:
    def refuse_constant(name: str) -> None:
        raise ValueError(f"{name} is no number")

    try:
        return json.loads(text, parse_constant=refuse_constant)
    except ValueError as error:
        raise document.error((), f"it is no valid JSON: {error}") from None
    except RecursionError:
        raise document.error((), _TOO_DEEP) from None


def _parsed_toml(document: Document, text: str) -> object:
    if _DOTTED_KEY.search(text):
        raise document.error((), _TOO_DEEP)
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also raised for numbers of very many digits
        kind = "TOML (JSON needs a name that ends with .json)"
        raise document.error((), f"it is no valid {kind}: {error}") from None
    except RecursionError:
        raise document.error((), _TOO_DEEP) from None


def _problem(values: object) -> str | None:
    """Return a problem that is one in every plan, whatever its keys mean; None without any."""
    level: list[object] = [values]
    for _ in range(_DEEPEST):
        inner: list[object] = []
        for value in level:
            problem = _problem_of_value(value)
            if problem:
                return problem
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
        level = inner
    return _TOO_DEEP if level else None


def _problem_of_value(value: object) -> str | None:
    """Return a problem of a value, or of the keys of a table, but not of the values in it."""
    keys: list[str] = []
    if isinstance(value, dict):
        keys += value
    for text in (*keys, value):
        if isinstance(text, str) and not _LONE_SURROGATES.isdisjoint(text):
            return f"{shown(text)} is no text: it has half a character"
    longest = max(keys, key=len, default="")
    if len(longest) > _LONGEST_WORD:
        return f"it has a name of more than {_LONGEST_WORD} characters: {shown(longest)}"
    return None
