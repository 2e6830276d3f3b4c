"""Marks of a program: lines in a file or on a socket."""

from __future__ import annotations

import os
import random
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from reusebench.recorder.marks import (
    FarFileMarks,
    FarSocketMarks,
    FileMarks,
    LineBuffer,
    Marks,
    SocketMarks,
)
from tests.helpers.support import TIME_LIMIT_S


def test_lines_come_in_any_pieces() -> None:
    """The lines do not depend on how writes are split; text without a newline is no line yet."""
    text = b"load\n\nsteady state\nend\nnot yet"
    chance = random.Random(2)
    for _ in range(50):
        lines = LineBuffer()
        complete = []
        rest = text
        while rest:
            size = chance.randint(1, 9)
            complete += lines.feed(rest[:size])
            rest = rest[size:]
        assert complete == [b"load", b"", b"steady state", b"end"]


def test_a_line_without_end_takes_no_memory() -> None:
    """A program that writes other data into the file does no harm; the next line counts again."""
    lines = LineBuffer()
    for _ in range(100):
        assert lines.feed(b"x" * 65536) == []
    long, load = lines.feed(b"\nload\n")
    assert len(long) < 10_000
    assert load == b"load"


def test_a_file_is_emptied_and_read_as_it_grows(tmp_path: Path) -> None:
    """Earlier content is no mark; the program gets the full path, whatever its working folder."""
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
    """The program writes to that number, even if descriptors of ours use it; the pipe ends with
    the program.
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
    """Each line is answered once its phase was read, without waiting for the answer to be read."""
    marks = SocketMarks(3)
    program = marks._program_end
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


def _answered() -> tuple[SocketMarks, socket.socket]:
    """Return marks with an answer that the program has not read, and the program's end."""
    marks = SocketMarks(3)
    program = marks._program_end
    program.send(b"load\n")
    assert marks.read() == ["load"]
    marks.answer()
    return marks, program


def test_who_reads_answers_has_waited() -> None:
    """An answer in the socket is open; one that is read was waited for, at the end as well."""
    marks, program = _answered()
    assert marks.are_answers_read() is None
    assert program.recv(10) == b"\n"
    assert marks.are_answers_read() is True
    program.close()
    assert marks.are_answers_read() is True
    assert marks.read() == []
    assert marks.are_answers_read() is True
    marks.close()


@pytest.mark.parametrize("is_read", [True, False])
def test_who_ends_without_reading_has_not_waited(is_read: bool) -> None:
    """A closed socket has no unread answers any more, but the program had left one."""
    marks, program = _answered()
    program.close()
    if is_read:
        assert marks.read() == []
    assert marks.are_answers_read() is False
    marks.close()


def test_who_ends_before_the_answer_has_not_waited() -> None:
    """There is nobody to be answered."""
    marks = SocketMarks(3)
    marks._program_end.send(b"end\n")
    marks._program_end.close()
    assert marks.read() == ["end"]
    marks.answer()
    assert marks.are_answers_read() is False
    marks.close()


def test_a_file_is_not_waited_for(tmp_path: Path) -> None:
    """There are no answers in a file."""
    marks = FileMarks(tmp_path / "phases")
    assert marks.are_answers_read() is False
    marks.close()


@pytest.mark.process
def test_a_program_without_its_recorder_goes_on() -> None:
    """A mark that nobody receives is an error for the program, not a signal that ends it."""
    marks = SocketMarks(3)
    number = os.dup(marks._program_end.fileno())
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


def test_a_removed_file_is_reported(tmp_path: Path) -> None:
    """Lines in a new file of the same name are no marks."""
    marks = FileMarks(tmp_path / "phases")
    assert marks.lost() is None
    (tmp_path / "phases").write_text("x" * 3_000_000 + "\nload\n")
    assert [name for _ in range(3) for name in marks.read()] == ["x" * 100, "load"]
    (tmp_path / "phases").unlink()
    assert "was removed" in (marks.lost() or "")
    marks.close()


def test_without_marks_there_is_nothing_to_read() -> None:
    """Without an option for marks there is nothing to read and nothing for the program."""
    marks = Marks()
    assert (marks.read(), marks.environment, marks.actions, marks.descriptor) == ([], {}, [], None)


def test_a_file_of_a_board_is_read_as_it_grows() -> None:
    """Each whole line counts once; a file that became shorter is read from its beginning."""
    contents: list[bytes | None] = [b"load\nst", None, b"load\nsteady\n", b"end\n"]
    marks = FarFileMarks("/there", iter(contents).__next__)
    assert marks.environment == {"REUSEBENCH_PHASES": "/there"}
    assert [marks.read() for _ in range(4)] == [["load"], [], ["steady"], ["end"]]


def test_marks_from_a_descriptor_on_a_board() -> None:
    """Marks arrive in any pieces; each is returned once and answered once."""
    marks = FarSocketMarks(3)
    answers = list[bytes]()
    marks.forward = lambda: None
    marks.send_answer = answers.append
    assert marks.environment == {"REUSEBENCH_MARKER": "3"}
    marks.feed(b"load\nst")
    marks.feed(b"eady\n")
    assert (marks.read(), marks.read()) == (["load", "steady"], [])
    marks.answer()
    marks.answer()
    assert answers == [b"\n\n"]
    marks.ask_for_answers = lambda: None
    assert marks.are_answers_read() is None
