"""The ledger of NPU buffers: every buffer with its size and its time of birth and death, and what submits read.

The preload library (targets/preload) appends one JSON line per event while the measured process runs; it is read here
when the process has ended. Times are nanoseconds of CLOCK_MONOTONIC, as at barriers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import msgspec

__all__ = ["Buffer", "Ledger", "Read", "Submit", "read_ledger"]


class Buffer(msgspec.Struct, frozen=True):
    """One buffer. Importing it into a further context makes no new one."""

    number: int
    asked_bytes: int
    #: What it takes: asked_bytes in whole pages.
    size_bytes: int
    #: The driver's flags (RKNPU_MEM_*).
    flags: int
    #: "rknpu" or "dma_heap".
    source: str
    born_ns: int
    #: By which the process's file descriptors know it; 0 where there never was one.
    inode: int = 0
    #: None: it was never given back.
    died_ns: Optional[int] = None

    def lives_at(self, at_ns: int) -> bool:
        """Whether the buffer is there at that time."""
        return self.born_ns <= at_ns and (self.died_ns is None or self.died_ns > at_ns)


class Read(msgspec.Struct, frozen=True):
    """The addresses in one register that lie in one buffer, over all commands of a submit."""

    #: As in "0x1070".
    register: str
    #: Buffer.number; 0 where no buffer was ever at the address.
    buffer: int
    #: "live", "dead" or "unknown".
    state: str
    count: int
    #: Of an unknown address: the last buffer before it, and by how much the lowest one lies past its end.
    after: Optional[int] = None
    past_end_bytes: Optional[int] = None


class Submit(msgspec.Struct, frozen=True):
    """What one task list makes the NPU read and write; stands for all submits until the next one of the same list."""

    at_ns: int
    task_buffer: int
    #: Numbers of the buffers that hold the register commands.
    registers: tuple[int, ...]
    reads: tuple[Read, ...]


class Ledger(msgspec.Struct, frozen=True):
    """All that one process asked of the NPU's driver."""

    buffers: dict[int, Buffer] = {}
    submits: tuple[Submit, ...] = ()
    #: "virtual" or "pass-through".
    mode: Optional[str] = None
    #: Paths that the virtual board kept from the process, each once.
    refused: tuple[str, ...] = ()

    def live(self, at_ns: int) -> list[Buffer]:
        """Return the buffers that are there at that time."""
        return [buffer for buffer in self.buffers.values() if buffer.lives_at(at_ns)]

    def live_bytes(self, at_ns: int) -> int:
        """Return what all buffers take at that time."""
        return sum(buffer.size_bytes for buffer in self.live(at_ns))

    def timeline(self) -> list[tuple[int, int]]:
        """Return (time, bytes from then on) at every birth and death, in order."""
        births = [(buffer.born_ns, buffer.size_bytes) for buffer in self.buffers.values()]
        deaths = [(each.died_ns, -each.size_bytes) for each in self.buffers.values() if each.died_ns is not None]
        total, steps = 0, []
        for at_ns, change in sorted(births + deaths):
            total += change
            steps.append((at_ns, total))
        return steps

    def peak_bytes(self) -> int:
        """Return the most that all buffers took at once."""
        return max((total for _, total in self.timeline()), default=0)


def read_ledger(path: Path) -> Ledger:
    """Return what the file holds; a last line cut short, by a process that was killed, is left out."""
    buffers: dict[int, Buffer] = {}
    submits: list[Submit] = []
    refused: dict[str, None] = {}
    mode: str | None = None
    for event in _events(path):
        kind: str = event["event"]
        number: int = event.get("buffer", 0)
        if kind == "start":
            mode = event["mode"]
        elif kind == "create":
            buffers[number] = _buffer(event)
        elif kind == "inode":
            buffers[number] = msgspec.structs.replace(buffers[number], inode=event["inode"])
        elif kind == "destroy":
            buffers[number] = msgspec.structs.replace(buffers[number], died_ns=event["at_ns"])
        elif kind == "submit":
            submits.append(_submit(event))
        elif kind == "refused":
            refused[event["path"]] = None
    return Ledger(buffers, tuple(submits), mode, tuple(refused))


def _events(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    for line in path.read_bytes().split(b"\n")[:-1]:
        yield json.loads(line)


def _buffer(event: dict[str, Any]) -> Buffer:
    return Buffer(
        number=event["buffer"],
        asked_bytes=event["asked_bytes"],
        size_bytes=event["bytes"],
        flags=event["flags"],
        source=event["source"],
        born_ns=event["at_ns"],
    )


def _submit(event: dict[str, Any]) -> Submit:
    names = ("register", "buffer", "state", "count", "after", "past_end")
    reads = tuple(Read(*(each.get(name) for name in names)) for each in event["reads"])
    return Submit(event["at_ns"], event["task_buffer"], tuple(event["registers"]), reads)
