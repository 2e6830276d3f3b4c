"""`reusebench doctor`: the parts that work here, the missing ones, and how to get them."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import click

from reusebench import __version__
from reusebench.commands.far_doctor import far_parts
from reusebench.commands.mainline_npu import mainline_parts, not_usable
from reusebench.commands.parts import Part, show_parts, source_parts
from reusebench.commands.reply import json_option, reply_of, say
from reusebench.commands.results import PartsResult, VersionRow
from reusebench.harness.extras import EXTRAS, install_line, missing_modules
from reusebench.measured.runtimes import RUNTIMES, RuntimeEntry
from reusebench.measured.runtimes.base import AdapterError
from reusebench.measured.runtimes.rknn.device import device_nodes, driver_state, not_opened
from reusebench.measured.runtimes.rknn.library_file import find_library, read_library
from reusebench.measured.runtimes.teflon.library_file import LIBRARY_VARIABLE, USUAL_PATHS
from reusebench.models import converters
from reusebench.models.conversion.environments import PythonPackage
from reusebench.samplers.host import LOCAL_HOST, Host, own_pid
from reusebench.samplers.npu.rknpu import has_rknpu, rknpu_driver_version
from reusebench.samplers.sources import machine_sources, memory_sources
from reusebench.system import processes
from reusebench.system.package import python_command
from reusebench.targets.boards import boards
from reusebench.targets.chips import CHIPS, chip_of
from reusebench.targets.interpreters import printed_versions, python_with, remedy
from reusebench.targets.programs import PRELOAD
from reusebench.targets.resolve import far_machine
from reusebench.targets.rknn_library import architecture_of_this_python
from reusebench.targets.sandbox import sandbox_problem
from reusebench.targets.vboard.catalogue import rknn_system, rocket_board
from reusebench.targets.vboard.emulator import find_emulator, is_needed

__all__ = ["doctor", "runtime_versions"]

#: Purpose of each extra's libraries.
_PURPOSES = {
    "reports": "reusebench report, compare, history",
    "frames": "reusebench.load",
    "parquet": "reusebench export --format parquet",
    "streams": "streams of video",
}
#: The architectures that Rockchip's libraries are for.
_BOARD_ARCHITECTURES = ("armhf", "aarch64")


@click.command()
@click.option(
    "--target",
    metavar="BOARD",
    help="A remote board, by name or address, in place of this machine.",
)
@json_option
def doctor(target: str | None) -> int:
    """Show what works here, what can be read, what is missing and how to get it.

    Exits with 1 if no runtime works.
    """
    if target is not None:
        return _of_board(target)
    say(f"reusebench {__version__}, Python {platform.python_version()} ({sys.executable})")
    host = LOCAL_HOST
    runtimes = [_runtime(entry) for entry in RUNTIMES]
    rows = []
    for subject, parts in (
        ("libraries", _extras()),
        ("runtime", runtimes),
        ("NPU", _npu(host)),
        ("target", _targets()),
        ("converter", _converters()),
        ("memory source", source_parts(memory_sources(host, own_pid(host)))),
        ("machine source", source_parts(machine_sources(host))),
    ):
        rows += show_parts(subject, list(parts))
    reply_of().result = PartsResult(None, rows)
    return 0 if any(runtime.is_here for runtime in runtimes) else 1


def _of_board(name: str) -> int:
    """Show what a remote board has."""
    works = False
    rows = []
    with closing(far_machine(name)) as machine:
        say(f"{name}: {machine.address}")
        for subject, parts in far_parts(machine):
            rows += show_parts(subject, parts)
            works |= subject == "runtime" and any(part.is_here for part in parts)
    reply_of().result = PartsResult(name, rows)
    return 0 if works else 1


def _extras() -> Iterator[Part]:
    for extra in EXTRAS:
        missing = missing_modules(extra)
        remedy = f"; {', '.join(missing)} missing: {install_line(extra)}" if missing else ""
        yield Part(extra, not missing, f"{_PURPOSES[extra]}{remedy}")


def _runtime(entry: RuntimeEntry) -> Part:
    """Return the runtime's version, read in a process of its own: a broken library may crash it."""
    python = python_with(entry)
    if python is None:
        return Part(entry.name, False, remedy(entry))
    try:
        python_version, version = _versions(entry, python)
    except _NotImported as error:
        # Rockchip's library is not installed by pip; the reason names the option that gives it.
        again = f"installed, but cannot be imported: {error}. Install it again: {entry.install}"
        return Part(entry.name, False, again if entry.module else str(error))
    own = (
        f", in an environment of its own: Python {python_version} ({python})"
        if python != sys.executable
        else ""
    )
    reason = _npu_refusal(entry)
    if reason is not None:
        virtual = rocket_board().target if entry.open_driver else "vboard:CHIP"
        without = f"The virtual board needs no NPU: --target {virtual}"
        return Part(
            entry.name, False, f"version {version} is here, and runs nothing: {reason}. {without}"
        )
    return Part(entry.name, True, f"version {version}{own}")


