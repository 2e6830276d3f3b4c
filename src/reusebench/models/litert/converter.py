"""Converts ONNX files to `.tflite`, in onnx2tf's own environment; models/conversion/loop.py runs
it.

A picture's input gets its channels last, as LiteRT's users have them; all other inputs and all
outputs have the shapes of the ONNX file. Each file is compared with its source, by one inference of
both. It imports nothing of this project.
"""

from __future__ import annotations

import tempfile
from itertools import permutations
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import onnx2tf.tflite_builder as builder  # type: ignore[import-not-found]
import onnxruntime
from ai_edge_litert.interpreter import Interpreter
from onnx2tf.onnx2tf import convert as convert_onnx  # type: ignore[import-not-found]
from onnx2tf.tflite_builder.ir import OperatorIR, TensorIR  # type: ignore[import-not-found]

#: By how much an output may differ, of its largest value: rounding in another order is below it,
#: also through hundreds of layers, and another function is not.
_TOLERANCE = 1e-2
_CHANNELS = (1, 3, 4)
_PICTURE_DIMENSIONS = 4
#: What XNNPACK transposes.
_MOST_DIMENSIONS = 6


class _RefusedError(Exception):
    """Why a file is no faithful conversion."""


def convert(job: dict[str, Any]) -> dict[str, str] | None:
    """Write job["output"]; return None, or the step that failed and the first line of its
    exception.
    """
    step = "reading the ONNX file"
    try:
        with tempfile.TemporaryDirectory() as folder:
            source = _with_sizes(job, Path(folder)) if job["has_free_sizes"] else job["onnx"]
            step = "running the ONNX file"
            arrays = [_array_of(tensor) for tensor in job["inputs"]]
            # Before onnx2tf writes over the file.
            expected = _outputs_of_onnx(job["onnx"], job["inputs"], arrays)
            step = "onnx2tf"
            written = _converted(source, job["inputs"], Path(folder))
            step = "comparing it with the ONNX file"
            orders = _orders(written, arrays, expected)
            if any(order != tuple(range(len(order))) for order in orders):
                _reorder(written, orders)
                _orders(written, arrays, expected)
            # Another file system, maybe.
            Path(job["output"]).write_bytes(Path(written["output_tflite_path"]).read_bytes())
    except Exception as error:  # onnx2tf raises what it likes
        return {
            "step": step,
            "words": str(error).strip().partition("\n")[0] or type(error).__name__,
        }
    except SystemExit as error:  # and ends the process where it has printed why
        return {"step": step, "words": f"it ended with {error.code}"}
    return None


def _with_sizes(job: dict[str, Any], folder: Path) -> str:
    """Return a copy of the ONNX file whose inputs have the sizes that the job gives, and what
    follows from them.

    Sizes that the graph computes become constants: LiteRT 2.3 crashes where an output's follow from
    computed ones.
    """
    model = onnx.load(job["onnx"])
    shapes = {tensor["name"]: tensor["shape"] for tensor in job["inputs"]}
    for tensor in model.graph.input:
        for dimension, size in zip(tensor.type.tensor_type.shape.dim, shapes.get(tensor.name, ())):
            dimension.dim_value = size
    # What is said of the others was said of free sizes.
    del model.graph.value_info[:]
    sized = str(folder / "sized.onnx")
    folded = str(folder / "model.onnx")
    onnx.save(model, sized)
    options = onnxruntime.SessionOptions()
    # Higher levels put operators of ONNX Runtime's own in.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = folded
    onnxruntime.InferenceSession(sized, options, providers=["CPUExecutionProvider"])
    return folded


