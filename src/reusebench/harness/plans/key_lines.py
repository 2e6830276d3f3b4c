"""The line of each key in a text of TOML or JSON, which their parsers do not tell."""

from __future__ import annotations

import json
import re
import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Keys", "lines_of_json", "lines_of_toml"]

#: The keys that lead to a value, from the outermost table on; for arrays, positions from 0.
Keys = tuple[str, ...]

_TOML_TABLE = re.compile(r"\s*\[+([^\[\]]+)\]+\s*(#.*)?")
_TOML_KEY = re.compile(r"\s*([^\s#=][^#=]*?)\s*=")
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]')


def lines_of_toml(text: str) -> dict[Keys, int]:
    """Return the line of each table, and of each key that begins a line."""
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
    """Return the parts of a dotted key; empty if it is none, but part of a text for example."""
    try:
        value: object = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    keys: list[str] = []
    while isinstance(value, dict):
        ((key, value),) = value.items()
        keys.append(key)
    return tuple(keys)


def lines_of_json(text: str) -> dict[Keys, int]:
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
