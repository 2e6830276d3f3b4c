"""A process that runs lines of Python for a test, and stands still between them."""

from __future__ import annotations

import os
import subprocess
import sys

#: Memory that a child takes in the tests, far above any noise.
SIZE = 48 << 20

_PROGRAM = """
import mmap, os, sys
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
held = []
def touch(memory):
    for position in range(0, len(memory), 4096):
        memory[position]
    return memory
def write(memory):
    for position in range(0, len(memory), 4096):
        memory[position] = 1
    return memory
def map_file(path):
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


class Child:
    """A process that runs one line of Python at a time."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _PROGRAM]
        self._popen = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._popen.pid
        self.run("pass")

    def run(self, line: str) -> None:
        """Run the line and return when it is done."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.write(line + "\n")
        self._popen.stdin.flush()
        assert self._popen.stdout.readline() == "done\n"

    def kill(self) -> None:
        """End the process, which becomes a zombie."""
        self._popen.kill()
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def reap(self) -> None:
        """End the process and wait for it."""
        self._popen.kill()
        self._popen.communicate()
