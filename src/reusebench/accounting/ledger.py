"""The ledger of NPU buffers: the size and lifetime of every buffer, and the reads of submits.

The preload library (native/preload) appends one JSON line per event while the measured process
runs; read_ledger reads the lines when the process has ended. The vendor's library may write there,
too, so every line is checked. Times are nanoseconds of CLOCK_MONOTONIC, as at barriers.
"""

from __future__ import annotations

from typing import Annotated, Literal, Optional, Union

import msgspec

from reusebench.system.files import printable
from reusebench.targets.ledger_file import MOST_BYTES

__all__ = [
    "Buffer",
    "FailedJobs",
    "Ledger",
    "LedgerError",
    "Mapping",
    "Read",
    "Submit",
    "read_ledger",
]

_Long = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
#: Sums of many sizes are counted in 64 bits.
_Size = Annotated[int, msgspec.Meta(ge=0, lt=2**48)]
_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
_Path = Annotated[str, msgspec.Meta(max_length=4096)]
_Register = Annotated[str, msgspec.Meta(pattern="^0x[0-9a-f]{4}$")]

_LONGEST_PROBLEM = 200
#: Domains of Rockchip's driver; on rocket each open file has one.
_DOMAINS = 16


class LedgerError(Exception):
    """A ledger that the preload library has not written."""


class Buffer(msgspec.Struct, frozen=True):
    """One buffer. An import into another context makes no new buffer."""

    number: int
    asked_bytes: int
    #: Actual size: asked_bytes in whole pages.
    size_bytes: int
    #: The driver's flags (RKNPU_MEM_*).
    flags: int
    #: "rknpu", "dma_heap" or, from the mainline driver, "rocket".
    source: str
    born_ns: int
    #: Inode of its file descriptors; 0 if there never was one.
    inode: int = 0
    #: None if the buffer was never freed.
    died_ns: Optional[int] = None

    def lives_at(self, at_ns: int) -> bool:
        """Whether the buffer exists at that time."""
        return self.born_ns <= at_ns and (self.died_ns is None or self.died_ns > at_ns)


class Mapping(msgspec.Struct, frozen=True):
    """NPU addresses of a buffer, on a chip with an IOMMU; each creation or import makes some."""

    #: Buffer.number; 0 for a buffer that another process made.
    buffer: int
    #: The address space: 0 to 15, or the number of the open file that has it on rocket.
    domain: int
    size_bytes: int
    made_ns: int
    #: None if the addresses were never freed.
    ended_ns: Optional[int] = None

    def is_there_at(self, at_ns: int) -> bool:
        """Whether the addresses are taken at that time."""
        return self.made_ns <= at_ns and (self.ended_ns is None or self.ended_ns > at_ns)


class Read(msgspec.Struct, frozen=True):
    """The addresses in one register that lie in one buffer, over all commands of a submit."""

    #: Number of the register, such as "0x1070".
    register: str
    #: Buffer.number; 0 if no buffer was ever at the address.
    buffer: int
    #: "live", "dead" or "unknown".
    state: str
    count: int
    #: Unknown addresses only: the last buffer before the lowest address.
    after: Optional[int] = None
    #: Unknown addresses only: the distance of the lowest address from the end of that buffer.
    past_end_bytes: Optional[int] = None
    #: Distance of the lowest address from the beginning of `buffer`; None for unknown addresses,
    #: and in ledgers older than this field.
    lowest_bytes: Optional[int] = None


class Submit(msgspec.Struct, frozen=True):
    """The NPU's accesses for one task list, for all submits until the next one of that list."""

    at_ns: int
    #: 0 on rocket, where the task list is in the process's own memory.
    task_buffer: int
    #: Numbers of the buffers that hold the register commands.
    registers: tuple[int, ...]
    reads: tuple[Read, ...]
    #: Numbers of the buffers that rocket's jobs name as read and as written.
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


