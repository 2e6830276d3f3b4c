"""Processes of the product with their own folders, so that everything left behind is found."""

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
#: Variable that every process of a sandbox inherits, even if its parent is gone.
_MARK = "FAULTS_SANDBOX"
#: Texts that Python and pytest print for unexpected errors.
_TRACEBACKS = ("Traceback (most recent call last)", "INTERNALERROR>")
_PLACE = re.compile(rf'File "{re.escape(str(CHECKOUT))}/((?!\.venv)[^"]+)", line (\d+), in (.+)')
_INTERRUPTED = re.compile(r"^KeyboardInterrupt$", re.MULTILINE)


@dataclass(frozen=True)
class Sandbox:
    """A home, a cache, a folder for temporary files, and one for a storage."""

    folder: Path

    @property
    def disk(self) -> Path:
        """The folder that the product may write to."""
        return self.folder / "disk"

    @property
    def storage(self) -> Path:
        """The storage of its sessions."""
        return self.disk / "storage"

    def make(self) -> Sandbox:
        """Make the folders and return self."""
        for name in ("home", "cache", "tmp", "storage"):
            (self.disk / name).mkdir(parents=True, exist_ok=True)
        return self

    def start(
        self,
        command: Sequence[str],
        variables: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Start Python with these arguments; its output goes to the sandbox's file `output`.

        `before` is another command, which starts Python.
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
        """Run a command and return its exit code; None if it took too long and was killed."""
        process = self.start(command, variables, before)
        try:
            return process.wait(time_limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            process.wait()
            return None

    def output(self) -> str:
        """Return the output of the newest command."""
        return (self.folder / "output").read_text(encoding="utf-8", errors="replace")

    def processes(self) -> Iterator[int]:
        """Yield the live processes of this sandbox and of sandboxes in its folder."""
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
        """Kill all processes of the sandbox."""
        while pids := list(self.processes()):
            signal_all(pids, signal.SIGKILL)
            time.sleep(0.01)

    def files(self) -> set[str]:
        """Return the files in the cache and the temporary folder."""
        parts = (self.disk / "cache", self.disk / "tmp")
        return {str(path.relative_to(self.disk)) for part in parts for path in part.rglob("*")}


@functools.cache
def compile_preloaded(source: Path, folder: Path) -> Path:
    """Return a library for LD_PRELOAD, compiled into the folder once per worker."""
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
    """Wait until the condition holds, or `time_limit_s` passes; return whether it holds."""
    end_s = time.monotonic() + time_limit_s
    while not is_so():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.02)
    return True


def tracebacks(text: str) -> Iterator[Wrong]:
    """Yield the traceback in a text if it has lines of the project; its place is the last of them.

    Other tracebacks are ignored: pytest has one if it cannot make its temporary files, Python if
    Ctrl-C comes during imports.
    """
    begins = [text.find(words) for words in _TRACEBACKS]
    at = min((begin for begin in begins if begin >= 0), default=len(text))
    places = _PLACE.findall(text, at)
    if places and not (places[-1][2] == "<module>" and _INTERRUPTED.search(text, at)):
        yield Wrong(Kind.TRACEBACK, "{}:{} {}".format(*places[-1]), text[at:][:6000])
