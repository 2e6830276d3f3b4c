"""The threads of the measured process."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from scenarios.schedule import Gate, Worker, run_on_all

_PATIENCE_S = 30


def _wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.001)


def _wait_for_queue(gate: Gate, length: int) -> None:
    _wait_until(lambda: len(gate._waiting) == length)


@pytest.fixture
def worker() -> Iterator[Worker]:
    """Return a worker that is stopped at the end."""
    worker = Worker("under test")
    yield worker
    worker.stop()


@pytest.mark.parametrize("places", [1, 2, 3])
def test_a_gate_lets_in_as_many_as_it_has_places(places: int) -> None:
    """With more threads than places all places are used, and never one more."""
    gate, lock = Gate(places), threading.Lock()
    inside, seen = 0, []
    full = threading.Barrier(places)

    def visit(index: int) -> None:
        nonlocal inside
        for turn in range(20):
            with gate:
                with lock:
                    inside += 1
                    seen.append(inside)
                if turn == 0 and index < places:
                    # The first visitors wait for each other inside: they can only go on if there is room for all.
                    full.wait(_PATIENCE_S)
                time.sleep(0)
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=visit, args=(index,)) for index in range(places)]
    for thread in threads:
        thread.start()
    _wait_until(lambda: full.n_waiting == 0 and len(seen) >= places)
    threads += [threading.Thread(target=visit, args=(index,)) for index in range(places, places + 5)]
    for thread in threads[places:]:
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE_S)
    assert len(seen) == 20 * (places + 5)
    assert max(seen) == places


def test_a_gate_is_fair() -> None:
    """Who waits longest enters first, and who leaves cannot overtake those that wait."""
    gate, order = Gate(1), []

    def visit(name: str) -> None:
        with gate:
            order.append(name)

    threads = [threading.Thread(target=visit, args=(name,)) for name in "abcd"]
    with gate:
        for count, thread in enumerate(threads, start=1):
            thread.start()
            _wait_for_queue(gate, count)
    visit("the one that left")
    for thread in threads:
        thread.join(_PATIENCE_S)
    assert order == ["a", "b", "c", "d", "the one that left"]


def test_a_gate_is_left_also_by_an_exception() -> None:
    """A failed inference does not keep its place."""
    gate = Gate(1)
    with pytest.raises(ValueError, match="inside"), gate:
        raise ValueError("inside")
    with gate:
        pass


def test_a_worker_gives_results_in_order(worker: Worker) -> None:
    """Each start has its finish; every task runs on the worker's thread."""
    worker.start(lambda: threading.current_thread().name)
    assert worker.finish() == "under test"
    worker.start(lambda: 1)
    worker.start(lambda: 2)
    assert (worker.finish(), worker.finish()) == (1, 2)


@pytest.mark.parametrize("kind", [RuntimeError, MemoryError, SystemExit])
def test_a_worker_passes_exceptions_on_and_lives(worker: Worker, kind: type[BaseException]) -> None:
    """The exception of a task comes out of finish, of whatever kind, and the next task runs."""

    def task() -> None:
        raise kind("from the task")

    worker.start(task)
    with pytest.raises(kind, match="from the task"):
        worker.finish()
    worker.start(lambda: "next")
    assert worker.finish() == "next"


@pytest.mark.parametrize("fails", [False, True])
def test_a_worker_keeps_nothing_of_a_task(worker: Worker, fails: bool) -> None:
    """What a task used (a context, to be destroyed) is free as soon as its result was taken."""

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
    """Tasks that wait for each other all end, and results stand in the order of the tasks."""
    workers = [Worker(f"worker {index}") for index in range(4)]
    meeting = threading.Barrier(4)

    def task(index: int) -> Callable[[], int]:
        def run() -> int:
            meeting.wait(_PATIENCE_S)
            return index

        return run

    assert run_on_all(workers, [task(index) for index in range(4)]) == [0, 1, 2, 3]
    for worker in workers:
        worker.stop()
