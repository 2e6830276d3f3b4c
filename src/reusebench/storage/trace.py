"""The trace of one repeat, a compressed JSON file: all barriers, and the timeline between them.

It is written as gzip, and may be compacted.
"""

from __future__ import annotations

import contextlib
import gzip
import re
import warnings
from pathlib import Path
from typing import Optional, TypeVar

import msgspec

from reusebench.accounting.ledger import Ledger
from reusebench.storage.compacted import beginning, decoded, in_either_form
from reusebench.storage.decoding import MOST_BYTES, check_lengths, decode_stored
from reusebench.storage.recorded_program import RecordedProcess
from reusebench.system.files import UNFINISHED, open_inside, replacing
from reusebench.targets.barriers import BarrierReading

__all__ = [
    "TRACES",
    "TRACE_NAME",
    "UNFINISHED_TRACE",
    "FrameTime",
    "FrameTimes",
    "MemoryTimeline",
    "NpuTimeline",
    "PhaseTime",
    "ProgramTrace",
    "Timeline",
    "Trace",
    "is_trace",
    "read_trace",
    "write_trace",
]

#: Folder of the traces inside a storage; every run has a folder of its own there.
TRACES = "traces"
TRACE_NAME = re.compile(r".+\.json\.(gz|xz)")
#: Trace that is being written; a power cut may leave it.
UNFINISHED_TRACE = re.compile(rf"\..+\.json\.(gz|xz)\.[0-9]+{re.escape(UNFINISHED)}")
#: First bytes of an unpacked trace.
_BEGINNINGS = (b'{"barriers":', b'{"timeline":')
_BLOCK = 4096


class Timeline(msgspec.Struct, frozen=True):
    """Readings between barriers, with times of the monotonic clock."""

    times_ns: list[int]
    rss_bytes: list[int]
    system_memory_bytes: list[int]

    def __post_init__(self) -> None:
        """Refuse lists of different length."""
        check_lengths("a timeline", msgspec.structs.astuple(self), len(self.times_ns))


class NpuTimeline(msgspec.Struct, frozen=True):
    """NPU memory by the ledger; each of `live_bytes` holds from its time to the next."""

    times_ns: list[int]
    live_bytes: list[int]
    ledger: Ledger

    def __post_init__(self) -> None:
        """Refuse lists of different length."""
        check_lengths("a timeline", [self.live_bytes], len(self.times_ns))


class FrameTime(msgspec.Struct, frozen=True, array_like=True):
    """A frame of a stream that was done."""

    stream: int
    #: Time of the monotonic clock.
    due_ns: int
    #: Durations of streams.threads.STAGES, one after the other from `due_ns`.
    stages_ns: tuple[int, ...]


class FrameTimes(msgspec.Struct, frozen=True):
    """The first and the last frames of the steady state; those between them are only counted."""

    first: list[FrameTime]
    last: list[FrameTime]
    left_out: int

    def __post_init__(self) -> None:
        """Refuse frames that are left out if `first` or `last` is empty."""
        if self.left_out and not (self.first and self.last):
            raise ValueError("frames are left out between none")


class Trace(msgspec.Struct, frozen=True):
    """The trace of a measured process."""

    barriers: list[BarrierReading]
    timeline: Timeline
    npu: Optional[NpuTimeline] = None
    #: Start of the process; None in older traces.
    start_ns: Optional[int] = None
    #: None without streams, if nothing computes, and in older traces.
    frames: Optional[FrameTimes] = None


class MemoryTimeline(msgspec.Struct, frozen=True, omit_defaults=True):
    """Readings of one kind: a single one of the lists of values is filled."""

    times_ns: list[int]
    rss_bytes: list[int] = []
    pss_bytes: list[int] = []
    system_memory_bytes: list[int] = []
    npu_memory_bytes: list[int] = []

    def __post_init__(self) -> None:
        """Refuse lists of different length."""
        check_lengths("a timeline", msgspec.structs.astuple(self), 0, len(self.times_ns))


class PhaseTime(msgspec.Struct, frozen=True):
    """An interval of time that a phase took."""

    name: str
    begin_ns: int
    end_ns: int


class ProgramTrace(msgspec.Struct, frozen=True):
    """The trace of a recorded program, with times since its start."""

    timeline: MemoryTimeline
    pss: MemoryTimeline
    system: MemoryTimeline
    npu_held: MemoryTimeline
    phases: list[PhaseTime]
    processes: list[RecordedProcess]

    def __post_init__(self) -> None:
        """Refuse readings of a kind other than the name of their timeline says."""
        for readings, values in (
            (self.timeline, self.timeline.rss_bytes),
            (self.pss, self.pss.pss_bytes),
            (self.system, self.system.system_memory_bytes),
            (self.npu_held, self.npu_held.npu_memory_bytes),
        ):
            check_lengths("a timeline", [values], len(readings.times_ns))


_Trace = TypeVar("_Trace", Trace, ProgramTrace)


def write_trace(storage: Path, run: str, name: str, trace: Trace | ProgramTrace) -> str:
    """Write the trace and return its path relative to the storage; warn if writing fails.

    A failure does not lose the result: tables do not need traces.
    """
    relative = Path(TRACES) / run / f"{name}.json.gz"
    path = storage / relative
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished, gzip.open(unfinished, "wb", compresslevel=6) as file:
            file.write(msgspec.json.encode(trace))
    except OSError as error:
        for folder in (path.parent, storage / TRACES):
            with contextlib.suppress(OSError):  # other traces are there
                folder.rmdir()
        reason = error.strerror or error
        warnings.warn(
            f"{path} cannot be written ({reason}): reports will lack its timeline", stacklevel=2
        )
    return relative.as_posix()


def read_trace(storage: Path, relative: str, kind: type[_Trace]) -> _Trace | None:
    """Return the trace; None if its file is lost or damaged, or its path leaves the storage."""
    try:
        content = in_either_form(lambda name: _unpacked(storage, name), relative)
        return decode_stored(content, kind)
    except (OSError, ValueError, RecursionError, msgspec.DecodeError):
        return None


def is_trace(storage: Path, relative: str) -> bool:
    """Whether the file at this path inside the storage begins as a trace does."""
    try:
        with open_inside(storage, relative) as file:
            first = beginning(relative, file.read(_BLOCK), _BLOCK)
    except (OSError, ValueError):
        return False
    return first.startswith(_BEGINNINGS)


def _unpacked(storage: Path, relative: str) -> bytes:
    with open_inside(storage, relative) as file:
        return decoded(relative, file.read(MOST_BYTES), MOST_BYTES)
