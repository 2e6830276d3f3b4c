"""Everything that can go wrong with a model file, as one family of sentences for the user."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "BuildFailed",
    "CannotWrite",
    "ConversionFailed",
    "InstallFailed",
    "InvalidNetwork",
    "InvalidSeed",
    "InvalidSize",
    "ModelError",
    "NeedsRknn",
    "NoBuildHere",
    "NoCpuTorch",
    "NoFittingPython",
    "NoPlatform",
    "NotInstalled",
    "UnknownNetwork",
    "UnknownPlatform",
    "WeightsNotRemovable",
    "end_of",
]


class ModelError(Exception):
    """A model file cannot be had; the message says why and what would be valid."""


class UnknownNetwork(ModelError):
    """No network has that name."""

    def __init__(self, name: str, valid: Sequence[str]) -> None:
        """Take the name asked for and every valid one."""
        super().__init__(f"unknown network {name!r}; valid: {', '.join(valid)}")


class InvalidSize(ModelError):
    """The network cannot be made for that input size."""

    def __init__(self, name: str, size: int, *, smallest: int, largest: int, step: int) -> None:
        """Take the network, the size asked for in pixels, and the rule that it breaks."""
        kind = "a whole number" if step == 1 else f"a multiple of {step}"
        super().__init__(f"{name} has no size {size}; valid: {kind} from {smallest} to {largest}")


class InvalidSeed(ModelError):
    """The seed is outside its range."""

    def __init__(self, seed: int, *, largest: int) -> None:
        """Take the seed asked for and the largest valid one."""
        super().__init__(f"seed {seed} is not valid; valid: a whole number from 0 to {largest}")


class InvalidNetwork(ModelError):
    """A network's description contradicts itself: a mistake in its constructor, not of the user."""

    def __init__(self, layer: str, reason: str) -> None:
        """Take the layer (or output) concerned and what is wrong with it."""
        super().__init__(f"layer {layer!r}: {reason}")


class CannotWrite(ModelError):
    """The model file cannot be written where it should go."""

    def __init__(self, path: Path, cause: OSError) -> None:
        """Take the file that was to be written and what the system answered."""
        super().__init__(
            f"cannot write {path}: {cause.strerror or cause}; "
            "choose a folder that exists, is writable and has room (--output FILE, or XDG_CACHE_HOME for the cache)"
        )


class BuildFailed(ModelError):
    """The process that was to build the file ended without it."""

    def __init__(self, command: Sequence[str], return_code: int, stderr: str) -> None:
        """Take the command, its return code (negative: the signal that ended it) and its standard error."""
        last_words = stderr.strip().rpartition("\n")[2] or "it said nothing"
        super().__init__(f"`{' '.join(command)}` failed ({end_of(return_code)}): {last_words}")


class NoPlatform(ModelError):
    """A `.rknn` file was asked for without the chip that it is for."""

    def __init__(self, valid: Sequence[str]) -> None:
        """Take every valid chip."""
        super().__init__(f"a .rknn file is made for one chip; add --platform CHIP, one of {', '.join(valid)}")


class NeedsRknn(ModelError):
    """An option of `.rknn` files was given for a file of another kind."""

    def __init__(self, option: str) -> None:
        """Take the option."""
        super().__init__(f"{option} is for .rknn files only; add --for rknn, or leave it out")


class UnknownPlatform(ModelError):
    """rknn-toolkit2 makes no file for a chip of that name."""

    def __init__(self, name: str, valid: Sequence[str]) -> None:
        """Take the name asked for and every valid one."""
        super().__init__(f"unknown platform {name!r}; valid: {', '.join(valid)}")


class WeightsNotRemovable(ModelError):
    """A file without weights was asked for, for a chip where the toolkit leaves them in."""

    def __init__(self, name: str, valid: Sequence[str]) -> None:
        """Take the chip and those where it works."""
        super().__init__(
            f"no file without weights can be made for {name}: the toolkit ignores remove_weight there; "
            f"valid: {', '.join(valid)}"
        )


class NotInstalled(ModelError):
    """A file is to be made and the library that makes it is not installed."""

    def __init__(self, makes: str, library: str, folder: Path, command: str, gigabytes: float) -> None:
        """Take the kind of file, the library and its version, its folder, the command that installs it and its size."""
        super().__init__(
            f"{makes} files are made by {library}, which is not in {folder}; "
            f"run `python -m models {command} install` once (it takes about {gigabytes} GB there)"
        )


class NoBuildHere(ModelError):
    """The library does not exist for this kind of machine."""

    def __init__(self, library: str, system: str, machine: str, makes: str, machines: str) -> None:
        """Take the library, this operating system and architecture, the kind of file, and where it can be made."""
        super().__init__(
            f"{library} does not exist for {system} on {machine}; "
            f"make the {makes} files on Linux on {machines}, with --output, and copy them here"
        )


class NoFittingPython(ModelError):
    """No interpreter was found that the library can run on."""

    def __init__(self, library: str, bounds: Sequence[str], tried: Sequence[str], source: str) -> None:
        """Take the library and its version, the oldest and newest Python, those looked at, and where to get one."""
        super().__init__(
            f"{library} needs a Python from {' to '.join(bounds)} that has venv and pip, and none of "
            f"{', '.join(tried)} is one; install one ({source}) or name one with --python"
        )


class NoCpuTorch(ModelError):
    """The toolkit needs PyTorch, and pip knows only the build that brings CUDA."""

    def __init__(self) -> None:
        """Take nothing."""
        super().__init__(
            "rknn-toolkit2 needs PyTorch, and pip finds no build of it for CPUs (a version that ends in +cpu), only "
            "one that brings gigabytes of CUDA; add PyTorch's package index for CPUs to pip's configuration "
            "(`pip config set global.extra-index-url URL`), or say with --torch what pip shall install"
        )


class InstallFailed(ModelError):
    """A step of the installation failed; nothing of it is left."""

    def __init__(self, library: str, step: str, return_code: int, last_words: str, suspects: str) -> None:
        """Take what was being done, the return code (negative: the signal), what was said last and what to look at."""
        super().__init__(
            f"{library} is not installed: {step} failed ({end_of(return_code)}): {last_words}; "
            f"look at {suspects}, then run it again"
        )


class ConversionFailed(ModelError):
    """A library made no file."""

    def __init__(self, library: str, file_name: str, step: str, last_words: str) -> None:
        """Take the library, the file that was to be made, what the library was doing, and what it said last."""
        super().__init__(f"{library} made no {file_name}: {step} failed: {last_words}")


def end_of(return_code: int) -> str:
    """Say in words how a process ended; a negative return code is the signal that ended it."""
    return f"exit code {return_code}" if return_code >= 0 else f"killed by {signal.Signals(-return_code).name}"
