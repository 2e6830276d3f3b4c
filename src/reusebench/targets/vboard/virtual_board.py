"""A virtual board: its parts, and the programs on it, first of all Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reusebench.system.package import MEASURED
from reusebench.targets.machine import LOCAL, LocalMachine, Reach
from reusebench.targets.programs import DRIVER, PRELOAD, uclibc_stand_in
from reusebench.targets.sandbox import SandboxedMachine, sandbox_problem
from reusebench.targets.vboard.bytecode import bytecode_folder
from reusebench.targets.vboard.emulator import find_emulator, is_needed
from reusebench.targets.vboard.loading import Guest, started_in
from reusebench.targets.vboard.root_file_system import RootFileSystem

__all__ = ["VirtualBoard"]

#: Variables of the preload library: the driver that it simulates, and the limit of its buffers.
_BOARD_VARIABLE = "REUSEBENCH_BOARD"
_MEMORY_VARIABLE = "REUSEBENCH_NPU_MEMORY"

#: No site-packages and no variables, which belong to the host's Python.
_PYTHON_OPTIONS = ("-S", "-s", "-E")


@dataclass(frozen=True)
class VirtualBoard:
    """A machine with a simulated NPU, and the library of the one runtime that uses it."""

    #: Its target is vboard:NAME; the preload library simulates the NPU's driver by this name.
    name: str
    #: Name in targets.chips.
    chip: str
    architecture: str
    #: Module of the runtime's adapter.
    adapter: str
    #: The runtime's library, and the variable that names it.
    library: Path
    library_variable: str
    #: Arguments of `reusebench board install`.
    install_options: str
    #: Files that its programs have; None: they are this machine's, with the harness's Python.
    system: RootFileSystem | None
    #: File name in /usr/lib for users' programs, if the library is not of the system.
    library_name: str | None = None
    #: Code of Python that fails if the library does not find the NPU; None: the adapter tells.
    trial: str | None = None

    @property
    def target(self) -> str:
        """Value of --target."""
        return f"vboard:{self.name}"

    def missing_parts(self) -> list[str]:
        """Return the names of the parts that it still lacks."""
        form = self.architecture
        parts = {f"the preload library for {form}": PRELOAD.is_built(form)}
        if self.system is not None:
            parts[f"the {self.system.name} system"] = self.system.is_installed()
        if is_needed(form):
            parts["qemu"] = find_emulator(form) is not None
        return [part for part, is_there in parts.items() if not is_there]

    def guest(self, npu_memory_bytes: int | None = None) -> Guest:
        """Return the Python that runs the library. No part may be missing.

        `npu_memory_bytes` limits the NPU buffers.
        """
        if self.system is None:
            return self.guest_program(Path(sys.executable), npu_memory_bytes)
        program = self.guest_program(self.system.python(), npu_memory_bytes)
        cache = f"pycache_prefix={bytecode_folder(self.system)}"
        return Guest((*program.command, *_PYTHON_OPTIONS, "-X", cache), program.environment)

    def guest_program(self, program: Path, npu_memory_bytes: int | None = None) -> Guest:
        """Return another program of the board's architecture, started like the Python."""
        variables = self.variables(npu_memory_bytes)
        return self.started((str(program),), variables, self.loader_variables())

    def variables(self, npu_memory_bytes: int | None = None) -> dict[str, str]:
        """Return the variables of a program on the board."""
        variables = {self.library_variable: str(self.library), _BOARD_VARIABLE: self.name}
        if npu_memory_bytes is not None:
            variables[_MEMORY_VARIABLE] = str(npu_memory_bytes)
        return variables

    def loader_variables(self) -> dict[str, str]:
        """Return the variables for the guest's loader; qemu's own loader must not see them."""
        folders = [] if self.system is None else self.system.library_folders()
        stand_in = uclibc_stand_in(self.architecture)
        if stand_in.is_file():
            folders = [stand_in.parent, *folders]
        variables = {"LD_PRELOAD": str(PRELOAD.path(self.architecture))}
        if folders:
            variables["LD_LIBRARY_PATH"] = ":".join(map(str, folders))
        return variables

    def started(
        self,
        words: tuple[str, ...],
        environment: Mapping[str, str],
        loader: Mapping[str, str],
        root: Path | None = None,
    ) -> Guest:
        """Return a program of the board whose loader gets the variables of `loader`.

        `root` is the folder in which an emulated program finds the files of its system.
        """
        if self.system is None:
            return Guest(words, {**environment, **loader})
        return started_in(self.system, words, environment, loader, root)

    def machine(self) -> LocalMachine:
        """Return this machine, with the library in the sandbox if the kernel permits."""
        if sandbox_problem() is not None:
            return LOCAL
        form = self.architecture
        readable = [MEASURED, PRELOAD.folder(form), DRIVER.folder(form)]
        if is_needed(form):
            readable.append(Path(str(find_emulator(form))))
        if self.system is None:  # the Python that runs the harness
            readable += dict.fromkeys((Path(sys.base_prefix), Path(sys.prefix)))
        else:
            readable += [self.system.folder, bytecode_folder(self.system)]
        readable.append(self.library)
        return SandboxedMachine(Reach(tuple(map(os.path.abspath, readable))))
