"""Paths of the parts of virtual boards, all in the user's cache since they can be made again."""

from __future__ import annotations

from pathlib import Path

from reusebench.system.cache import cache_root
from reusebench.targets.errors import TargetError

__all__ = ["check_usable", "fetched_emulator", "vboard_folder"]

#: Characters that separate paths in the variables of the loader and in qemu's options.
_SEPARATORS = set(" ,:;")


def vboard_folder() -> Path:
    """Return the folder that all virtual boards share."""
    return cache_root() / "vboard"


def fetched_emulator(name: str) -> Path:
    """Return the path of the emulator if this machine has none and it is fetched."""
    return vboard_folder() / "qemu" / name


def check_usable() -> None:
    """Raise TargetError if the loader would not understand the path of the cache."""
    folder = vboard_folder()
    if _SEPARATORS & set(str(folder)):
        raise TargetError(
            f"the path of the cache folder {folder} has a space, comma, colon or semicolon, which"
            " the loader of shared libraries takes for its end. Use another folder:"
            " XDG_CACHE_HOME=FOLDER"
        )
