"""Reads .mnn files, FlatBuffers of MNN's schema (schema/default/MNN.fbs, 3.6), without MNN."""

from __future__ import annotations

import mmap
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Optional

from reusebench.models.errors import ModelError
from reusebench.models.inspection.contents import Inspection, Operator, OtherFacts, Tensor, Weights
from reusebench.models.inspection.flatbuffer import FlatTable, root
from reusebench.system.files import open_regular

__all__ = ["read"]

#: Errors from reading a damaged file, whose offsets lead anywhere.
_DAMAGED = (struct.error, ValueError, IndexError, OverflowError)

#: Field numbers of the tables. A union has two fields: its kind, and the table.
_NET_EXTRA = 2
_NET_OPERATORS = 3
_NET_OUTPUTS = 4
_NET_SOURCE = 6
_NET_NAMES = 7
_NET_SUBGRAPHS = 10
_EXTRA_VERSION = 2
_SUBGRAPH_NODES = 4
_OP_KIND = 1
_OP_PARAMETER = 2
_OP_OUTPUTS = 4
_OP_TYPE = 5
_INPUT_SIZES = 0
_INPUT_TYPE = 1
_INPUT_ORDER = 2
_BLOB_TYPE = 2
_BLOB_EXTERNAL = 9
_CONVOLUTION_QUANTISED = 3
_QUANTISED_BYTES = 0
#: Bytes of an element in the lists of a constant, by field number.
_BLOB_LISTS = {3: 1, 4: 1, 5: 4, 6: 8, 7: 4}
#: Kinds of parameters (OpParameter) with weights.
_BLOB = 7
_CONVOLUTION = 9
#: Field numbers by kind of parameter: the lists of float32, and the field that locates them in an
#: external file (a list of the position there and the sizes).
_FLOATS: dict[int, tuple[tuple[int, ...], Optional[int]]] = {
    5: ((1, 2, 3, 4, 5, 6), None),  # BatchNorm
    _CONVOLUTION: ((1, 2), 6),
    20: ((3, 4), None),  # InnerProduct
    32: ((1,), None),  # PRelu
    58: ((1, 2), 3),  # Scale
    88: ((2, 3), 5),  # LayerNorm
}
_INPUT = "Input"
_CONST = "Const"
#: Operators that an application brings; the first field of their parameters is their own name.
_FOREIGN = ("Extra", "Plugin")
_FOREIGN_TYPE = 0
_TRAINABLE = "TrainableParam"
#: numpy's names of DataType in Tensor.fbs; MNN's converter turns int64 into int32.
_TYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "str",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    19: "float16",
}
_FLOAT = 1
_RANDOM = ("RandomNormal", "RandomUniform")
_SOURCES = ("Caffe", "TensorFlow", "TFLite", "ONNX", "Torch")
#: MNN_DATA_FORMAT; an input has NC4HW4 if the file leaves it out.
_ORDERS = ("NCHW", "NHWC", "NC4HW4", "NHWC4")
_NC4HW4 = 2
#: Names of OpType with consecutive numbers, by the first number.
_OPERATORS = {
    first: names.split()
    for first, names in {
        0: (
            "AbsVal QuantizedAdd ArgMax AsString InstanceNorm BatchToSpaceND Copy BinaryOp Bnll"
            " Cast Concat Const Convolution ConvolutionDepthwise Crop CropAndResize ImageProcess"
            " Deconvolution DeconvolutionDepthwise Dequantize DetectionOutput Dropout Eltwise ELU"
            " Unique Exp ExpandDims Fill Flatten Im2Col Gather GatherV2 Im2Seq InnerProduct Input"
            " Interp Log LRN LSTM MatMul MoE NonMaxSuppression NonMaxSuppressionV2 Normalize Pack"
            " Padding Permute Pooling Power PReLU PriorBox Proposal QuantizedAvgPool"
            " QuantizedBiasAdd QuantizedConcat QuantizedDepthwiseConv2D QuantizedLogistic"
            " RasterAndInterpolate QuantizedMaxPool Texture RasterDiff QuantizedReshape"
            " QuantizedSoftmax QuantizeMaxMin QuantizeV2 Range Rank ReduceJoin Reduction ReLU ReLU6"
            " RequantizationRange Requantize Reshape Resize RNN ROIPooling Scale Selu Seq2Out Shape"
            " Sigmoid Size Slice SliceTf Softmax SpaceToBatchND SpatialProduct Col2Im Segment"
            " Squeeze StridedSlice CastLike StringSplit StringToNumber TanH TfQuantizedConv2D"
            " Threshold Tile TopKV2 Transpose UnaryOp Unpack Where Moments RNNSequenceGRU"
            " BatchMatMul Unsqueeze CosineSimilarity DepthToSpace SpaceToDepth ReverseSequence"
            " Pooling3D Convolution3D MatrixBandPart GatherND DetectionPostProcess UnravelIndex"
            " ScatterNd OneHot BroadcastTo Dilation2D Interp3D"
        ),
        128: (
            "Raster ConvertTensor ArgMin LinSpace RandomUniform TensorArray TensorArraySize"
            " TensorArrayRead TensorArrayWrite TensorArrayGather TensorArrayScatter"
            " TensorArraySplit TensorArrayConcat LSTMBlockCell Reverse ROIAlign RandomNormal"
            " TensorArrayInsert TensorArrayErase EyeLike CumSum Det CumProd ScatterElements"
            " GatherElements Svd Histogram DynamicQuant Stft"
        ),
        256: (
            "Plugin Select ZerosLike Broastcast SetDiff1D ReluGrad Identity PoolGrad SoftmaxGrad "
            "Conv2DBackPropFilter TrainableParam BatchNorm ConvTranspose3D ZeroGrad"
        ),
        299: (
            "Attention FmhaV2 Fmhca SeqLen2Spatial SplitGeLU GroupNorm LinearAttention RoPE"
            " FusedLinear GatedRMSNorm"
        ),
        512: "Extra ConvInt8 Int8ToFloat DepthwiseConvInt8",
        517: "FloatToInt8 EltwiseInt8",
        600: "While If",
        603: "LayerNorm GridSample",
    }.items()
}


