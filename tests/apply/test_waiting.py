"""The small process that waits for an applied program, and gives its place to what comes after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from reusebench.apply import waiting

pytestmark = pytest.mark.process

#: Prints the outcome, which is the last word.
_AFTER = ("/bin/sh", "-c", 'for word; do :; done; echo "after $word"', "sh")


def _command(*command: str, output: int = 1, variables: tuple[str, ...] = ()) -> list[str]:
    words = [sys.executable, "-I", "-S", waiting.__file__, str(output), str(len(_AFTER)), *_AFTER]
    return [*words, *variables, "--", *command]


def _run(*command: str, **options: object) -> tuple[str, str]:
    environment = {"PATH": os.environ["PATH"], "KEPT": "a=b"}
    words = _command(*command, **options)  # type: ignore[arg-type]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


@contextmanager
def _waiting(script: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Yield the process once the script has written its first line, and the rest of its output."""
    command = _command("/bin/sh", "-c", script)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process, process.stdout


def test_the_outcome_is_the_last_word() -> None:
    """An exit code, a signal, or the errno of a start that failed."""
    assert _run("sh", "-c", "echo own; exit 3") == ("own\nafter exit:3\n", "")
    assert _run("sh", "-c", "kill -9 $$") == ("after signal:9\n", "")
    assert _run("/no/such") == ("after errno:2\n", "")


def test_only_the_program_gets_the_variables() -> None:
    """Its environment is otherwise as it was; Python adds LC_CTYPE to its own in the C locale."""
    output, _ = _run("env", variables=("ADDED=c=d", "PATH=/usr/bin:/bin"))
    *lines, outcome = output.splitlines()
    assert outcome == "after exit:0"
    assert sorted(lines) == ["ADDED=c=d", "KEPT=a=b", "PATH=/usr/bin:/bin"]


def test_standard_output_can_be_that_of_errors() -> None:
    """What comes after keeps standard output for itself."""
    assert _run("echo", "own", output=2) == ("after exit:0\n", "own\n")


def test_a_signal_is_forwarded_and_the_program_ends_as_it_likes() -> None:
    """So a service that is told to end writes its files first."""
    with _waiting("trap 'echo told; exit 7' TERM; echo ready; sleep 60 & wait") as (process, rest):
        process.send_signal(signal.SIGTERM)
        assert rest.read() == "told\nafter exit:7\n"


def test_it_stops_with_the_program_and_goes_on_with_it() -> None:
    """A shell with job control sees a stopped job."""
    with _waiting("echo ready; kill -STOP $$; echo on") as (process, rest):
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        assert rest.read() == "on\nafter exit:0\n"


def test_processes_that_the_program_leaves_are_not_waited_for() -> None:
    """A daemon outlives the program, and so do its open files."""
    output, _ = _run("sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!")
    pid, outcome = output.splitlines()
    os.kill(int(pid), signal.SIGKILL)
    assert outcome == "after exit:0"
