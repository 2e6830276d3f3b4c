"""Targets: the places where the measured process runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from reusebench.system.package import python_command
from reusebench.targets.machine import LOCAL, Machine, Reach
from reusebench.targets.process import DriverProcess
from reusebench.targets.protocol.base import PYTHON_PROTOCOL, DriverProtocol

__all__ = ["THIS_INTERPRETER", "Target"]

#: Settings of glibc's malloc, by its manual ("Memory Allocation Tunables").
_TUNABLES = "GLIBC_TUNABLES"
_NO_THREAD_CACHE = "glibc.malloc.tcache_count=0"


@dataclass(frozen=True)
class Target:
    """A place where the measured process runs, and the command that starts it there."""

    #: Name in tables.
    name: str
    #: Command that starts the driver.
    command: tuple[str, ...]
    #: Working folder of the driver.
    folder: Path = Path("/")
    #: Variables added to the driver's environment.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Rockchip chip whose NPU is used, a name of targets.chips; None if there is none or it is
    #: unknown.
    chip: str | None = None
    #: Architecture of the process: "aarch64", "armhf" or "x86_64"; None if unknown.
    architecture: str | None = None
    #: Whether the process writes a ledger of its NPU buffers.
    keeps_ledger: bool = False
    #: False on virtual boards, which compute nothing: latencies and outputs are meaningless.
    computes: bool = True
    #: Whether the process can decode video. If not, streams run with frames from memory.
    decodes: bool = True
    #: Whether an emulator of its processor runs the process and adds to its memory.
    emulated: bool = False
    #: Virtual board only: limit of all NPU buffers together; None: no limit.
    npu_memory_limit_bytes: int | None = None
    #: Virtual board only: why its library runs unsandboxed; None if it is sandboxed.
    exposure: str | None = None
    machine: Machine = LOCAL
    #: Protocol between harness and driver.
    protocol: DriverProtocol = PYTHON_PROTOCOL

    def with_exact_heap(self) -> Target:
        """Return the target with a C library that keeps no freed blocks for its threads.

        glibc keeps up to seven of each size, and mallinfo2 counts them as handed out: with a small
        language model the heap seemed to grow by 300 bytes a turn, for the first 200 turns.
        """
        tunables = [os.environ.get(_TUNABLES), _NO_THREAD_CACHE]
        joined = ":".join(filter(None, tunables))
        return replace(self, environment={_TUNABLES: joined, **self.environment})

    def start(self, reach: Reach) -> DriverProcess:
        """Start the driver, which needs the files of `reach`."""
        return self.machine.start(
            self.command, self.folder, self.environment, self.keeps_ledger, reach
        )


THIS_INTERPRETER = Target("python", tuple(python_command()))
