"""`reusebench doctor --target BOARD`: the parts of a remote board, and obstacles to measuring."""

from __future__ import annotations

from collections.abc import Iterator

from reusebench.commands.mainline_npu import mainline_parts
from reusebench.commands.parts import Part, source_parts
from reusebench.measured.runtimes import RUNTIMES
from reusebench.measured.runtimes.rknn.device import driver_state
from reusebench.measured.runtimes.rknn.library_file import LibraryFile
from reusebench.measured.runtimes.teflon.library_file import USUAL_PATHS
from reusebench.samplers.host import FileStatus, Host, names_in, own_pid, read_text, read_texts
from reusebench.samplers.npu.rknpu import has_rknpu, rknpu_driver_version
from reusebench.samplers.sources import machine_sources, memory_sources
from reusebench.samplers.system_memory import read_system
from reusebench.targets.chips import chip_of
from reusebench.targets.errors import RuntimeMissing
from reusebench.targets.far.machine import FarMachine
from reusebench.targets.far.target import library_of_board
from reusebench.targets.rknn_library import RknnLibrary

__all__ = ["far_parts", "obstacles"]

#: Programs of Rockchip's camera images: they hold contiguous memory (CMA), which the NPU of small
#: chips needs, and CPU time.
_CAMERA_SERVICES = {"rkipc", "rkaiq_3A_server", "ispserver", "mediaserver", "aiserver"}
_MODEL = "/proc/device-tree/model"
_KERNEL = "/proc/sys/kernel/osrelease"
_GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
#: Devices of the NPU's driver in Rockchip's Linux 4.19 to 6.1.
_NPU_DEVICES = "/sys/bus/platform/drivers/RKNPU"
_MIB = 1 << 20


def far_parts(machine: FarMachine) -> Iterator[tuple[str, list[Part]]]:
    """Yield each subject with its rows."""
    host = machine.host
    yield "board", list(_board(machine, host))
    yield "runtime", list(_runtimes(machine))
    yield "NPU", list(_npu(machine, host))
    yield "memory source", source_parts(memory_sources(host, own_pid(host)))
    yield "machine source", source_parts(machine_sources(host))
    yield "in the way", list(obstacles(host))


def _board(machine: FarMachine, host: Host) -> Iterator[Part]:
    facts = read_texts(host, (_MODEL, _KERNEL))
    memory = read_system(host)
    python = machine.python()
    model = facts.get(_MODEL)
    chip = chip_of(host)
    yield Part(
        "model", model is not None, model.strip("\0\n ") if model else "the kernel shows none"
    )
    yield Part("chip", chip is not None, chip or "none of Rockchip's with an NPU of this kind")
    kernel = facts.get(_KERNEL, "").strip()
    c_library = "uClibc" if machine.has_uclibc() else "glibc"
    system = (
        f"Linux {kernel}, {machine.architecture}, {c_library}, {host.usable_cpus()} CPUs, user"
        f" {host.user_id}"
    )
    yield Part("system", True, system)
    available = memory.available_bytes / _MIB
    total = memory.total_bytes / _MIB
    yield Part("memory", True, f"{available:.1f} of {total:.1f} MiB available")
    yield Part(
        "folder", True, f"{machine.files.folder}, {machine.files.free_bytes() / _MIB:.1f} MiB free"
    )
    reader = machine.reader_bytes()
    yield Part("reader", True, f"takes {reader / 1024:.0f} KiB of memory while it measures")
    yield Part("Python", python is not None, _python_remark(machine))


def _python_remark(machine: FarMachine) -> str:
    python = machine.python()
    if python is None:
        return (
            "none from 3.8 on (board add ... --python PATH names another): only Rockchip's runtime,"
            " by the driver in C"
        )
    return f"{python.version} ({python.path})"


def _runtimes(machine: FarMachine) -> Iterator[Part]:
    python = machine.python()
    files_of_teflon = machine.host.statuses(USUAL_PATHS)
    for entry in RUNTIMES:
        if entry.module is None:
            library = _library(machine)
            what = (
                f"{library}, {library.path}"
                if library
                else "give Rockchip's library with --rknn-library FILE"
            )
            yield Part(entry.name, library is not None, what)
        elif python is None:
            yield Part(entry.name, False, "needs Python")
        else:
            is_here = machine.has_module(python, entry.module)
            if entry.library is not None:  # Mesa's, which the module loads
                is_here &= any(isinstance(file, FileStatus) for file in files_of_teflon)
            yield Part(
                entry.name,
                is_here,
                f"module {entry.module}" if is_here else f"{entry.install}, on the board",
            )


def _library(machine: FarMachine) -> RknnLibrary | None:
    try:
        return library_of_board(machine)
    except RuntimeMissing:
        return None


def _npu(machine: FarMachine, host: Host) -> Iterator[Part]:
    chip = chip_of(host)
    if not has_rknpu(host):
        parts = list(mainline_parts(host, machine.may_open, USUAL_PATHS, chip))
        if parts or chip is None:
            yield from parts
            return
    version = rknpu_driver_version(host)
    if version is None:
        devices = names_in(host, _NPU_DEVICES)
        yield Part(
            "driver",
            bool(devices),
            "its version is shown to root alone" if devices else "there is none",
        )
        return
    library = _library(machine)
    if library is None:
        yield Part("driver", True, f"version {version}")
        return
    file = LibraryFile(
        str(library.path), library.kind, library.architecture, library.version, library.full_version
    )
    state = driver_state(version, file)
    yield Part("driver", state.code != "rknn_driver_too_old", str(state))


def obstacles(host: Host) -> Iterator[Part]:
    """Yield what takes memory or changes figures on this board."""
    comms = read_texts(
        host, [f"/proc/{name}/comm" for name in names_in(host, "/proc") if name.isdigit()]
    )
    for name in sorted({text.strip() for text in comms.values()} & _CAMERA_SERVICES):
        yield Part(
            name,
            True,
            "a camera service, which holds contiguous memory and CPU time: stop it to measure",
        )
    governor = (read_text(host, _GOVERNOR) or "").strip()
    if governor not in ("", "performance"):
        yield Part(
            "frequency",
            True,
            f"governor {governor}: latencies depend on it (performance keeps it still)",
        )
    swaps = (read_text(host, "/proc/swaps") or "").splitlines()[1:]
    for line in swaps:
        kind = "compressed memory" if "/zram" in line else "swap"
        yield Part(line.split()[0], True, f"{kind}: what is moved there is missing in PSS")
    shared = read_system(host).shmem_bytes
    mounts = (read_text(host, "/proc/mounts") or "").splitlines()
    if shared and any(line.split()[2] == "tmpfs" for line in mounts):
        remark = (
            "files on tmpfs and shared memory: system memory has them, and what writes there"
            " meanwhile changes it"
        )
        yield Part("tmpfs", True, f"{shared / _MIB:.1f} MiB of {remark}")
