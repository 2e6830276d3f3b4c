"""Profile of the test suite: `python -m benchmarks.suite_profile [-- ARGUMENT...]`.

It runs pytest with this module as a plug-in, and prints, in seconds over all workers: the time
before the first test (imports and collection), the CPU time of the tests' processes and of their
children, the remaining time (waits), the files that take half of the total, and the started
processes. The wall time of a test includes set-up and tear-down; a fixture's time counts for the
first test that needs it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks.quick import own_folder, parse

__all__ = ["Cost", "TestCost", "read_costs"]

_FOLDER = "REUSEBENCH_SUITE_PROFILE"
#: Options of `make test`.
_ALL = ("-n", "logical", "--dist", "loadfile", "--no-loadscope-reorder")
#: Tests for --quick, with processes and without.
_QUICK = ("tests/accounting", "tests/system")
_TESTS = 15


@dataclass
class Cost:
    """Seconds of wall time, and of CPU time of the test process and of its children."""

    wall_s: float = 0.0
    own_s: float = 0.0
    children_s: float = 0.0

    @property
    def waited_s(self) -> float:
        """Return the wall time without CPU time: waits for time, events, or a CPU."""
        return max(0.0, self.wall_s - self.own_s - self.children_s)

    def add(self, other: Cost) -> None:
        """Add another cost."""
        self.wall_s += other.wall_s
        self.own_s += other.own_s
        self.children_s += other.children_s

    def __str__(self) -> str:
        return f"{self.wall_s:8.1f}{self.own_s:8.1f}{self.children_s:8.1f}{self.waited_s:8.1f}"


@dataclass
class TestCost:
    """The cost of a test, and the processes that it started."""

    __test__ = False

    nodeid: str
    cost: Cost = field(default_factory=Cost)
    started: list[str] = field(default_factory=list)


class _Clock:
    """A clock that measures laps."""

    def __init__(self) -> None:
        self._last = self.now()

    def lap(self) -> Cost:
        """Return the cost since the last lap."""
        now = self.now()
        last = self._last
        self._last = now
        return Cost(*(new - old for new, old in zip(now, last)))

    @staticmethod
    def now() -> tuple[float, float, float]:
        """Return wall time, own CPU time and CPU time of children, in seconds."""
        own = resource.getrusage(resource.RUSAGE_SELF)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.monotonic(), own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


class _Profiler:
    """A plug-in that writes a line for each test of this process."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", buffering=1)
        self._started: list[str] = []
        self._clock = _Clock()
        #: Cost until the first test: imports of the interpreter and of pytest.
        self._before: Cost | None = Cost(0.0, *self._clock.now()[1:])
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            self._started.append(_command_name([os.fsdecode(word) for word in arguments[1]]))
        elif event in ("os.fork", "os.forkpty", "os.posix_spawn"):
            self._started.append(event)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        passed = self._clock.lap()
        if self._before is not None:
            self._before.add(passed)
            self._write(TestCost("", self._before))
            self._before = None
        self._started.clear()
        yield
        self._write(TestCost(item.nodeid, self._clock.lap(), list(self._started)))

    def _write(self, test: TestCost) -> None:
        self._file.write(json.dumps(asdict(test)) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Start the profiler in processes that run tests."""
    folder = os.environ.get(_FOLDER)
    if folder is not None and (
        hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    ):
        config.pluginmanager.register(_Profiler(Path(folder) / f"{os.getpid()}.jsonl"))


def read_costs(folder: Path) -> list[TestCost]:
    """Return the costs of all tests; an empty name stands for the time before a first test."""
    tests = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            value = json.loads(line)
            tests.append(TestCost(value["nodeid"], Cost(**value["cost"]), value["started"]))
    return tests


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests and print the tables."""
    parser = argparse.ArgumentParser("python -m benchmarks.suite_profile", description=__doc__)
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="folder for the costs of tests, as JSON lines"
    )
    parser.add_argument(
        "words", nargs="*", metavar="ARGUMENT", help="arguments of pytest; default: as `make test`"
    )
    options = parse(parser, arguments, _QUICK)
    folder = options.keep or own_folder()
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pytest", "-p", "benchmarks.suite_profile", "-q", "-r", "fE"]
    begin_s = time.monotonic()
    code = subprocess.run(
        [*command, *(options.words or _ALL)], env={**os.environ, _FOLDER: str(folder)}, check=False
    ).returncode
    _show(read_costs(folder), time.monotonic() - begin_s)
    return code


def _show(tests: Sequence[TestCost], wall_s: float) -> None:
    before = Cost()
    files: dict[str, Cost] = defaultdict(Cost)
    total = Cost()
    commands: dict[str, int] = defaultdict(int)
    starting = 0
    for test in tests:
        if not test.nodeid:
            before.add(test.cost)
            continue
        total.add(test.cost)
        files[test.nodeid.partition("::")[0]].add(test.cost)
        starting += bool(test.started)
        for name in test.started:
            commands[name] += 1
    count = sum(1 for test in tests if test.nodeid)
    print(
        f"\n{count} tests, {wall_s:.1f} s; {starting} tests start {sum(commands.values())}"
        " processes"
    )
    print(f"{'':60}{'wall':>8}{'own':>8}{'child':>8}{'waits':>8}")
    print(f"{'before the first test, all workers':60}{before}")
    print(f"{'tests':60}{total}")
    print("\nFiles that take half of the time")
    _print_first(((name, cost) for name, cost in files.items()), total.wall_s / 2)
    print(f"\nThe {_TESTS} longest tests")
    named = [test for test in tests if test.nodeid]
    longest = sorted(named, key=lambda test: -test.cost.wall_s)[:_TESTS]
    for test in longest:
        print(f"{_shortened(test.nodeid):60}{test.cost}")
    print("\nProcesses started")
    for name, number in sorted(commands.items(), key=lambda item: -item[1]):
        print(f"{number:7}  {name}")


def _print_first(costs: Iterator[tuple[str, Cost]], until_s: float) -> None:
    sum_s = 0.0
    for name, cost in sorted(costs, key=lambda item: -item[1].wall_s):
        if sum_s >= until_s:
            return
        sum_s += cost.wall_s
        print(f"{_shortened(name):60}{cost}")


def _shortened(text: str) -> str:
    return text if len(text) < 60 else f"…{text[-58:]}"


def _command_name(words: Sequence[str]) -> str:
    """Return a short name of a command: its program, and the module or script of a Python."""
    program = Path(words[0]).name
    if not program.startswith("python"):
        return program
    for index, word in enumerate(words[1:], 1):
        if word == "-m":
            return f"python -m {words[index + 1]}"
        if word == "-c":
            return "python -c"
        if word.endswith("start.py"):
            return f"start.py {words[index + 1]}" if len(words) > index + 1 else "start.py"
        if not word.startswith("-"):
            return f"python {Path(word).name}"
    return program


if __name__ == "__main__":
    sys.exit(main())
