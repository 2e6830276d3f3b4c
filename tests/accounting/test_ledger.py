"""The file of a ledger, and the lifetimes of its buffers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reusebench.accounting.ledger import (
    FailedJobs,
    Ledger,
    LedgerError,
    Mapping,
    Read,
    Submit,
    read_ledger,
)
from tests.accounting.hand_made import PAGE, make_buffer, make_ledger


def _create(number: int, at_ns: int, requested: int = 5000) -> dict[str, Any]:
    sizes = {"asked_bytes": requested, "bytes": -(-requested // PAGE) * PAGE, "sram_bytes": 0}
    return {
        "event": "create",
        "at_ns": at_ns,
        "buffer": number,
        **sizes,
        "flags": 11,
        "source": "rknpu",
        "thread": 7,
    }


def _destroy(number: int, at_ns: int) -> dict[str, Any]:
    return {"event": "destroy", "at_ns": at_ns, "buffer": number}


def _lines(*events: dict[str, Any]) -> bytes:
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def test_a_buffer_lives_from_its_birth_to_its_death() -> None:
    """A buffer lives from its birth until before its death; without a death it stays."""
    events = _lines(
        _create(1, at_ns=10), _create(2, at_ns=20, requested=PAGE), _destroy(1, at_ns=30)
    )
    ledger = read_ledger(events)
    pages = [ledger.live_bytes(at_ns) / PAGE for at_ns in (9, 10, 20, 29, 30, 99)]
    assert pages == [0, 2, 3, 3, 1, 1]
    assert [buffer.number for buffer in ledger.live(25)] == [1, 2]


def test_all_facts_of_a_buffer_are_kept() -> None:
    """A buffer has all values of its events, and an inode that is known later."""
    inode = {"event": "inode", "at_ns": 11, "buffer": 1, "inode": 4242}
    ledger = read_ledger(_lines(_create(1, at_ns=10), inode, _create(2, at_ns=12)))
    buffer = ledger.buffers[1]
    assert (buffer.asked_bytes, buffer.size_bytes, buffer.flags, buffer.source) == (
        5000,
        2 * PAGE,
        11,
        "rknpu",
    )
    assert (buffer.inode, buffer.born_ns, buffer.died_ns) == (4242, 10, None)
    assert ledger.buffers[2].inode == 0


def test_the_timeline_and_its_peak() -> None:
    """Each birth and death is a step; the peak may be between two barriers."""
    ledger = make_ledger(
        make_buffer(1, PAGE, 10, died_ns=40),
        make_buffer(2, 2 * PAGE, 20, died_ns=30),
        make_buffer(3, PAGE, 40),
    )
    assert ledger.timeline() == [(10, PAGE), (20, 3 * PAGE), (30, PAGE), (40, 0), (40, PAGE)]
    assert ledger.peak_bytes() == 3 * PAGE
    assert make_ledger().timeline() == []
    assert make_ledger().peak_bytes() == 0


def test_submits_are_read_with_all_their_reads() -> None:
    """A read outside all buffers names the last buffer before it, and the distance from its end."""
    known = {
        "register": "0x1110",
        "buffer": 2,
        "state": "dead",
        "count": 3,
        "lowest": 0,
        "highest": 64,
    }
    unknown = {**known, "buffer": 0, "state": "unknown"}
    reads = [known, unknown, {**unknown, "after": 2, "past_end": PAGE}]
    event = {
        "event": "submit",
        "at_ns": 50,
        "thread": 7,
        "task_buffer": 1,
        "registers": [2, 3],
        "reads": reads,
    }
    ledger = read_ledger(_lines(_create(1, at_ns=10), event))
    expected = (
        Read("0x1110", 2, "dead", 3, lowest_bytes=0),
        Read("0x1110", 0, "unknown", 3),
        Read("0x1110", 0, "unknown", 3, 2, PAGE),
    )
    assert ledger.submits == (Submit(50, 1, (2, 3), expected),)
    event.update(task_buffer=0, inputs=[1], outputs=[1, 4])
    assert read_ledger(_lines(event)).submits == (Submit(50, 0, (2, 3), expected, (1,), (1, 4)),)


def test_addresses_are_taken_and_given_back() -> None:
    """Each mapping has its domain and time; the last of equal mappings ends first."""
    mapped = {"event": "map", "at_ns": 1, "buffer": 1, "domain": 3, "bytes": PAGE}
    events = _lines(
        mapped,
        {**mapped, "at_ns": 2},
        {**mapped, "at_ns": 3, "domain": 0},
        {**mapped, "at_ns": 4, "event": "unmap"},
    )
    assert read_ledger(events).mappings == (
        Mapping(1, 3, PAGE, 1),
        Mapping(1, 3, PAGE, 2, 4),
        Mapping(1, 0, PAGE, 3),
    )


def test_every_open_file_of_rocket_is_a_domain() -> None:
    """Rockchip's driver has 16 domains; with the mainline driver there may be more."""
    created = {**_create(1, at_ns=1), "source": "rocket"}
    mapped = {"event": "map", "at_ns": 1, "buffer": 1, "domain": 40, "bytes": PAGE}
    ledger = read_ledger(_lines(created, mapped))
    assert (ledger.buffers[1].source, ledger.mappings) == ("rocket", (Mapping(1, 40, PAGE, 1),))


