"""Whether a program has to do with RKNN, and which form of the library it takes then."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reusebench.apply.executable import Executable

__all__ = ["form_for"]

_UCLIBC = "armhf-uclibc"
#: Those of Rockchip's chips.
_ARCHITECTURES = ("aarch64", "armhf")
#: Names of the board and its chip, each with its maker's.
_COMPATIBLE = Path("/proc/device-tree/compatible")
_MAKER = b"rockchip,"
_LIBRARIES = "librknn*rt.so"


def form_for(executable: Executable, environment: Mapping[str, str]) -> str | None:
    """Return the form of the library (targets/programs.py); None if RKNN is not there.

    It is if the program is linked with it, LD_LIBRARY_PATH has it, the board has a chip of
    Rockchip's, or the library is in a usual place.
    """
    architecture = executable.architecture
    if executable.c_library == "uclibc":
        return _UCLIBC if architecture == "armhf" else None
    if executable.c_library != "glibc":
        return None
    if executable.is_linked_with_rknn or _is_in(environment.get("LD_LIBRARY_PATH", "")):
        return architecture
    is_on_board = architecture in _ARCHITECTURES and (_is_rockchip() or _has_library(architecture))
    return architecture if is_on_board else None


def _is_in(folders: str) -> bool:
    return any(any(Path(folder).glob(_LIBRARIES)) for folder in folders.split(":") if folder)


def _is_rockchip() -> bool:
    try:
        return _MAKER in _COMPATIBLE.read_bytes()
    except OSError:  # no board, or a container that hides it
        return False


def _has_library(architecture: str | None) -> bool:
    # Not at the top: the import would delay the start of programs elsewhere.
    from reusebench.measured.runtimes.elf_files import architecture_of
    from reusebench.measured.runtimes.rknn.library_file import usual_paths

    return any(architecture_of(path) == architecture for path in usual_paths())
