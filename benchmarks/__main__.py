"""`python -m benchmarks [NAME...]`: runs the quick form of all scripts here, or the named ones.

Each script runs in a separate process, with one process more than usable CPUs at a time: scripts
also wait. A line per script has its time or the reason why it was skipped; the exit code is 1 if
one failed.
"""

from __future__ import annotations

import argparse
import os
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.faults.running import usable_cpus
from benchmarks.quick import SKIPPED

__all__ = ["Ended", "scripts"]

_FOLDER = Path(__file__).resolve().parent
#: Far longer than a script takes, also beside other jobs.
_LIMIT_S = 600.0
#: The longest scripts begin first, so that none of them runs alone at the end.
_LONGEST = ("fit_optimum", "faults", "fit_accuracy", "trend_accuracy", "fit_graphs")
#: Sessions of pytest that scripts start load the plug-ins that users have, and no more.
_SMALL_PYTEST = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "-p pytest_benchmark.plugin",
}
_LOOKING_S = 0.1
#: Number of output lines to show if a script fails.
_LINES = 40
_MAIN = re.compile(r'^if __name__ == "__main__":', re.MULTILINE)


@dataclass(frozen=True)
class Ended:
    """The end of a script."""

    name: str
    #: Exit code; None if the script was killed at the time limit.
    code: int | None
    seconds: float
    output: str

    @property
    def has_failed(self) -> bool:
        """Whether the script neither succeeded nor was skipped."""
        return self.code not in (0, SKIPPED)

    def __str__(self) -> str:
        """Return the line of the script, with the end of its output if it failed."""
        lines = self.output.strip().splitlines()
        if self.code == 0:
            return f"{self.name:28}{self.seconds:6.1f} s"
        if self.code == SKIPPED:
            return f"{self.name:28}skipped: {lines[-1] if lines else 'it does not say why'}"
        end = f"no end within {_LIMIT_S:g} s" if self.code is None else f"exit code {self.code}"
        shown = "\n".join(f"    {line}" for line in lines[-_LINES:])
        return f"{self.name:28}FAILED after {self.seconds:.1f} s: {end}\n{shown}"


@dataclass
class _Running:
    name: str
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    begin_s: float

    @classmethod
    def start(cls, name: str) -> _Running:
        """Start the quick form of a script, in a session that can be killed as a whole."""
        output = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the script has ended)
        process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.{name}", "--quick"],
            cwd=_FOLDER.parent,
            env={**os.environ, **_SMALL_PYTEST},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return cls(name, process, output, time.monotonic())

    def ended(self) -> Ended | None:
        """Return the end of the script; None if it still runs within the time limit."""
        code = self.process.poll()
        seconds = time.monotonic() - self.begin_s
        if code is None and seconds < _LIMIT_S:
            return None
        self.kill()
        self.output.seek(0)
        return Ended(self.name, code, seconds, self.output.read().decode(errors="replace"))

    def kill(self) -> None:
        """Kill the script and the processes that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def scripts() -> list[str]:
    """Return the names of all modules and packages here that are scripts."""
    names = []
    for module in pkgutil.iter_modules([str(_FOLDER)]):
        path = _FOLDER / f"{module.name}.py"
        if module.ispkg:
            path = _FOLDER / module.name / "__main__.py"
        is_script = path.exists() and _MAIN.search(path.read_text(encoding="utf-8"))
        if is_script and module.name != "__main__":
            names.append(module.name)
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scripts, and print a line for each when it ends."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    names = scripts()
    defaults = f"default: all: {', '.join(names)}"
    parser.add_argument("names", nargs="*", choices=[*names, []], metavar="NAME", help=defaults)
    options = parser.parse_args(arguments)
    has_failed = False
    for ended in _run(options.names or names):
        print(ended, flush=True)
        has_failed = has_failed or ended.has_failed
    return 1 if has_failed else 0


def _order(name: str) -> int:
    return _LONGEST.index(name) if name in _LONGEST else len(_LONGEST)


def _run(names: Sequence[str]) -> Iterator[Ended]:
    """Run the scripts and yield their ends, in the order in which they end."""
    left = deque(sorted(names, key=_order))
    running: list[_Running] = []
    try:
        while left or running:
            while left and len(running) <= usable_cpus():
                running.append(_Running.start(left.popleft()))
            time.sleep(_LOOKING_S)
            for script in list(running):
                ended = script.ended()
                if ended is not None:
                    running.remove(script)
                    script.output.close()
                    yield ended
    finally:
        for script in running:
            script.kill()


if __name__ == "__main__":
    sys.exit(main())
