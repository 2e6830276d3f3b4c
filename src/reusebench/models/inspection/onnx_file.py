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

#: Domain of ONNX's own operators, if they have one.
_OWN_DOMAIN = "ai.onnx"
#: Kinds of quantisation, by the operators that show them.
_QUANTISED = {
    "QDQ": re.compile("QuantizeLinear"),
    "QOperator": re.compile("QLinear.*|QGemm|QAttention|QEmbedLayerNormalization"),
    "dynamic": re.compile("DynamicQuantize.*"),
    "weights": re.compile("MatMulNBits|MatMulBnb4|GatherBlockQuantized"),
}
#: Operators with random results, by domain; Dropout has them only in training.
_RANDOM = {
    "": (
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    ),
    "com.microsoft": ("RandomNormal", "RandomUniform", "Sampling"),
}
#: Position of the input training_mode of each; without it they only pass their input on.
_TRAINING_MODE = {"Dropout": 2, "BiasDropout": 4, "BitmaskDropout": 2, "BitmaskBiasDropout": 4}
#: Bits of an element in the name of its type; elements of fewer than eight bits share bytes.
_BITS = re.compile(r"[a-z]+(\d+)")
#: Limit of numpy; a damaged file may have millions.
_MOST_DIMENSIONS = 64
#: Digits of a whole number of 64 bits, plus one.
_LONGEST_NUMBER = 20


def read(path: Path) -> Inspection:
    """Return the contents of the file; raise ModelError if it is no complete ONNX model."""
    try:
        with open_regular(path) as file:
            model = onnx.load(file, format="protobuf", load_external_data=False)
    except DecodeError:
        model = onnx.ModelProto()
    if not (model.HasField("graph") and model.opset_import):
        raise ModelError(f"{path} is not an ONNX model, or is cut short. Export or copy it again")

    # Initializers are inputs too: always before IR version 4, later if callers may replace them.
    constants = {tensor.name for tensor in model.graph.initializer}
    nodes = list(_nodes(model.graph))
    for function in model.functions:
        nodes += _nodes(function)
    tensors = list(_constants(model, nodes))
    operators = Counter((_domain(node.domain), _text(node.op_type)) for node in nodes)
    producer = (_text(model.producer_name), _text(model.producer_version))
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
            producer=" ".join(filter(None, producer)),
            metadata={_text(entry.key): _text(entry.value) for entry in model.metadata_props},
            subgraphs=_subgraph_counts(nodes),
            quantised=_quantisation({name for _, name in operators}),
            functions=tuple(
                Function(_text(function.domain), _text(function.name), len(function.node))
                for function in model.functions
            ),
            external_files=tuple(_external_files(path.parent, tensors)),
        ),
        varying=_varying(model, nodes),
    )


def _text(value: Union[str, bytes]) -> str:
    """Return a text of the file; protobuf gives bytes if the text is not UTF-8."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def _domain(name: Union[str, bytes]) -> str:
    return "" if name == _OWN_DOMAIN else _text(name)


def _tensor(value: onnx.ValueInfoProto) -> Tensor:
    """Return an input or output; sequences and maps have ONNX Runtime's type names."""
    name = _text(value.name)
    kind = value.type
    if kind.optional_type.elem_type.HasField("tensor_type"):
        # An optional tensor is fed like any other.
        kind = kind.optional_type.elem_type
    if not kind.HasField("tensor_type"):
        return Tensor(name, _type_text(kind), None)

    element_type = _type_name(kind.tensor_type.elem_type)
    if not kind.tensor_type.HasField("shape"):
        return Tensor(name, element_type, None)
    sizes: list[Union[int, str]] = []
    for dimension in kind.tensor_type.shape.dim:
        is_known = dimension.HasField("dim_value") and dimension.dim_value >= 0
        sizes.append(dimension.dim_value if is_known else _text(dimension.dim_param))
    return Tensor(name, element_type, tuple(sizes))


