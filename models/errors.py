"""Everything that can go wrong with a model file, as one family of sentences for the user."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "BuildFailed",
    "CannotWrite",
    "ConversionFailed",
    "InvalidNetwork",
    "InvalidSeed",
    "InvalidSize",
    "ModelError",
    "NeedsRknn",
    "NoCpuTorch",
    "NoPlatform",
    "NoPythonForToolkit",
    "ToolkitHasNoBuild",
    "ToolkitInstallFailed",
    "ToolkitMissing",
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


class ToolkitMissing(ModelError):
    """A `.rknn` file is to be made and the toolkit is not installed."""

    def __init__(self, version: str, folder: Path) -> None:
        """Take the version wanted and the folder where it would be."""
        super().__init__(
            f".rknn files are made by rknn-toolkit2 {version}, which is not in {folder}; "
            "run `python -m models toolkit install` once (it takes about 1.5 GB there)"
        )


class ToolkitHasNoBuild(ModelError):
    """The toolkit does not exist for this kind of machine."""

    def __init__(self, system: str, machine: str) -> None:
        """Take the operating system and the processor's architecture."""
        super().__init__(
            f"rknn-toolkit2 does not exist for {system} on {machine}; "
            "make the .rknn files on Linux on x86-64 or 64-bit ARM, with --output, and copy them here"
        )


class NoPythonForToolkit(ModelError):
    """No interpreter was found that the toolkit can run on."""

    def __init__(self, version: str, tried: Sequence[str]) -> None:
        """Take the toolkit's version and the interpreters that were looked at."""
        super().__init__(
            f"rknn-toolkit2 {version} needs a Python from 3.8 to 3.12 that has venv and pip, and none of "
            f"{', '.join(tried)} is one; install one (Debian: apt install python3.11 python3.11-venv) "
            "or name one with --python"
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


class ToolkitInstallFailed(ModelError):
    """A step of the installation failed; nothing of it is left."""

    def __init__(self, step: str, return_code: int, last_words: str) -> None:
        """Take what was being done, the return code (negative: the signal), and what was said last."""
        super().__init__(
            f"rknn-toolkit2 is not installed: {step} failed ({end_of(return_code)}): {last_words}; "
            "look at pip's configuration, --torch and the free space (about 1.5 GB), then run it again"
        )


class ConversionFailed(ModelError):
    """The toolkit made no file."""

    def __init__(self, file_name: str, step: str, last_words: str) -> None:
        """Take the file that was to be made, what the toolkit was doing, and what it said last."""
        super().__init__(f"rknn-toolkit2 made no {file_name}: {step} failed: {last_words}")


def end_of(return_code: int) -> str:
    """Say in words how a process ended; a negative return code is the signal that ended it."""
    return f"exit code {return_code}" if return_code >= 0 else f"killed by {signal.Signals(-return_code).name}"
