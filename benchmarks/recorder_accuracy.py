"""Accuracy of the phases of `reusebench record`: `python -m benchmarks.recorder_accuracy`.

It records a C program whose memory is known to the page: it grows, shrinks, has a spike of 1 ms,
maps a file, shares memory with a child, spikes in both processes one after the other, and has
phases without length. It knows its touched pages, and its earlier memory from the kernel. It waits
for the answer to its marks, or continues after --pause MS; --busy N runs N loops beside it, at the
same priority. --target pipe:sh records it as a program of a remote board, through the reader.

It needs a C compiler.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from benchmarks.quick import compiler, parse
from reusebench.storage.recorded_program import Program
from reusebench.storage.run_file import StoredRun, read_storage
from tests.helpers.support import CHECKOUT

__all__ = ["MeasuredPhase", "measure"]

_SOURCE = Path(__file__).with_suffix(".c")
_MIB = 2**20
#: Size of the mapped file, as in the source.
_FILE_BYTES = 24 * _MIB


@dataclass(frozen=True)
class MeasuredPhase:
    """The true and the recorded memory of a phase, in bytes."""

    name: str
    memory_bytes: int
    peak_bytes: int
    largest_bytes: int
    recorded_bytes: int | None
    recorded_peak_bytes: int
    recorded_largest_bytes: int
    #: None if the recorder says that it may have missed a peak.
    peak_at_most_bytes: int | None
    is_largest_exact: bool

    @property
    def error_percent(self) -> float | None:
        """Error of the recorded memory; None if the phase has no reading."""
        if self.recorded_bytes is None:
            return None
        return 100 * (self.recorded_bytes / self.memory_bytes - 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print each phase with its largest error in several recordings."""
    parser = argparse.ArgumentParser("python -m benchmarks.recorder_accuracy", description=__doc__)
    parser.add_argument(
        "--pause", type=int, metavar="MS", help="continue after this time, without an answer"
    )
    parser.add_argument(
        "--busy", type=int, default=0, metavar="N", help="number of busy loops; default: none"
    )
    parser.add_argument("--target", metavar="BOARD", help="a board with the files of this machine")
    parser.add_argument(
        "--recordings", type=int, default=5, metavar="N", help="number of recordings; default: 5"
    )
    options = parse(parser, arguments, ("--recordings=1",))
    compiler()
    with tempfile.TemporaryDirectory() as folder, _busy(options.busy):
        recordings = [
            measure(Path(folder), options.pause, options.target) for _ in range(options.recordings)
        ]
    print(
        f"{options.recordings} recordings, load {os.getloadavg()[0]:.1f}; the largest error of each"
        " phase"
    )
    worst = [
        max(phases, key=lambda phase: abs(phase.error_percent or 0)) for phases in zip(*recordings)
    ]
    missed = [sum(phase.recorded_bytes is None for phase in phases) for phases in zip(*recordings)]
    heads = [
        "phase",
        "true\nMiB",
        "recorded\nMiB",
        "error\n%",
        "not\nread",
        "peak\nMiB",
        "recorded\nMiB",
        "largest\nMiB",
    ]
    print(
        tabulate(
            [_row(*pair) for pair in zip(worst, missed)],
            [*heads, "recorded\nMiB"],
            disable_numparse=True,
        )
    )


def measure(
    folder: Path, pause_ms: int | None = None, target: str | None = None
) -> list[MeasuredPhase]:
    """Return the phases of one recording; without a pause the program waits for answers."""
    program = folder / "phases"
    mapped = folder / "mapped"
    if not program.exists():
        subprocess.run(
            [os.environ.get("CC", "cc"), "-O2", "-o", str(program), str(_SOURCE)], check=True
        )
        mapped.write_bytes(b"\1" * _FILE_BYTES)
    storage = Path(tempfile.mkdtemp(dir=folder))
    place = ["--storage", str(storage), *(["--target", target] if target else [])]
    record = [sys.executable, "-m", "reusebench", "record", *place, "--marker", "3"]
    command = [*record, "--", str(program), str(-1 if pause_ms is None else pause_ms), str(mapped)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    (run,) = read_storage(storage)
    assert isinstance(run, StoredRun)
    return list(_phases(done.stdout, run.programs[0]))


def _phases(truth: str, program: Program) -> Iterator[MeasuredPhase]:
    phases = {phase.name: phase for phase in program.phases}
    for line in truth.splitlines():
        *sizes, name = line.split(maxsplit=3)
        memory, peak, largest = map(int, sizes)
        figures = phases[name].memory
        exact = phases[name].process_peaks_exact
        yield MeasuredPhase(
            name=name,
            memory_bytes=memory,
            peak_bytes=peak,
            largest_bytes=largest,
            recorded_bytes=figures.application_memory_bytes[0],
            recorded_peak_bytes=figures.application_peak_rss_bytes[0] or 0,
            recorded_largest_bytes=figures.process_peak_rss_bytes[0] or 0,
            peak_at_most_bytes=figures.application_peak_rss_at_most_bytes[0],
            is_largest_exact=exact[0],
        )


def _row(phase: MeasuredPhase, missed: int) -> list[str]:
    error = phase.error_percent
    least = f"{phase.recorded_peak_bytes / _MIB:.1f}"
    at_most = phase.peak_at_most_bytes
    if at_most is None:
        least = f"≥ {least}"
    elif at_most > phase.recorded_peak_bytes:
        least = f"{least} to {at_most / _MIB:.1f}"
    return [
        phase.name,
        f"{phase.memory_bytes / _MIB:.2f}",
        "-" if phase.recorded_bytes is None else f"{phase.recorded_bytes / _MIB:.2f}",
        "-" if error is None else f"{error:+.2f}",
        str(missed),
        f"{phase.peak_bytes / _MIB:.1f}",
        least,
        f"{phase.largest_bytes / _MIB:.1f}",
        f"{'' if phase.is_largest_exact else '≥ '}{phase.recorded_largest_bytes / _MIB:.1f}",
    ]


@contextmanager
def _busy(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    main()