def _npu_refusal(entry: RuntimeEntry) -> str | None:
    """Return the reason that a runtime cannot open an NPU here; None if it can, or needs none."""
    if entry.device != "npu":
        return None
    if entry.open_driver:
        return not_usable(LOCAL_HOST, _may_open)
    nodes = device_nodes()
    return str(not_opened(nodes)) if all(node.error for node in nodes) else None


class _NotImported(Exception):
    """The reason for which a runtime cannot be imported."""


def _versions(entry: RuntimeEntry, python: str) -> tuple[str, str]:
    """Return the versions of Python and of the runtime in it; raise _NotImported."""
    command = python_command("reusebench.measured.versions", entry.adapter, python=python)
    done = processes.run(command, Path("/"))
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2]
        raise _NotImported(reason or f"its process ended with {done.returncode}")
    return printed_versions(done.stdout)


def runtime_versions() -> list[VersionRow]:
    """Return the version of each runtime; None if it is not here or cannot be imported."""
    rows = []
    for entry in RUNTIMES:
        python = python_with(entry)
        version = None
        if python is not None:
            with suppress(_NotImported):
                _, version = _versions(entry, python)
        rows.append(VersionRow(entry.name, version))
    return rows


def _npu(host: Host) -> Iterator[Part]:
    """Yield the driver of the NPU and the nodes of its device, if there is an NPU."""
    chip = chip_of(host)
    if not has_rknpu(host):
        named = os.environ.get(LIBRARY_VARIABLE)
        libraries = (named,) if named else USUAL_PATHS
        parts = list(mainline_parts(host, _may_open, libraries, chip))
        if parts or chip is None:
            yield from parts
            return
    nodes = device_nodes()
    driver = rknpu_driver_version(host)
    if driver:
        yield _driver(driver)
    elif nodes:
        yield Part("driver", True, "its version is shown to root alone")
    for node in nodes:
        yield Part(
            node.path,
            not node.error,
            str(not_opened([node])) if node.error else "this user may open it",
        )
    if not nodes:
        yield Part("device", False, str(not_opened([])))


def _may_open(node: str) -> bool:
    """Whether the rights of a node let this user open it."""
    return os.access(node, os.R_OK | os.W_OK)


def _driver(version: str) -> Part:
    path = find_library()
    try:
        state = driver_state(version, read_library(path)) if path else None
    except AdapterError:  # its row among the runtimes has the reason
        state = None
    is_too_old = state is not None and state.code == "rknn_driver_too_old"
    return Part("driver", not is_too_old, str(state or f"version {version}"))


def _targets() -> Iterator[Part]:
    yield Part("python", True, "this interpreter, or that of a runtime's own environment")
    yield Part("python:PATH", True, "another Python")
    for architecture in _BOARD_ARCHITECTURES:
        system = not is_needed(architecture) or (
            rknn_system(architecture).is_installed() and find_emulator(architecture) is not None
        )
        ready = system and PRELOAD.is_built(architecture)
        chips = [name for name, chip in CHIPS.items() if architecture in chip.architectures]
        remark = f"the virtual board for {architecture} libraries; CHIP: {', '.join(chips)}"
        remedy = "" if ready else ": reusebench board install --rknn-library FILE"
        yield Part("vboard:CHIP", ready, f"{remark}{remedy}")
    yield _rocket_board()
    yield _sandbox()
    own = architecture_of_this_python()
    if own is None:
        yield Part(
            "board",
            False,
            "the library that keeps the ledger is not made for this Python's processor",
        )
    else:
        remedy = "" if PRELOAD.is_built(own) else ": reusebench board install-ledger"
        yield Part(
            "board",
            PRELOAD.is_built(own),
            f"this interpreter on a board, with a ledger of the NPU's buffers{remedy}",
        )
    for program in ("ssh", "adb"):
        yield Part(
            program,
            shutil.which(program) is not None,
            "remote boards: reusebench board add NAME ADDRESS",
        )
    for name, named in boards().items():
        yield Part(
            name, True, f"{named.address}: reusebench doctor --target {name} says what is there"
        )


def _rocket_board() -> Part:
    board = rocket_board()
    missing = board.missing_parts()
    remark = "the virtual board of the mainline kernel's driver, for Teflon"
    if missing:
        remark += (
            f"; {', '.join(missing)} missing: reusebench board install {board.install_options}"
        )
    return Part(board.target, not missing, remark)


def _sandbox() -> Part:
    reason = sandbox_problem()
    purpose = (
        "keeps the library on a virtual board from your files, the network and the host's devices"
    )
    return Part("sandbox", reason is None, f"{purpose}; {reason}" if reason else purpose)


def _converters() -> Iterator[Part]:
    """Yield the converters with an environment of their own; others come with their runtimes."""
    for converter in converters():
        environment = converter.environment
        if isinstance(environment, PythonPackage):
            continue
        command = f"reusebench models install {environment.command}"
        if environment.installed():
            yield Part(
                environment.title, True, f"makes {environment.makes} files: {environment.folder()}"
            )
        elif platform.machine() in environment.machines:
            remark = (
                f"makes {environment.makes} files: {command} (about {environment.gigabytes} GB)"
            )
            yield Part(environment.title, False, remark)
        else:
            yield Part(
                environment.title,
                False,
                f"makes {environment.makes} files, on {environment.machines_in_words} alone",
            )
