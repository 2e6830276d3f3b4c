"""Options of MNN that an application may set, in MNN's own words.

They are of BackendConfig, HintMode (Interpreter.hpp) and Module::Config.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Sequence, Tuple

__all__ = ["INTERPRETER", "OPTIONS", "MnnSettings", "settings_of"]

#: The older API: a session of an interpreter, which releases Python's lock while it runs.
INTERPRETER = "api=Interpreter"
#: Numbers of Interpreter::HintMode, which MNN's Python has no names for.
_MEM_ALLOCATOR_TYPE = 2
_WINOGRAD_MEMORY_LEVEL = 3
#: Lowest setting of BackendConfig; 0 is normal, which is fp32. Python's enumerations have no
#: numbers.
_LOW = 2


class MnnSettings(NamedTuple):
    """The settings by which contexts are made."""

    #: Whether the older API makes them, not Module.
    is_interpreter: bool = False
    #: Whether weights are packed when the module is loaded, and the file's bytes are dropped.
    #: Otherwise both stay, and what a clone shares is packed in the first inference of its source.
    rearrange: bool = True
    #: Precision of BackendConfig.
    precision: int = 0
    #: Memory of BackendConfig.
    memory: int = 0
    #: Allocator of intermediate tensors. 0: all modules of the process have one memory; 1: each has
    #: its own.
    allocator: int = 0
    #: Winograd unit. 3: the fastest; 0: none, for the smallest weights.
    winograd: int = 3

    @property
    def schedule(self) -> Dict[str, Any]:
        """MNN's ScheduleConfig: one inference uses one core."""
        return {
            "backend": "CPU",
            "numThread": 1,
            "precision": self.precision,
            "memory": self.memory,
            "power": 0,
        }

    @property
    def hints(self) -> Tuple[Tuple[int, int], ...]:
        """Numbers and values of all HintModes: modules inherit those that an earlier one set."""
        return (
            (_MEM_ALLOCATOR_TYPE, self.allocator),
            (_WINOGRAD_MEMORY_LEVEL, self.winograd),
        )


#: Settings that each option changes.
OPTIONS: Dict[str, Dict[str, Any]] = {
    INTERPRETER: {"is_interpreter": True},
    "rearrange=False": {"rearrange": False},
    "MEM_ALLOCATOR_TYPE=1": {"allocator": 1},
    "WINOGRAD_MEMORY_LEVEL=0": {"winograd": 0},
    "WINOGRAD_MEMORY_LEVEL=1": {"winograd": 1},
    "memory=low": {"memory": _LOW},
    "precision=low": {"precision": _LOW},
}


def settings_of(options: Sequence[str]) -> MnnSettings:
    """Return the default settings with the changes of these options, which must be known."""
    settings = MnnSettings()
    for option in options:
        settings = settings._replace(**OPTIONS[option])
    return settings
