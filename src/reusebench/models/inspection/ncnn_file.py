"""Reads ncnn's pairs of files: the layers in the .param, the types of the weights in the .bin."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from os import SEEK_CUR
from pathlib import Path
from typing import BinaryIO

from reusebench.measured.runtimes.base import AdapterError
from reusebench.measured.runtimes.ncnn.graph import Graph, NcnnLayer, read_graph, weights_of
from reusebench.models.errors import ModelError
from reusebench.models.inspection.contents import Inspection, Operator, OtherFacts, Tensor, Weights
from reusebench.system.files import open_regular

__all__ = ["LAYERS", "read"]

#: Layers that multiply by weights, with the numbers of two parameters: the count of the weights,
#: and whether there is a bias.
_PRODUCTS = {
    **dict.fromkeys(
        ("Convolution", "Convolution1D", "ConvolutionDepthWise", "ConvolutionDepthWise1D"), (6, 5)
    ),
    **dict.fromkeys(("Deconvolution", "DeconvolutionDepthWise"), (6, 5)),
    "InnerProduct": (2, 1),
    "Embed": (3, 2),
}
#: Other layers with weights, in layouts of their own: weights behind the first one have no known
#: type.
_OTHERS = (
    "Bias",
    "Convolution3D",
    "ConvolutionDepthWise3D",
    "Deconvolution1D",
    "Deconvolution3D",
    "DeformableConv2D",
    "GRU",
    "Gemm",
    "GroupNorm",
    "InstanceNorm",
    "LSTM",
    "LayerNorm",
    "MultiHeadAttention",
    "Normalize",
    "RMSNorm",
    "RNN",
    "Scale",
)
#: Parameter with the number of outputs or channels.
_OUTPUTS = 0
#: Parameter of quantised convolutions, which have scales behind the bias.
_INT8_SCALES = 8
#: Parameters of a constant: its sizes, and whether its tag is left out.
_SIZES = (0, 1, 11, 2)
_HAS_NO_TAG = 21
#: Tags before the weights of a layer (ncnn/src/modelbin.cpp), with type and bytes of an element.
#: Any other number means a table of 256 values, which bytes index.
_TAGS = {
    0: ("float32", 4),
    0x0002C056: ("float32", 4),
    0x01306B47: ("float16", 2),
    0x000D4B38: ("int8", 1),
}
_TABLE_BYTES = 256 * 4
#: Layers of ncnn 20261020.
_LAYER_NAMES = (
    "AbsVal ArgMax BNLL BatchNorm Bias BinaryOp CELU Cast Clip Concat Convolution Convolution1D"
    " Convolution3D ConvolutionDepthWise ConvolutionDepthWise1D ConvolutionDepthWise3D CopyTo"
    " Crop CumulativeSum Deconvolution Deconvolution1D Deconvolution3D DeconvolutionDepthWise"
    " DeconvolutionDepthWise1D DeconvolutionDepthWise3D DeepCopy DeformableConv2D Dequantize"
    " DetectionOutput Diag Dropout ELU Einsum Eltwise Embed Erf Exp ExpandDims Flatten Flip Fold"
    " GELU GLU GRU Gemm GridSample GroupNorm HardSigmoid HardSwish InnerProduct Input"
    " InstanceNorm Interp InverseSpectrogram LRN LSTM LayerNorm Log MVN MatMul MemoryData Mish"
    " MultiHeadAttention Noop Normalize PReLU PSROIPooling Packing Padding Permute PixelShuffle"
    " Pooling Pooling1D Pooling3D Power PriorBox Proposal Quantize RMSNorm RNN ROIAlign"
    " ROIPooling ReLU Reduction Reorg Requantize Reshape RotaryEmbed SDPA SELU SPP Scale Shrink"
    " ShuffleChannel Sigmoid Slice Softmax Softplus Spectrogram Split Squeeze StatisticsPooling"
    " Swish TanH Threshold Tile UnaryOp Unfold YoloDetectionOutput Yolov3DetectionOutput"
)
LAYERS = frozenset(_LAYER_NAMES.split())


def read(path: Path) -> Inspection:
    """Return the contents of the files; raise ModelError if they are no complete ncnn network."""
    try:
        graph = read_graph(str(path))
    except AdapterError as error:
        raise ModelError(str(error)) from None

    size_bytes = path.stat().st_size
    weights = None
    weights_path = Path(weights_of(str(path)))
    weights_text = f"{weights_path.name}, missing"
    if weights_path.is_file():
        weights = _weights(graph, weights_path)
        weights_text = weights_path.name
        size_bytes += weights_path.stat().st_size

    interface = graph.interface
    operators = Counter(layer.type for layer in graph.layers if layer.type != "Input")
    return Inspection(
        file=str(path),
        size_bytes=size_bytes,
        inputs=tuple(
            Tensor(tensor.name, tensor.type, tensor.dimensions or None)
            for tensor in interface.inputs
        ),
        outputs=tuple(Tensor(tensor.name, tensor.type, None) for tensor in interface.outputs),
        weights=weights,
        operators=tuple(Operator("", name, count) for name, count in operators.most_common()),
        facts=OtherFacts(
            {"format": f"ncnn, {len(graph.layers)} layers", "weights in": weights_text}
        ),
        hindrances=tuple(_hindrances(operators, weights_path)),
    )


def _hindrances(layers: Iterable[str], weights: Path) -> Iterator[str]:
    if not weights.is_file():
        yield f"{weights.name}, the file with weights, is not beside the model"
    for layer in layers:
        if layer not in LAYERS:
            yield f"ncnn has no layer {layer}: it is one of your own, or of a newer ncnn"


def _weights(graph: Graph, path: Path) -> tuple[Weights, ...]:
    """Return the weights by type, the largest first; weights of an unknown layout have no type."""
    counts: Counter[str | None] = Counter()
    sizes: Counter[str | None] = Counter()
    size_bytes = path.stat().st_size
    known_bytes = 0
    with open_regular(path) as file:
        for kind, length in _tensors(graph, file):
            counts[kind] += 1
            sizes[kind] += length
            known_bytes += length
            if known_bytes > size_bytes:
                problem = "has fewer weights than its .param file names, or is cut short"
                raise ModelError(f"{path} {problem}. Copy both again")
    if known_bytes < size_bytes:
        counts[None] = sum(layer.type in _OTHERS for layer in graph.layers)
        sizes[None] = size_bytes - known_bytes
    return tuple(Weights(kind, counts[kind], size) for kind, size in sizes.most_common())


def _tensors(graph: Graph, file: BinaryIO) -> Iterator[tuple[str, int]]:
    """Yield type and bytes of the weights, in the file's order, up to the first unknown layout."""
    for layer in graph.layers:
        arrays = _arrays(layer)
        if arrays is None:
            return
        for count, has_tag in arrays:
            # Behind the end of the file the tag is empty; the caller notices by the sum of bytes.
            tag = int.from_bytes(file.read(4), "little") if has_tag else 0
            kind, width = _TAGS.get(tag, ("uint8", 1))
            length = (count * width + 3) // 4 * 4  # padded to words of four bytes
            if tag not in _TAGS:
                length += _TABLE_BYTES
            yield kind, length + 4 * has_tag
            file.seek(length, SEEK_CUR)


def _arrays(layer: NcnnLayer) -> list[tuple[int, bool]] | None:
    """Return the elements of each of a layer's arrays, and whether it has a tag; None: unknown."""
    outputs = max(0, layer.number(_OUTPUTS))
    if layer.type in _PRODUCTS:
        weights, bias = (layer.number(parameter) for parameter in _PRODUCTS[layer.type])
        is_quantised = "onvolution" in layer.type and layer.number(_INT8_SCALES) != 0
        if is_quantised:
            return None
        arrays = [(max(0, weights), True)]
        if bias:
            arrays.append((outputs, False))
        return arrays
    if layer.type == "MemoryData":
        sizes = [max(1, layer.number(size)) for size in _SIZES]
        return [(math.prod(sizes), layer.number(_HAS_NO_TAG, 1) == 0)]
    if layer.type == "PReLU":
        return [(outputs, False)]
    if layer.type == "BatchNorm":
        return [(outputs, False)] * 4
    return None if layer.type in _OTHERS else []
