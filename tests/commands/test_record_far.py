"""`reusebench record --target BOARD`: programs of a far board, which is a shell of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from reusebench.recorder import recorder
from reusebench.storage.recorded_program import Program
from reusebench.storage.run_file import StoredRun, read_storage
from tests.helpers.far_shell import connected, shell_at, wait_until_gone
from tests.helpers.support import CHECKOUT, TIME_LIMIT_S, Reusebench, record_command

pytestmark = pytest.mark.process

_MIB = 2**20
_RECORD = record_command()

#: Marks its phases through the descriptor 3, and waits for the answers. In C: of what Python takes,
#: other processes share pages, and come and go.
_PHASES = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void mark(const char *name)
{
    char answer;
    if (write(3, name, strlen(name)) < 0 || read(3, &answer, 1) != 1)
        exit(1);
}

static void *hold(size_t mib)
{
    void *held = mmap(0, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (held == MAP_FAILED)
        exit(1);
    return memset(held, 1, mib << 20);
}

int main(void)
{
    int begin[2], ready[2], end[2];
    char byte = 0;
    if (pipe(begin) || pipe(ready) || pipe(end))
        return 1;
    if (!fork()) {
        close(end[1]);
        if (read(begin[0], &byte, 1) == 1)
            hold(32);
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        _exit(read(end[0], &byte, 1) != 0);
    }
    mark("load\n");
    hold(48);
    mark("loaded\n");
    mark("worker\n");
    if (write(begin[1], &byte, 1) != 1 || read(ready[0], &byte, 1) != 1)
        return 1;
    mark("steady\n");
    mark("spike\n");
    close(end[1]);
    wait(0);
    munmap(hold(96), 96 << 20);
    mark("end\n");
}
"""
_IN_FILE = """
mark() { echo "$1" >> "$REUSEBENCH_PHASES"; }
sleep 0.3; mark load; sleep 0.3; mark end; sleep 0.3
"""
_PASSED = "echo $(cat) | tr a-z A-Z; echo warned >&2; exit 5"
_DAEMON = "(setsid sleep 1.7 &); exit 3"


