"""Boards that a real `adb` knows: Debian's, with a server and a home of its own, and our adbd.py on
the boards.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.debian_packages import find_program
from tests.helpers.far_servers import LOOPBACK, free_port
from tests.helpers.support import CHECKOUT, TIME_LIMIT_S

__all__ = ["NEW", "OLD", "UNAUTHORIZED", "AdbBoards", "adb_boards"]

#: Forms of adbd (tests/helpers/adbd.py).
NEW = "new"
OLD = "old"
UNAUTHORIZED = "unauthorized"


@dataclass(frozen=True)
class AdbBoards:
    """An adb, and the adbds of the boards that are connected, by their serials."""

    folder: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def programs(self) -> Path:
        """Return a folder to begin PATH with, which has `adb`."""
        return self.folder / "bin"

    def connect(self, form: str, shell: str = "/bin/sh") -> str:
        """Start a board with that form of adbd and that shell; return its serial."""
        command = [sys.executable, "-m", "tests.helpers.adbd", form, shell]
        daemon = subprocess.Popen(
            command, cwd=CHECKOUT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        assert daemon.stdout is not None
        serial = f"{LOOPBACK}:{int(daemon.stdout.readline())}"
        self.daemons[serial] = daemon
        self.run("connect", serial)
        return serial

    def disconnect(self, serial: str) -> None:
        """Pull the cable."""
        daemon = self.daemons.pop(serial)
        daemon.send_signal(signal.SIGINT)
        daemon.communicate(timeout=TIME_LIMIT_S)
        self.run("disconnect", serial)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start adb with pipes."""
        return subprocess.Popen(
            [self.programs / "adb", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Return adb's exit code and output."""
        return subprocess.run(
            [self.programs / "adb", *arguments],
            input=data,
            capture_output=True,
            check=False,
            timeout=TIME_LIMIT_S,
        )


@contextmanager
def adb_boards(folder: Path) -> Iterator[AdbBoards]:
    """Run an adb server without boards; skip if there is no adb."""
    program = find_program("adb", "adb")
    boards = AdbBoards(folder)
    boards.programs.mkdir()
    libraries = program.environment().get("LD_LIBRARY_PATH", "")
    wrapper = boards.programs / "adb"
    wrapper.write_text(
        f"#!/bin/sh\nexport HOME={folder} TMPDIR={folder} ANDROID_ADB_SERVER_PORT={free_port()}\n"
        f'LD_LIBRARY_PATH={libraries} exec {program.path} "$@"\n',
        encoding="utf-8",
    )
    wrapper.chmod(0o755)
    boards.run("start-server")
    try:
        yield boards
    finally:
        for serial in list(boards.daemons):
            boards.disconnect(serial)
        boards.run("kill-server")
