"""The rates at which work is done in use, and the growth per day that is called level."""

from __future__ import annotations

from dataclasses import dataclass

_SECONDS_PER_DAY = 86_400
_HOURS_PER_DAY = 24


@dataclass(frozen=True)
class LeakLimits:
    """What a leak is judged by: the use of a device, and the memory that it may lose.

    The default limit is a block of the C library's smallest size every eighth inference.
    """

    inferences_per_s: float = 30.0
    #: Turns of conversations, each of which is an inference of a language model.
    turns_per_s: float = 1.0
    #: Contexts that are made and destroyed, or their memory renewed: a cycle of any other kind.
    cycles_per_hour: float = 60.0
    #: Memory that could still grow is level below this.
    bytes_per_day: float = 10 * 2**20

    @property
    def inferences_per_day(self) -> float:
        """The number of inferences in a day."""
        return self.inferences_per_s * _SECONDS_PER_DAY

    @property
    def turns_per_day(self) -> float:
        """The number of turns of conversations in a day."""
        return self.turns_per_s * _SECONDS_PER_DAY

    @property
    def cycles_per_day(self) -> float:
        """The number of cycles in a day."""
        return self.cycles_per_hour * _HOURS_PER_DAY

    @property
    def bytes_per_s(self) -> float:
        """The limit as growth per second."""
        return self.bytes_per_day / _SECONDS_PER_DAY


DEFAULT_LEAK_LIMITS = LeakLimits()
