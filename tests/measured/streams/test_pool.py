"""The contexts that take frames in turn, and the frames that wait or are dropped."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest

from reusebench.measured.streams.pool import Frame, Pool
from tests.helpers.support import TIME_LIMIT_S


def _frame(number: int, stream: int = 0) -> Frame:
    return Frame(stream, number, 0, 0, 0, None)


def _numbers(inbox: SimpleQueue[Frame | None]) -> list[int | None]:
    """Return the frames in an inbox; None means that no more come."""
    numbers: list[int | None] = []
    while not inbox.empty():
        frame = inbox.get()
        numbers.append(frame.number if frame else None)
    return numbers


def test_contexts_take_frames_in_turn() -> None:
    """The one that has been free for longest is next."""
    pool = Pool(queue=0)
    inboxes = [pool.add() for _ in range(3)]
    for number in range(6):
        assert pool.offer(_frame(number))
        pool.done(inboxes[number % 3])
    assert [_numbers(inbox) for inbox in inboxes] == [[0, 3], [1, 4], [2, 5]]


def test_a_frame_without_a_free_context_is_dropped() -> None:
    """Frames are dropped until a context is done with its own."""
    pool = Pool(queue=0)
    inbox = pool.add()
    assert [pool.offer(_frame(number)) for number in range(3)] == [True, False, False]
    pool.done(inbox)
    assert pool.offer(_frame(3))
    assert _numbers(inbox) == [0, 3]


def test_the_queue_is_bounded_for_each_stream() -> None:
    """A full stream takes no room of another one; the frame that waited longest is next."""
    pool = Pool(queue=1)
    inbox = pool.add()
    offered = [pool.offer(_frame(number, stream)) for number, stream in enumerate((0, 0, 0, 1, 1))]
    assert offered == [True, True, False, True, False]
    for _ in range(3):
        pool.done(inbox)
    assert _numbers(inbox) == [0, 1, 3]
    # One goes to the free context, one to the queue, which has room again.
    assert [pool.offer(_frame(number)) for number in (5, 6, 7)] == [True, True, False]


def test_draining_waits_for_the_last_frame() -> None:
    """Then every context gets None: no more frames come."""
    pool = Pool(queue=1)
    inbox = pool.add()
    assert pool.offer(_frame(0))
    assert pool.offer(_frame(1))
    drained = threading.Thread(target=pool.drain)
    drained.start()
    for number in (0, 1):
        taken = inbox.get(timeout=TIME_LIMIT_S)
        assert taken is not None
        assert taken.number == number
        assert drained.is_alive()
        pool.done(inbox)
    drained.join(TIME_LIMIT_S)
    assert inbox.get(timeout=TIME_LIMIT_S) is None


def test_a_frame_that_is_not_to_be_dropped_waits_for_room() -> None:
    """Several streams wait for one context, which gets a frame of each; nothing is lost."""
    pool = Pool(queue=0)
    inbox = pool.add()
    assert pool.offer(_frame(0))
    offers = [
        threading.Thread(target=pool.offer, args=(_frame(1, stream), True)) for stream in range(3)
    ]
    for offer in offers:
        offer.start()
    taken = inbox.get(timeout=TIME_LIMIT_S)
    for _ in offers:
        assert any(offer.is_alive() for offer in offers)
        pool.done(inbox)
        taken = inbox.get(timeout=TIME_LIMIT_S)
        assert taken is not None
        assert taken.number == 1
    for offer in offers:
        offer.join(TIME_LIMIT_S)
    assert _numbers(inbox) == []


@pytest.mark.parametrize("busy", [True, False])
def test_after_a_failure_no_thread_waits(busy: bool) -> None:
    """Draining does not wait for the context that failed, and busy contexts end too."""
    pool = Pool(queue=5)
    failed = pool.add()
    other = pool.add()
    for number in range(2 if busy else 1):
        assert pool.offer(_frame(number))
    pool.fail()
    drained = threading.Thread(target=pool.drain, daemon=True)
    drained.start()
    drained.join(TIME_LIMIT_S)
    assert not drained.is_alive()
    assert not pool.offer(_frame(9))
    assert not pool.offer(_frame(9), waits=True)
    if busy:
        pool.done(other)
    assert _numbers(other)[-1] is None
    assert _numbers(failed) == [0]
