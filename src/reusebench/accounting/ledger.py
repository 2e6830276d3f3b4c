"""The ledger of NPU buffers: every buffer with its size and its time of birth and death, and what
submits read.

The preload library (targets/preload) appends one JSON line per event while the measured process
runs; it is read here when the process has ended. Times are nanoseconds of CLOCK_MONOTONIC, as at
barriers.
"""

from __future__ import annotations

import json
from typing import Any, Optional

import msgspec

__all__ = ["Buffer", "Ledger", "Mapping", "Read", "Submit", "read_ledger"]


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


class Mapping(msgspec.Struct, frozen=True):
    """NPU addresses of a buffer: one for each time that it was created or imported, on chips with
    an IOMMU.
    """

    #: Buffer.number; 0 for a buffer that was made elsewhere.
    buffer: int
    #: The address space, 0 to 15.
    domain: int
    size_bytes: int
    made_ns: int
    #: None: they were never given back.
    ended_ns: Optional[int] = None

    def is_there_at(self, at_ns: int) -> bool:
        """Whether the addresses are taken at that time."""
        return self.made_ns <= at_ns and (self.ended_ns is None or self.ended_ns > at_ns)


class Read(msgspec.Struct, frozen=True):
    """The addresses in one register that lie in one buffer, over all commands of a submit."""

    #: As in "0x1070".
    register: str
    #: Buffer.number; 0 where no buffer was ever at the address.
    buffer: int
    #: "live", "dead" or "unknown".
    state: str
    count: int
    #: Of an unknown address: the last buffer before it, and by how much the lowest one lies past
    #: its end.
    after: Optional[int] = None
    past_end_bytes: Optional[int] = None


class Submit(msgspec.Struct, frozen=True):
    """What one task list makes the NPU read and write; stands for all submits until the next one of
    the same list.
    """

    at_ns: int
    task_buffer: int
    #: Numbers of the buffers that hold the register commands.
    registers: tuple[int, ...]
    reads: tuple[Read, ...]


class Ledger(msgspec.Struct, frozen=True):
    """All that one process requested from the NPU's driver."""

    buffers: dict[int, Buffer] = {}
    submits: tuple[Submit, ...] = ()
    #: "virtual" or "pass-through".
    mode: Optional[str] = None
    #: Distinct paths that the virtual board kept from the process.
    refused: tuple[str, ...] = ()
    mappings: tuple[Mapping, ...] = ()

    def live(self, at_ns: int) -> list[Buffer]:
        """Return the buffers that are there at that time."""
        return [buffer for buffer in self.buffers.values() if buffer.lives_at(at_ns)]

    def live_bytes(self, at_ns: int) -> int:
        """Return what all buffers take at that time."""
        return sum(buffer.size_bytes for buffer in self.live(at_ns))

    def timeline(self) -> list[tuple[int, int]]:
        """Return (time, bytes from then on) at every birth and death, in order."""
        changes = []
        for buffer in self.buffers.values():
            changes.append((buffer.born_ns, buffer.size_bytes))
            if buffer.died_ns is not None:
                changes.append((buffer.died_ns, -buffer.size_bytes))
        total = 0
        steps = []
        for at_ns, change in sorted(changes):
            total += change
            steps.append((at_ns, total))
        return steps

    def peak_bytes(self) -> int:
        """Return the most that all buffers took at once."""
        return max((total for _, total in self.timeline()), default=0)


def read_ledger(events: bytes) -> Ledger:
    """Return the ledger of these lines; a last one cut short, by a process that was killed, is left
    out.
    """
    buffers: dict[int, Buffer] = {}
    submits: list[Submit] = []
    refused: dict[str, None] = {}
    mappings: list[Mapping] = []
    #: By buffer, domain and size: positions of the mappings that are there.
    mapped: dict[tuple[int, int, int], list[int]] = {}
    mode: str | None = None
    for line in events.split(b"\n")[:-1]:
        event: dict[str, Any] = json.loads(line)
        kind: str = event["event"]
        number: int = event.get("buffer", 0)
        if kind == "start":
            mode = event["mode"]
        elif kind == "create":
            size = (event["asked_bytes"], event["bytes"])
            buffers[number] = Buffer(
                number, *size, event["flags"], event["source"], born_ns=event["at_ns"]
            )
        elif kind == "inode":
            _change(buffers, number, inode=event["inode"])
        elif kind == "destroy":
            _change(buffers, number, died_ns=event["at_ns"])
        elif kind == "map":
            addresses = (number, event["domain"], event["bytes"])
            mapped.setdefault(addresses, []).append(len(mappings))
            mappings.append(Mapping(*addresses, made_ns=event["at_ns"]))
        elif kind == "unmap":
            _end_last(
                mappings, mapped.get((number, event["domain"], event["bytes"])), event["at_ns"]
            )
        elif kind == "submit":
            names = ("register", "buffer", "state", "count", "after", "past_end")
            reads = tuple(Read(*(read.get(name) for name in names)) for read in event["reads"])
            submits.append(
                Submit(event["at_ns"], event["task_buffer"], tuple(event["registers"]), reads)
            )
        elif kind == "refused":
            refused[event["path"]] = None
    return Ledger(buffers, tuple(submits), mode, tuple(refused), tuple(mappings))


# A process that has no file descriptor left cannot write that something began; its end is then left
# out.


def _change(buffers: dict[int, Buffer], number: int, **changes: int) -> None:
    if number in buffers:
        buffers[number] = msgspec.structs.replace(buffers[number], **changes)


def _end_last(mappings: list[Mapping], positions: list[int] | None, at_ns: int) -> None:
    if positions:
        position = positions.pop()
        mappings[position] = msgspec.structs.replace(mappings[position], ended_ns=at_ns)
