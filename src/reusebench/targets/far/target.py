"""A remote board as the target of a runtime: the choice of the driver, and what it needs."""

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

#: Key: architecture of the board's shell; architectures of libraries that programs there may load.
_LOADABLE = {
    "aarch64": ("aarch64", "armhf"),
    "armhf": ("armhf",),
    "x86_64": ("x86_64",),
}
#: The module that decodes video.
_DECODER = "av"
_ANOTHER_PYTHON = (
    "Another Python of the board is named by: reusebench board add NAME ADDRESS --python PATH"
)


def far_target(
    machine: FarMachine, rknn_library: Path | None, entry: RuntimeEntry, driver: str | None
) -> Target:
    """Return the target for this runtime; `rknn_library` None means the board's own library.

    Raises RuntimeMissing if the board lacks the runtime, another TargetError if it cannot be used.
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
    """Return the board's own Rockchip library; raise RuntimeMissing if it has none."""
    paths = list(usual_paths())
    for path, status in zip(paths, machine.host.statuses(paths)):
        if isinstance(status, OSError):
            continue
        library = _read_library(machine, path)
        if library is not None and library.architecture in _LOADABLE[machine.architecture]:
            return library
    raise RuntimeMissing(
        f"--runtime rknn: {machine.name} has no library of Rockchip's in the usual folders. Give"
        " one: --rknn-library FILE (librknnrt.so, or librknnmrt.so of RV1103 and RV1106)"
    )


def _read_library(machine: FarMachine, path: str) -> RknnLibrary | None:
    """Return a library on the board; None if the file is not Rockchip's."""
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
    _check_library(target, machine, library, rknn_library or library.path)

    python = None if driver == C else machine.python()
    if driver == PYTHON and python is None:
        raise TargetError(
            f"--driver python: {machine.name} has no Python from 3.8 on. Leave it out: the C driver"
            f" runs there. {_ANOTHER_PYTHON}"
        )

    path = machine.push(str(rknn_library)) if rknn_library else str(library.path)
    preload = _preload(machine, library.architecture)
    target = replace(
        target,
        environment={LIBRARY_VARIABLE: path, "LD_PRELOAD": preload},
        architecture=library.architecture,
        keeps_ledger=True,
    )

    # A 64-bit Python cannot load a 32-bit library.
    if python is not None and (driver == PYTHON or python.architecture == library.architecture):
        return _with_python(target, machine, python)

    form = UCLIBC if machine.has_uclibc() else library.architecture
    DRIVER.ensure(form, machine.show_step)
    program = machine.push(str(DRIVER.path(form)))
    return replace(target, command=(program,), folder=Path("/"), protocol=C_PROTOCOL, decodes=False)


def _check_library(target: Target, machine: FarMachine, library: RknnLibrary, file: Path) -> None:
    """Raise TargetError if the board cannot use the library; `file` is its name for the user."""
    if target.chip and CHIPS[target.chip].runtime != library.kind:
        raise TargetError(
            f"{file} is {library.kind}, and {target.chip} needs {CHIPS[target.chip].runtime}"
        )
    if library.architecture not in _LOADABLE[machine.architecture]:
        raise TargetError(
            f"{file} is for {library.architecture}, and the programs of {machine.name} are for"
            f" {machine.architecture}"
        )


def _preload(machine: FarMachine, architecture: str) -> str:
    """Push the library that keeps the ledger; return the value of LD_PRELOAD.

    Libraries that the board preloads anyway stay in it.
    """
    if machine.has_uclibc():
        DRIVER.ensure(UCLIBC, machine.show_step)
        preload = machine.push(str(uclibc_preload()))
    else:
        PRELOAD.ensure(architecture, machine.show_step)
        preload = machine.push(str(PRELOAD.path(architecture)))
    others = machine.variable("LD_PRELOAD")
    if others:
        return f"{preload}:{others}"
    return preload


def _with_python(target: Target, machine: FarMachine, python: FarPython) -> Target:
    decodes = machine.has_module(python, _DECODER)
    return replace(target, command=(python.path, machine.push_driver(python)), decodes=decodes)
