"""Shortage of memory during a measurement, as stored for scenarios and recorded programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

import msgspec

from reusebench.measured.messages import Message
from reusebench.samplers.readings import Pressure

__all__ = ["Shortage", "once", "signs_of"]


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """Memory pressure during one repeat: if memory is short, pages are evicted.

    The figures of the repeat are then too small.
    """

    #: Counters from the start of the process, or of the recording, to its last reading.
    counted: Pressure
    #: Largest fall of its mapped files between barriers, before anything was destroyed; None for a
    #: recorded program, which has no barriers.
    lost_file_bytes: Optional[int] = None
    #: None for a recorded program.
    steady_major_faults: Optional[int] = None
    #: Evidence of a shortage; empty if memory was not short.
    signs: tuple[Message, ...]
    #: What another program waited for, if memory was not short for this one.
    remarks: tuple[Message, ...] = ()


def signs_of(repeats: Iterable[Optional[Shortage]]) -> tuple[Message, ...]:
    """Return the evidence of a shortage: each kind once, from the first repeat that has it."""
    return once(shortage.signs for shortage in repeats if shortage)


def once(repeats: Iterable[Iterable[Message]]) -> tuple[Message, ...]:
    """Return each kind of message once, from the first repeat that has it."""
    messages: dict[str, Message] = {}
    for repeat in repeats:
        for message in repeat:
            messages.setdefault(message.code, message)
    return tuple(messages.values())
