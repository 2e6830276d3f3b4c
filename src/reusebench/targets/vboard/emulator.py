"""qemu, which runs programs of another architecture: this machine's own, or a fetched package."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from reusebench.system.cache import locked, scratch_folder
from reusebench.targets.errors import TargetError
from reusebench.targets.rknn_library import architecture_of_this_python
from reusebench.targets.vboard.folders import fetched_emulator, vboard_folder
from reusebench.targets.vboard.packages import PackageSource, unpack

__all__ = ["ensure_emulator", "find_emulator", "is_needed"]

_NAMES = {"armhf": "qemu-arm", "aarch64": "qemu-aarch64"}
#: Packages with emulators that need no libraries of the host, and the suffix of their names. Since
#: Debian 13 the first package is empty and the second one has them.
_PACKAGES = {"qemu-user-static": "-static", "qemu-user": ""}


def is_needed(architecture: str) -> bool:
    """Whether this machine's processor cannot run the architecture."""
    return architecture != architecture_of_this_python()


def find_emulator(architecture: str) -> Path | None:
    """Return this machine's emulator, or the fetched one, or None."""
    name = _NAMES[architecture]
    own = shutil.which(name) or shutil.which(f"{name}-static")
    if own:
        return Path(own)
    fetched = fetched_emulator(name)
    return fetched if fetched.is_file() else None


def ensure_emulator(architecture: str, show_step: Callable[[str], None]) -> None:
    """Fetch the emulator if it is needed and missing."""
    if not is_needed(architecture) or find_emulator(architecture):
        return
    name = _NAMES[architecture]
    host = architecture_of_this_python()
    if host is None:
        raise _no_emulator(name, "there is no package of it for this machine's processor")
    fetched = fetched_emulator(name)
    with locked(vboard_folder() / name), scratch_folder(vboard_folder()) as space:
        show_step(f"fetching {name}")
        program = _fetch(name, PackageSource(host, space / "apt"), space)
        if program is None:
            raise _no_emulator(name, "no package of this machine's sources has it")
        fetched.parent.mkdir(exist_ok=True)
        program.rename(fetched)


def _no_emulator(name: str, reason: str) -> TargetError:
    return TargetError(
        f"the virtual board needs {name}: {reason}. Install it (Debian: apt install qemu-user)"
    )


def _fetch(name: str, source: PackageSource, space: Path) -> Path | None:
    for package, suffix in _PACKAGES.items():
        unpacked = space / package
        for file in source.fetch([package]):
            unpack(file, unpacked)
        program = unpacked / "usr/bin" / f"{name}{suffix}"
        if program.is_file() and not program.is_symlink():
            return program
    return None
