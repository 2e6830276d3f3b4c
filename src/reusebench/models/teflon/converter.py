"""Converts ONNX files to INT8 `.tflite` files; loop.py runs it in onnx2tf's environment.

models/litert/converter.py makes a float32 file, LiteRT's calibrator quantises it, and this program
makes of it what Mesa's delegate takes: one scale per tensor, and padding within convolutions. It
imports nothing of this project.
"""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import flatbuffers  # type: ignore[import-untyped]
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert._pywrap_tensorflow_lite_calibration_wrapper import CalibrationWrapper
from ai_edge_litert.interpreter import Interpreter

_FLOAT = runpy.run_path(str(Path(__file__).resolve().parents[1] / "litert" / "converter.py"))

#: Types are numbers of numpy for the calibrator.
_INT8 = np.dtype(np.int8).num
_INT32 = np.dtype(np.int32).num
#: Weights are symmetric: the number -128 is not used.
_LARGEST_WEIGHT = 127

_CONVOLUTIONS = (schema.BuiltinOperator.CONV_2D, schema.BuiltinOperator.DEPTHWISE_CONV_2D)
#: Number of a tensor that an operator does without.
_ABSENT = -1
_WEIGHTED = (*_CONVOLUTIONS, schema.BuiltinOperator.FULLY_CONNECTED)
#: Operators that pad, with those that can do it by themselves: a pooling's padding never wins.
_PADDED = {
    schema.BuiltinOperator.PAD: _CONVOLUTIONS,
    schema.BuiltinOperator.PADV2: (schema.BuiltinOperator.MAX_POOL_2D,),
}


def convert(job: dict[str, Any]) -> dict[str, str] | None:
    """Write job["output"]; return None, or the failed step and the first line of its exception."""
    failure: dict[str, str] | None = _FLOAT["convert"](job)
    if failure or not job["calibrate"]:
        return failure
    output = Path(job["output"])
    step = "reading the float32 file"
    try:
        model = _read(output.read_bytes())
        _fold_padding(model, job["shifts_padding"])
        step = "calibrating"
        quantised = _read(_quantised(_written(model), job["inputs"]))
        step = "quantising per tensor"
        _use_one_scale(quantised, model)
        _quantise_fillings(quantised)
        output.write_bytes(_written(quantised))
    except Exception as error:  # LiteRT raises exceptions of several types
        first_line = str(error).strip().partition("\n")[0]
        return {"step": step, "words": first_line or type(error).__name__}
    return None


def _read(content: bytes) -> Any:
    return schema.ModelT.InitFromPackedBuf(content)


def _written(model: Any) -> bytes:
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _quantised(content: bytes, inputs: list[dict[str, Any]]) -> bytes:
    """Return the file in INT8, calibrated with the inputs' data, or with noise.

    Operators that have no INT8 form stay in float32.
    """
    details = Interpreter(model_content=content).get_input_details()
    arrays = []
    for tensor, detail in zip(inputs, details):
        array = _FLOAT["_array_of"](tensor)
        shape = tuple(map(int, detail["shape"]))
        if array.size and array.shape != shape and array.ndim == len(shape):
            array = np.moveaxis(array, 1, -1)
        arrays.append(np.ascontiguousarray(array.reshape(shape), detail["dtype"]))
    calibrator = CalibrationWrapper(content, [], [])
    calibrator.Prepare([list(array.shape) for array in arrays])
    calibrator.FeedTensor(arrays)
    calibrator.Calibrate()
    allows_floats, same_per_tensor, same_in_dense = True, False, False
    quantised = calibrator.QuantizeModel(
        _INT8, _INT8, allows_floats, _INT8, _INT32, same_per_tensor, same_in_dense
    )
    return bytes(quantised)


def _fold_padding(model: Any, shifts: bool) -> None:
    """Let convolutions and poolings pad by themselves (SAME), in place of an operator before them.

    Such an operator stays if SAME pads otherwise. If `shifts`, it is enough that the output has the
    same size, and the window moves by a pixel.
    """
    (graph,) = model.subgraphs
    uses = Counter(tensor for operator in graph.operators for tensor in operator.inputs)
    pads = {}
    for operator in graph.operators:
        if _kind(model, operator) in _PADDED:
            pads[operator.outputs[0]] = operator
    for operator in graph.operators:
        pad = pads.get(operator.inputs[0])
        if pad is None or uses[pad.outputs[0]] > 1:
            continue
        if _kind(model, operator) not in _PADDED[_kind(model, pad)]:
            continue
        amounts = _values(model, graph.tensors[pad.inputs[1]], np.int32).reshape(-1, 2)
        wanted = _same_padding(graph, pad.inputs[0], operator)
        if wanted is None or not (shifts or (amounts == wanted).all()):
            continue
        operator.inputs = [pad.inputs[0], *operator.inputs[1:]]
        operator.builtinOptions.padding = schema.Padding.SAME
        graph.operators.remove(pad)
    _drop_unused(model)


