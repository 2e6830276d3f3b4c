"""A shell of this machine that stands for a far board: what the reader does there can be looked at
from here.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reusebench.targets.errors import TargetError
from reusebench.targets.far.connection import Connection, connect
from reusebench.targets.far.process import FarProcess
from tests.helpers.support import TIME_LIMIT_S

__all__ = ["TERMINAL", "connected", "has_gone", "output_of", "shell_at", "wait_until_gone"]

#: Before a command: gives it the terminal that an old adbd gives.
TERMINAL = f"{sys.executable} {Path(__file__).parents[1] / 'targets' / 'far' / 'old_adbd.py'} "


def shell_at(home: Path, before: str = "") -> str:
    """Return a target whose shell has that home."""
    return f"pipe:{before}env HOME={shlex.quote(str(home))} sh"


@contextmanager
def connected(home: Path, before: str = "") -> Iterator[Connection]:
    """Connect to a shell with that home; skip if the home is in memory, which is refused."""
    try:
        connection = connect(shell_at(home, before), print)
    except TargetError as error:
        if "is in memory" in str(error):
            pytest.skip(f"the folder for temporary files is in memory: {error}")
        raise
    try:
        yield connection
    finally:
        connection.close()


def output_of(process: FarProcess) -> bytes:
    """Return all that a process writes until it ends."""
    output = b""
    while (part := process.receive(TIME_LIMIT_S)) != b"":
        assert part, "it does not end"
        output += part
    return output


def has_gone(pid: int) -> bool:
    """Whether no process of that number runs."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"  # in a container with no init to wait for it


def wait_until_gone(*pids: int) -> None:
    """Wait until these processes have ended."""
    deadline = time.monotonic() + TIME_LIMIT_S
    while not all(map(has_gone, pids)):
        assert time.monotonic() < deadline, f"of {pids} some still run"
        os.sched_yield()
