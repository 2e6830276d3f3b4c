"""Accuracy of the phases of `reusebench record`: `python -m benchmarks.recorder_accuracy`.

It records a C program whose memory is known to the page: it grows, shrinks, has a spike of 1 ms,
maps a file, shares memory with a child, spikes in both processes one after the other, and has
phases without length. It knows its touched pages, and its earlier memory from the kernel. It waits
for the answer to its marks, or continues after --pause MS; --busy N runs N loops beside it, at the
same priority. --target pipe:sh records it as a program of a remote board, through the reader.

--programs N records N programs instead that were made by chance and do not wait at their marks:
they take, free and hold memory before, at and after them, some of it in huge pages; every fourth is
the program above, without waiting. Each figure is within 1 %, or its bounds hold the truth, or only
its age is known, or it is wrong.

It needs a C compiler.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from benchmarks.quick import compiler, parse
from reusebench.storage.recorded_program import Program
from reusebench.storage.run_file import StoredRun, read_storage
from tests.helpers.support import CHECKOUT

__all__ = [
    "AGED",
    "BOUNDED",
    "NOT_READ",
    "RIGHT",
    "WRONG",
    "MeasuredPhase",
    "judge_memory",
    "judge_peak",
    "made_steps",
    "measure",
]

_SOURCE = Path(__file__).with_suffix(".c")
_MIB = 2**20
#: Size of the mapped file, as in the source.
_FILE_BYTES = 24 * _MIB
#: What a figure is: within the error below, with bounds that hold the truth, with its age instead
#: of bounds, or wrong without a word.
RIGHT = "right"
BOUNDED = "bounded"
AGED = "with its age"
WRONG = "wrong"
NOT_READ = "not read"
_JUDGEMENTS = (RIGHT, BOUNDED, AGED, WRONG, NOT_READ)
_NEAR_SHARE = 0.01
#: Each fourth program is the one that shares memory with a child.
_SHARING = 4
#: The kernel counts RSS to some hundred KiB.
_NEAR_BYTES = 384 * 1024


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
    #: Bounds of the recorded memory; None if none were stored.
    at_least_bytes: int | None
    at_most_bytes: int | None
    #: Whether the recorder says that the memory was read some time before the end of the phase.
    is_age_told: bool

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
    parser.add_argument(
        "--programs", type=int, default=0, metavar="N", help="programs that do not wait at marks"
    )
    options = parse(parser, arguments, ("--recordings=1",))
    compiler()
    if options.programs:
        _print_rates(options)
        return
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
    folder: Path,
    pause_ms: int | None = None,
    target: str | None = None,
    steps: Sequence[str] = (),
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
    pause = str(-1 if pause_ms is None else pause_ms)
    command = [*record, "--", str(program), pause, str(mapped), *steps]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    (run,) = read_storage(storage)
    assert isinstance(run, StoredRun)
    return list(_phases(done.stdout, run.programs[0]))


def _print_rates(options: argparse.Namespace) -> None:
    """Print how many figures of programs that do not wait are right, bounded or wrong."""
    counts: dict[str, Counter[str]] = {"memory at the end": Counter(), "highest sum": Counter()}
    widths: list[float] = []
    with tempfile.TemporaryDirectory() as folder, _busy(options.busy):
        for number in range(options.programs):
            chance = random.Random(number)
            pause_ms = 0
            steps: list[str] = []
            if number % _SHARING == _SHARING - 1:
                pause_ms = chance.choice((0, 50, 300))
            else:
                steps = made_steps(chance)
            for phase in measure(Path(folder), pause_ms, options.target, steps):
                counts["memory at the end"][judge_memory(phase)] += 1
                counts["highest sum"][judge_peak(phase)] += 1
                if judge_memory(phase) == WRONG or judge_peak(phase) == WRONG:
                    print(f"program {number}: {phase}")
                if phase.at_least_bytes is not None and phase.at_most_bytes is not None:
                    width = phase.at_most_bytes - phase.at_least_bytes
                    widths.append(100 * width / phase.memory_bytes)
    heads = ["", *_JUDGEMENTS]
    rows = []
    for name, count in counts.items():
        rows.append([name, *(f"{100 * count[kind] / count.total():.1f}" for kind in _JUDGEMENTS)])
    phases = counts["memory at the end"].total()
    print(
        f"{options.programs} programs, {phases} phases, load {os.getloadavg()[0]:.1f}; shares in %"
    )
    print(tabulate(rows, heads, disable_numparse=True))
    narrow = sum(width <= 1 for width in widths) / max(len(widths), 1)
    print(f"bounds within 1 % of each other: {100 * narrow:.1f} %")


def _is_near(bytes_told: int, bytes_true: int) -> bool:
    return abs(bytes_told - bytes_true) <= max(_NEAR_SHARE * bytes_true, _NEAR_BYTES)


def judge_memory(phase: MeasuredPhase) -> str:
    """Return whether the memory at the end is right, bounded or wrong."""
    if phase.recorded_bytes is None:
        return NOT_READ
    if _is_near(phase.recorded_bytes, phase.memory_bytes):
        return RIGHT
    if phase.at_least_bytes is None or phase.at_most_bytes is None:
        return AGED if phase.is_age_told else WRONG
    is_above = phase.memory_bytes >= phase.at_least_bytes - _NEAR_BYTES
    is_below = phase.memory_bytes <= phase.at_most_bytes + _NEAR_BYTES
    return BOUNDED if is_above and is_below else WRONG


def judge_peak(phase: MeasuredPhase) -> str:
    """Return whether the highest sum is right, bounded or wrong."""
    if _is_near(phase.recorded_peak_bytes, phase.peak_bytes):
        return RIGHT
    if phase.recorded_peak_bytes > phase.peak_bytes:
        return WRONG
    at_most = phase.peak_at_most_bytes
    if at_most is None:
        return BOUNDED
    return BOUNDED if phase.peak_bytes <= at_most + _NEAR_BYTES else WRONG


def made_steps(chance: random.Random) -> list[str]:
    """Return the steps of a program with ten phases."""
    steps: list[str] = []
    blocks = 0

    def change(pause_ms: int) -> None:
        nonlocal blocks
        kind = chance.choice(("hold", "hold", "huge", "free", "free", "spike"))
        if kind == "free" and not blocks:
            kind = "hold"
        blocks += {"hold": 1, "huge": 1, "free": -1, "spike": 0}[kind]
        steps.extend((kind, str(2 * chance.randint(4, 80))))
        if pause_ms:
            steps.extend(("sleep", str(pause_ms)))

    for _ in range(3):
        change(0)
    steps.extend(("sleep", "200"))
    for number in range(10):
        for _ in range(chance.randint(0, 2)):
            change(chance.choice((0, 1, 20, 100, 300)))
        if chance.random() < 0.5:
            steps.extend(("sleep", str(chance.choice((60, 150, 400)))))
        if chance.random() < 0.3:
            change(0)
        steps.extend(("mark", f"phase {number}"))
        for _ in range(chance.choice((0, 1, 1, 2))):
            change(0)
    steps.extend(("sleep", "100", "mark", "end", "sleep", "20"))
    return steps


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
            at_least_bytes=(figures.application_memory_at_least_bytes or (None,))[0],
            at_most_bytes=(figures.application_memory_at_most_bytes or (None,))[0],
            is_age_told=phases[name].memory_age_ns is not None,
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
