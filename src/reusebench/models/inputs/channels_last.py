"""Moves the channels of an array of pictures from first to last.

`python -m reusebench.models.inputs.channels_last FROM.npy TO`; a separate process runs it, since it
imports numpy, which the harness must not.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

__all__ = ["turn"]


def turn(source: Path, target: Path) -> None:
    """Write the array (N, C, H, W) of a .npy file as (N, H, W, C)."""
    with target.open("wb") as file:
        values = np.load(source, allow_pickle=False)
        np.save(file, np.ascontiguousarray(values.transpose(0, 2, 3, 1)), allow_pickle=False)


if __name__ == "__main__":
    turn(Path(sys.argv[1]), Path(sys.argv[2]))
