"""Everything that can go wrong with a target before anything is measured, as one family of sentences for the user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = [
    "CacheNotUsable",
    "ChipNotPlayed",
    "ChipUnknown",
    "CompilationFailed",
    "InterpreterNotUsable",
    "LedgerNotInstalled",
    "LibraryNotForChip",
    "LibraryNotForInterpreter",
    "LibraryNotNamed",
    "LibraryNotUsable",
    "NoCompiler",
    "NoEmulator",
    "NoPackageManager",
    "NoPackages",
    "NotReadyOnBoard",
    "RuntimeMissing",
    "RuntimeNotInInterpreter",
    "RuntimeNotInstalled",
    "RuntimeNotOnVirtualBoard",
    "TargetError",
    "TargetUnknown",
    "VirtualBoardNotInstalled",
]


class TargetError(Exception):
    """A target cannot be used; the message says why, what would be valid, and what to do."""


class TargetUnknown(TargetError):
    """--target names nothing that there is."""

    def __init__(self, text: str) -> None:
        super().__init__(f"--target {text}: no such target; valid: python, python:PATH, vboard:CHIP, board")


class InterpreterNotUsable(TargetError):
    """--target python:PATH names no Python that can run the driver."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"--target python:{path}: {reason}. Give the path of a Python 3.8 or later")


class RuntimeMissing(TargetError):
    """The target can be used, and does not have the runtime."""


class RuntimeNotInstalled(RuntimeMissing):
    """This machine does not have it."""

    def __init__(self, runtime: str, install: str) -> None:
        super().__init__(f"--runtime {runtime} is not here: {install}")


class RuntimeNotInInterpreter(RuntimeMissing):
    """The Python that the user named does not have it."""

    def __init__(self, runtime: str, path: str, module: str | None) -> None:
        missing = "finds no library of Rockchip's" if module is None else f"has no module {module}"
        super().__init__(
            f"--runtime {runtime}: the Python of --target python:{path} {missing}. Name another Python, or leave "
            "--target out: `python -m runtimes` shows what is here without it"
        )


class RuntimeNotOnVirtualBoard(RuntimeMissing):
    """The virtual board is made for one runtime."""

    def __init__(self, runtime: str, chip: str) -> None:
        super().__init__(
            f"--runtime {runtime}: vboard:{chip} has Rockchip's runtime alone. Leave --runtime out, or --target"
        )


class ChipUnknown(TargetError):
    """A chip of that name is not in the table."""

    def __init__(self, name: str, playable: Iterable[str]) -> None:
        super().__init__(f"there is no chip {name!r}; valid for the virtual board: {', '.join(playable)}")


class ChipNotPlayed(TargetError):
    """The chip is known, but the virtual board cannot play it."""

    def __init__(self, name: str, playable: Iterable[str]) -> None:
        super().__init__(
            f"the virtual board cannot play {name}: what its NPU's driver answers is not known; "
            f"valid: {', '.join(playable)}"
        )


class LibraryNotNamed(TargetError):
    """The virtual board was asked for without Rockchip's library."""

    def __init__(self, chip: str, runtime: str) -> None:
        super().__init__(
            f"--target vboard:{chip} runs Rockchip's own library: name its file with --rknn-library FILE "
            f"({runtime}.so for Linux, from Rockchip's RKNN SDK)"
        )


class LibraryNotUsable(TargetError):
    """--rknn-library names no file of Rockchip's runtime."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(f"--rknn-library {reason}")


class LibraryNotForChip(TargetError):
    """The library is the one of other chips."""

    def __init__(self, path: Path, kind: str, chip: str, runtime: str) -> None:
        super().__init__(f"--rknn-library {path}: this is {kind}, and {chip} needs {runtime}")


class LibraryNotForInterpreter(TargetError):
    """The library is of another architecture than the Python that should load it."""

    def __init__(self, path: Path, architecture: str, interpreter: str, chips: Iterable[str]) -> None:
        super().__init__(
            f"--rknn-library {path}: it is for {architecture}, and this Python is for {interpreter}. "
            f"Run it on the virtual board: --target vboard:CHIP, with CHIP one of {', '.join(chips)}"
        )


class VirtualBoardNotInstalled(TargetError):
    """The virtual board was not prepared for this library."""

    def __init__(self, library: Path, missing: Sequence[str]) -> None:
        super().__init__(
            f"the virtual board is not ready for this library ({', '.join(missing)} missing). "
            f"Install it: python -m targets vboard install --rknn-library {library}"
        )


class LedgerNotInstalled(TargetError):
    """The preload library was not compiled for this machine."""

    def __init__(self) -> None:
        super().__init__(
            "--target board keeps a ledger of the NPU's buffers, and the library that does is not compiled yet. "
            "Install it: python -m targets ledger install"
        )


class CacheNotUsable(TargetError):
    """The cache's path has characters that separate paths elsewhere."""

    def __init__(self, root: Path) -> None:
        super().__init__(
            f"the cache folder {root} has a space, comma, colon or semicolon in its path, which the loader of shared "
            "libraries takes as the end of it. Choose another: XDG_CACHE_HOME=FOLDER"
        )


class NoPackageManager(TargetError):
    """This system has no apt and dpkg."""

    def __init__(self, commands: Sequence[str]) -> None:
        super().__init__(
            "the virtual board's system is made of Debian packages, and this machine has no "
            f"{' and no '.join(commands)}. Install on Debian or Ubuntu (a container will do) "
            "and copy the folder reusebench/vboard of its cache here"
        )


class NoPackages(TargetError):
    """The host's package sources do not offer what is needed."""

    def __init__(self, architecture: str, what: str, last_words: str) -> None:
        super().__init__(
            f"this machine's package sources offer no {what} for {architecture} ({last_words or 'apt said nothing'}). "
            "On Ubuntu for PCs they are in another archive, that of its ports: write its sources to a file "
            "and name it with --apt-sources FILE"
        )


class NoEmulator(TargetError):
    """qemu was neither found nor to be had, or does not run the system."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} does not run the virtual board: {reason}. Install it (Debian: apt install qemu-user)")


class NoCompiler(TargetError):
    """No C compiler for that architecture, and none to be had."""

    def __init__(self, package: str, reason: str) -> None:
        super().__init__(f"no C compiler: {reason}. Install one (Debian: apt install {package}) and try again")


class CompilationFailed(TargetError):
    """The compiler did not take the preload library's source."""

    def __init__(self, compiler: str, last_words: str) -> None:
        super().__init__(f"{compiler} could not compile the preload library: {last_words or 'it said nothing'}")


class NotReadyOnBoard(TargetError):
    """The library does not load in the system that was made for it."""

    def __init__(self, library: Path, last_words: str) -> None:
        super().__init__(f"{library} does not load on the virtual board: {last_words or 'it said nothing'}")
