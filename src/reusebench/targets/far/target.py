"""A board far away as the target of a runtime: which driver runs there, and what it needs."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from reusebench.measured.runtimes import RuntimeEntry
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE, usual_paths
from reusebench.targets.chips import CHIPS, chip_of
from reusebench.targets.errors import RuntimeMissing, TargetError
from reusebench.targets.far.machine import FarMachine, FarPython
from reusebench.targets.programs import DRIVER, PRELOAD, UCLIBC, uclibc_preload
from reusebench.targets.protocol.base import PYTHON, C
from reusebench.targets.protocol.c_driver import C_PROTOCOL
from reusebench.targets.rknn_library import RknnLibrary, read_library
from reusebench.targets.target import Target

__all__ = ["far_target", "library_of_board"]

#: Which libraries a board's programs may load, by the architecture of its shell.
_RUNS = {"aarch64": ("aarch64", "armhf"), "armhf": ("armhf",), "x86_64": ("x86_64",)}
#: The module that decodes video.
_DECODER = "av"
_ANOTHER_PYTHON = (
    "Another Python of the board is named by: reusebench board add NAME ADDRESS --python PATH"
)


def far_target(
    machine: FarMachine, rknn_library: Path | None, entry: RuntimeEntry, driver: str | None
) -> Target:
    """Return the target as it runs this runtime; rknn_library None is the board's own.

    Raise RuntimeMissing where the board lacks the runtime, another TargetError if it cannot be
    used.
    """
    target = Target(machine.name, (), chip=chip_of(machine.host), machine=machine)
    if entry.module is None:
        return _rknn(target, machine, rknn_library, driver)
    python = machine.python()
    if python is None:
        raise RuntimeMissing(
            f"--runtime {entry.name}: {machine.name} has no Python from 3.8 on. {_ANOTHER_PYTHON}"
        )
    if not machine.has_module(python, entry.module):
        raise RuntimeMissing(
            f"--runtime {entry.name}: {python.path} on {machine.name} has no module {entry.module}"
            f" ({entry.install}). {_ANOTHER_PYTHON}"
        )
    return _with_python(target, machine, python)


def library_of_board(machine: FarMachine) -> RknnLibrary:
    """Return Rockchip's library that the board has, by its path there; raise RuntimeMissing where
    it has none.
    """
    paths = list(usual_paths())
    for path, inode in zip(paths, machine.host.inodes(paths)):
        own = _read_there(machine, path) if isinstance(inode, int) else None
        if own is not None and own.architecture in _RUNS[machine.architecture]:
            return own
    raise RuntimeMissing(
        f"--runtime rknn: {machine.name} has no library of Rockchip's in the usual folders. Give"
        " one: --rknn-library FILE (librknnrt.so, or librknnmrt.so of RV1103 and RV1106)"
    )


def _read_there(machine: FarMachine, path: str) -> RknnLibrary | None:
    """Return what a file on the board is; None if it is no library of Rockchip's."""
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(machine.host.read(path))
        copy.flush()
        try:
            return replace(read_library(Path(copy.name)), path=Path(path))
        except TargetError:
            return None


def _rknn(
    target: Target, machine: FarMachine, rknn_library: Path | None, driver: str | None
) -> Target:
    library = read_library(rknn_library) if rknn_library else library_of_board(machine)
    file = rknn_library or library.path
    if target.chip and CHIPS[target.chip].runtime != library.kind:
        raise TargetError(
            f"{file} is {library.kind}, and {target.chip} needs {CHIPS[target.chip].runtime}"
        )
    if library.architecture not in _RUNS[machine.architecture]:
        raise TargetError(
            f"{file} is for {library.architecture}, and the programs of {machine.name} are for"
            f" {machine.architecture}"
        )
    python = None if driver == C else machine.python()
    if driver == PYTHON and python is None:
        raise TargetError(
            f"--driver python: {machine.name} has no Python from 3.8 on. Leave it out: the driver"
            f" in C runs there. {_ANOTHER_PYTHON}"
        )
    path = machine.push(str(rknn_library)) if rknn_library else str(library.path)
    target = replace(
        target,
        environment={LIBRARY_VARIABLE: path, "LD_PRELOAD": _preload(machine, library.architecture)},
        architecture=library.architecture,
        keeps_ledger=True,
    )
    # A Python of 64 bits does not load a library of 32.
    if python is not None and (driver == PYTHON or python.architecture == library.architecture):
        return _with_python(target, machine, python)
    form = UCLIBC if machine.has_uclibc() else library.architecture
    DRIVER.ensure(form, machine.show_step)
    program = machine.push(str(DRIVER.path(form)))
    return replace(target, command=(program,), folder=Path("/"), protocol=C_PROTOCOL, decodes=False)


def _preload(machine: FarMachine, architecture: str) -> str:
    """Push the library that keeps the ledger, and return what is to be preloaded: what the board
    preloads, too.
    """
    if machine.has_uclibc():
        DRIVER.ensure(UCLIBC, machine.show_step)
        preload = machine.push(str(uclibc_preload()))
    else:
        PRELOAD.ensure(architecture, machine.show_step)
        preload = machine.push(str(PRELOAD.path(architecture)))
    others = machine.variable("LD_PRELOAD")
    return f"{preload}:{others}" if others else preload


def _with_python(target: Target, machine: FarMachine, python: FarPython) -> Target:
    decodes = machine.has_module(python, _DECODER)
    return replace(target, command=(python.path, machine.push_driver(python)), decodes=decodes)
