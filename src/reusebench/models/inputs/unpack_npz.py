"""Unpacks an .npz file into a folder of .npy files.

Each array becomes a .npy file, in C order, that a measured process reads; `index.json` lists them.
Imports numpy: for a process of its own, never for the harness.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import numpy as np

from reusebench.models.inputs.given import INDEX

__all__ = ["unpack"]


def unpack(file: Path, folder: Path) -> None:
    """Write the arrays, and the index with file, shape and type of each; ValueError if they are
    Python objects.
    """
    entries = {}
    if not zipfile.is_zipfile(file):
        raise ValueError("it is no .npz file")
    with np.load(file, allow_pickle=False) as arrays:
        for number, name in enumerate(arrays.files):
            array = arrays[name]
            # Little-endian, as measured processes without numpy read it.
            values = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
            np.save(folder / f"{number}.npy", values, allow_pickle=False)
            kind = "str" if values.dtype.kind in "US" else values.dtype.name
            entries[name] = {"file": f"{number}.npy", "shape": values.shape, "type": kind}
    (folder / INDEX).write_text(json.dumps(entries), encoding="utf-8")


if __name__ == "__main__":
    try:
        unpack(Path(sys.argv[1]), Path(sys.argv[2]))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        sys.exit(str(error))
