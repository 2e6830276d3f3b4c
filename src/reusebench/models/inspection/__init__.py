"""`reusebench models inspect`: the contents of model files. No model runs; no runtime is needed.

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

#: Modules with `read(path) -> Inspection`, by the suffix of the files.
READERS = {entry.suffix: entry.reader for entry in RUNTIMES if entry.reader}

#: Upper bound for sizes of weights in bytes: larger ones have no addresses of 64 bits.
_ADDRESSES = 2**64


def inspect(path: Path) -> Inspection:
    """Return the contents of the file; raise ModelError if it is missing, damaged or unknown."""
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
