"""`reusebench models inspect`: what model files show of themselves. No model is run, and no runtime
is needed.

Importing this package imports neither numpy nor onnx.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from reusebench.measured.runtimes import RUNTIMES
from reusebench.models.errors import ModelError
from reusebench.models.inspection.contents import Inspection
from reusebench.system.user_files import UserFileError, check_file, problem_of

__all__ = ["READERS", "inspect"]

#: The module with `read(path) -> Inspection` of each format, by how the names of its files end.
READERS = {entry.suffix: entry.reader for entry in RUNTIMES if entry.reader}

#: No file has more bytes than an address of 64 bits can tell apart.
_ADDRESSES = 2**64


def inspect(path: Path) -> Inspection:
    """Return what the file shows; raise ModelError if it is missing, of no format that is read,
    or damaged.
    """
    try:
        check_file(path)
        if path.suffix not in READERS:
            raise ModelError(
                f"{path} is no model file that can be inspected; valid: {', '.join(READERS)}"
            )
        inspection: Inspection = importlib.import_module(READERS[path.suffix]).read(path)
    except UserFileError as error:
        raise ModelError(f"{error}. Give a model file: {', '.join(READERS)}") from None
    except OSError as error:
        raise ModelError(str(UserFileError(path, problem_of(error)))) from None
    sizes = [weights.size_bytes for weights in inspection.weights or ()]
    if not all(0 <= size < _ADDRESSES for size in sizes):
        raise ModelError(
            f"{path} has weights of impossible sizes: it is damaged. Export or copy it again"
        )
    return inspection
