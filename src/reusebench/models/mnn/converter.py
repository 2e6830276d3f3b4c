"""Converts ONNX files, in the Python that has MNN; loop.py calls it.

Imports nothing of this project. The converter is called in MNN's extension module `_tools`:
importing MNN's program mnnconvert installs a package for telemetry, and reports every conversion to
MNN's maker.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path
from typing import Any

import _tools
import onnx

#: Of its lines, those that say why it has failed.
_REASON = re.compile(r"not support|error|invalid|can't|cannot|fail", re.IGNORECASE)
#: With these words it ends, whatever the reason.
_END = "Converted Failed"
#: Time and line of the source before its words.
_PREFIX = re.compile(r"^\[[\d:]+\] \S*:\d+: ")
#: In the folder of this process, in place of the one before.
_SIZED = "with-sizes.onnx"


def convert(job: dict[str, Any]) -> dict[str, str] | None:
    """Write the file; return None, or the step that failed with MNN's words."""
    output = Path(job["output"])
    output.unlink(missing_ok=True)
    source = _with_sizes(job) if job["has_free_sizes"] else job["onnx"]
    arguments = ["mnnconvert", "-f", "ONNX", "--modelFile", source, "--MNNModel", str(output)]
    # What MNN prints goes to a file, the log of this process.
    begin = os.fstat(sys.stderr.fileno()).st_size
    _tools.mnnconvert([*arguments, "--bizCode", "reusebench"])
    ctypes.CDLL(None).fflush(None)
    with Path(f"/proc/self/fd/{sys.stderr.fileno()}").open(errors="replace") as log:
        log.seek(begin)
        lines = [_PREFIX.sub("", line.strip()) for line in log if line.strip()]
    # It says so in words alone: what it returns is always True.
    if output.exists() and not any(_END in line for line in lines):
        return None
    reasons = [line for line in lines if _REASON.search(line) and _END not in line]
    return {"step": "mnnconvert", "words": (reasons or lines or ["it printed nothing"])[-1]}


def _with_sizes(job: dict[str, Any]) -> str:
    """Return a copy of the ONNX file in the current folder, with the sizes of its inputs in place
    of those left free.

    MNN's converter itself can fix sizes (saveStaticModel), and then writes another graph.
    """
    model = onnx.load(job["onnx"])
    shapes = {tensor["name"]: tensor["shape"] for tensor in job["inputs"]}
    for tensor in model.graph.input:
        for dimension, size in zip(tensor.type.tensor_type.shape.dim, shapes.get(tensor.name, ())):
            dimension.dim_value = size
    onnx.save(model, _SIZED)
    return _SIZED
