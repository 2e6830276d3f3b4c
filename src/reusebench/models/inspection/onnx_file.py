"""Reads .onnx files with the package onnx; weights in other files are not loaded."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Union

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from reusebench.measured.runtimes.base import TEXT
from reusebench.models.errors import ModelError
from reusebench.models.inspection.contents import (
    ExternalFile,
    Function,
    Inspection,
    OnnxFacts,
    Operator,
    Tensor,
    Weights,
)
from reusebench.models.weight_files import is_beside
from reusebench.system.files import open_regular
from reusebench.system.user_files import FileState

__all__ = ["read"]

#: ONNX's own operators have this domain, or none.
_OWN_DOMAIN = "ai.onnx"
#: Ways of quantising, by the operators that show them.
_QUANTISED = {
    "QDQ": re.compile("QuantizeLinear"),
    "QOperator": re.compile("QLinear.*|QGemm|QAttention|QEmbedLayerNormalization"),
    "dynamic": re.compile("DynamicQuantize.*"),
    "weights": re.compile("MatMulNBits|MatMulBnb4|GatherBlockQuantized"),
}
#: The names of types have the bits of an element; those of fewer than eight share bytes.
_BITS = re.compile(r"[a-z]+(\d+)")
#: numpy's; a damaged file may have millions.
_MOST_DIMENSIONS = 64
#: Digits of a whole number of 64 bits, and one more.
_LONGEST_NUMBER = 20


def read(path: Path) -> Inspection:
    """Return what the file shows; raise ModelError if it is no whole ONNX model."""
    try:
        with open_regular(path) as file:
            model = onnx.load(file, format="protobuf", load_external_data=False)
    except DecodeError:
        model = onnx.ModelProto()
    if not (model.HasField("graph") and model.opset_import):
        raise ModelError(f"{path} is not an ONNX model, or is cut short. Export or copy it again")
    # Before IR version 4 every initializer is an input too; later it is one that the caller may
    # replace.
    constants = {tensor.name for tensor in model.graph.initializer}
    nodes = [
        *_nodes(model.graph),
        *(node for function in model.functions for node in _nodes(function)),
    ]
    tensors = list(_constants(model, nodes))
    operators = Counter((_domain(node.domain), _text(node.op_type)) for node in nodes)
    return Inspection(
        file=str(path),
        size_bytes=path.stat().st_size,
        inputs=tuple(_tensor(value) for value in model.graph.input if value.name not in constants),
        outputs=tuple(map(_tensor, model.graph.output)),
        weights=_weights(tensors),
        operators=tuple(
            Operator(domain, name, count) for (domain, name), count in operators.most_common()
        ),
        facts=OnnxFacts(
            ir_version=model.ir_version,
            opsets={_domain(opset.domain): opset.version for opset in model.opset_import},
            producer=" ".join(
                filter(None, map(_text, (model.producer_name, model.producer_version)))
            ),
            metadata={_text(entry.key): _text(entry.value) for entry in model.metadata_props},
            subgraphs=dict(
                Counter(_text(node.op_type) for node in nodes for _ in _subgraphs(node))
            ),
            quantised=tuple(dict.fromkeys(_quantised(name for _, name in operators))),
            functions=tuple(
                Function(_text(function.domain), _text(function.name), len(function.node))
                for function in model.functions
            ),
            external_files=tuple(_external_files(path.parent, tensors)),
        ),
    )


def _text(value: Union[str, bytes]) -> str:
    """Return a text of the file; protobuf gives the bytes of one that is not in UTF-8."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def _domain(name: Union[str, bytes]) -> str:
    return "" if name == _OWN_DOMAIN else _text(name)


