"""Storages of a chosen size: boards that measured a project's commits during a year.

Levels have noise of run and repeat, and differ from board to board. A few commits changed memory, a
few configurations failed, some runs have a recorded program. The seed decides all of it.
"""

from __future__ import annotations

import datetime
import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from reusebench.scenarios.catalogue import SCENARIOS, suits
from reusebench.storage.recorded_program import Program
from reusebench.storage.result import MemoryFigures, Result, Speed, StoredRepeat
from reusebench.storage.run_file import Commit
from tests.reports.stored import FAILED, MIB, MODELS, machine, npu_account, result, write_run
from tests.reports.stored_programs import Repeat, program

__all__ = [
    "LARGE_RESULTS",
    "RUNS_A_YEAR",
    "SMALL_RESULTS",
    "ResultForm",
    "Storages",
    "fleet_of",
    "make_storage",
    "storage_of",
]

#: Runs of a board of a fleet.
RUNS_A_YEAR = 250


_FIRST_RUN = datetime.datetime(2026, 1, 1, 1)
_YEAR = datetime.timedelta(days=365)
#: Time between two boards that measure the same commit.
_NEXT_BOARD = datetime.timedelta(minutes=2)
#: Successive versions of a runtime: more groups than a page shows.
_VERSIONS = 6
#: Page of memory.
_PAGE_BYTES = 4096
#: Spread of a level as a share of it: from board to board, from run to run, between repeats.
_BOARD_SPREAD = 0.01
_RUN_SPREAD = 0.001
_REPEAT_SPREAD = 0.0005
_LATENCY_SPREAD = 0.02
#: Commits that changed memory, as shares of all commits, with the factor and the scenarios.
_CHANGES = ((0.3, 1.04, "dup"), (0.6, 0.95, "no_reuse"), (0.85, 1.02, ""))
_FAILED_SHARE = 0.003
#: Runs from one recorded program to the next.
_PROGRAM_RUNS = 10
_MIB_OF_FIRST_CONTEXT = 40
_MIB_OF_FURTHER_CONTEXTS = 10


@dataclass(frozen=True)
class ResultForm:
    """The results of a run: their number and size."""

    scenarios: Sequence[str]
    streams: int
    #: Per stream.
    contexts: int
    repeats: int
    #: Phases whose readings are stored; empty for all.
    phases: Sequence[str] = ()

    @property
    def results(self) -> int:
        """The number of results of a run: of ONNX Runtime and of Rockchip's."""
        return 2 * len(self.scenarios)


#: As measured: every scenario of ONNX Runtime, 12 contexts, 5 repeats.
LARGE_RESULTS = ResultForm(
    [scenario.name for scenario in SCENARIOS if suits(scenario.name, has_conversations=False)],
    4,
    3,
    5,
)
#: For a million of them: 20 results of 2 contexts and 2 repeats, with the readings of 2 phases.
SMALL_RESULTS = ResultForm(
    (
        "no_reuse_one_model",
        "full_dup",
        "full_dup_internal_reuse",
        "copied_io",
        "zero_copy_io",
        "runtime_memory",
        "external_memory",
        "plain",
        "lean",
        "default_options",
    ),
    1,
    2,
    2,
    ("imported", "steady"),
)


@dataclass(frozen=True)
class Storages:
    """The storages of boards that measured the same commits: a folder with one for each board.

    The folder of a single board is its storage.
    """

    folder: Path
    boards: int
    runs: int
    form: ResultForm
    seed: int = 1

    @property
    def results(self) -> int:
        """The number of results of all boards."""
        return self.boards * self.runs * self.form.results

    @property
    def first(self) -> Path:
        """The storage of the first board."""
        return self.folder if self.boards == 1 else self.folder / _name(0)

    def write(self) -> None:
        """Write all runs, beside the folder until they are complete."""
        beside = self.folder.with_name(f"{self.folder.name}.unfinished")
        whole = replace(self, folder=beside)
        with ProcessPoolExecutor(min(self.boards, os.cpu_count() or 1)) as processes:
            list(processes.map(whole._write_board, range(self.boards)))
        beside.rename(self.folder)

    def write_one_more_run(self) -> Path:
        """Write one more run of the first board, and return its path."""
        return self._board(0).write_run(self.runs)

    def _write_board(self, number: int) -> None:
        board = self._board(number)
        for index in range(self.runs):
            board.write_run(index)

    def _board(self, number: int) -> _Board:
        storage = self.first if number == 0 else self.folder / _name(number)
        return _Board(storage, number, self.form, self.runs, self.seed)


