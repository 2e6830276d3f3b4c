"""Phases that a program marks, and where the marks come from."""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
from pathlib import Path

import pytest

from reusebench.recorder.phases import (
    FURTHER,
    MOST_PHASES,
    START,
    WHOLE,
    FarFileMarks,
    FarSocketMarks,
    FileMarks,
    Lines,
    Marks,
    PhaseLog,
    SocketMarks,
    Stretch,
    phase_name,
)
from tests.helpers.support import TIME_LIMIT_S


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
    """Spaces around it are no part of it, nor what cannot be printed; a very long one is cut."""
    assert phase_name(line) == name


def test_lines_come_in_any_pieces() -> None:
    """Where a write is torn apart the lines are the same; what has no newline is none yet."""
    text = b"load\n\nsteady state\nend\nnot yet"
    chance = random.Random(2)
    for _ in range(50):
        lines = Lines()
        complete = []
        rest = text
        while rest:
            size = chance.randint(1, 9)
            complete += lines.feed(rest[:size])
            rest = rest[size:]
        assert complete == [b"load", b"", b"steady state", b"end"]


def test_a_line_without_end_takes_no_memory() -> None:
    """A program that writes something else into the file does no harm; the next line counts
    again.
    """
    lines = Lines()
    for _ in range(100):
        assert lines.feed(b"x" * 65536) == []
    long, load = lines.feed(b"\nload\n")
    assert len(long) < 10_000
    assert load == b"load"


def test_marks_part_the_time() -> None:
    """Each moment is in one phase, also before the first mark, and a phase may come again; without
    marks there is one.

    The phase that is marked already goes on, and an empty line is no mark.
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
    """A program that gives each frame a name of its own fills no storage: names beyond so many are
    one phase.
    """
    log = PhaseLog(0)
    for number in range(10 * MOST_PHASES):
        log.mark(f"frame {number}", number + 1)
    names = {stretch.name for stretch in log.end(10**6)}
    assert len(names) == MOST_PHASES + 2
    assert {START, FURTHER, "frame 0"} < names


def test_a_file_is_emptied_and_read_as_it_grows(tmp_path: Path) -> None:
    """What was in it before is no mark; the program gets its full path, wherever it works."""
    path = tmp_path / "phases"
    path.write_text("old\n")
    marks = FileMarks(path)
    assert marks.environment == {"REUSEBENCH_PHASES": str(path)}
    assert marks.read() == []
    assert marks.descriptor is not None
    with path.open("a") as file:
        for text, names in (("lo", []), ("ad\nsteady\nen", ["load", "steady"]), ("d\n", ["end"])):
            file.write(text)
            file.flush()
            # A select wakes with the mark, and once.
            assert select.select([marks.descriptor], [], [], TIME_LIMIT_S)[0]
            assert marks.read() == names
            assert not select.select([marks.descriptor], [], [], 0)[0]
    path.write_text("x\n")  # as `echo x > FILE` writes it, which a script's author may take for >>
    assert marks.read() == ["x"]
    marks.close()


@pytest.mark.process
def test_a_descriptor_has_the_number_of_the_option() -> None:
    """The program writes to that number, also where descriptors of ours are in the way; the pipe
    ends with it.
    """
    free = os.dup(0)
    os.close(free)
    for number in (3, *range(free, free + 4)):
        marks = SocketMarks(number)
        assert marks.environment == {"REUSEBENCH_MARKER": str(number)}
        script = (
            f"import os; os.write({number}, os.environ['REUSEBENCH_MARKER'].encode() +"
            " b'\\ntwo\\nunfinished')"
        )
        command = [sys.executable, "-S", "-c", script]
        pid = os.posix_spawn(
            sys.executable, command, {**os.environ, **marks.environment}, file_actions=marks.actions
        )
        marks.started()
        assert os.waitpid(pid, 0)[1] == 0
        assert marks.read() == [str(number), "two"]
        assert marks.descriptor is None
        marks.close()


def test_a_program_may_wait_for_its_answer() -> None:
    """Each line is answered once, when its phase was read; who reads no answers is not waited
    for.
    """
    marks = SocketMarks(3)
    program = marks._other
    program.setblocking(False)
    program.send(b"load\n")
    assert marks.read() == ["load"]
    assert not select.select([program], [], [], 0)[0]
    marks.answer()
    marks.answer()
    assert program.recv(10) == b"\n"
    assert not select.select([program], [], [], 0)[0]
    for number in range(1000):
        program.send(f"{number}\n".encode())
        assert marks.read() == [str(number)]
        marks.answer()
    program.send(b"")
    assert marks.read() == []
    program.send(b"last\n")
    program.close()
    assert marks.read() == ["last"]
    marks.close()


@pytest.mark.process
def test_a_program_without_its_recorder_goes_on() -> None:
    """A mark that nobody takes any more is an error for it, and no signal that ends it."""
    marks = SocketMarks(3)
    number = os.dup(marks._other.fileno())
    marks.close()
    script = (
        f"import os, signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL); os.write({number},"
        " b'steady\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], pass_fds=[number], capture_output=True, check=False
    )
    assert b"BrokenPipeError" in done.stderr
    assert done.returncode == 1
    os.close(number)


def test_a_file_that_is_removed_is_said(tmp_path: Path) -> None:
    """What is written to another one of its name is no mark."""
    marks = FileMarks(tmp_path / "phases")
    assert marks.lost() is None
    (tmp_path / "phases").write_text("x" * 3_000_000 + "\nload\n")
    assert [name for _ in range(3) for name in marks.read()] == ["x" * 100, "load"]
    (tmp_path / "phases").unlink()
    assert "was removed" in (marks.lost() or "")
    marks.close()


def test_no_marks_are_none() -> None:
    """Without one of the options there is nothing to read, and nothing for the program."""
    marks = Marks()
    assert (marks.read(), marks.environment, marks.actions, marks.descriptor) == ([], {}, [], None)


class _Appended:
    """A file of a board whose contents, when it has changed, come one after another."""

    def __init__(self, *contents: bytes | None) -> None:
        self._contents = list(contents)

    def changed(self) -> bytes | None:
        return self._contents.pop(0)


def test_a_file_of_a_board_is_read_as_it_grows() -> None:
    """Each line counts once, when it is whole; one that is shorter than before is read from its
    beginning.
    """
    marks = FarFileMarks("/there", _Appended(b"load\nst", None, b"load\nsteady\n", b"end\n"))
    assert marks.environment == {"REUSEBENCH_PHASES": "/there"}
    assert [marks.read() for _ in range(4)] == [["load"], [], ["steady"], ["end"]]


def test_what_a_program_of_a_board_writes_to_its_descriptor() -> None:
    """Marks come in any pieces, and are given once; each is answered once."""
    marks = FarSocketMarks(3)
    answers = list[bytes]()
    marks.send_answer = answers.append
    assert marks.environment == {"REUSEBENCH_MARKER": "3"}
    marks.feed(b"load\nst")
    marks.feed(b"eady\n")
    assert (marks.read(), marks.read()) == (["load", "steady"], [])
    marks.answer()
    marks.answer()
    assert answers == [b"\n\n"]