class FailedJobs(msgspec.Struct, frozen=True):
    """Jobs that the driver rocket did not run; the first ones with commands in that buffer."""

    at_ns: int
    #: Buffer.number; 0 if no buffer has their commands.
    buffer: int
    jobs: int
    #: The errno of the submit; 0 if the driver refused a single job, which it tells nobody.
    error: int


class Ledger(msgspec.Struct, frozen=True):
    """All requests of one process to the NPU's driver."""

    buffers: dict[int, Buffer] = {}
    submits: tuple[Submit, ...] = ()
    #: "virtual" or "pass-through".
    mode: Optional[str] = None
    #: Distinct paths that the virtual board kept from the process.
    refused: tuple[str, ...] = ()
    mappings: tuple[Mapping, ...] = ()
    failed: tuple[FailedJobs, ...] = ()

    def live(self, at_ns: int) -> list[Buffer]:
        """Return the buffers that exist at that time."""
        return [buffer for buffer in self.buffers.values() if buffer.lives_at(at_ns)]

    def live_bytes(self, at_ns: int) -> int:
        """Return the size of all buffers at that time."""
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

    def wrong_reads(self) -> list[Read]:
        """Return the reads of memory that was freed before, or is in no buffer."""
        reads = [read for submit in self.submits for read in submit.reads]
        return [read for read in reads if read.state != "live"]

    def peak_bytes(self) -> int:
        """Return the largest size of all buffers at once."""
        return max((total for _, total in self.timeline()), default=0)

    def inferring_bytes(self) -> int:
        """Return the largest size of all buffers since the first submit.

        Loading may take more before; outputs have buffers only after their first inference.
        """
        if not self.submits:
            return 0
        begin_ns = min(submit.at_ns for submit in self.submits)
        later = [total for at_ns, total in self.timeline() if at_ns > begin_ns]
        return max([self.live_bytes(begin_ns), *later])


class _Event(msgspec.Struct, frozen=True, tag_field="event", tag=lambda name: name[1:].lower()):
    """A line of the ledger. Fields that are not read here are left out."""

    at_ns: _Long


class _Start(_Event, frozen=True):
    mode: Literal["virtual", "pass-through"]


class _Create(_Event, frozen=True):
    buffer: _Number
    asked_bytes: _Size
    bytes: _Size
    flags: _Long
    source: Literal["rknpu", "dma_heap", "rocket"]


class _Inode(_Event, frozen=True):
    buffer: _Number
    inode: _Long


class _Destroy(_Event, frozen=True):
    buffer: _Number


class _Import(_Event, frozen=True):
    buffer: _Number


class _Map(_Event, frozen=True):
    buffer: _Number
    domain: _Number
    bytes: _Size


class _Unmap(_Map, frozen=True):
    pass


class _EventRead(msgspec.Struct, frozen=True):
    register: _Register
    buffer: _Number
    state: Literal["live", "dead", "unknown"]
    count: _Long
    lowest: Optional[_Long] = None
    after: Optional[_Number] = None
    past_end: Optional[_Long] = None


class _Submit(_Event, frozen=True):
    task_buffer: _Number
    registers: tuple[_Number, ...]
    reads: tuple[_EventRead, ...]
    inputs: tuple[_Number, ...] = ()
    outputs: tuple[_Number, ...] = ()


class _Failed(_Event, frozen=True):
    buffer: _Number
    jobs: _Number
    error: _Number


class _Refused(_Event, frozen=True):
    path: _Path


class _Fault(_Event, frozen=True):
    fault: _Path


_AnyEvent = Union[
    _Start, _Create, _Inode, _Destroy, _Import, _Map, _Unmap, _Submit, _Failed, _Refused, _Fault
]


