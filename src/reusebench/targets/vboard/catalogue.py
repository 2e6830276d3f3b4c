"""The virtual boards that there are: one for each of Rockchip's chips, and one for rocket."""

from __future__ import annotations

from pathlib import Path

from reusebench.measured.runtimes import find_runtime
from reusebench.measured.runtimes.rknn import library_file as rknn_library_file
from reusebench.measured.runtimes.teflon import library_file as teflon_library_file
from reusebench.targets.rknn_library import RknnLibrary
from reusebench.targets.vboard.emulator import is_needed
from reusebench.targets.vboard.packages import PinnedPackage
from reusebench.targets.vboard.root_file_system import RootFileSystem
from reusebench.targets.vboard.virtual_board import VirtualBoard

__all__ = ["ROCKET", "rknn_board", "rknn_system", "rocket_board"]

#: The virtual board whose NPU has the driver of the mainline kernel, which Mesa uses.
ROCKET = "rocket"

#: Parts of the RK3588's processors: four Cortex-A55 and four Cortex-A76.
_PROCESSOR_PARTS = (0xD05,) * 4 + (0xD0B,) * 4
_PROCESSOR = """\
processor\t: {number}
BogoMIPS\t: 48.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc\
 dcpop asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x4
CPU part\t: {part:#x}
CPU revision\t: 0

"""


def _cpuinfo() -> str:
    """Return the RK3588's /proc/cpuinfo, which an emulated program sees.

    qemu before 8.1 shows the host's, and LiteRT crashes if that is of another architecture.
    """
    return "".join(
        _PROCESSOR.format(number=number, part=part) for number, part in enumerate(_PROCESSOR_PARTS)
    )


_ROCKET_SYSTEM = RootFileSystem(
    name="rocket-aarch64",
    architecture="aarch64",
    layout=1,
    packages=(
        "libgcc-s1",
        "libstdc++6",
        "libdrm2",
        "libzstd1",
        PinnedPackage("mesa-teflon-delegate", "26.1.6-1~bpo13+1"),
    ),
    # Mesa of trixie does not know rocket.
    suites=("trixie", "trixie-backports"),
    wheels=Path(__file__).with_name("rocket.txt"),
    unused=(
        "usr/lib/python3*/ai_edge_litert/aot",
        "usr/lib/python3*/ai_edge_litert/tools",
        "usr/lib/python3*/ai_edge_litert/libLiteRtWebGpuAccelerator.so",
        "usr/lib/python3*/numpy/f2py",
        "usr/lib/python3*/numpy/tests",
        "usr/lib/python3*/numpy/*/tests",
    ),
    files={
        "proc/cpuinfo": _cpuinfo(),
        "sys/devices/system/cpu/present": f"0-{len(_PROCESSOR_PARTS) - 1}\n",
        "sys/devices/system/cpu/possible": f"0-{len(_PROCESSOR_PARTS) - 1}\n",
    },
)
_TEFLON = "usr/lib/teflon/libteflon.so"
#: Fails if this version of Mesa does not know the NPU.
_OPEN_DEVICE = f"""\
import os
from ai_edge_litert.interpreter import load_delegate
load_delegate(os.environ["{teflon_library_file.LIBRARY_VARIABLE}"])
"""


def rknn_system(architecture: str) -> RootFileSystem:
    """Return the system for Rockchip's library, which is C++."""
    return RootFileSystem(
        architecture, architecture, layout=1, packages=("libgcc-s1", "libstdc++6")
    )


def rknn_board(library: RknnLibrary, chip: str | None = None) -> VirtualBoard:
    """Return the board for Rockchip's library; without `chip`, the first chip that it knows."""
    chip = chip or library.chips()[0]
    return VirtualBoard(
        name=chip,
        chip=chip,
        architecture=library.architecture,
        adapter=find_runtime("rknn").adapter,
        library=library.path,
        library_variable=rknn_library_file.LIBRARY_VARIABLE,
        install_options=f"--rknn-library {library.path}",
        system=rknn_system(library.architecture) if is_needed(library.architecture) else None,
        library_name=f"{library.kind}.so",
    )


def rocket_board() -> VirtualBoard:
    """Return the board for Mesa's library; on each machine it has the same versions of all."""
    return VirtualBoard(
        name=ROCKET,
        chip="rk3588",
        architecture=_ROCKET_SYSTEM.architecture,
        adapter=find_runtime("teflon").adapter,
        library=_ROCKET_SYSTEM.folder / _TEFLON,
        library_variable=teflon_library_file.LIBRARY_VARIABLE,
        install_options=f"--target vboard:{ROCKET}",
        system=_ROCKET_SYSTEM,
        trial=_OPEN_DEVICE,
    )