def make_storage(storage: Path, count: int) -> int:
    """Write runs of all scenarios with at least `count` results; return the number of results."""
    storages = storage_of(storage, count)
    storages.write()
    return storages.results


def storage_of(folder: Path, count: int) -> Storages:
    """Return the storage of one board with at least `count` results, as large as measured ones."""
    return Storages(folder, 1, -(-count // LARGE_RESULTS.results), LARGE_RESULTS)


def fleet_of(folder: Path, boards: int, runs: int = RUNS_A_YEAR) -> Storages:
    """Return the storages of several boards, with small results."""
    return Storages(folder, boards, runs, SMALL_RESULTS)


def _name(board: int) -> str:
    return f"board-{board:03}"


class _Board:
    """A board, and the runs that it has measured."""

    def __init__(self, storage: Path, number: int, form: ResultForm, runs: int, seed: int) -> None:
        self._storage = storage
        self._form = form
        self._runs = runs
        self._seed = f"{seed}/{number}"
        self._random = random.Random(self._seed)
        self._machine = machine(board=_name(number))
        self._delay = number * _NEXT_BOARD
        self._templates = list(self._results())
        self._level = self._random.gauss(1, _BOARD_SPREAD)

    def write_run(self, index: int) -> Path:
        """Write the run of the commit with this index, whatever was written before."""
        self._random.seed(f"{self._seed}/{index}")
        at = _FIRST_RUN + index * _YEAR / self._runs + self._delay
        results = [self._measured(*templates, index) for templates in self._templates]
        return write_run(
            self._storage,
            results,
            index + 1,
            at.isoformat(timespec="microseconds"),
            Commit(id=f"{index * 2654435761 % 2**32:08x}{index:032x}"),
            self._machine,
            programs=[] if index % _PROGRAM_RUNS else [self._program(index)],
        )

    def _results(self) -> Iterator[tuple[Result, Result]]:
        """Yield each result as it is without noise, and as it fails."""
        form = self._form
        further = form.streams * form.contexts - 1
        for npu in (None, npu_account):
            for number, scenario in enumerate(form.scenarios):
                first = _MIB_OF_FIRST_CONTEXT + 2 * number
                sizes = [first * MIB] + [_MIB_OF_FURTHER_CONTEXTS * MIB] * further
                made = partial(
                    result,
                    self._storage,
                    scenario,
                    models=MODELS if form.streams > 1 else MODELS[:1],
                    run="npu" if npu else "cpu",
                    npu=npu,
                    computes=True,
                    streams=form.streams,
                    contexts=form.contexts,
                )
                yield (
                    _with_phases(made([sizes] * form.repeats), form.phases),
                    made([], failure=FAILED),
                )

    def _measured(self, info: Result, failed: Result, index: int) -> Result:
        """Return the result as measured in a run."""
        names = {"run": f"run{index}", "runtime_version": self._version(info, index)}
        if self._random.random() < _FAILED_SHARE:
            return msgspec.structs.replace(failed, **names)

        noise = self._random.gauss
        level = self._level * self._change(info.scenario, index) * noise(1, _RUN_SPREAD)
        sizes = info.memory.application_memory_over_baseline_bytes
        more = [_pages((size or 0) * (level * noise(1, _REPEAT_SPREAD) - 1)) for size in sizes]
        slower = [level * noise(1, _LATENCY_SPREAD) for _ in sizes]
        return msgspec.structs.replace(
            info,
            **names,
            memory=_with_more(info.memory, more),
            speed=_slower(info.speed, slower),
            repeats=tuple(map(_repeat_with_more, info.repeats, more)),
        )

    def _version(self, info: Result, index: int) -> str:
        return f"{2 if info.runtime == 'rknn' else 1}.{index * _VERSIONS // self._runs}.0"

    def _change(self, scenario: str, index: int) -> float:
        """Return the factor of memory since the commits that changed it."""
        factor = 1.0
        for share, change, names in _CHANGES:
            if index >= share * self._runs and names in scenario:
                factor *= change
        return factor

    def _program(self, index: int) -> Program:
        """Return a recorded program, whose memory grows by 0.02 MiB with each commit."""
        mib = 90 * self._level + 0.02 * index
        repeats = []
        for _ in range(self._form.repeats):
            phases = {"load": mib * self._random.gauss(1, _RUN_SPREAD), "serve": mib + 12}
            repeats.append(Repeat(phases))
        return program("camera", repeats)


def _with_phases(info: Result, names: Sequence[str]) -> Result:
    """Return the result with the readings of these phases; all of them without names."""
    if not names:
        return info
    repeats = []
    for repeat in info.repeats:
        phases = {name: repeat.phases[name] for name in names}
        repeats.append(msgspec.structs.replace(repeat, phases=phases))
    return msgspec.structs.replace(info, repeats=tuple(repeats))


def _pages(size: float) -> int:
    return round(size / _PAGE_BYTES) * _PAGE_BYTES


def _with_more(memory: MemoryFigures, more: Sequence[int]) -> MemoryFigures:
    """Return the figures with more application memory in each repeat, the last context's."""
    changes = {}
    for name, sizes in msgspec.structs.asdict(memory).items():
        if name.startswith("application_"):
            pairs = zip(sizes, more)
            changes[name] = tuple(None if size is None else size + add for size, add in pairs)
    contexts = []
    for sizes, more_bytes in zip(memory.context_memory_bytes, more):
        contexts.append((*sizes[:-1], sizes[-1] + more_bytes) if sizes else sizes)
    return msgspec.structs.replace(memory, context_memory_bytes=tuple(contexts), **changes)


def _slower(speed: Speed, factors: Sequence[float]) -> Speed:
    """Return the figures of speed with another factor for each repeat."""
    latencies = zip(speed.latency_median_ns, factors)
    rates = zip(speed.throughput_per_s, factors)
    models = []
    for repeat, factor in zip(speed.model_latency_ns, factors):
        models.append(repeat and tuple(_longer(latency, factor) for latency in repeat))
    return msgspec.structs.replace(
        speed,
        latency_median_ns=tuple(_longer(latency, factor) for latency, factor in latencies),
        throughput_per_s=tuple(None if rate is None else rate / factor for rate, factor in rates),
        model_latency_ns=tuple(models),
    )


def _longer(latency_ns: int | None, factor: float) -> int | None:
    return None if latency_ns is None else round(latency_ns * factor)


def _repeat_with_more(repeat: StoredRepeat, more_bytes: int) -> StoredRepeat:
    """Return the repeat with more memory of the process in its steady state, if it has one."""
    steady = repeat.phases.get("steady")
    if steady is None:
        return repeat
    process = steady.process
    process = msgspec.structs.replace(
        process,
        rss_bytes=process.rss_bytes + more_bytes,
        pss_bytes=(process.pss_bytes or 0) + more_bytes,
        uss_bytes=(process.uss_bytes or 0) + more_bytes,
        rss_anon_bytes=(process.rss_anon_bytes or 0) + more_bytes,
        peak_rss_bytes=(process.peak_rss_bytes or 0) + more_bytes,
        distinct_bytes=(process.distinct_bytes or 0) + more_bytes,
    )
    steady = msgspec.structs.replace(steady, process=process)
    return msgspec.structs.replace(repeat, phases={**repeat.phases, "steady": steady})