def read_ledger(events: bytes) -> Ledger:
    """Return the ledger of these lines; skip a last line that a killed process has cut off.

    Raises LedgerError if it is too large, or if a line is not one of the preload library.
    """
    if len(events) > MOST_BYTES:
        raise LedgerError(f"it has more than {MOST_BYTES >> 20} MiB")
    decoder = msgspec.json.Decoder(_AnyEvent)
    reader = _Reader()
    for number, line in enumerate(events.split(b"\n")[:-1], 1):
        try:
            reader.add(decoder.decode(line))
        except (msgspec.MsgspecError, LedgerError, RecursionError, UnicodeDecodeError) as error:
            raise LedgerError(
                f"line {number}: {printable(str(error))[:_LONGEST_PROBLEM]}"
            ) from None
    return Ledger(
        reader.buffers,
        tuple(reader.submits),
        reader.mode,
        tuple(reader.refused),
        tuple(reader.mappings),
        tuple(reader.failed),
    )


class _Reader:
    """The ledger of the events so far.

    The end of a buffer or mapping without a beginning is ignored: a process without a free file
    descriptor cannot write the beginning.
    """

    def __init__(self) -> None:
        self.buffers: dict[int, Buffer] = {}
        self.submits: list[Submit] = []
        self.mode: str | None = None
        self.refused: dict[str, None] = {}
        self.mappings: list[Mapping] = []
        self.failed: list[FailedJobs] = []
        #: Key: buffer, domain and size; value: indices of the mappings that have not ended.
        self._mapped: dict[tuple[int, int, int], list[int]] = {}

    def add(self, event: _AnyEvent) -> None:
        """Add an event; raise LedgerError if it contradicts earlier ones."""
        if isinstance(event, _Start):
            self.mode = event.mode
        elif isinstance(event, _Create):
            self._create(event)
        elif isinstance(event, _Inode):
            self._change(event.buffer, inode=event.inode)
        elif isinstance(event, _Destroy):
            self._destroy(event)
        elif isinstance(event, _Map):
            self._map(event)
        elif isinstance(event, _Submit):
            self._submit(event)
        elif isinstance(event, _Failed):
            self.failed.append(FailedJobs(event.at_ns, event.buffer, event.jobs, event.error))
        elif isinstance(event, _Refused):
            self.refused[event.path] = None

    def _create(self, event: _Create) -> None:
        if event.buffer in self.buffers:
            raise LedgerError(f"buffer {event.buffer} is made twice")
        self.buffers[event.buffer] = Buffer(
            number=event.buffer,
            asked_bytes=event.asked_bytes,
            size_bytes=event.bytes,
            flags=event.flags,
            source=event.source,
            born_ns=event.at_ns,
        )

    def _destroy(self, event: _Destroy) -> None:
        buffer = self.buffers.get(event.buffer)
        if buffer is not None and (buffer.died_ns is not None or event.at_ns < buffer.born_ns):
            raise LedgerError(f"buffer {event.buffer} is freed twice, or before it is made")
        self._change(event.buffer, died_ns=event.at_ns)

    def _change(self, number: int, **changes: int) -> None:
        if number in self.buffers:
            self.buffers[number] = msgspec.structs.replace(self.buffers[number], **changes)

    def _map(self, event: _Map) -> None:
        """Add a mapping, or end the last of the equal ones."""
        buffer = self.buffers.get(event.buffer)
        if event.domain >= _DOMAINS and buffer is not None and buffer.source != "rocket":
            raise LedgerError(f"domain {event.domain} of buffer {event.buffer} does not exist")
        addresses = (event.buffer, event.domain, event.bytes)
        indices = self._mapped.setdefault(addresses, [])
        if not isinstance(event, _Unmap):
            indices.append(len(self.mappings))
            self.mappings.append(Mapping(*addresses, made_ns=event.at_ns))
        elif indices:
            index = indices.pop()
            ended = msgspec.structs.replace(self.mappings[index], ended_ns=event.at_ns)
            self.mappings[index] = ended

    def _submit(self, event: _Submit) -> None:
        reads = []
        for read in event.reads:
            addresses = (read.register, read.buffer, read.state, read.count)
            lowest_bytes = read.lowest if read.buffer else None
            reads.append(Read(*addresses, read.after, read.past_end, lowest_bytes))
        self.submits.append(
            Submit(
                event.at_ns,
                event.task_buffer,
                event.registers,
                tuple(reads),
                event.inputs,
                event.outputs,
            )
        )
