"""What an application may set of MNN, in MNN's own words: BackendConfig, HintMode
(Interpreter.hpp), Module::Config.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Sequence, Tuple

__all__ = ["INTERPRETER", "OPTIONS", "MnnSettings", "settings_of"]

#: The older API: a session of an interpreter, which releases Python's lock while it runs.
INTERPRETER = "api=Interpreter"
#: Interpreter::HintMode, whose numbers MNN's Python has no names for.
_MEM_ALLOCATOR_TYPE = 2
_WINOGRAD_MEMORY_LEVEL = 3
#: BackendConfig: 0 is normal everywhere, which is fp32. The names of Python's enumerations have no
#: numbers.
_LOW = 2


class MnnSettings(NamedTuple):
    """How contexts are made."""

    #: By the older API, and not as modules.
    is_interpreter: bool = False
    #: Weights are packed when the module is loaded, and the file's bytes are let go. Without it
    #: both stay, and what a clone shares is packed in the first inference of its source.
    rearrange: bool = True
    #: BackendConfig.
    precision: int = 0
    memory: int = 0
    #: 0: deferred, the intermediate tensors of all modules of the process are in one memory; 1:
    #: each has its own.
    allocator: int = 0
    #: 3: the fastest Winograd unit; 0: none, for the smallest weights.
    winograd: int = 3

    @property
    def schedule(self) -> Dict[str, Any]:
        """What MNN calls a ScheduleConfig: one inference uses one core."""
        return {
            "backend": "CPU",
            "numThread": 1,
            "precision": self.precision,
            "memory": self.memory,
            "power": 0,
        }

    @property
    def hints(self) -> Tuple[Tuple[int, int], ...]:
        """Numbers and values of HintMode; all of them, since what one module sets is that of the
        next.
        """
        return (_MEM_ALLOCATOR_TYPE, self.allocator), (_WINOGRAD_MEMORY_LEVEL, self.winograd)


#: What each option changes.
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
    """Return what these options, which are known, make of the defaults."""
    settings = MnnSettings()
    for option in options:
        settings = settings._replace(**OPTIONS[option])
    return settings
