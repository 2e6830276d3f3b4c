"""Where the parts of virtual boards are: in the user's cache, since all of them can be made
again.
"""

from __future__ import annotations

from pathlib import Path

from reusebench.system.cache import cache_root
from reusebench.targets.errors import TargetError

__all__ = ["check_usable", "fetched_emulator", "pycache", "sysroot", "vboard_folder"]

#: Paths are separated by these in the variables of the dynamic loader and in qemu's options.
_SEPARATORS = set(" ,:;")


def vboard_folder() -> Path:
    """Return the folder of all virtual boards."""
    return cache_root() / "vboard"


def sysroot(architecture: str) -> Path:
    """Return the small Linux system of that architecture."""
    return vboard_folder() / f"system-{architecture}"


def pycache(architecture: str) -> Path:
    """Return where that system's Python keeps what it has compiled: never in the checkout."""
    return vboard_folder() / f"pycache-{architecture}"


def fetched_emulator(name: str) -> Path:
    """Return where an emulator is, or would be, that is fetched because this machine has none."""
    return vboard_folder() / "qemu" / name


def check_usable() -> None:
    """Raise TargetError if the loader would not understand the cache's path."""
    if _SEPARATORS & set(str(vboard_folder())):
        raise TargetError(
            f"the path of the cache folder {vboard_folder()} has a space, comma, colon or semicolon, which"
            " the loader of shared libraries takes for its end. Use another folder:"
            " XDG_CACHE_HOME=FOLDER"
        )
