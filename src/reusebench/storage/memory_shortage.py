"""Whether memory was short while something was measured, as it is stored of scenarios and of
recorded programs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

import msgspec

from reusebench.measured.messages import Message
from reusebench.samplers.readings import Pressure

__all__ = ["Shortage", "signs_of"]


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """Whether memory was short during one repeat: the kernel then takes its pages, and figures are
    too small.
    """

    #: From the start of the process, or of the recording, to its last reading.
    counted: Pressure
    #: By how much its mapped files fell at most between barriers, before anything was destroyed. A
    #: recorded program has no barriers: None.
    lost_file_bytes: Optional[int] = None
    #: None of a recorded program, too.
    steady_major_faults: Optional[int] = None
    #: What shows that it was short, each a message; none where it was not.
    signs: tuple[Message, ...]


def signs_of(repeats: Iterable[Optional[Shortage]]) -> tuple[Message, ...]:
    """Return what shows that memory was short: each kind of sign once, of the first repeat that has
    it.
    """
    signs: dict[str, Message] = {}
    for shortage in repeats:
        for sign in shortage.signs if shortage else ():
            signs.setdefault(sign.code, sign)
    return tuple(signs.values())
