"""`reusebench models inspect`: what model files show of themselves. No model is run, and no runtime is needed.

Importing this package imports neither numpy nor onnx.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from models.errors import ModelError
from models.inspection.result import Inspection
from runtimes import RUNTIMES

__all__ = ["READERS", "inspect"]

#: The module with `read(path) -> Inspection` of each format, by how the names of its files end.
READERS = {entry.suffix: entry.reader for entry in RUNTIMES if entry.reader}


def inspect(path: Path) -> Inspection:
    """Return what the file shows; raise ModelError where it is missing, of no format that is read, or damaged."""
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise ModelError(f"{path} {problem}. Give a model file: {', '.join(READERS)}")
    if path.suffix not in READERS:
        raise ModelError(f"{path} is no model file that can be inspected; valid: {', '.join(READERS)}")
    try:
        if path.stat().st_size == 0:
            raise ModelError(f"{path} is empty. Export or copy it again")
        inspection: Inspection = importlib.import_module(READERS[path.suffix]).read(path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from None
    return inspection
