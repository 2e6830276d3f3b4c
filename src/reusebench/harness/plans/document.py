"""The text of a plan file: its values with the line of each key, so that every mistake is told with
its place.
"""

from __future__ import annotations

import difflib
import json
import re
import reprlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from reusebench.harness.errors import UserError
from reusebench.system.files import printable, read_regular
from reusebench.system.user_files import UserFileError, check_file, problem_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Document", "Keys", "PlanFileError", "Section", "nearest", "read_document", "shown"]

#: The keys that lead to a value, from the outermost table on; of an array its positions, from 0.
Keys = tuple[str, ...]
_Value = TypeVar("_Value", str, int, float, bool)

_TOML_TABLE = re.compile(r"\s*\[+([^\[\]]+)\]+\s*(#.*)?")
_TOML_KEY = re.compile(r"\s*([^\s#=][^#=]*?)\s*=")
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]')
#: A plan of the most contexts has a quarter of it.
_MOST_BYTES = 1 << 20
#: A plan has tables in tables in tables.
_DEEPEST = 20
_TOO_DEEP = f"it is no plan: it is nested more than {_DEEPEST} levels deep"
#: Of TOML: reading one takes memory by the square of its parts.
_DOTTED_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')\s*\.\s*){{{_DEEPEST}}}""")
#: What JSON can write, and UTF-8 cannot.
_LONE_SURROGATES = frozenset(map(chr, range(0xD800, 0xE000)))
#: TOML's own: whole numbers have 64 bits.
_LARGEST = 2**63 - 1
#: Characters of a name; of a longer value an error repeats the beginning.
_LONGEST_WORD = 100
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = _LONGEST_WORD
#: What a key may have, in words.
_KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


class PlanFileError(UserError):
    """A plan file is wrong: the message names the file, the line and the key, and what is valid."""


@dataclass(frozen=True)
class Document:
    """A file's values, and where each of them stands."""

    path: Path
    values: Mapping[str, object]
    lines: Mapping[Keys, int]
    #: The name in errors.
    title: str

    def error(self, keys: Keys, problem: str) -> PlanFileError:
        """Return the error of a value; its line is that of the innermost table around it whose line
        is known.
        """
        known = (keys[:count] for count in range(len(keys), 0, -1) if keys[:count] in self.lines)
        line = next((f", line {self.lines[around]}" for around in known), "")
        name = f", {'.'.join(keys)}" if keys else ""
        return PlanFileError(printable(f"{self.title}{line}{name}: {problem}"))

    def section(self) -> Section:
        """Return the outermost table."""
        return Section.of(self, (), self.values)