def test_jobs_that_were_not_run() -> None:
    """A failed submit has its error, a job that the driver left out has none."""
    event = {"event": "failed", "at_ns": 5, "buffer": 3, "jobs": 2, "error": 22}
    assert read_ledger(_lines(event)).failed == (FailedJobs(5, 3, 2, 22),)


def test_other_events_make_no_buffer() -> None:
    """Imports make no buffer, a start has the mode, and a refused path is kept once."""
    refused = {"event": "refused", "at_ns": 4, "call": "open", "path": "/dev/dri/card0"}
    events = _lines(
        {
            "event": "start",
            "at_ns": 1,
            "mode": "pass-through",
            "chip": None,
            "pid": 1,
            "page_bytes": PAGE,
        },
        _create(1, at_ns=2),
        {"event": "import", "at_ns": 3, "buffer": 1, "thread": 7},
        {"event": "import", "at_ns": 3, "buffer": 0, "bytes": 12345, "thread": 7},
        {"event": "fault", "at_ns": 4, "fault": "enomem"},
        refused,
        {**refused, "at_ns": 5},
        {**refused, "path": "/dev/dri/renderD128"},
    )
    ledger = read_ledger(events)
    assert ledger.mode == "pass-through"
    assert ledger.live_bytes(99) == 2 * PAGE
    assert ledger.refused == ("/dev/dri/card0", "/dev/dri/renderD128")


def test_a_last_line_that_was_cut_is_left_out() -> None:
    """A killed process may leave half a line; the lines before it count."""
    whole = _lines(_create(1, at_ns=10), _create(2, at_ns=20))
    first = whole.index(b"\n") + 1
    for end in (first, first + 1, len(whole) - 2, len(whole) - 1):
        assert list(read_ledger(whole[:end]).buffers) == [1]
    assert list(read_ledger(whole).buffers) == [1, 2]


def test_a_process_without_buffers_has_an_empty_ledger() -> None:
    """A ledger without events is empty."""
    assert read_ledger(b"") == Ledger()


def test_a_buffer_whose_creation_was_not_written() -> None:
    """Without a free file descriptor the creation is missing; later events are ignored."""
    inode = {"event": "inode", "at_ns": 11, "buffer": 2, "inode": 4242}
    unmap = {"event": "unmap", "at_ns": 12, "buffer": 2, "domain": 0, "bytes": PAGE}
    ledger = read_ledger(_lines(_create(1, at_ns=10), inode, unmap, _destroy(2, at_ns=12)))
    assert (list(ledger.buffers), ledger.mappings) == ([1], ())


_CREATED = _lines(_create(1, at_ns=10)).decode().strip()


@pytest.mark.parametrize(
    "line",
    [
        "",
        "root:x:0:0:root:/root:/bin/bash",
        "[]",
        "null",
        "{}",
        "\0" * 100,
        "[" * 100_000,
        '{"event":"create","thread":' + "[" * 100_000,
        '{"event":"other","at_ns":1}',
        '{"event":"destroy","at_ns":1}',
        '{"event":"destroy","at_ns":"1","buffer":1}',
        '{"event":"destroy","at_ns":-1,"buffer":1}',
        '{"event":"destroy","at_ns":NaN,"buffer":1}',
        '{"event":"inode","at_ns":1,"buffer":1,"inode":' + "9" * 400 + "}",
        '{"event":"start","at_ns":1,"mode":"other"}',
        '{"event":"map","at_ns":1,"buffer":1,"domain":16,"bytes":1}',
        '{"event":"refused","at_ns":1,"path":"' + "x" * 5000 + '"}',
        '{"event":"submit","at_ns":1,"task_buffer":1,"registers":[1],"reads":[{}]}',
        '{"event":"submit","at_ns":1,"task_buffer":1,"registers":{},"reads":[]}',
        _CREATED.replace("rknpu", "\x1b[2J"),
        _CREATED.replace("5000", "-5000"),
        _CREATED.replace("5000", str(2**62)),
        _CREATED.replace("5000", "5000.5"),
    ],
)
def test_a_line_that_is_not_the_preload_librarys(line: str) -> None:
    """It is named by its number; its text moves no cursor and is not long."""
    events = f"{_CREATED}\n{line}\n".encode()
    with pytest.raises(LedgerError) as raised:
        read_ledger(events.replace(b"x1b", b"\x1b"))
    words = str(raised.value)
    assert words.startswith("line 2: ")
    assert words.isprintable()
    assert len(words) < 300


@pytest.mark.parametrize(
    "event", [_create(1, at_ns=20), _destroy(1, at_ns=9)], ids=["made twice", "freed before"]
)
def test_a_line_that_contradicts_an_earlier_one(event: dict[str, Any]) -> None:
    """A buffer is made once, and freed after that."""
    with pytest.raises(LedgerError, match=r"^line 2: buffer 1 is "):
        read_ledger(_lines(_create(1, at_ns=10), event))
    with pytest.raises(LedgerError, match=r"^line 3: buffer 1 is "):
        read_ledger(_lines(_create(1, at_ns=10), _destroy(1, at_ns=11), _destroy(1, at_ns=12)))


@pytest.mark.parametrize("byte", [0x80, 0xFF])
def test_text_that_is_no_text(byte: int) -> None:
    """Bytes that no text has are refused in the same way."""
    events = _lines(_create(1, at_ns=10)).replace(b"rknpu", bytes([byte]))
    with pytest.raises(LedgerError, match=r"^line 1: "):
        read_ledger(events)
