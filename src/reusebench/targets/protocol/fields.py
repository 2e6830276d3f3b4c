"""Lines of fields: a kind, then any number of NAME=VALUE, separated by tabs.

Tab, newline and backslash are escaped in values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

__all__ = ["Fields", "read_line", "write_line"]

_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n"}
_ESCAPING = str.maketrans(_ESCAPES)
_CHARACTERS = {escape[1]: character for character, escape in _ESCAPES.items()}


class Fields:
    """The fields of a line in their order; a name may occur more than once."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def get(self, name: str) -> str | None:
        """Return the first value of this name, or None."""
        return next(iter(self.all(name)), None)

    def text(self, name: str) -> str:
        """Return the first value of this name; raise KeyError if there is none."""
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def all(self, name: str) -> list[str]:
        """Return all values of this name."""
        return [value for other, value in self._pairs if other == name]

    def number(self, name: str, otherwise: int | None = None) -> int:
        """Return the whole number of this name, or `otherwise` if it is missing.

        Raises KeyError if it is missing without `otherwise`, ValueError if it is not a number.
        """
        if otherwise is None:
            return int(self.text(name))
        return int(self.get(name) or otherwise)

    def optional_number(self, name: str) -> int | None:
        """Return the whole number of this name, or None."""
        value = self.get(name)
        return None if value is None else int(value)

    def groups(self, name: str) -> Iterator[Fields]:
        """Yield each field of this name with the fields up to the next one of this name."""
        starts = [number for number, (other, _) in enumerate(self._pairs) if other == name]
        for start, end in zip(starts, [*starts[1:], len(self._pairs)]):
            yield Fields(self._pairs[start:end])


def write_line(kind: str, pairs: Iterable[tuple[str, object]]) -> bytes:
    """Return the line, which ends with a newline."""
    fields = [f"{name}={str(value).translate(_ESCAPING)}" for name, value in pairs]
    return "\t".join([kind, *fields]).encode(errors="surrogateescape") + b"\n"


def read_line(line: bytes) -> tuple[str, Fields]:
    """Return the kind and the fields of a line; invalid UTF-8 is replaced."""
    kind, *fields = line.decode(errors="replace").split("\t")
    pairs = []
    for field in fields:
        name, _, value = field.partition("=")
        pairs.append((name, re.sub(r"\\(.)", _unescaped, value)))
    return kind, Fields(pairs)


def _unescaped(match: re.Match[str]) -> str:
    return _CHARACTERS.get(match[1], match[1])
