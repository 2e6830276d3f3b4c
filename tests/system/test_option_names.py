"""Former names of options on a command line, and the nearest name to a wrong one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reusebench.system.option_names import FORMER_NAMES, nearest, renamed


@pytest.mark.parametrize(
    ("words", "today"),
    [
        ("runs list --limit 3 --storage x", "runs list --newest 3 --storage x"),
        ("runs list --limit=3", "runs list --newest=3"),
        ("runs prune --limit 3", "runs prune --limit 3"),
        ("fit --limit 64MiB", "fit --limit 64MiB"),
        ("compare 1 --across library --across models", "compare 1 --versions --across models"),
        ("compare 1 --across=library", "compare 1 --versions"),
        ("compare 1 --format md", "compare 1 --format markdown"),
        ("report --format csv --format md", "report --format csv --format markdown"),
        ("report --format", "report --format"),
        ("models build tiny --size 64 --for rknn", "models build tiny --height 64 --runtime rknn"),
        ("record -- runs list --limit 3", "record -- runs list --limit 3"),
        ("bench --memory-fail x", "bench --memory-fail x"),
        ("", ""),
    ],
)
def test_former_names_become_those_of_today(words: str, today: str) -> None:
    """They are replaced in the command that had them, with their values, and named."""
    given, found = renamed(words.split())
    assert " ".join(given) == today
    assert bool(found) == (words != today)


def test_no_former_name_is_a_name_of_today() -> None:
    """A name that was given away means one thing in its command."""
    rows: Sequence[tuple[str, str]] = [(row.command, row.name) for row in FORMER_NAMES]
    assert {(row.command, row.former) for row in FORMER_NAMES}.isdisjoint(rows)


def test_nearest() -> None:
    """The most similar name, or none."""
    assert nearest("--repeat", ["--rounds", "--repeats"]) == "--repeats"
    assert nearest("fly", ["report", "compare"]) is None
    assert nearest("--jsn", ["--sw", "-x"]) is None
