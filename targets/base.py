"""What a target is: a way to start the driver."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["CHECKOUT", "LEDGER_VARIABLE", "THIS_INTERPRETER", "Target"]

CHECKOUT = Path(__file__).resolve().parent.parent

#: Names the file to which the preload library of targets/preload writes its ledger of NPU buffers.
LEDGER_VARIABLE = "REUSEBENCH_LEDGER"


@dataclass(frozen=True)
class Target:
    """Where the measured process runs."""

    #: As tables show it.
    name: str
    #: The command that starts the driver.
    command: tuple[str, ...]
    #: Its working folder, from which it imports the packages.
    folder: Path = CHECKOUT
    #: Added to its environment.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The Rockchip chip whose NPU it uses, a name of targets.chips; None: none, or not known.
    chip: str | None = None
    #: Whether the process writes a ledger of its NPU buffers to the file that LEDGER_VARIABLE names.
    keeps_ledger: bool = False
    #: False where the NPU's arithmetic is missing: neither latencies nor outputs mean anything there.
    computes: bool = True
    #: What all NPU buffers of the process may take at once on a virtual board; None: there is no such limit.
    npu_memory_limit_bytes: int | None = None


THIS_INTERPRETER = Target("python", (sys.executable, "-m", "scenarios.driver"))