@dataclass(frozen=True)
class _Board:
    """A remote board, and the folder of its programs."""

    target: str
    home: Path

    def command(self, storage: Path, *arguments: str) -> list[str]:
        """Return the command that records there."""
        return [*_RECORD, "--target", self.target, "--storage", str(storage), *arguments]

    def record(self, storage: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Record to the end."""
        return _run(self.command(storage, *arguments))


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=CHECKOUT,
        input="in",
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )


@pytest.fixture
def board(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Board:
    """Return a board to which the reader was pushed already."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    home = tmp_path / "home"
    home.mkdir()
    with connected(home):
        return _Board(shell_at(home), home)


def _program(storage: Path) -> Program:
    (run,) = read_storage(storage)
    assert isinstance(run, StoredRun), run
    (program,) = run.programs
    return program


def _wait_for_a_phase(storage: Path, recorder: subprocess.Popen[Any]) -> None:
    """Wait until the first phase of a program has ended, which is stored then."""
    while not any(run.programs for run in read_storage(storage) if isinstance(run, StoredRun)):
        assert recorder.poll() is None
        time.sleep(0.01)


def _values(program: Program, figure: str) -> dict[str, int]:
    return {phase.name: getattr(phase.memory, f"{figure}_bytes")[0] for phase in program.phases}


def test_far_figures_are_the_near_ones(board: _Board, tmp_path: Path) -> None:
    """One program, near and through the reader: what it holds in a phase, and its peaks, are within
    a percent.
    """
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("this machine has no gcc")
    program = tmp_path / "program"
    subprocess.run(
        [compiler, "-O1", "-x", "c", "-", "-o", program], input=_PHASES, text=True, check=True
    )
    words = ("--marker", "3", "--", str(program))
    near = _run([*_RECORD, "--storage", str(tmp_path / "near"), *words])
    far = board.record(tmp_path / "far", *words)
    assert (near.returncode, far.returncode) == (0, 0), near.stderr + far.stderr
    of_near = _program(tmp_path / "near")
    of_far = _program(tmp_path / "far")
    assert [phase.name for phase in of_far.phases] == [
        "start",
        "load",
        "loaded",
        "worker",
        "steady",
        "spike",
        "end",
    ]
    for figures, phases in (
        (
            ("application_memory", "application_uss", "application_rss"),
            ("load", "loaded", "worker", "steady"),
        ),
        (("application_peak_rss", "process_peak_rss"), ("load", "steady", "spike")),
    ):
        for figure in figures:
            values = _values(of_near, figure)
            there = _values(of_far, figure)
            for phase in phases:
                assert there[phase] == pytest.approx(values[phase], rel=0.01), (figure, phase)
    assert _values(of_far, "application_uss")["steady"] >= 80 * _MIB
    assert of_far.repeats[0].process_count == 2
    assert 0 < of_far.repeats[0].recorder_cpu_percent < 100


def test_input_output_and_exit_code_are_passed_on(board: _Board, tmp_path: Path) -> None:
    """Output is passed on as it comes, and the end of the input; the board's facts, storage and
    repeats are stored.
    """
    done = subprocess.run(
        [
            *_RECORD,
            "--target",
            board.target,
            "--repeats",
            "2",
            "--",
            "sh",
            "-c",
            _PASSED.replace("5", "0"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        input="in",
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "IN\n\n"), done.stderr
    assert done.stderr.count("warned\n") == 2
    (storage,) = (tmp_path / ".benchmarks").iterdir()
    (run,) = read_storage(storage)
    assert isinstance(run, StoredRun)
    assert run.machine.reusebench.board == storage.name
    assert len(run.programs[0].repeats) == 2


def test_a_program_works_in_the_folder_of_the_login(board: _Board, tmp_path: Path) -> None:
    """A failure is a result, with the program's own exit code."""
    done = board.record(tmp_path / "storage", "--", "sh", "-c", "pwd; echo warned >&2; exit 5")
    assert done.returncode == 5
    assert done.stdout.strip() == str(CHECKOUT)
    assert _program(tmp_path / "storage").outcome == "failed"


def test_marks_in_a_file_there(board: _Board, tmp_path: Path) -> None:
    """The file is made there, and its path given to the program; a relative one is of the login's
    folder.
    """
    marks = Path(os.path.relpath(tmp_path / "marks", CHECKOUT))
    done = board.record(tmp_path / "storage", "--phases", str(marks), "--", "sh", "-c", _IN_FILE)
    assert done.returncode == 0, done.stderr
    program = _program(tmp_path / "storage")
    assert [phase.name for phase in program.phases] == ["start", "load", "end"]
    assert (tmp_path / "marks").read_text() == "load\nend\n"


def test_what_a_program_leaves_behind_is_recorded_too(board: _Board, tmp_path: Path) -> None:
    """It has left the session, and stays below the reader; the exit code is the program's."""
    done = board.record(tmp_path / "storage", "--", "sh", "-c", _DAEMON)
    assert done.returncode == 3
    assert "left processes behind: sleep (" in done.stderr
    assert _program(tmp_path / "storage").repeats[0].duration_ns >= 1.5e9


def test_the_peak_of_a_program_that_no_reading_has_seen(board: _Board, tmp_path: Path) -> None:
    """The kernel tells the reader, whose own memory is less than any program's."""
    done = board.record(tmp_path / "storage", "--", "true")
    assert done.returncode == 0, done.stderr
    assert _values(_program(tmp_path / "storage"), "process_peak_rss")["run"] > 0


@contextmanager
def _recording(
    board: _Board, storage: Path, *arguments: str
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Begin to record a program that prints its number first."""
    with subprocess.Popen(
        board.command(storage, *arguments),
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as recorder:
        assert recorder.stdout is not None
        try:
            yield recorder, int(recorder.stdout.readline())
        finally:
            recorder.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_user_ends_the_program_there(board: _Board, number: int, tmp_path: Path) -> None:
    """Ctrl-C here is one there, for all of the program's group; what was measured is stored."""
    words = ("--", "sh", "-c", "echo $$; sleep 1000 | sleep 1000")
    with _recording(board, tmp_path / "storage", *words) as (recorder, pid):
        recorder.send_signal(number)
        assert recorder.wait(TIME_LIMIT_S) == 128 + number
        wait_until_gone(pid)
    program = _program(tmp_path / "storage")
    assert (program.outcome, program.repeats[0].ended_by_user) == ("ok", True)


def test_a_second_ctrl_c_kills_there(board: _Board, tmp_path: Path) -> None:
    """A program that does not heed the first is ended with its processes."""
    script = "trap 'echo noted' INT; echo $$; while :; do sleep 0.05; done"
    with _recording(board, tmp_path / "storage", "--", "sh", "-c", script) as (recorder, pid):
        recorder.send_signal(signal.SIGINT)
        assert recorder.stdout is not None
        recorder.stdout.readline()
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(TIME_LIMIT_S) == 128 + signal.SIGKILL
        wait_until_gone(pid)
    assert _program(tmp_path / "storage").outcome == "crashed"


def test_a_reader_of_the_output_that_goes(board: _Board, tmp_path: Path) -> None:
    """The program gets the signal that it would get in a pipe of this machine."""
    words = ("--", "sh", "-c", "echo $$; exec yes")
    with _recording(board, tmp_path / "storage", *words) as (recorder, pid):
        assert recorder.stdout is not None
        recorder.stdout.close()
        assert recorder.wait(TIME_LIMIT_S) == 128 + signal.SIGPIPE
        wait_until_gone(pid)


def test_an_output_that_takes_nothing(board: _Board, tmp_path: Path) -> None:
    """A full disk here ends the program there, and its recording is stored."""
    with Path("/dev/full").open("wb") as full:
        command = board.command(
            tmp_path / "storage", "--", "sh", "-c", "while :; do echo; sleep 0.1; done"
        )
        done = subprocess.run(
            command,
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=full,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    assert done.returncode == 128 + signal.SIGPIPE
    assert _program(tmp_path / "storage").repeats[0].signal == "SIGPIPE"


def test_a_lost_connection_keeps_what_was_read(board: _Board, tmp_path: Path) -> None:
    """A sentence says so, the exit code is ssh's, and nothing runs on there."""
    words = (
        "--repeats",
        "3",
        "--marker",
        "3",
        "--",
        "sh",
        "-c",
        # It waits until its memory has been read.
        "echo $$; sleep 0.3; echo load >&3; read -r answer <&3; exec sleep 1000",
    )
    with _recording(board, tmp_path / "storage", *words) as (recorder, pid):
        reader = psutil.Process(pid).parent()
        assert reader is not None
        _wait_for_a_phase(tmp_path / "storage", recorder)
        reader.kill()
        assert recorder.wait(TIME_LIMIT_S) == 255
        wait_until_gone(pid)
        assert recorder.stderr is not None
        words_of_it = recorder.stderr.read()
    assert "was lost: the reader on the board was killed" in words_of_it
    assert "the readings until then are stored" in words_of_it
    program = _program(tmp_path / "storage")
    assert (program.outcome, len(program.repeats)) == ("connection_lost", 1)
    assert _values(program, "application_memory")["start"] > 0


def test_a_process_that_runs_there(board: _Board, tmp_path: Path) -> None:
    """It is recorded until it ends, and is left alone; a script there marks its phases."""
    held = "import time; held = bytearray(64 << 20); del held; print(flush=True); input()"
    marks = tmp_path / "marks"
    with subprocess.Popen(
        [sys.executable, "-c", held], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        command = board.command(
            tmp_path / "storage", "--pid", str(process.pid), "--phases", str(marks)
        )
        with subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.DEVNULL) as recorder:
            while not marks.exists():
                assert recorder.poll() is None
                time.sleep(0.01)
            marks.write_text("waiting\n")
            _wait_for_a_phase(tmp_path / "storage", recorder)
            process.communicate(b"\n")
            assert recorder.wait(TIME_LIMIT_S) == 0
    program = _program(tmp_path / "storage")
    assert (program.attached, program.outcome, program.command[1:]) == (True, "ok", ("-c", held))
    assert [phase.name for phase in program.phases] == ["start", "waiting"]
    for peak in _values(program, "process_peak_rss").values():
        assert peak is None or peak < 64 * _MIB  # None: there was no time for a reading


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--", "no-such-command"), 127, "no-such-command cannot be started: it is not there"),
        (("--", "/etc/passwd"), 126, "/etc/passwd cannot be started: it may not be run"),
        (("--pid", "4194304"), 2, "there is no process 4194304"),
        (
            ("--phases", "/proc/none", "--", "true"),
            2,
            "the file of phases /proc/none cannot be written",
        ),
        (("--marker", "4", "--", "true"), 2, "on a remote board the descriptor is 3"),
    ],
)
def test_nothing_is_stored_of_a_mistake(
    board: _Board,
    arguments: Sequence[str],
    code: int,
    sentence: str,
    tmp_path: Path,
    reusebench: Reusebench,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One sentence has what was wrong; the exit codes of what cannot be started are the shell's."""
    monkeypatch.setattr(recorder, "_IDLE_S", 0.02)
    done = reusebench(
        "record", "--target", board.target, "--storage", tmp_path / "storage", *arguments
    )
    assert (done.exit_code, done.out) == (code, "")
    assert sentence in done.err
    assert not list(tmp_path.glob("storage/*/*.json"))


def test_a_board_that_is_none(tmp_path: Path, reusebench: Reusebench) -> None:
    """It says which targets there are."""
    done = reusebench("record", "--target", "python", "--storage", tmp_path, "--", "true")
    assert done.exit_code == 2
    assert "python is not a remote board; valid: ssh:HOST" in done.err
