"""Names of ONNX Runtime's options; this module needs no ONNX Runtime, so that others may read it.

Runs in the measured process: standard library only.
"""

from __future__ import annotations

__all__ = ["ARENA_KEYS", "LEVEL", "RUN", "STRATEGIES", "STRATEGY", "is_of_run", "run_entry"]

#: Attribute that a prepared model cannot have: it was prepared at full optimisation.
LEVEL = "graph_optimization_level"
STRATEGY = "arena_extend_strategy"
#: Keys of OrtArenaCfg, which Python cannot list; it refuses others itself.
ARENA_KEYS = (
    STRATEGY,
    "initial_chunk_size_bytes",
    "initial_growth_chunk_size_bytes",
    "max_dead_bytes_per_chunk",
    "max_mem",
    "max_power_of_two_extend_bytes",
)
#: Names of the strategies (ArenaExtendStrategy).
STRATEGIES = {"kNextPowerOfTwo": 0, "kSameAsRequested": 1}
#: The beginning of entries of RunOptions that have no beginning of their own.
RUN = "RunOptions."
_RUN_ENTRIES = ("memory.", RUN)


def is_of_run(name: str) -> bool:
    """Whether an option is an entry of RunOptions."""
    return name.startswith(_RUN_ENTRIES)


def run_entry(name: str) -> str:
    """Return the name of an entry of RunOptions in ONNX Runtime's words."""
    return name[len(RUN) :] if name.startswith(RUN) else name
