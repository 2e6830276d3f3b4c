"""The cost of commands over a storage: time, CPU time of all processes, and their memory."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from benchmarks.report_scale.made_storages import Storages

__all__ = ["COMMANDS", "FIRST", "UPDATE", "Cost", "Measurer"]

_INTERVAL_S = 0.02
#: Pause after a reading, as a multiple of its CPU time: to read PSS costs time in the kernel.
_PAUSE = 20
#: The list without an index, which is built by it; and after one more run.
FIRST = "first"
UPDATE = "update"
_LIST = ("runs", "list", "--newest", "3")
_LOAD = (
    "import sys, reusebench;"
    "print(len(reusebench.load(*sys.argv[1:], metrics='application_memory_bytes', runs='latest')))"
)
#: Name of the index in a storage.
_INDEX = ".index"
#: Exit code of a command that does not know an option.
_USAGE = 2


@dataclass(frozen=True)
class _Command:
    """One command."""

    arguments: Sequence[str]
    #: Its output is written to a folder, a file, or nowhere.
    output: str = ""
    #: Whether it is for the storage of the first board alone.
    is_of_one_board: bool = False
    #: Arguments for a folder of several boards: runs of two boards differ in the board.
    of_several: Sequence[str] = ()
    #: 1 of an export: the newest run has a configuration that failed.
    exit_codes: Sequence[int] = (0,)


#: The commands, by the names in the table.
COMMANDS: Mapping[str, _Command] = {
    "list": _Command(_LIST),
    "compare": _Command(
        ("compare", "latest~1", "latest", "--across", "runtime_version"),
        of_several=("--across", "board"),
    ),
    "compare newest": _Command(("compare",)),
    "history of a board": _Command(("history",), "folder", is_of_one_board=True),
    "history": _Command(("history",), "folder"),
    "report": _Command(("report",), "folder"),
    "export csv": _Command(("export", "--format", "csv"), "file", exit_codes=(0, 1)),
    "export parquet": _Command(("export", "--format", "parquet"), "folder", exit_codes=(0, 1)),
    "load": _Command(("-c", _LOAD)),
}


class Cost(msgspec.Struct, frozen=True):
    """The cost of one run of a command."""

    #: The code that was measured, in the user's words.
    code: str
    command: str
    boards: int
    results: int
    elapsed_s: float
    #: CPU time of all processes; other work on the machine affects it less.
    cpu_s: float
    #: Highest PSS of all processes together; shared pages count once.
    pss_bytes: int


@dataclass(frozen=True)
class Measurer:
    """The measuring of commands of some code."""

    #: The checkout whose code is measured.
    code: Path
    #: The name of the code.
    name: str

    def first(self, storages: Storages) -> Cost:
        """Return the cost of the list that builds the index."""
        for index in storages.folder.rglob(_INDEX):
            shutil.rmtree(index)
        return self._checked(FIRST, COMMANDS["list"], storages)

    def update(self, storages: Storages) -> Cost:
        """Return the cost of the list after one more run, which is removed afterwards."""
        path = storages.write_one_more_run()
        try:
            cost = self._checked(UPDATE, COMMANDS["list"], storages)
        finally:
            path.unlink()
        self._checked(UPDATE, COMMANDS["list"], storages)
        return cost

    def cost(self, name: str, storages: Storages) -> Cost | None:
        """Return the cost of a command; None if the code does not have it."""
        return self._cost(name, COMMANDS[name], storages)

    def _checked(self, name: str, command: _Command, storages: Storages) -> Cost:
        cost = self._cost(name, command, storages)
        if cost is None:
            raise SystemExit(f"{self.code}: it has no `runs list --newest`")
        return cost

    def _cost(self, name: str, command: _Command, storages: Storages) -> Cost | None:
        with tempfile.TemporaryDirectory() as folder:
            words = self._words(command, storages, Path(folder) / "output")
            log = Path(folder) / "log"
            start = time.perf_counter()
            cpu_s = _cpu_s()
            with (
                log.open("wb") as errors_file,
                subprocess.Popen(
                    words,
                    cwd=folder,
                    env={**os.environ, "PYTHONPATH": f"{self.code / 'src'}"},
                    stdout=subprocess.DEVNULL,
                    stderr=errors_file,
                ) as process,
            ):
                pss_bytes = max(_memory_until_the_end(process), default=0)
                elapsed_s = time.perf_counter() - start
            errors = log.read_text(encoding="utf-8")
        if process.returncode == _USAGE and "Invalid value for '--format'" in errors:
            return None
        if process.returncode not in command.exit_codes:
            raise SystemExit(f"{words}: exit code {process.returncode}: {errors}")
        return Cost(
            code=self.name,
            command=name,
            boards=storages.boards,
            results=storages.results,
            elapsed_s=elapsed_s,
            cpu_s=_cpu_s() - cpu_s,
            pss_bytes=pss_bytes,
        )

    def _words(self, command: _Command, storages: Storages, output: Path) -> list[str]:
        storage = storages.first if command.is_of_one_board else storages.folder
        words = list(command.arguments)
        if command.arguments[0] == "-c":
            return [sys.executable, *words, str(storage)]
        if storages.boards > 1 and not command.is_of_one_board:
            words += command.of_several
        if command.output:
            words += ["--output", str(output)]
        return [sys.executable, "-m", "reusebench", *words, "--storage", str(storage)]


def _cpu_s() -> float:
    """Return the CPU time of all ended child processes."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def _memory_until_the_end(process: subprocess.Popen[bytes]) -> Iterator[int]:
    """Yield the PSS of the process and all its descendants, in bytes, until it ends."""
    root = psutil.Process(process.pid)
    while process.poll() is None:
        begin_s = time.thread_time()
        pss_bytes = 0
        with contextlib.suppress(psutil.NoSuchProcess):
            for part in (root, *root.children(recursive=True)):
                pss_bytes += part.memory_full_info().pss
        yield pss_bytes
        time.sleep(max(_INTERVAL_S, _PAUSE * (time.thread_time() - begin_s)))
