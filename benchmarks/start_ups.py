"""Start-up times of commands: `python -m benchmarks.start_ups`.

It runs each command several times in an empty folder, one after the other, and prints the medians
of the wall time and of the CPU time of all processes, with minimum and maximum, in seconds. For
`record` it prints the CPU time until the recorded program runs, which that program reads from the
kernel. `report` shows a quick session of ONNX Runtime, which is measured first, or --storage.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.quick import own_folder, parse

_SESSION = ("bench", "--quick", "--runtime", "onnxruntime", "-q")
#: Selection for --quick: one scenario, once.
_SMALL = ("-k", "shared_context", "--repeats", "1", "--streams", "1", "--rounds", "2")
#: Program that prints the CPU times of its parent, and of the children that the parent has waited
#: for, in clock ticks: see stat in proc(5).
_PARENT = ("sh", "-c", "cut -d ' ' -f 14-17 /proc/$PPID/stat")


@dataclass(frozen=True)
class Start:
    """One run of a command: seconds of wall time, and CPU time of all its processes."""

    wall_s: float
    cpu_s: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all commands and print a line for each."""
    parser = argparse.ArgumentParser("python -m benchmarks.start_ups", description=__doc__)
    parser.add_argument("--count", type=int, default=10, help="runs of each command (default: 10)")
    parser.add_argument(
        "--storage", type=Path, help="stored runs for `report` (default: a quick session's)"
    )
    options = parse(parser, arguments, ["--count=1"])
    folder = own_folder()
    storage = options.storage.absolute() if options.storage else folder / "storage"
    if not options.storage:
        small = _SMALL if options.quick else ()
        subprocess.run(
            [*_command(*_SESSION, *small), f"--benchmark-storage=file://{storage}"],
            cwd=folder,
            check=True,
        )
    print(f"{'':30}{'wall s':>24}{'CPU s':>24}")
    for words in (("--help",), ("--version",), ("doctor",), ("report", "--storage", str(storage))):
        starts = [_run(words, folder) for _ in range(options.count)]
        wall = _spread([start.wall_s for start in starts])
        cpu = _spread([start.cpu_s for start in starts])
        print(f"{words[0]:30}{wall}{cpu}")
    before = [_cpu_before_the_program(folder) for _ in range(options.count)]
    print(f"{'record, until the program runs':30}{'':24}{_spread(before)}")


def _run(words: Sequence[str], folder: Path) -> Start:
    begin_s = time.monotonic()
    process = subprocess.Popen(_command(*words), cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"reusebench {' '.join(words)}: exit code {process.returncode}")
    return Start(time.monotonic() - begin_s, usage.ru_utime + usage.ru_stime)


def _cpu_before_the_program(folder: Path) -> float:
    """Return the CPU seconds of the recorder and its children when the recorded program starts."""
    words = _command("record", "--storage", str(folder / "recorded"), "--", *_PARENT)
    done = subprocess.run(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    return sum(map(int, done.stdout.split())) / os.sysconf("SC_CLK_TCK")


def _command(*words: str) -> list[str]:
    """Return the installed command if there is one, otherwise the package of this checkout."""
    program = Path(sys.executable).with_name("reusebench")
    if program.exists():
        return [str(program), *words]
    return [sys.executable, "-m", "reusebench", *words]


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):10.2f} ({min(values):.2f}-{max(values):.2f})".rjust(24)


if __name__ == "__main__":
    main()
