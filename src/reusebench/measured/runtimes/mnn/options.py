"""Options of MNN that an application may set, in MNN's own words.

They are of BackendConfig, HintMode (Interpreter.hpp) and Module::Config. MNN takes other names, and
other values, without a word.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Sequence, Tuple

from reusebench.measured.runtimes.option_words import member, split, unknown, whole_number

__all__ = ["HINTS", "INTERPRETER", "MnnSettings", "settings_of"]

_TITLE = "MNN"
#: The older API: a session of an interpreter, which releases Python's lock while it runs.
INTERPRETER = "api=Interpreter"
#: Numbers of Interpreter::HintMode, which MNN's Python has no names for.
HINTS = {
    "MAX_TUNING_NUMBER": 0,
    "STRICT_CHECK_MODEL": 1,
    "MEM_ALLOCATOR_TYPE": 2,
    "WINOGRAD_MEMORY_LEVEL": 3,
    "GEOMETRY_COMPUTE_MASK": 4,
    "DYNAMIC_QUANT_OPTIONS": 5,
    "CPU_LITTLECORE_DECREASE_RATE": 6,
    "INIT_THREAD_NUMBER": 13,
}
#: Hints of every context. Intermediate tensors: all modules of the process have one memory (1: each
#: has its own). Winograd unit: the fastest (0: none, for the smallest weights).
_USUAL_HINTS = {"MEM_ALLOCATOR_TYPE": 0, "WINOGRAD_MEMORY_LEVEL": 3}
#: Settings of BackendConfig by name; Python's enumerations have no numbers.
_LEVELS = {"normal": 0, "high": 1, "low": 2}
_BACKEND: Dict[str, Dict[str, int]] = {
    "precision": {**_LEVELS, "low_bf16": 3},
    "memory": _LEVELS,
    "power": _LEVELS,
}
_REARRANGE = "rearrange"
_BOOLEANS = {"False": False, "True": True}
_API = "api"
_APIS = ("Interpreter", "Module")
_THREADS = "numThread"


class MnnSettings(NamedTuple):
    """The settings by which contexts are made."""

    #: Whether the older API makes them, not Module.
    is_interpreter: bool = False
    #: Whether weights are packed when the module is loaded, and the file's bytes are dropped.
    #: Otherwise both stay, and what a clone shares is packed in the first inference of its source.
    rearrange: bool = True
    #: Settings of BackendConfig that are not normal.
    backend: Tuple[Tuple[str, int], ...] = ()
    #: One inference uses one core.
    threads: int = 1
    #: Numbers and values of HintModes: modules inherit those that an earlier one set.
    hints: Tuple[Tuple[int, int], ...] = ()

    @staticmethod
    def usual_hints() -> Tuple[Tuple[int, int], ...]:
        """Return the numbers and values of the hints of contexts without options."""
        return tuple((HINTS[name], value) for name, value in _USUAL_HINTS.items())

    @property
    def schedule(self) -> Dict[str, Any]:
        """MNN's ScheduleConfig."""
        normal = dict.fromkeys(_BACKEND, 0)
        return {"backend": "CPU", "numThread": self.threads, **normal, **dict(self.backend)}


def settings_of(options: Sequence[str]) -> MnnSettings:
    """Return the usual settings with the changes of these options.

    Raises NotSupported for a name or a value that is not among those above.
    """
    settings = MnnSettings()
    hints = dict(_USUAL_HINTS)
    backend: Dict[str, int] = {}
    for option in options:
        name, _ = split(option)
        if name in HINTS:
            hints[name] = whole_number(_TITLE, option)
        elif name in _BACKEND:
            backend[name] = _BACKEND[name][member(_TITLE, option, _BACKEND[name])]
        elif name == _THREADS:
            settings = settings._replace(threads=whole_number(_TITLE, option))
        elif name == _REARRANGE:
            rearrange = _BOOLEANS[member(_TITLE, option, _BOOLEANS)]
            settings = settings._replace(rearrange=rearrange)
        elif name == _API:
            member(_TITLE, option, _APIS)
            settings = settings._replace(is_interpreter=option == INTERPRETER)
        else:
            raise unknown(_TITLE, option, [*_BACKEND, _THREADS, _REARRANGE, _API, *HINTS])
    return settings._replace(
        backend=tuple(backend.items()),
        hints=tuple((HINTS[name], value) for name, value in hints.items()),
    )