def _type_text(kind: onnx.TypeProto) -> str:
    """Return the type of a value that is no tensor, in the notation of ONNX Runtime."""
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
    """Return numpy's name for the type of elements; "str" for text."""
    name = _onnx_name(number)
    return {"float": "float32", "double": "float64", "string": TEXT}.get(name, name)


def _onnx_name(number: int) -> str:
    """Return ONNX's name for the type of elements."""
    try:
        return str(onnx.TensorProto.DataType.Name(number)).lower()
    except ValueError:
        return f"type {number}"


def _nodes(graph: Union[onnx.GraphProto, onnx.FunctionProto]) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of the graph and of its subgraphs."""
    for node in graph.node:
        yield node
        for subgraph in _subgraphs(node):
            yield from _nodes(subgraph)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _subgraph_counts(nodes: Iterable[onnx.NodeProto]) -> dict[str, int]:
    """Return the number of subgraphs, by the operator that runs them."""
    counts: Counter[str] = Counter()
    for node in nodes:
        for _ in _subgraphs(node):
            counts[_text(node.op_type)] += 1
    return dict(counts)


def _varying(model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]) -> tuple[str, ...]:
    """Return the operators that give other results in each inference, each name once."""
    nodes = list(nodes)
    switched_off = _false_constants(model, nodes)
    names = []
    for node in nodes:
        name = _text(node.op_type)
        if name in _RANDOM.get(_domain(node.domain), ()):
            names.append(name)
        position = _TRAINING_MODE.get(name)
        if position is None or len(node.input) <= position:
            continue
        mode = node.input[position]
        if mode and mode not in switched_off:
            names.append(f"{name} in training mode")
    return tuple(dict.fromkeys(names))


def _false_constants(model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """Return the names of the constants that are one boolean, false."""
    constants = {_text(tensor.name): tensor for tensor in model.graph.initializer}
    for node in nodes:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            constants[_text(node.output[0])] = node.attribute[0].t
    names = set()
    for name, tensor in constants.items():
        is_boolean = tensor.data_type == onnx.TensorProto.BOOL
        if is_boolean and not any(tensor.raw_data) and not any(tensor.int32_data):
            names.add(name)
    return names


def _constants(
    model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]
) -> Iterator[onnx.TensorProto]:
    """Yield the initializers of all graphs, and tensors in attributes of operators (Constant)."""
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
    if len(tensor.dims) > _MOST_DIMENSIONS:
        return -1
    matched = _BITS.match(name.replace("bool", "uint8"))
    if not matched:
        return len(tensor.raw_data)
    bits: int = math.prod(tensor.dims) * int(matched[1])
    return -(-bits // 8)


def _external_files(folder: Path, tensors: Iterable[onnx.TensorProto]) -> Iterator[ExternalFile]:
    """Yield the weight files that the tensors name."""
    needed: dict[str, int] = {}
    for tensor in tensors:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {entry.key: _text(entry.value) for entry in tensor.external_data}
        name = entries.get("location", "")
        offset = _number(entries.get("offset", ""))
        length = _number(entries.get("length", "")) or _size_bytes(tensor)
        needed[name] = max(needed.get(name, 0), offset + length)
    for name, end in needed.items():
        state = FileState.of(folder / name) if is_beside(name) else None
        yield ExternalFile(name, state.size_bytes if state else None, end)


def _number(text: str) -> int:
    """Return the number; 0 if the text is empty or no number."""
    return int(text) if text.isdecimal() and len(text) < _LONGEST_NUMBER else 0


def _quantisation(operators: set[str]) -> tuple[str, ...]:
    """Return the kinds of quantisation that the operators show."""
    kinds = []
    for kind, pattern in _QUANTISED.items():
        if any(pattern.fullmatch(name) for name in operators):
            kinds.append(kind)
    only_weights = "DequantizeLinear" in operators and "QuantizeLinear" not in operators
    if only_weights and "weights" not in kinds:
        kinds.append("weights")
    return tuple(kinds)
