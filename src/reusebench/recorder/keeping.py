"""The run of a recording on disk: whole at any moment, and written while the program goes on."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec

from reusebench.storage.recorded_program import Program
from reusebench.storage.run_file import PROGRAMS, RunWriter, python_folder

__all__ = ["RunKeeper", "made_apart"]


class RunKeeper:
    """Writes a run again and again, in a thread of its own: a slow disk delays no reading."""

    def __init__(self, writer: RunWriter, document: Mapping[str, msgspec.Raw]) -> None:
        """Take the run without results, in pytest-benchmark's form."""
        self._writer = writer
        self._document = document
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future[Path] | None = None
        self._latest: Program | None = None
        python_folder()  # while no other process is taken for one of the program

    def keep(self, program: Program) -> None:
        """Have it written, unfinished; where it cannot be, a later time may be better."""
        self._latest = program
        # What waits for its turn will write the latest.
        if self._pending is None or self._pending.running() or self._pending.done():
            self._pending = self._thread.submit(self._write, is_finished=False)

    def finish(self, program: Program) -> Path:
        """Write it for good and return its path; raise OSError."""
        self._latest = program
        self._thread.shutdown()
        return self._write(is_finished=True)

    def _write(self, is_finished: bool) -> Path:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat()
        return self._writer.write(
            {**self._document, "datetime": now, PROGRAMS: [self._latest]}, is_finished
        )


def made_apart(make: Callable[[], object]) -> dict[str, msgspec.Raw]:
    """Return what a process of its own makes: what it imports for that does not weigh beside a
    recorded program.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException), os.fdopen(write, "wb") as pipe:
            pipe.write(msgspec.json.encode(make()))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        made = pipe.read()
    os.waitpid(pid, 0)
    # Where it failed it fails here too, and says why.
    return msgspec.json.decode(made or msgspec.json.encode(make()), type=dict[str, msgspec.Raw])
