"""Speed of measurements on remote boards: `python -m benchmarks.far_speed [--target ssh:HOST ...]`.

A small process on this machine, and one on each remote target, passes barriers as the driver does:
a line and its answer, then a full reading. Then its host samples it at 200 Hz. The table has
medians, and the range of 90 % of the values.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.quick import parse
from reusebench.samplers.host import LOCAL_HOST, Host
from reusebench.samplers.observer import Observer
from reusebench.targets.far.connection import connect
from reusebench.targets.far.host import FarHost
from reusebench.targets.far.process import FarProcess
from reusebench.targets.process import DriverProcess, LocalProcess

_RATE_HZ = 200.0
#: Interval at which the samples of a remote host are fetched.
_TAKE_S = 0.05
#: Program that answers every line with the same line.
_COMMAND = ("cat",)
_ANSWER_LIMIT_S = 30.0


class Spread(NamedTuple):
    """A median and the range of 90 % of the values, in milliseconds."""

    median_ms: float
    low_ms: float
    high_ms: float

    @classmethod
    def of(cls, values_ns: Sequence[int]) -> Spread:
        """Return the spread of durations in nanoseconds."""
        twentieths = statistics.quantiles(values_ns, n=20, method="inclusive")
        return cls(statistics.median(values_ns) / 1e6, twentieths[0] / 1e6, twentieths[-1] / 1e6)

    def __str__(self) -> str:
        return f"{self.median_ms:7.3f}  ({self.low_ms:.3f} to {self.high_ms:.3f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for this machine and each target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", action="append", default=[], help="a remote target; repeatable")
    parser.add_argument(
        "--barriers", type=int, default=300, help="number of barriers (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="time to sample (default: %(default)s)"
    )
    # Every machine has a pipe as a remote target: the reader runs here, behind a shell.
    options = parse(parser, arguments, ("--target=pipe:sh", "--barriers=20", "--seconds=1"))
    with _near() as (host, process):
        _show("near", host, process, options.barriers, options.seconds)
    for target in options.target:
        with _far(target) as (host, process):
            _show(target, host, process, options.barriers, options.seconds)


@contextmanager
def _near() -> Iterator[tuple[Host, DriverProcess]]:
    process = LocalProcess(_COMMAND, Path("/"), {}, keeps_ledger=False)
    try:
        yield LOCAL_HOST, process
    finally:
        process.close()


@contextmanager
def _far(target: str) -> Iterator[tuple[Host, DriverProcess]]:
    connection = connect(target, print)
    try:
        process = FarProcess(connection, _COMMAND, "/", {}, keeps_ledger=False)
        try:
            yield FarHost(lambda: connection), process
        finally:
            process.close()
    finally:
        connection.close()


def _show(name: str, host: Host, process: DriverProcess, barriers: int, seconds: float) -> None:
    observer = Observer(host, _RATE_HZ)
    observer.attach(process.pid)
    intervals_ns = _sampled(observer, seconds)
    observer.detach()
    observer.attach(process.pid)
    lines_ns = [_timed(lambda: _pass_line(process)) for _ in range(barriers)]
    readings_ns = [_timed(observer.snapshot) for _ in range(barriers)]
    observer.detach()
    print(f"{name} (ms: median, and range of 90 %)")
    print(f"  a line and its answer         {Spread.of(lines_ns)}")
    print(f"  a full reading                {Spread.of(readings_ns)}")
    print(
        f"  between samples at {_RATE_HZ:g} Hz   {Spread.of(intervals_ns)}, longest"
        f" {max(intervals_ns) / 1e6:.3f}"
    )


def _sampled(observer: Observer, seconds: float) -> list[int]:
    """Sample for `seconds`; return the times between samples.

    The local host is called at the sampling rate, as the harness does.
    """
    is_near = observer.host is LOCAL_HOST
    step_s = observer.interval_s if is_near else _TAKE_S
    begin_s = time.monotonic()
    for step in range(int(seconds / step_s)):
        time.sleep(max(0.0, begin_s + step * step_s - time.monotonic()))
        observer.sample()
    times_ns = observer.timeline.times_ns
    return [after - before for before, after in zip(times_ns, times_ns[1:])]


def _pass_line(process: DriverProcess) -> None:
    process.send(b"line\n")
    if process.receive(_ANSWER_LIMIT_S) != b"line\n":
        raise SystemExit("the process has not answered")


def _timed(work: Callable[[], object]) -> int:
    begin_ns = time.monotonic_ns()
    work()
    return time.monotonic_ns() - begin_ns


if __name__ == "__main__":
    main()
