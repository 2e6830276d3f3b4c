"""What a target is: a way to start the driver."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["THIS_INTERPRETER", "Target"]

_CHECKOUT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Target:
    """Where the measured process runs."""

    #: As tables show it.
    name: str
    #: The command that starts the driver.
    command: tuple[str, ...]
    #: Its working folder, from which it imports the rooms.
    folder: Path = _CHECKOUT


THIS_INTERPRETER = Target("python", (sys.executable, "-m", "scenarios.driver"))
