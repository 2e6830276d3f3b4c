"""Reads ncnn's pairs of files: the layers in the .param, and of the .bin beside it the types of its
weights.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from os import SEEK_CUR
from pathlib import Path
from typing import BinaryIO

from reusebench.measured.runtimes.base import AdapterError
from reusebench.measured.runtimes.ncnn.graph import Graph, NcnnLayer, read_graph, weights_of
from reusebench.models.errors import ModelError
from reusebench.models.inspection.contents import Inspection, Operator, OtherFacts, Tensor, Weights
from reusebench.system.files import open_regular

__all__ = ["read"]

#: Layers that multiply by weights, with the parameters that count these, and say whether there is a
#: bias.
_PRODUCTS = {
    **dict.fromkeys(
        ("Convolution", "Convolution1D", "ConvolutionDepthWise", "ConvolutionDepthWise1D"), (6, 5)
    ),
    **dict.fromkeys(("Deconvolution", "DeconvolutionDepthWise"), (6, 5)),
    "InnerProduct": (2, 1),
    "Embed": (3, 2),
}
#: Others that have weights, in orders of their own: what is behind the first of them is not told
#: apart.
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
#: Parameters: how many outputs, or channels; whether a convolution is quantised, with scales behind
#: its bias; the sizes of a constant, and whether its type stands before it.
_OUTPUTS = 0
_INT8_SCALES = 8
_SIZES = (0, 1, 11, 2)
_HAS_NO_TAG = 21
#: What stands before the weights of a layer (ncnn/src/modelbin.cpp), with the type and the bytes of
#: an element; another number is that of a table of 256 values, which bytes index.
_TAGS = {
    0: ("float32", 4),
    0x0002C056: ("float32", 4),
    0x01306B47: ("float16", 2),
    0x000D4B38: ("int8", 1),
}
_TABLE_BYTES = 256 * 4


def read(path: Path) -> Inspection:
    """Return what the files show; raise ModelError if they are no network of ncnn's, or cut
    short.
    """
    try:
        graph = read_graph(str(path))
    except AdapterError as error:
        raise ModelError(str(error)) from None
    weights_path = Path(weights_of(str(path)))
    weights = _weights(graph, weights_path) if weights_path.is_file() else None
    interface = graph.interface
    operators = Counter(layer.type for layer in graph.layers if layer.type != "Input")
    lines = {"format": f"ncnn, {len(graph.layers)} layers"}
    lines["weights in"] = f"{weights_path.name}{'' if weights_path.is_file() else ', missing'}"
    return Inspection(
        file=str(path),
        size_bytes=path.stat().st_size
        + (weights_path.stat().st_size if weights is not None else 0),
        inputs=tuple(
            Tensor(tensor.name, tensor.type, tensor.dimensions or None)
            for tensor in interface.inputs
        ),
        outputs=tuple(Tensor(tensor.name, tensor.type, None) for tensor in interface.outputs),
        weights=weights,
        operators=tuple(Operator("", name, count) for name, count in operators.most_common()),
        facts=OtherFacts(lines),
    )


def _weights(graph: Graph, path: Path) -> tuple[Weights, ...]:
    """Return the weights by type, the largest first; what cannot be told apart has no type."""
    counts: Counter[str | None] = Counter()
    sizes: Counter[str | None] = Counter()
    size_bytes = path.stat().st_size
    told_bytes = 0
    with open_regular(path) as file:
        for kind, length in _tensors(graph, file):
            counts[kind] += 1
            sizes[kind] += length
            told_bytes += length
            if told_bytes > size_bytes:
                problem = "has fewer weights than its .param file names, or is cut short"
                raise ModelError(f"{path} {problem}. Copy both again")
    if told_bytes < size_bytes:
        counts[None] = sum(layer.type in _OTHERS for layer in graph.layers)
        sizes[None] = size_bytes - told_bytes
    return tuple(Weights(kind, counts[kind], size) for kind, size in sizes.most_common())


def _tensors(graph: Graph, file: BinaryIO) -> Iterator[tuple[str, int]]:
    """Yield type and bytes of the weights, in the order of the file, for as long as they can be
    told.
    """
    for layer in graph.layers:
        arrays = _arrays(layer)
        if arrays is None:
            return
        for count, has_tag in arrays:
            tag = file.read(4) if has_tag else b"\0\0\0\0"
            # Behind the end of the file there is none: the bytes that are missing show in their
            # sum.
            number = int.from_bytes(tag, "little")
            kind, width = _TAGS.get(number, ("uint8", 1))
            # Rows of bytes fill words of four.
            length = (0 if number in _TAGS else _TABLE_BYTES) + (count * width + 3) // 4 * 4
            yield kind, length + 4 * has_tag
            file.seek(length, SEEK_CUR)


def _arrays(layer: NcnnLayer) -> list[tuple[int, bool]] | None:
    """Return the elements of each of a layer's arrays, and whether its type stands before it; None:
    unknown.
    """
    outputs = max(0, layer.number(_OUTPUTS))
    if layer.type in _PRODUCTS:
        weights, bias = (layer.number(parameter) for parameter in _PRODUCTS[layer.type])
        is_quantised = "onvolution" in layer.type and layer.number(_INT8_SCALES) != 0
        return (
            None
            if is_quantised
            else [(max(0, weights), True), *([(outputs, False)] if bias else [])]
        )
    if layer.type == "MemoryData":
        sizes = [max(1, layer.number(size)) for size in _SIZES]
        return [(math.prod(sizes), layer.number(_HAS_NO_TAG, 1) == 0)]
    if layer.type == "PReLU":
        return [(outputs, False)]
    if layer.type == "BatchNorm":
        return [(outputs, False)] * 4
    return None if layer.type in _OTHERS else []
