"""What a target is: a way to start the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.system.package import python_command
from reusebench.targets.machine import LOCAL, Machine, Reach
from reusebench.targets.process import DriverProcess
from reusebench.targets.protocol.base import PYTHON_PROTOCOL, DriverProtocol

__all__ = ["THIS_INTERPRETER", "Target"]


@dataclass(frozen=True)
class Target:
    """Where the measured process runs."""

    #: As tables show it.
    name: str
    #: The command that starts the driver.
    command: tuple[str, ...]
    #: Its working folder.
    folder: Path = Path("/")
    #: Added to its environment.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The Rockchip chip whose NPU it uses, a name of targets.chips; None: none, or not known.
    chip: str | None = None
    #: "aarch64", "armhf" or "x86_64", of the process; None if that is not known.
    architecture: str | None = None
    #: Whether the process writes a ledger of its NPU buffers.
    keeps_ledger: bool = False
    #: False where the NPU's arithmetic is missing: neither latencies nor outputs mean anything
    #: there.
    computes: bool = True
    #: Whether the process can decode video; else streams run with what is in memory.
    decodes: bool = True
    #: Whether the process runs under an emulator of its processor, whose memory is then weighed
    #: with it.
    emulated: bool = False
    #: What all NPU buffers of the process may take at once on a virtual board; None: there is no
    #: such limit.
    npu_memory_limit_bytes: int | None = None
    #: Why a library that is run here without its device can reach all that the user can; None: it
    #: cannot, or it is the machine's own.
    exposure: str | None = None
    #: The machine that it is on.
    machine: Machine = LOCAL
    #: How its driver is spoken to.
    protocol: DriverProtocol = PYTHON_PROTOCOL

    def start(self, reach: Reach) -> DriverProcess:
        """Start the driver, which needs these files."""
        return self.machine.start(
            self.command, self.folder, self.environment, self.keeps_ledger, reach
        )


THIS_INTERPRETER = Target("python", tuple(python_command()))
