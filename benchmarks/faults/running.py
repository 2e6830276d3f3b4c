"""Campaigns run by several worker processes, which an input may kill."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

from benchmarks.faults.sandbox import Sandbox
from benchmarks.faults.trial import Answer, Kind, Trial, Wrong

__all__ = ["Campaign", "run_campaign", "usable_cpus"]

#: Starts fresh processes, without the threads and the memory of this one.
_PROCESSES = multiprocessing.get_context("spawn")
#: Limit of a worker: a file that unpacks without end should end the worker, not the machine.
_ADDRESS_SPACE_BYTES = 8 * 2**30


class Campaign(Protocol):
    """A kind of injected fault. It is pickled into each worker."""

    @property
    def time_limit_s(self) -> float:
        """Time limit of an input; a worker that takes longer is killed, and the input is a hang."""

    def try_input(self, index: int, folder: Path) -> Trial:
        """Try the input of this index, which is always the same, in the worker's own folder."""


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    folder: Path
    #: The input that it tries; None if it is idle.
    index: int | None = None
    started_s: float = 0.0

    def give(self, index: int) -> None:
        """Let the worker try an input."""
        self.index = index
        self.started_s = time.monotonic()
        self.connection.send(index)

    def end(self) -> None:
        """Kill the worker and all processes that it has started."""
        if self.process.pid:
            with suppress(ProcessLookupError):  # it has no group yet
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        Sandbox(self.folder).kill()  # processes in sessions of their own
        self.connection.close()


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def run_campaign(
    campaign: Campaign,
    indexes: Sequence[int],
    workers: int,
    folder: Path,
    seconds: float | None = None,
) -> Iterator[Trial]:
    """Yield the trial of each input; after `seconds` no other inputs are begun."""
    end_s = time.monotonic() + (seconds or float("inf"))
    left = deque(indexes)
    running = [
        _start(campaign, folder / f"worker-{number}") for number in range(min(workers, len(left)))
    ]
    try:
        for worker in running:
            worker.give(left.popleft())
        while busy := [worker for worker in running if worker.index is not None]:
            ready = wait([worker.connection for worker in busy], timeout=1)
            for worker in busy:
                trial = _trial(worker, campaign, worker.connection in ready)
                if trial is None:
                    continue
                yield trial
                worker.index = None
                if not worker.process.is_alive():
                    running.remove(worker)
                    running.append(worker := _start(campaign, worker.folder))
                if left and time.monotonic() < end_s:
                    worker.give(left.popleft())
    finally:
        for worker in running:
            worker.end()


def _start(campaign: Campaign, folder: Path) -> _Worker:
    ours, theirs = _PROCESSES.Pipe()
    process = _PROCESSES.Process(target=_work, args=(campaign, theirs, folder))
    process.start()
    theirs.close()
    return _Worker(process, ours, folder)


def _work(campaign: Campaign, connection: Connection, folder: Path) -> None:
    """Try the inputs from the connection until it closes."""
    os.setpgid(0, 0)  # all processes of the group can be killed together
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE_BYTES, _ADDRESS_SPACE_BYTES))
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            index = connection.recv()
        except (EOFError, ConnectionError):
            return
        connection.send(campaign.try_input(index, folder))


def _trial(worker: _Worker, campaign: Campaign, is_ready: bool) -> Trial | None:
    """Return the trial of the worker's input; None if it still runs."""
    if is_ready:
        with suppress(EOFError, ConnectionError):
            trial: Trial = worker.connection.recv()
            return trial
    elif time.monotonic() - worker.started_s < campaign.time_limit_s:
        return None
    if is_ready:
        worker.process.join()
    code = worker.process.exitcode
    worker.end()
    wrong = Wrong(Kind.HANG, "no end", "no end")
    if code is not None:
        words = f"a worker's end: {code}"
        wrong = Wrong(Kind.TRACEBACK, words, words)
    return Trial(worker.index or 0, "an input that ended its worker", Answer.REFUSED, (wrong,))
