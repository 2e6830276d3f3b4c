"""Everything that can go wrong with a model file, as one family of sentences for the user."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "BuildFailed",
    "CannotWrite",
    "InvalidNetwork",
    "InvalidSeed",
    "InvalidSize",
    "ModelError",
    "UnknownNetwork",
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
        end = f"exit code {return_code}" if return_code >= 0 else f"killed by {signal.Signals(-return_code).name}"
        last_words = stderr.strip().rpartition("\n")[2] or "it said nothing"
        super().__init__(f"`{' '.join(command)}` failed ({end}): {last_words}")
