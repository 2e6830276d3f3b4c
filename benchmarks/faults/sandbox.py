"""Processes of the product with folders of their own, so that all they leave behind is seen."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.trial import Kind, Wrong
from reusebench.system.package import START
from reusebench.targets.compilers import find_compiler
from reusebench.targets.rknn_library import architecture_of_this_python

__all__ = ["CHECKOUT", "Sandbox", "compile_preloaded", "signal_all", "tracebacks", "wait_until"]

CHECKOUT = Path(__file__).resolve().parents[2]
#: Inherited by every process of a sandbox, whatever becomes of its parent.
_MARK = "FAULTS_SANDBOX"
#: What Python and pytest print of an error that nobody expected.
_TRACEBACKS = ("Traceback (most recent call last)", "INTERNALERROR>")
_PLACE = re.compile(rf'File "{re.escape(str(CHECKOUT))}/((?!\.venv)[^"]+)", line (\d+), in (.+)')
_INTERRUPTED = re.compile(r"^KeyboardInterrupt$", re.MULTILINE)


@dataclass(frozen=True)
class Sandbox:
    """A home, a cache, a folder for temporary files, and one for a storage."""

    folder: Path

    @property
    def disk(self) -> Path:
        """What the product may write to; `output` is beside it."""
        return self.folder / "disk"

    @property
    def storage(self) -> Path:
        """The storage of its sessions."""
        return self.disk / "storage"

    def make(self) -> Sandbox:
        """Make the folders and return it."""
        for name in ("home", "cache", "tmp", "storage"):
            (self.disk / name).mkdir(parents=True, exist_ok=True)
        return self

    def start(
        self,
        command: Sequence[str],
        variables: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a command of Python's, `-m MODULE ...`; what it prints goes to the file `output` of
        the sandbox.

        `before` is another command, which starts the one behind it.
        """
        environment = {
            **os.environ,
            "HOME": str(self.disk / "home"),
            "XDG_CACHE_HOME": str(self.disk / "cache"),
            "TMPDIR": str(self.disk / "tmp"),
            _MARK: f"{self.folder}/",
            **(variables or {}),
        }
        with (self.folder / "output").open("wb") as output:
            return subprocess.Popen(
                [*before, sys.executable, *command],
                cwd=CHECKOUT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def run(
        self,
        command: Sequence[str],
        time_limit_s: float,
        variables: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> int | None:
        """Run it and return its exit code; None if it took too long, and was killed."""
        process = self.start(command, variables, before)
        try:
            return process.wait(time_limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            process.wait()
            return None

    def output(self) -> str:
        """Return what the newest command has printed."""
        return (self.folder / "output").read_text(encoding="utf-8", errors="replace")

    def processes(self) -> Iterator[int]:
        """Yield the processes that are alive of the sandbox, and of those in its folder."""
        mark = f"{_MARK}={self.folder}/".encode()
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                variables = (path / "environ").read_bytes().split(b"\0")
                if any(variable.startswith(mark) for variable in variables):
                    yield int(path.name)

    def measured_process(self) -> int | None:
        """Return the process that measures, if there is one."""
        for pid in self.processes():
            with contextlib.suppress(OSError):
                if str(START).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    return pid
        return None

    def kill(self) -> None:
        """Kill all of its processes."""
        while pids := list(self.processes()):
            signal_all(pids, signal.SIGKILL)
            time.sleep(0.01)

    def files(self) -> set[str]:
        """Return what is in the cache and among the temporary files."""
        parts = (self.disk / "cache", self.disk / "tmp")
        return {str(path.relative_to(self.disk)) for part in parts for path in part.rglob("*")}


@functools.cache
def compile_preloaded(source: Path, folder: Path) -> Path:
    """Return a library for LD_PRELOAD, compiled into the folder once in a worker."""
    compiler = find_compiler(architecture_of_this_python() or "")
    if compiler is None:
        raise SystemExit(
            "the campaigns `disk` and `machines` need a C compiler (Debian: apt install gcc)"
        )
    library = folder / f"{source.stem}.so"
    compiler.compile(["-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"])
    return library


def signal_all(pids: Sequence[int], number: int) -> None:
    """Send a signal to processes, some of which may have gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_until(is_so: Callable[[], bool], time_limit_s: float) -> bool:
    """Wait, at most so long; return whether it is so."""
    end_s = time.monotonic() + time_limit_s
    while not is_so():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.02)
    return True


def tracebacks(text: str) -> Iterator[Wrong]:
    """Yield the traceback in a text, if there is one that came through the project; its place is
    the last such line.

    Before the project is loaded Python and pytest have tracebacks of their own: pytest where it
    cannot make its temporary files, Python where Ctrl-C comes while it imports.
    """
    at = min(
        (index for words in _TRACEBACKS if (index := text.find(words)) >= 0), default=len(text)
    )
    places = _PLACE.findall(text, at)
    if places and not (places[-1][2] == "<module>" and _INTERRUPTED.search(text, at)):
        yield Wrong(Kind.TRACEBACK, "{}:{} {}".format(*places[-1]), text[at:][:6000])
