"""Phases of a recording: their names and their stretches of time."""

from __future__ import annotations

import pytest

from reusebench.recorder.phases import (
    FURTHER,
    MOST_PHASES,
    START,
    WHOLE,
    PhaseLog,
    Stretch,
    phase_name,
)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b"load", "load"),
        (b"  first \t inference\r", "first inference"),
        ("加载".encode(), "加载"),
        (b"", ""),
        (b" \t ", ""),
        (b"\xffload", "\N{REPLACEMENT CHARACTER}load"),
        (b"a\x1b[31mb\0c", "a [31mb c"),
        (b"x" * 5000, "x" * 100),
    ],
)
def test_a_name_is_one_line_of_text(line: bytes, name: str) -> None:
    """A name is stripped of spaces and unprintable characters, and cut if it is very long."""
    assert phase_name(line) == name


def test_marks_part_the_time() -> None:
    """Each moment is in one phase, also before the first mark; without marks there is one phase.

    A phase may come again. Marking the current phase changes nothing; an empty line is no mark.
    """
    assert PhaseLog(5).end(9) == [Stretch(WHOLE, 5, 9)]
    log = PhaseLog(0)
    marks = [("load", 10), ("load", 15), ("run", 20), ("", 25), ("load", 30)]
    assert [log.mark(name, at_ns) for name, at_ns in marks] == [True, False, True, False, True]
    assert log.end(40) == [
        Stretch(START, 0, 10),
        Stretch("load", 10, 20),
        Stretch("run", 20, 30),
        Stretch("load", 30, 40),
    ]


def test_names_are_bounded() -> None:
    """A program that names each frame fills no storage: names beyond the limit share a phase."""
    log = PhaseLog(0)
    for number in range(10 * MOST_PHASES):
        log.mark(f"frame {number}", number + 1)
    names = {stretch.name for stretch in log.end(10**6)}
    assert len(names) == MOST_PHASES + 2
    assert {START, FURTHER, "frame 0"} < names