def _tensor(value: onnx.ValueInfoProto) -> Tensor:
    """Return an input or output; of a sequence or a map the type says what is in it, as ONNX
    Runtime writes it.
    """
    kind = value.type
    if kind.optional_type.elem_type.HasField("tensor_type"):
        # An optional tensor is fed like any other.
        kind = kind.optional_type.elem_type
    if not kind.HasField("tensor_type"):
        return Tensor(_text(value.name), _type_text(kind), None)
    if not kind.tensor_type.HasField("shape"):
        return Tensor(_text(value.name), _type_name(kind.tensor_type.elem_type), None)
    sizes: list[Union[int, str]] = []
    for dimension in kind.tensor_type.shape.dim:
        is_known = dimension.HasField("dim_value") and dimension.dim_value >= 0
        sizes.append(dimension.dim_value if is_known else _text(dimension.dim_param))
    return Tensor(_text(value.name), _type_name(kind.tensor_type.elem_type), tuple(sizes))


def _type_text(kind: onnx.TypeProto) -> str:
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return f"seq({_type_text(kind.sequence_type.elem_type)})"
    if which == "map_type":
        return f"map({_onnx_name(kind.map_type.key_type)},{_type_text(kind.map_type.value_type)})"
    if which == "optional_type":
        return f"optional({_type_text(kind.optional_type.elem_type)})"
    if which in ("tensor_type", "sparse_tensor_type"):
        return f"{which.removesuffix('_type')}({_onnx_name(getattr(kind, which).elem_type)})"
    return "unknown"


def _type_name(number: int) -> str:
    """Return what numpy calls the type of elements; "str" for text."""
    name = _onnx_name(number)
    return {"float": "float32", "double": "float64", "string": TEXT}.get(name, name)


def _onnx_name(number: int) -> str:
    """Return what ONNX calls the type of elements."""
    try:
        return str(onnx.TensorProto.DataType.Name(number)).lower()
    except ValueError:
        return f"type {number}"


def _nodes(graph: Union[onnx.GraphProto, onnx.FunctionProto]) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of the graph and of the graphs in it."""
    for node in graph.node:
        yield node
        for subgraph in _subgraphs(node):
            yield from _nodes(subgraph)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _constants(
    model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]
) -> Iterator[onnx.TensorProto]:
    """Yield the initializers of all graphs, and the tensors that operators have as attributes, as
    Constant has.
    """
    graphs = [model.graph]
    for node in nodes:
        graphs += _subgraphs(node)
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("sparse_tensor"):
                yield attribute.sparse_tensor.values
    for graph in graphs:
        yield from graph.initializer
        yield from (sparse.values for sparse in graph.sparse_initializer)


def _weights(tensors: Iterable[onnx.TensorProto]) -> tuple[Weights, ...]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        name = _type_name(tensor.data_type)
        counts[name] += 1
        sizes[name] += _size_bytes(tensor)
    return tuple(Weights(name, counts[name], size) for name, size in sizes.most_common())


def _size_bytes(tensor: onnx.TensorProto) -> int:
    name = _type_name(tensor.data_type)
    if name == TEXT:
        return sum(map(len, tensor.string_data))
    matched = _BITS.match(name.replace("bool", "uint8"))
    if len(tensor.dims) > _MOST_DIMENSIONS:
        return -1
    return -(-math.prod(tensor.dims) * int(matched[1]) // 8) if matched else len(tensor.raw_data)


def _external_files(folder: Path, tensors: Iterable[onnx.TensorProto]) -> Iterator[ExternalFile]:
    needed: dict[str, int] = {}
    for tensor in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entries = {entry.key: _text(entry.value) for entry in tensor.external_data}
            name = entries.get("location", "")
            offset, length = (entries.get(key, "") for key in ("offset", "length"))
            end = _number(offset) + (_number(length) or _size_bytes(tensor))
            needed[name] = max(needed.get(name, 0), end)
    for name, end in needed.items():
        state = FileState.of(folder / name) if is_beside(name) else None
        yield ExternalFile(name, state.size_bytes if state else None, end)


def _number(text: str) -> int:
    """Return the number; 0 where it is not given, or is none."""
    return int(text) if text.isdecimal() and len(text) < _LONGEST_NUMBER else 0


def _quantised(operators: Iterable[str]) -> Iterator[str]:
    names = set(operators)
    for way, pattern in _QUANTISED.items():
        if any(map(pattern.fullmatch, names)):
            yield way
    if "DequantizeLinear" in names and "QuantizeLinear" not in names:
        yield "weights"
