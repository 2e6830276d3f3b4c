"""The threads of the measured process."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from reusebench.measured.schedule import FairSemaphore, Worker, run_on_all
from tests.helpers.support import TIME_LIMIT_S


def _wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + TIME_LIMIT_S
    while not condition():
        assert time.monotonic() < until, "the condition never came true"
        time.sleep(0.001)


@pytest.fixture
def worker() -> Iterator[Worker]:
    """Return a worker that is stopped at the end."""
    worker = Worker("under test")
    yield worker
    worker.stop()


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_a_gate_lets_in_as_many_as_its_capacity(capacity: int) -> None:
    """Exactly `capacity` threads meet inside it, however many there are."""
    gate = FairSemaphore(capacity)
    lock = threading.Lock()
    full = threading.Barrier(capacity)
    inside = 0
    counts = []

    def visit(meets: bool) -> None:
        nonlocal inside
        for _ in range(20):
            with gate:
                with lock:
                    inside += 1
                    counts.append(inside)
                if meets:
                    full.wait(TIME_LIMIT_S)
                    meets = False
                time.sleep(0)
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=visit, args=(True,)) for _ in range(capacity)]
    for thread in threads:
        thread.start()
    _wait_until(lambda: len(counts) >= capacity)
    threads += [threading.Thread(target=visit, args=(False,)) for _ in range(5)]
    for thread in threads[capacity:]:
        thread.start()
    for thread in threads:
        thread.join(TIME_LIMIT_S)
    assert len(counts) == 20 * (capacity + 5)
    assert max(counts) == capacity


def test_a_gate_is_fair() -> None:
    """The thread that waits longest enters first, and one that leaves cannot overtake it."""
    gate = FairSemaphore(1)
    order = []

    def visit(name: str) -> None:
        with gate:
            order.append(name)

    threads = [threading.Thread(target=visit, args=(name,)) for name in "abcd"]
    with gate:
        for count, thread in enumerate(threads, start=1):
            thread.start()
            _wait_until(lambda length=count: len(gate._waiting) == length)  # type: ignore[misc]
    visit("the one that left")
    for thread in threads:
        thread.join(TIME_LIMIT_S)
    assert order == ["a", "b", "c", "d", "the one that left"]


def test_a_gate_is_left_also_by_an_exception() -> None:
    """A failed inference does not block others."""
    gate = FairSemaphore(1)
    with pytest.raises(ValueError, match="inside"), gate:
        raise ValueError("inside")
    with gate:
        pass


def test_a_worker_gives_results_in_order(worker: Worker) -> None:
    """Every task runs on the worker's thread."""
    worker.start(lambda: threading.current_thread().name)
    worker.start(lambda: 2)
    assert (worker.finish(), worker.finish()) == ("under test", 2)


@pytest.mark.parametrize("kind", [RuntimeError, MemoryError, SystemExit])
def test_a_worker_passes_exceptions_on_and_lives(worker: Worker, kind: type[BaseException]) -> None:
    """finish raises the exception of a task, of any kind, and the next task runs."""

    def task() -> None:
        raise kind("from the task")

    worker.start(task)
    with pytest.raises(kind, match="from the task"):
        worker.finish()
    worker.start(lambda: "next")
    assert worker.finish() == "next"


@pytest.mark.parametrize("fails", [False, True])
def test_a_worker_keeps_nothing_of_a_task(worker: Worker, fails: bool) -> None:
    """A task's objects (a context to be destroyed) are free as soon as its result was taken."""

    class Thing:
        pass

    def start() -> weakref.ref[Thing]:
        thing = Thing()

        def task() -> None:
            assert thing is not None
            if fails:
                raise RuntimeError

        worker.start(task)
        return weakref.ref(thing)

    reference = start()
    try:
        worker.finish()
    except RuntimeError:
        assert fails
    gc.collect()
    _wait_until(lambda: reference() is None)


def test_a_stopped_worker_has_no_thread() -> None:
    """Destroying a context ends its thread."""
    worker = Worker("to be stopped")
    worker.stop()
    assert "to be stopped" not in [thread.name for thread in threading.enumerate()]


def test_run_on_all_runs_at_once_and_keeps_order() -> None:
    """Tasks that wait for each other all end, and results are in the order of the tasks."""
    workers = [Worker(f"worker {index}") for index in range(4)]
    meeting = threading.Barrier(4)

    def task(index: int) -> Callable[[], int]:
        def run() -> int:
            meeting.wait(TIME_LIMIT_S)
            return index

        return run

    assert run_on_all(workers, [task(index) for index in range(4)]) == [0, 1, 2, 3]
    for worker in workers:
        worker.stop()