def read(path: Path) -> Inspection:
    """Return the contents of the file; raise ModelError if it is no complete .mnn file."""
    with (
        open_regular(path) as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        try:
            with memoryview(content) as buffer:
                return _read(path, buffer)
        except _DAMAGED:
            raise ModelError(
                f"{path} is not an MNN model (.mnn), or is cut short. Convert or copy it again"
            ) from None


def _read(path: Path, buffer: memoryview) -> Inspection:
    net = root(buffer)
    names = list(net.texts(_NET_NAMES))
    operators: Counter[tuple[str, str]] = Counter()
    counts: Counter[Optional[str]] = Counter()
    sizes: Counter[Optional[str]] = Counter()
    inputs = []
    has_external = False
    for op, is_nested in _all_operators(net):
        name = _operator_name(op.integer(_OP_TYPE))
        parameter = op.table(_OP_PARAMETER)
        if name == _INPUT:
            if not is_nested:
                inputs.append(_input(op, parameter, names))
            continue
        if name not in (_CONST, _TRAINABLE):
            key = ("", name)
            if name in _FOREIGN:
                key = ("custom", _own_name(parameter) or name)
            operators[key] += 1
        if parameter is None:
            continue
        for kind, size, is_external in _weights(op.byte(_OP_KIND), parameter):
            counts[kind] += 1
            sizes[kind] += size
            has_external = has_external or is_external
    if not operators and not inputs:
        raise ValueError("no network")

    facts = {"format": "MNN", "made by": _made_by(net)}
    if has_external:
        facts["weights in"] = f"{path.name}.weight"
    return Inspection(
        file=str(path),
        size_bytes=len(buffer),
        inputs=tuple(inputs),
        outputs=tuple(Tensor(name, None, None) for name in net.texts(_NET_OUTPUTS)),
        weights=tuple(Weights(kind, counts[kind], size) for kind, size in sizes.most_common()),
        operators=tuple(
            Operator(domain, name, count) for (domain, name), count in operators.most_common()
        ),
        facts=OtherFacts(facts),
        varying=tuple(name for domain, name in operators if not domain and name in _RANDOM),
        hindrances=tuple(_hindrances(path, operators, has_external)),
    )


def _hindrances(
    path: Path, operators: Iterable[tuple[str, str]], has_external: bool
) -> Iterator[str]:
    """Yield the reasons for which MNN cannot run the model."""
    weights = path.with_name(f"{path.name}.weight")
    if has_external and not weights.is_file():
        yield f"{weights.name}, the file with weights, is not beside the model"
    for domain, name in operators:
        if domain:
            yield f"operator {name} is not MNN's, and no library of it is loaded"


def _made_by(net: FlatTable) -> str:
    """Return the converter with its version, and the format of its source."""
    extra = net.table(_NET_EXTRA)
    version = extra.text(_EXTRA_VERSION) if extra else ""
    number = net.byte(_NET_SOURCE)
    source = _SOURCES[number] if 0 <= number < len(_SOURCES) else "an unknown format"
    return f"MNN's converter {version or 'of an unknown version'}, from {source}"


def _all_operators(net: FlatTable) -> Iterator[tuple[FlatTable, bool]]:
    """Yield all operators, and whether each is nested in a graph of control flow."""
    for op in net.tables(_NET_OPERATORS):
        yield op, False
    for subgraph in net.tables(_NET_SUBGRAPHS):
        for op in subgraph.tables(_SUBGRAPH_NODES):
            yield op, True


def _own_name(parameter: Optional[FlatTable]) -> str:
    """Return the name that an application gives an operator of its own; may be empty."""
    try:
        return parameter.text(_FOREIGN_TYPE) if parameter else ""
    except _DAMAGED:  # parameters of another kind
        return ""


def _operator_name(number: int) -> str:
    for first, names in _OPERATORS.items():
        if first <= number < first + len(names):
            return names[number - first]
    return f"operator {number}"


def _input(op: FlatTable, parameter: Optional[FlatTable], names: list[str]) -> Tensor:
    name = names[next(op.integers(_OP_OUTPUTS))]
    if parameter is None:
        return Tensor(name, None, None)
    order = parameter.byte(_INPUT_ORDER, _NC4HW4)
    sizes = tuple(size if size >= 0 else "" for size in parameter.integers(_INPUT_SIZES))
    layout = _ORDERS[order] if 0 <= order < len(_ORDERS) else None
    return Tensor(name, _TYPES.get(parameter.integer(_INPUT_TYPE, _FLOAT)), sizes, layout)


def _weights(kind: int, parameter: FlatTable) -> Iterator[tuple[Optional[str], int, bool]]:
    """Yield type and bytes of each list of constants, and whether it is in an external file."""
    if kind == _BLOB:
        size = sum(parameter.length(field) * width for field, width in _BLOB_LISTS.items())
        external_sizes = list(parameter.integers(_BLOB_EXTERNAL, "<q"))[1:]
        name = _TYPES.get(parameter.integer(_BLOB_TYPE, _FLOAT))
        yield name, size + sum(external_sizes), bool(external_sizes)
        return

    fields, external_field = _FLOATS.get(kind, ((), None))
    external_type = "float32"
    if kind == _CONVOLUTION:
        quantised = parameter.table(_CONVOLUTION_QUANTISED)
        if quantised is not None:
            external_type = "int8"
            yield "int8", quantised.length(_QUANTISED_BYTES), False
    for field in fields:
        if parameter.length(field):
            yield "float32", 4 * parameter.length(field), False
    if external_field is not None:
        for size in list(parameter.integers(external_field, "<q"))[1:]:
            if size:
                yield external_type, size, True
