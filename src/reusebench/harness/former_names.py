"""Former names of the options of `pytest bench/`, and the proposals for a wrong one."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reusebench.system.option_names import BENCH, FORMER_NAMES, FormerName, former_names_of, nearest

if TYPE_CHECKING:
    import pytest

__all__ = ["Add", "propose_names", "with_former_names"]

#: The function that declares an option, of pytest or argparse.
Add = Callable[..., Any]
#: Head of the proposals in pytest's message about an unknown option.
_HEAD = "names"


def with_former_names(add: Add) -> Add:
    """Return a function that declares an option, and its former names without a line of help."""

    def add_all(name: str, **attributes: Any) -> None:
        add(name, **attributes)
        for row in former_names_of(name):
            hidden = {
                **attributes,
                "dest": name.lstrip("-").replace("-", "_"),
                "type": _hinting(row, attributes.get("type", str)),
                "help": argparse.SUPPRESS,
            }
            add(row.former, **hidden)

    return add_all


def _hinting(row: FormerName, parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return the parser of a value, which tells the user the name of today."""

    def parse_and_hint(text: str) -> Any:
        _hint(row)
        return parse(text)

    return parse_and_hint


@functools.cache
def _hint(row: FormerName) -> None:
    """Print the hint once: pytest parses the command line several times."""
    print(f"Hint: {row.hint}", file=sys.stderr)


def propose_names(parser: pytest.Parser) -> None:
    """Have pytest's message about an unknown option name the nearest ones."""
    parser.extra_info[_HEAD] = _Proposals(parser)


class _Proposals:
    """The proposals as text, which is made when pytest shows it: all plug-ins are loaded then."""

    def __init__(self, parser: pytest.Parser) -> None:
        self._parser = parser

    def __str__(self) -> str:
        names = self._names()
        # A misspelt former name is told by its name of today.
        today = {row.former: row.name for row in FORMER_NAMES if row.command == BENCH}
        words = [word.partition("=")[0] for word in sys.argv[1:]]
        wrong = [word for word in words if word.startswith("--") and word not in (*names, "--")]
        parts = []
        for word in wrong:
            near = nearest(word, names)
            if near:
                parts.append(f"the nearest to {word} is {today.get(near, near)}")
        return "; ".join([*parts, "`reusebench bench --help` lists ours"])

    def _names(self) -> list[str]:
        groups = [*self._parser._groups, self._parser._anonymous]
        names: list[str] = []
        for group in groups:
            for option in group.options:
                names += option.names()
        return names
