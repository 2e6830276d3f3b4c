"""Time until the first answer, and its parts: `python -m benchmarks.first_answer`.

It runs a quick session of ONNX Runtime, and its report, in an empty folder with an empty cache, as
a new user does. It prints the times from the start to the first figure in the terminal, to the end
of the session and to the end of the report, with the CPU time of all processes. From the traces it
prints the parts of the measured processes' time, summed over all processes. The rest is the
harness: its start, models, preparing, storing.

Other options of `reusebench bench --quick` may follow:

    python -m benchmarks.first_answer -- --runtime ncnn -k test_dup
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.quick import own_folder, parse
from reusebench.harness.settings import Settings
from reusebench.storage.result import Result
from reusebench.storage.run_file import StoredRun, read_storage
from reusebench.storage.trace import Trace, read_trace

_ONNXRUNTIME = ("--runtime", "onnxruntime")
#: Selection for --quick: two scenarios, once.
_SMALL = (
    *_ONNXRUNTIME,
    *("-k", "shared_context", "--repeats", "1", "--streams", "1", "--contexts", "2"),
)
_FIGURE = re.compile(r"^\S+ .* [\d,.]+ (±[\d,.]+ )?MiB\b")
#: Descriptions of the time up to each barrier, by its phase.
_NAMES = {
    "imported": "start of the process, import of the runtime",
    "context": "contexts made",
    "first_inference": "first inferences",
    "steady": "timed rounds",
    "decoders": "decoders opened",
    "destroy": "contexts destroyed",
}
_STREAMS = "frames of streams"
_OTHERS = "other steps"
_READINGS = "readings at barriers"
_IDLE = "idle time observed"


@dataclass(frozen=True)
class Moment:
    """Seconds since the start: wall time, and CPU time of the ended processes."""

    wall_s: float
    cpu_s: float

    def __str__(self) -> str:
        return f"{self.wall_s:8.2f}{self.cpu_s:10.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run session and report, and print the tables."""
    parser = argparse.ArgumentParser("python -m benchmarks.first_answer", description=__doc__)
    parser.add_argument(
        "words", nargs="*", metavar="ARGUMENT", help=f"default: {' '.join(_ONNXRUNTIME)}"
    )
    options = parse(parser, arguments, ())
    words = options.words or (_SMALL if options.quick else _ONNXRUNTIME)
    folder = own_folder()
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    begin_s = time.monotonic()
    begin_cpu_s = _children_s()

    def now() -> Moment:
        return Moment(time.monotonic() - begin_s, _children_s() - begin_cpu_s)

    first_s = _first_figure_s(words, folder, begin_s)
    session = now()
    subprocess.run(_command("report"), cwd=folder, stdout=subprocess.DEVNULL, check=True)
    report = now()
    print(f"{'':32}{'wall s':>8}{'CPU s':>10}")
    print(f"{'first figure':32}{first_s:8.2f}")
    print(f"{'end of the session':32}{session}")
    print(f"{'end of the report':32}{report}")
    _show_shares(folder, session.wall_s)


def _first_figure_s(words: Sequence[str], folder: Path, begin_s: float) -> float:
    """Run the session; return the time of its first printed figure, in seconds since `begin_s`."""
    first_s = None
    command = _command("bench", "--quick", *words)
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if first_s is None and _FIGURE.match(line):
                first_s = time.monotonic() - begin_s
    if process.returncode or first_s is None:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}, or no figure")
    return first_s


def _show_shares(folder: Path, session_s: float) -> None:
    (storage,) = (folder / ".benchmarks").iterdir()
    (run,) = read_storage(storage)
    assert isinstance(run, StoredRun)
    shares: dict[str, float] = defaultdict(float)
    processes = 0
    for stored in run.results:
        if stored.info.measured_as is not None:
            continue
        for repeat in stored.info.repeats:
            trace = read_trace(storage, repeat.trace, Trace)
            assert trace is not None
            processes += 1
            _add(trace, stored.info, shares)
    # Traces begin after the idle time.
    shares[_IDLE] = processes * Settings.idle_s
    left_s = session_s - sum(shares.values())
    print(f"\nParts of the session's {session_s:.1f} s: {processes} processes")
    for name, seconds in sorted(shares.items(), key=lambda share: -share[1]):
        print(f"{name:46}{seconds:8.2f} s{100 * seconds / session_s:6.1f} %")
    print(f"{'the harness, and preparing':46}{left_s:8.2f} s{100 * left_s / session_s:6.1f} %")


def _add(trace: Trace, result: Result, shares: dict[str, float]) -> None:
    before_ns = trace.start_ns or 0
    for barrier in trace.barriers:
        name = _NAMES.get(barrier.phase, _OTHERS)
        if barrier.phase == "steady" and result.plan.schedule:
            name = _STREAMS
        shares[name] += (barrier.at_ns - before_ns) / 1e9
        before_ns = barrier.left_ns or barrier.at_ns
        shares[_READINGS] += (before_ns - barrier.at_ns) / 1e9


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "reusebench", *words]


if __name__ == "__main__":
    main()