@dataclass(frozen=True)
class Section:
    """A table of a file, whose values are read with their types; what is wrong with one is
    raised.
    """

    document: Document
    keys: Keys
    values: Mapping[str, object]

    @classmethod
    def of(cls, document: Document, keys: Keys, values: Mapping[str, object]) -> Section:
        """Return a table; what is null in JSON is missing."""
        return cls(
            document, keys, {key: value for key, value in values.items() if value is not None}
        )

    def error(self, key: str, problem: str) -> PlanFileError:
        """Return the error of a key of this table."""
        return self.document.error((*self.keys, key), problem)

    def expect(self, *valid: str) -> None:
        """Raise PlanFileError if there is a key that is none of these."""
        for key in self.values:
            if key not in valid:
                raise self.error(key, f"there is no such key here{nearest(key, valid)}")

    def text(self, key: str) -> str | None:
        """Return a text; None if the key is missing."""
        return self._value(key, str)

    def flag(self, key: str) -> bool:
        """Return true or false, which it is too where the key is missing."""
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
        whole = isinstance(self.values.get(key), int)
        number = self._value(key, int if whole else float)
        if number is not None and not 0 <= number <= most:
            raise self.error(
                key, f"{shown(number)} is not valid; valid: a number from 0 to {most:,}"
            )
        return None if number is None else float(number)

    def word(self, key: str, valid: Iterable[str], what: str) -> str | None:
        """Return a text that is one of these; None if the key is missing. `what` is what they
        are the names of.
        """
        word = self.text(key)
        if word is not None and word not in (choices := list(valid)):
            raise self.error(key, f"there is no {what} {shown(word)}{nearest(word, choices)}")
        return word

    def words(self, key: str, valid: Iterable[str]) -> tuple[str, ...]:
        """Return a list of texts, each one of these; none where the key is missing."""
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
        """Return the keys of a table of this table, in their order; none where it is missing."""
        return list(self.section(key).values)

    def section(self, key: str) -> Section:
        """Return a table of this table, empty if it is missing."""
        values = self.values.get(key, {})
        if not isinstance(values, dict):
            raise self.error(
                key, f"{shown(values)} is not valid; valid: a table of keys and values"
            )
        return Section.of(self.document, (*self.keys, key), values)

    def _value(self, key: str, kind: type[_Value]) -> _Value | None:
        value = self.values.get(key)
        if value is None:
            return None
        if type(value) is not kind:
            raise self.error(key, f"{shown(value)} is not valid; valid: {_KINDS[kind]}")
        return value


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown word: the one that is nearest to it, and all
    valid ones.
    """
    choices = list(valid)
    close = difflib.get_close_matches(word[:_LONGEST_WORD], choices, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{hint} valid: {', '.join(choices)}" if choices else ", as there is none at all"


def shown(value: object) -> str:
    """Return a value as an error repeats it: the beginning of what is long or deep."""
    return _SHOWN.repr(value)


def read_document(path: Path) -> Document:
    """Return the values of a file, by the ending of its name JSON or TOML; raise PlanFileError
    where it is neither.
    """
    title = f"--plan {path}"
    empty = Document(path, {}, {}, title)
    try:
        text = read_regular(check_file(path), _MOST_BYTES).decode()
    except UserFileError as error:
        raise PlanFileError(f"--plan {error}. Give a plan file (docs/plans.md)") from None
    except (OSError, UnicodeDecodeError) as error:
        problem = problem_of(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise empty.error((), f"{problem}. Give a plan file (docs/plans.md)") from None
    is_json = path.suffix == ".json"
    if not is_json and _DOTTED_KEY.search(text):
        raise empty.error((), _TOO_DEEP)
    kind = "JSON" if is_json else "TOML (JSON needs a name that ends with .json)"
    try:
        values = (
            json.loads(text, parse_constant=_refuse_constant) if is_json else tomllib.loads(text)
        )
    except ValueError as error:  # of both
        raise empty.error((), f"it is no valid {kind}: {error}") from None
    except RecursionError:
        raise empty.error((), _TOO_DEEP) from None
    # From Python 3.14 on, json itself reads thousands of levels.
    forbidden = _problem(values)
    if forbidden:
        raise empty.error((), forbidden)
    if not isinstance(values, dict):
        raise empty.error((), "it has no keys; a plan has models and contexts (docs/plans.md)")
    return Document(path, values, _lines_of_json(text) if is_json else _lines_of_toml(text), title)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _problem(values: object) -> str | None:
    """Return what no plan may have, whatever its keys mean; None if there is nothing of that."""
    level: list[object] = [values]
    for _ in range(_DEEPEST):
        inner: list[object] = []
        for value in level:
            keys = value if isinstance(value, dict) else ()
            for text in (*keys, value):
                if isinstance(text, str) and not _LONE_SURROGATES.isdisjoint(text):
                    return f"{shown(text)} is no text: it has half a character"
            if any(len(key) > _LONGEST_WORD for key in keys):
                return (
                    f"it has a name of more than {_LONGEST_WORD} characters:"
                    f" {shown(max(keys, key=len))}"
                )
            inner += (
                value.values()
                if isinstance(value, dict)
                else value
                if isinstance(value, list)
                else ()
            )
        level = inner
    return _TOO_DEEP if level else None


def _lines_of_toml(text: str) -> dict[Keys, int]:
    """Return the line of each key that begins a line, and of each table; tomllib does not say
    them.
    """
    lines: dict[Keys, int] = {}
    table: Keys = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if head := _TOML_TABLE.fullmatch(line):
            table = _toml_keys(head[1])
            keys = table
        elif key := _TOML_KEY.match(line):
            keys = (*table, *_toml_keys(key[1]))
        else:
            continue
        for count in range(len(keys)):
            lines.setdefault(keys[: count + 1], number)
    return lines


def _toml_keys(text: str) -> Keys:
    """Return the parts of a dotted key; none where the text is none, in a text of several lines for
    example.
    """
    try:
        value: object = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    keys: list[str] = []
    while isinstance(value, dict):
        ((key, value),) = value.items()
        keys.append(key)
    return tuple(keys)


def _lines_of_json(text: str) -> dict[Keys, int]:
    """Return the line of each key, and of each element of an array, of valid JSON."""
    lines: dict[Keys, int] = {}
    keys: list[str] = []
    in_array: list[bool] = []
    tokens = list(_JSON_TOKEN.finditer(text))
    line = 1
    counted = 0
    for token, following in zip(tokens, [*tokens[1:], None]):
        word = token[0]
        if word in ("{", "["):
            in_array.append(word == "[")
            keys.append("0")
        elif word in ("}", "]"):
            in_array.pop()
            keys.pop()
            continue
        elif word == "," and in_array[-1]:
            keys[-1] = str(int(keys[-1]) + 1)
        elif following and following[0] == ":":
            keys[-1] = json.loads(word)
        else:
            continue
        line += text.count("\n", counted, token.start())
        counted = token.start()
        lines.setdefault(tuple(keys), line)
    return lines
