"""Places of labgrid that are chosen by tags; a program plays labgrid's client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reusebench.targets import labgrid
from reusebench.targets.boards import boards
from reusebench.targets.errors import NotMeasurable, TargetError
from reusebench.targets.labgrid import is_tag, take_place
from reusebench.targets.resolve import far_machine, release_boards
from tests.helpers.support import TIME_LIMIT_S, user_environment

pytestmark = pytest.mark.process

_TARGET = "labgrid:chip=rk3588,desk=2"
#: Writes down what it is asked for, and answers as labgrid 26.0 does.
_CLIENT = """\
#!/bin/sh
echo "$*" >> "$LABGRID_CALLS"
case "$*" in
reserve*) echo "export LG_TOKEN=ABC";;
wait*) {wait};;
*acquire) echo "acquired place rock1";;
esac
"""
_RELEASED = ["-p +ABC release", "cancel-reservation ABC"]


def _client(
    folder: Path, monkeypatch: pytest.MonkeyPatch, wait: str = "echo state: allocated"
) -> Path:
    """Put a client first in the path, and return the file of its calls."""
    program = folder / "labgrid-client"
    program.write_text(_CLIENT.format(wait=wait))
    program.chmod(0o755)
    calls = folder / "calls"
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("LABGRID_CALLS", str(calls))
    return calls


def _steps(_: str) -> None:
    """Show nothing."""


def test_which_targets_are_tags() -> None:
    """A place has a name, tags have values."""
    assert is_tag(_TARGET)
    assert not any(map(is_tag, ("labgrid:rock1", "ssh:a=b", "pipe:A=1 sh")))


def test_a_place_is_reserved_locked_and_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine has the place's name, which results have."""
    calls = _client(tmp_path, monkeypatch)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert boards() == {}
    machine = far_machine(_TARGET)
    assert (machine.name, machine.address) == ("labgrid:rock1", "labgrid:rock1")
    assert far_machine(_TARGET) is machine
    release_boards()
    assert calls.read_text().splitlines() == [
        "reserve --shell chip=rk3588 desk=2",
        "wait ABC",
        "-p +ABC acquire",
        *_RELEASED,
    ]


@pytest.mark.parametrize(
    ("wait", "problem"),
    [("echo state: invalid", "no place has these tags"), ("sleep 9", "was free within 0.2 s")],
)
def test_no_free_place(
    wait: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reservation is cancelled, and the sentence says what to look at."""
    calls = _client(tmp_path, monkeypatch, f"exec {wait}")
    monkeypatch.setattr(labgrid, "_WAIT_S", 0.2 if wait.startswith("sleep") else 9.0)
    with pytest.raises(NotMeasurable, match=problem):
        take_place(_TARGET, _steps)
    assert calls.read_text().splitlines()[-2:] == _RELEASED


def test_a_session_that_is_killed_gives_its_place_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard does so, which no signal to the session's group reaches."""
    calls = _client(tmp_path, monkeypatch)
    code = f"""
from reusebench.targets.labgrid import take_place
place = take_place({_TARGET!r}, print)
print("taken", flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=user_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as session:
        assert session.stdout is not None
        while b"taken" not in session.stdout.readline():
            pass
        os.killpg(session.pid, signal.SIGKILL)
    until_s = time.monotonic() + TIME_LIMIT_S
    while calls.read_text().splitlines()[-2:] != _RELEASED:
        assert time.monotonic() < until_s, calls.read_text()
        time.sleep(0.02)


def test_without_labgrid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetError, match="pip install labgrid"):
        take_place(_TARGET, _steps)
