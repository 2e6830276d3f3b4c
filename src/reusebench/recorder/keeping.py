"""The run of a recording on disk: complete at any moment, and written while the program runs."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from reusebench.storage.recorded_program import Program
from reusebench.storage.refused_run import save_elsewhere
from reusebench.storage.run_file import PROGRAMS, RunWriter, python_folder

__all__ = ["RunKeeper", "made_in_fork"]


class RunKeeper:
    """Writes a run repeatedly, in a separate thread, so that a slow disk delays no reading."""

    def __init__(self, storage: Path, name: str, document: Mapping[str, msgspec.Raw]) -> None:
        """`document` is the run without results, in pytest-benchmark's form."""
        #: Its name in traces.
        self.run = f"{name}-{os.getpid()}"
        self._name = name
        self._writer = RunWriter(storage, name)
        self._document = document
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future[Path] | None = None
        self._latest: Sequence[Program] = ()
        # Called now, while its process cannot be taken for one of the program's.
        python_folder()

    def keep(self, programs: Sequence[Program]) -> None:
        """Queue the unfinished run for writing. If writing fails, a later call may succeed."""
        self._latest = programs
        # A queued write will write the latest programs.
        if self._pending is None or self._pending.running() or self._pending.done():
            self._pending = self._thread.submit(self._write, is_finished=False)

    def finish(self, programs: Sequence[Program]) -> Path:
        """Write the finished run and return its path; raise OSError."""
        self._latest = programs
        self._thread.shutdown()
        return self._write(is_finished=True)

    def finish_elsewhere(self) -> Path:
        """Write the finished run to the temporary files and return its path; raise OSError."""
        return save_elsewhere(self._run(), self._name)

    @property
    def path(self) -> Path | None:
        """The file with what was stored so far; None if nothing was."""
        return self._writer.path

    def _write(self, is_finished: bool) -> Path:
        return self._writer.write(self._run(), is_finished)

    def _run(self) -> dict[str, Any]:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat()
        return {**self._document, "datetime": now, PROGRAMS: list(self._latest)}


def made_in_fork(make: Callable[[], object]) -> dict[str, msgspec.Raw]:
    """Run `make` in a forked process, so that its imports do not add to the recorder's memory."""
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
    if not made:
        # If `make` failed there, it fails here as well, and raises its error.
        made = msgspec.json.encode(make())
    return msgspec.json.decode(made, type=dict[str, msgspec.Raw])