def _same_padding(graph: Any, source: int, operator: Any) -> Any:
    """Return the numbers of elements that SAME adds before and behind each dimension of the source.

    None if the output would have another size.
    """
    options = operator.builtinOptions
    sizes = graph.tensors[source].shape[1:3]
    outputs = graph.tensors[operator.outputs[0]].shape[1:3]
    strides = (options.strideH, options.strideW)
    if isinstance(options, schema.Pool2DOptionsT):
        kernel = (options.filterHeight, options.filterWidth)
        dilations = (1, 1)
    else:
        kernel = graph.tensors[operator.inputs[1]].shape[1:3]
        dilations = (options.dilationHFactor, options.dilationWFactor)
    amounts = np.zeros((4, 2), np.int32)
    for axis, (size, output, taps, stride, dilation) in enumerate(
        zip(sizes, outputs, kernel, strides, dilations), start=1
    ):
        if output != -(-size // stride):
            return None
        total = max((output - 1) * stride + (taps - 1) * dilation + 1 - size, 0)
        amounts[axis] = total // 2, total - total // 2
    return amounts


def _drop_unused(model: Any) -> None:
    """Number tensors and kinds of operators anew, without those that no operator has.

    Teflon makes a buffer of every constant, used or not, and the calibrator refuses unused kinds.
    """
    (graph,) = model.subgraphs
    kinds = sorted({operator.opcodeIndex for operator in graph.operators})
    model.operatorCodes = [model.operatorCodes[kind] for kind in kinds]
    for operator in graph.operators:
        operator.opcodeIndex = kinds.index(operator.opcodeIndex)
    used = {*graph.inputs, *graph.outputs}
    for operator in graph.operators:
        used.update(operator.inputs, operator.outputs)
    numbers = {old: new for new, old in enumerate(sorted(used - {_ABSENT}))}
    numbers[_ABSENT] = _ABSENT
    graph.tensors = [graph.tensors[old] for old in sorted(used - {_ABSENT})]
    for owner in (graph, *graph.operators):
        owner.inputs = [numbers[old] for old in owner.inputs]
        owner.outputs = [numbers[old] for old in owner.outputs]
    for signature in model.signatureDefs or ():
        for entry in (*signature.inputs, *signature.outputs):
            entry.tensorIndex = numbers[entry.tensorIndex]


def _use_one_scale(quantised: Any, model: Any) -> None:
    """Quantise weights that have a scale per channel, and their biases, with one scale instead.

    The values are those of the float32 model.
    """
    (graph,) = quantised.subgraphs
    floats = {tensor.name: tensor for tensor in model.subgraphs[0].tensors}
    for operator in graph.operators:
        if _kind(quantised, operator) not in _WEIGHTED:
            continue
        numbers = [number for number in operator.inputs if number != _ABSENT]
        source, weight, *biases = (graph.tensors[number] for number in numbers)
        if len(_scales(weight)) < 2:
            continue
        values = _values(model, floats[weight.name], np.float32)
        scale = np.float32((np.abs(values).max() or 1.0) / _LARGEST_WEIGHT)
        _store(quantised, weight, np.rint(values / scale).astype(np.int8), scale)
        for bias in biases:
            values = _values(model, floats[bias.name], np.float32)
            scale = np.float32(_scales(source)[0] * scale)
            _store(quantised, bias, np.rint(values / scale).astype(np.int32), scale)


def _quantise_fillings(model: Any) -> None:
    """Quantise the values that PADV2 fills with: the calibrator leaves them in float32."""
    (graph,) = model.subgraphs
    for operator in graph.operators:
        if _kind(model, operator) != schema.BuiltinOperator.PADV2:
            continue
        source, _, filling = (graph.tensors[number] for number in operator.inputs)
        if source.type != schema.TensorType.INT8 or filling.type != schema.TensorType.FLOAT32:
            continue
        (scale,) = _scales(source)
        (zero,) = source.quantization.zeroPoint
        value = np.rint(_values(model, filling, np.float32) / scale) + zero
        model.buffers[filling.buffer].data = (
            np.clip(value, -128, 127).astype(np.int8).view(np.uint8)
        )
        filling.type = source.type
        filling.quantization = source.quantization


def _scales(tensor: Any) -> Any:
    return () if tensor.quantization is None else tensor.quantization.scale


def _store(model: Any, tensor: Any, values: Any, scale: Any) -> None:
    model.buffers[tensor.buffer].data = values.view(np.uint8)
    tensor.quantization.scale = [float(scale)]
    tensor.quantization.zeroPoint = [0]
    tensor.quantization.quantizedDimension = 0


def _values(model: Any, tensor: Any, kind: Any) -> Any:
    return np.asarray(model.buffers[tensor.buffer].data, np.uint8).view(kind)


def _kind(model: Any, operator: Any) -> int:
    """Return the operator's number; numbers above 127 have a newer field of their own."""
    code = model.operatorCodes[operator.opcodeIndex]
    return int(max(code.builtinCode, code.deprecatedBuiltinCode))
