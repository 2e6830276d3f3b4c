"""Unpacks an .npz file into a folder of .npy files.

`python -m reusebench.models.inputs.unpack_npz FILE.npz FOLDER`; a separate process runs it, since
it imports numpy, which the harness must not. Each array becomes a .npy file in C order, which a
measured process reads; `index.json` lists them.
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
    """Write the arrays and the index with their files, shapes and types.

    Raises ValueError if the arrays are Python objects.
    """
    entries = {}
    if not zipfile.is_zipfile(file):
        raise ValueError("it is no .npz file")
    with np.load(file, allow_pickle=False) as arrays:
        for number, name in enumerate(arrays.files):
            array = arrays[name]
            # Measured processes without numpy read little-endian files.
            little_endian = array.dtype.newbyteorder("<")
            values = np.ascontiguousarray(array, little_endian).reshape(array.shape)
            np.save(folder / f"{number}.npy", values, allow_pickle=False)
            is_text = values.dtype.kind in "US"
            entries[name] = {
                "file": f"{number}.npy",
                "shape": values.shape,
                "type": "str" if is_text else values.dtype.name,
            }
    (folder / INDEX).write_text(json.dumps(entries), encoding="utf-8")


if __name__ == "__main__":
    try:
        unpack(Path(sys.argv[1]), Path(sys.argv[2]))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        sys.exit(str(error))
