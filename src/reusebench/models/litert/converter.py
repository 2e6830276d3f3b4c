"""Converts ONNX files to `.tflite`; models/conversion/loop.py runs it in onnx2tf's environment.

An input that is a picture gets its channels last, as users of LiteRT expect; all other inputs and
all outputs keep the shapes of the ONNX file. Each file is compared with its source, by one
inference of both. It imports nothing of this project.
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

#: Tolerated difference of an output, relative to its largest value: above the effect of another
#: rounding order through hundreds of layers, below that of a wrong function.
_TOLERANCE = 1e-2
_CHANNELS = (1, 3, 4)
_PICTURE_DIMENSIONS = 4
#: Largest rank that XNNPACK transposes.
_MOST_DIMENSIONS = 6


class _RefusedError(Exception):
    """The file is no faithful conversion; the message has the reason."""


def convert(job: dict[str, Any]) -> dict[str, str] | None:
    """Write job["output"]; return None, or the failed step and the first line of its exception."""
    step = "reading the ONNX file"
    try:
        with tempfile.TemporaryDirectory() as folder:
            source = job["onnx"]
            if job["has_free_sizes"]:
                source = _with_sizes(job, Path(folder))
            step = "running the ONNX file"
            arrays = [_array_of(tensor) for tensor in job["inputs"]]
            # Later onnx2tf overwrites the file.
            expected = _outputs_of_onnx(job["onnx"], job["inputs"], arrays)
            step = "onnx2tf"
            written = _converted(source, job["inputs"], Path(folder))
            step = "comparing it with the ONNX file"
            orders = _orders(written, arrays, expected)
            if any(order != tuple(range(len(order))) for order in orders):
                _reorder(written, orders)
                _orders(written, arrays, expected)
            # The output may be on another file system.
            converted = Path(written["output_tflite_path"]).read_bytes()
            Path(job["output"]).write_bytes(converted)
    except Exception as error:  # onnx2tf raises exceptions of any type
        first_line = str(error).strip().partition("\n")[0]
        return {"step": step, "words": first_line or type(error).__name__}
    except SystemExit as error:  # onnx2tf has printed the reason
        return {"step": step, "words": f"it ended with {error.code}"}
    return None


def _with_sizes(job: dict[str, Any], folder: Path) -> str:
    """Return a copy of the ONNX file whose inputs have the sizes from the job.

    Sizes that the graph computes become constants: LiteRT 2.3 crashes if an output's sizes follow
    from computed ones.
    """
    model = onnx.load(job["onnx"])
    shapes = {tensor["name"]: tensor["shape"] for tensor in job["inputs"]}
    for tensor in model.graph.input:
        if tensor.name in shapes:
            shape = onnx.TensorShapeProto()
            for size in shapes[tensor.name]:
                shape.dim.add().dim_value = size
            tensor.type.tensor_type.shape.CopyFrom(shape)
    # The shapes of inner tensors were inferred from free sizes.
    del model.graph.value_info[:]
    sized = str(folder / "sized.onnx")
    folded = str(folder / "model.onnx")
    onnx.save(model, sized)
    options = onnxruntime.SessionOptions()
    # Higher levels insert ONNX Runtime's own operators.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = folded
    onnxruntime.InferenceSession(sized, options, providers=["CPUExecutionProvider"])
    return folded


def _converted(source: str, inputs: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Return the arguments with which onnx2tf writes its float32 file: its model and the path."""
    written: dict[str, Any] = {}
    write = builder.write_model_file

    def write_and_keep(**arguments: Any) -> Any:
        if not written:  # a file in float16 follows
            written.update(arguments)
        return write(**arguments)

    # Otherwise onnx2tf moves the channels of any input of three or more dimensions. It replaces
    # colons in names.
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
    """Return the values for an input: the user's data, its fixed value, or noise."""
    if tensor["file"] is not None:
        return np.load(tensor["file"], allow_pickle=False).astype(tensor["type"])
    if tensor["value"] is not None:
        return np.full(tensor["shape"], tensor["value"], tensor["type"])
    noise = np.random.default_rng(0).random(tensor["shape"])
    is_index = not np.issubdtype(np.dtype(tensor["type"]), np.floating)
    # asarray, since the noise of a scalar is no array.
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
    """Return, per output, the order of dimensions that gives the values of the ONNX file.

    Raises _RefusedError if an output has no such order.
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
        if not array.shape:
            array = array.reshape(tensor["shape"])  # onnx2tf makes scalars tensors of one element
        if array.shape != tuple(tensor["shape"]):
            array = np.moveaxis(array, 1, -1)
        interpreter.set_tensor(tensor["index"], np.asarray(array, tensor["dtype"], order="C"))
    interpreter.invoke()
    return [
        _order(interpreter.get_tensor(tensor["index"]), values, tensor["name"])
        for tensor, values in zip(outputs, expected)
    ]


def _order(output: Any, expected: Any, name: str) -> tuple[int, ...]:
    axes = tuple(range(output.ndim))
    orders = permutations(axes) if output.ndim <= _MOST_DIMENSIONS else [axes]
    least = np.inf
    for order in orders:
        transposed = output.transpose(order)
        if transposed.shape == expected.shape:
            difference = _difference(transposed, expected)
            if difference <= _TOLERANCE:
                return order
            least = min(least, difference)
    if least == np.inf:
        raise _RefusedError(
            f"output {name} has the shape {output.shape}, and {expected.shape} in the ONNX file"
        )
    raise _RefusedError(f"output {name} differs by {least:.1g} of its largest value")


def _difference(output: Any, expected: Any) -> float:
    """Return the largest difference of two arrays, relative to the largest value."""
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
    """Write the file again, with a transposition before each output of another order."""
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
