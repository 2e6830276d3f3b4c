"""Converts ONNX files into `.mnn` files; models/conversion/loop.py runs it in the Python with MNN.

It imports nothing of this project. It calls MNN's extension module `_tools`: MNN's program
mnnconvert would install a package for telemetry and report every conversion to MNN's maker.
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

#: Pattern for lines of the log with the reason of a failure.
_REASON = re.compile(r"not support|error|invalid|can't|cannot|fail", re.IGNORECASE)
#: Last line of the log after any failure.
_END = "Converted Failed"
#: Time and source line before each message.
_PREFIX = re.compile(r"^\[[\d:]+\] \S*:\d+: ")
#: Copy of the model in the folder of this process; it replaces the previous one.
_SIZED = "with-sizes.onnx"


def convert(job: dict[str, Any]) -> dict[str, str] | None:
    """Write job["output"]; return None, or the failed step and MNN's message."""
    output = Path(job["output"])
    output.unlink(missing_ok=True)
    source = _with_sizes(job) if job["has_free_sizes"] else job["onnx"]
    arguments = ["mnnconvert", "-f", "ONNX", "--modelFile", source, "--MNNModel", str(output)]
    # MNN's output goes to a file, the log of this process.
    begin = os.fstat(sys.stderr.fileno()).st_size
    _tools.mnnconvert([*arguments, "--bizCode", "reusebench"])
    ctypes.CDLL(None).fflush(None)
    with Path(f"/proc/self/fd/{sys.stderr.fileno()}").open(errors="replace") as log:
        log.seek(begin)
        lines = [_PREFIX.sub("", line.strip()) for line in log if line.strip()]
    # Only the log shows a failure: the function always returns True.
    if output.exists() and not any(_END in line for line in lines):
        return None
    reasons = [line for line in lines if _REASON.search(line) and _END not in line]
    return {"step": "mnnconvert", "words": (reasons or lines or ["it printed nothing"])[-1]}


def _with_sizes(job: dict[str, Any]) -> str:
    """Return a copy of the ONNX file, in the current folder, whose inputs have the job's sizes.

    MNN's converter can fix sizes itself (saveStaticModel), but then writes another graph.
    """
    model = onnx.load(job["onnx"])
    shapes = {tensor["name"]: tensor["shape"] for tensor in job["inputs"]}
    for tensor in model.graph.input:
        if tensor.name in shapes:
            shape = onnx.TensorShapeProto()
            for size in shapes[tensor.name]:
                shape.dim.add().dim_value = size
            tensor.type.tensor_type.shape.CopyFrom(shape)
    onnx.save(model, _SIZED)
    return _SIZED