def _converted(source: str, inputs: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Return what onnx2tf writes its float32 file with: its form of the model, and the file's
    path.
    """
    written: dict[str, Any] = {}
    write = builder.write_model_file

    def write_and_keep(**arguments: Any) -> Any:
        if not written:  # a file in float16 comes next
            written.update(arguments)
        return write(**arguments)

    # It would turn any input of three dimensions or more. In its own names there is no colon.
    kept = [
        tensor["name"].replace(":", "__") for tensor in inputs if not _is_picture(tensor["shape"])
    ]
    with mock.patch.object(builder, "write_model_file", write_and_keep):
        convert_onnx(
            input_onnx_file_path=source,
            output_folder_path=str(folder / "converted"),
            keep_shape_absolutely_input_names=kept or None,
            non_verbose=True,
            verbosity="error",
        )
    return written


def _is_picture(shape: list[int]) -> bool:
    return len(shape) == _PICTURE_DIMENSIONS and shape[1] in _CHANNELS and shape[3] not in _CHANNELS


def _array_of(tensor: dict[str, Any]) -> Any:
    """Return what an input is fed with here: the user's data, or noise."""
    if tensor["file"] is not None:
        return np.load(tensor["file"], allow_pickle=False).astype(tensor["type"])
    if tensor["value"] is not None:
        return np.full(tensor["shape"], tensor["value"], tensor["type"])
    noise = np.random.default_rng(0).random(tensor["shape"])
    is_index = not np.issubdtype(np.dtype(tensor["type"]), np.floating)
    # Of a scalar numpy makes no array by itself.
    return np.asarray(noise > 0.5 if is_index else noise, tensor["type"])


def _outputs_of_onnx(source: str, inputs: list[dict[str, Any]], arrays: list[Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    outputs: list[Any] = session.run(
        None, {tensor["name"]: array for tensor, array in zip(inputs, arrays)}
    )
    return outputs


def _orders(
    written: dict[str, Any], arrays: list[Any], expected: list[Any]
) -> list[tuple[int, ...]]:
    """Return for each output the order of its dimensions in which it has the values of the ONNX
    file.

    Raises _RefusedError where an output has none.
    """
    interpreter = Interpreter(written["output_tflite_path"])
    interpreter.allocate_tensors()
    inputs = interpreter.get_input_details()
    outputs = interpreter.get_output_details()
    if (len(inputs), len(outputs)) != (len(arrays), len(expected)):
        raise _RefusedError(
            f"it has {len(inputs)} inputs and {len(outputs)} outputs, not {len(arrays)} and"
            f" {len(expected)}"
        )
    for tensor, array in zip(inputs, arrays):
        turned = array if array.shape == tuple(tensor["shape"]) else np.moveaxis(array, 1, -1)
        interpreter.set_tensor(tensor["index"], np.asarray(turned, tensor["dtype"], order="C"))
    interpreter.invoke()
    return [
        _order(interpreter.get_tensor(tensor["index"]), values, tensor["name"])
        for tensor, values in zip(outputs, expected)
    ]


def _order(output: Any, expected: Any, name: str) -> tuple[int, ...]:
    rank = output.ndim
    least = np.inf
    for order in permutations(range(rank)) if rank <= _MOST_DIMENSIONS else [tuple(range(rank))]:
        if output.transpose(order).shape == expected.shape:
            difference = _difference(output.transpose(order), expected)
            if difference <= _TOLERANCE:
                return order
            least = min(least, difference)
    if least == np.inf:
        raise _RefusedError(
            f"output {name} has the shape {output.shape}, and {expected.shape} in the ONNX file"
        )
    raise _RefusedError(f"output {name} differs by {least:.1g} of its largest value")


def _difference(output: Any, expected: Any) -> float:
    """Return the largest difference of two arrays, as a part of the largest value."""
    given = output.astype(np.float64)
    wanted = expected.astype(np.float64)
    if not np.array_equal(np.isfinite(given), np.isfinite(wanted)):
        return float("inf")
    finite = np.isfinite(wanted)
    if not finite.any():
        return 0.0
    largest = np.abs(wanted[finite]).max()
    difference = np.abs(given[finite] - wanted[finite]).max()
    return float(difference / largest) if largest else float(difference)


def _reorder(written: dict[str, Any], orders: list[tuple[int, ...]]) -> None:
    """Write the file again, with a transposition before each output that has another order."""
    model = written["model_ir"]
    for name, order in zip(list(model.outputs), orders):
        if order == tuple(range(len(order))):
            continue
        before = f"{name}/before"
        numbers = f"{name}/order"
        for operator in model.operators:
            operator.inputs = [before if tensor == name else tensor for tensor in operator.inputs]
            operator.outputs = [before if tensor == name else tensor for tensor in operator.outputs]
        tensor = model.tensors[name]
        model.tensors[before] = tensor
        tensor.name = before
        shape = [tensor.shape[axis] for axis in order]
        model.tensors[name] = TensorIR(
            name, tensor.dtype, shape, list(shape), quantization=tensor.quantization
        )
        model.tensors[numbers] = TensorIR(
            numbers, "INT32", [len(order)], [len(order)], data=np.array(order, dtype=np.int32)
        )
        model.operators.append(OperatorIR("TRANSPOSE", [before, numbers], [name]))
    builder.write_model_file(**written)
