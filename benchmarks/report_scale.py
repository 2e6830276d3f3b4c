"""Time and memory of commands by the number of stored results: `python -m benchmarks.report_scale`.

It makes storages of several sizes, with runs of two runtimes in six versions, and runs each command
in a fresh process. A result has five repeats of twelve contexts, and the size of a measured one:
20 KB.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from benchmarks.quick import parse
from reusebench.scenarios.catalogue import SCENARIOS
from reusebench.storage.result import Result
from reusebench.storage.run_file import Commit
from tests.helpers.support import CHECKOUT
from tests.reports.stored import (
    MIB,
    MakeAccount,
    changed,
    dup,
    even,
    npu_account,
    result,
    with_memory,
    write_run,
)

_FIRST_RUN = datetime.datetime(2026, 1, 1)
#: Number of successive versions of a runtime: more groups than a page shows.
_VERSIONS = 6
_REPEATS = 5
_INTERVAL_S = 0.02


#: Arguments of `reusebench`, without storage and output, by the name in the table.
COMMANDS = {
    "report": ("report",),
    "compare": ("compare", "latest~1", "latest", "--across", "runtime_version"),
    "history": ("history",),
    "list": ("runs", "list"),
}
#: Commands that write a page.
_WRITERS = ("report", "history")
_HEADS = ("results", "time, s", "CPU time, s", "RSS, MiB", "PSS, MiB")


@dataclass(frozen=True)
class Cost:
    """The time and memory of one command."""

    command: str
    results: int
    elapsed_s: float
    #: CPU time of all processes; other work on the machine affects it less.
    cpu_s: float
    #: Peak RSS, summed over all processes; shared pages count in each.
    rss_bytes: int
    #: Peak PSS; shared pages count once.
    pss_bytes: int

    def __str__(self) -> str:
        """Return a line of the table."""
        sizes = "".join(f"{size / MIB:12.1f}" for size in (self.rss_bytes, self.pss_bytes))
        return f"{self.command:8}{self.results:12}{self.elapsed_s:12.2f}{self.cpu_s:12.2f}{sizes}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the cost of each command over storages of these sizes, and the cost of 1000 results."""
    parser = argparse.ArgumentParser("python -m benchmarks.report_scale", description=__doc__)
    sizes = [1000, 10000]
    parser.add_argument(
        "--results", type=int, nargs="+", default=sizes, metavar="N", help=f"default: {sizes}"
    )
    parser.add_argument(
        "--command", choices=COMMANDS, action="append", metavar="NAME", help="default: all of them"
    )
    # More results than one run has, since `compare` needs two runs.
    options = parse(parser, arguments, ("--results", "150"))
    costs: list[Cost] = []
    print(f"{'command':8}{''.join(f'{head:>12}' for head in _HEADS)}")
    for count in options.results:
        with tempfile.TemporaryDirectory() as folder:
            results = make_storage(Path(folder) / "storage", count)
            for name in options.command or COMMANDS:
                costs.append(command_cost(Path(folder), name, results))
                print(costs[-1], flush=True)
    for name in options.command or COMMANDS:
        _print_growth([cost for cost in costs if cost.command == name])


def command_cost(folder: Path, name: str, results: int) -> Cost:
    """Return the cost of a command over the storage in the folder, which has `results` results."""
    output = ["--output", str(folder / "out")] if name in _WRITERS else []
    command = [
        sys.executable,
        "-m",
        "reusebench",
        *COMMANDS[name],
        "--storage",
        str(folder / "storage"),
        *output,
    ]
    start = time.perf_counter()
    cpu_s = _cpu_s()
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.DEVNULL) as process:
        readings = list(_memory_until_the_end(process))
        elapsed_s = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    rss_bytes, pss_bytes = (max(sizes) for sizes in zip(*readings))
    return Cost(name, results, elapsed_s, _cpu_s() - cpu_s, rss_bytes, pss_bytes)


def _print_growth(costs: Sequence[Cost]) -> None:
    for less, more in zip(costs, costs[1:]):
        thousands = (more.results - less.results) / 1000
        seconds = more.cpu_s - less.cpu_s
        size = (more.pss_bytes - less.pss_bytes) / MIB
        added = f"{seconds / thousands:.2f} s of CPU time, {size / thousands:.1f} MiB (PSS)"
        print(f"{less.command}, {less.results} to {more.results}: {added} for each thousand more")


def make_storage(storage: Path, count: int) -> int:
    """Write runs of all scenarios with at least `count` results; return the number of results."""
    first = _results(storage, None) + _results(storage, npu_account)
    runs = -(-count // len(first))
    for number in range(runs):
        at = (_FIRST_RUN + datetime.timedelta(hours=number)).isoformat()
        infos = [_measured(info, number, number * _VERSIONS // runs) for info in first]
        write_run(storage, infos, number + 1, at, Commit(id=f"{number:040x}"))
    return runs * len(first)


def _results(storage: Path, npu: MakeAccount | None) -> list[Result]:
    run = "npu" if npu else "cpu"
    results = []
    for scenario in SCENARIOS:
        cost = dup(40, 10, _REPEATS)
        if scenario.baseline is None:
            cost = even(40, _REPEATS, 0.5)
        results.append(result(storage, scenario.name, cost, npu=npu, computes=not npu, run=run))
    return results


def _measured(info: Result, number: int, version: int) -> Result:
    """Return the result as measured in another run."""
    more_bytes = number * 7919 % 64 * 4096
    sizes = {
        name: [size if size is None else size + more_bytes for size in values]
        for name, values in msgspec.structs.asdict(info.memory).items()
        if name.startswith("application_")
    }
    return with_memory(changed(info, run=f"run{number}", runtime_version=f"1.{version}.0"), **sizes)


def _cpu_s() -> float:
    """Return the CPU time of all ended child processes."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def _memory_until_the_end(process: subprocess.Popen[bytes]) -> Iterator[tuple[int, int]]:
    """Yield RSS and PSS of the process and all its descendants, in bytes, until it ends."""
    root = psutil.Process(process.pid)
    while process.poll() is None:
        rss_bytes = pss_bytes = 0
        with contextlib.suppress(psutil.NoSuchProcess):
            for part in (root, *root.children(recursive=True)):
                memory = part.memory_full_info()
                rss_bytes += memory.rss
                pss_bytes += memory.pss
        yield rss_bytes, pss_bytes
        time.sleep(_INTERVAL_S)


if __name__ == "__main__":
    main()
