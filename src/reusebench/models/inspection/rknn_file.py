"""Reads .rknn files, made by rknn-toolkit2, without a library of Rockchip's.

The format is not published. This module reads the parts that the open source viewer netron reads
(its rknn-schema.js) and that the file has in the clear: a header, the graph as FlatBuffers, and a
description as JSON. Files for the mini runtime have no such graph. Everything else is unknown.
"""

from __future__ import annotations

import ast
import json
import mmap
import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from reusebench.models.errors import ModelError
from reusebench.models.inspection.contents import Inspection, Operator, RknnFacts, Tensor, Weights
from reusebench.models.inspection.flatbuffer import FlatTable, root
from reusebench.system.files import open_regular

__all__ = ["RknnOrigin", "origin", "read"]

#: First bytes, and descriptions, of files that no library of these chips reads.
_FOREIGN = {
    b"RKNX": "is of RKNN3, for chips whose runtime reusebench does not measure",
    b"VPMN": "is of RKNN-Toolkit 1, for chips whose runtime reusebench does not measure",
}
#: The same for all files that cannot be read here; librknnrt decrypts the first kind.
_OTHERS = {b"CYPTRKNN": "is encrypted", **_FOREIGN}
_MAGIC = b"RKNN"
#: Magic, four zero bytes, version, size of the graph; the header is longer since version 2.
_HEADER = struct.Struct("<4s4xQQ")
_OLD_HEADER_SIZE = 24
_HEADER_SIZE = 64
#: Higher bytes of the version in files for the mini runtime.
_MINI_VERSION = 0x10
#: Length of the description, before it.
_LENGTH = struct.Struct("<Q")

#: Errors from reading a damaged file: its offsets lead anywhere, and its texts are not the expected
#: JSON.
_DAMAGED = (
    struct.error,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    SyntaxError,
    RecursionError,
)

#: Field numbers of the tables.
_MODEL_GRAPHS = 2
_MODEL_GENERATOR = 3
_MODEL_COMPILER = 7
_MODEL_INPUTS = 12
_MODEL_OUTPUTS = 13
_GRAPH_TENSORS = 0
_GRAPH_NODES = 1
_NODE_TYPE = 1
_TENSOR_TYPE = 0
_TENSOR_KIND = 2
_TENSOR_SIZE = 12
#: Kinds of tensors that are constants.
_CONSTANTS = (4, 5)
#: Names of tensor types, in the order of their numbers; 0 is unknown.
_TYPE_NAMES = (
    "float32 uint8 int8 uint16 int16 int32 int64 str bool float16 float64 uint32 uint64 complex64"
    " complex128 bfloat16"
)
_TYPES = (None, *_TYPE_NAMES.split())
_LITERAL = re.compile(r"""(?:'[^'\\]*'|"[^"\\]*"|-(?=\d)|[\d.]|True|False|None|[][(){},:\s])*""")
_COMPILER = re.compile(r"compiler version: (\S+)")


class RknnOrigin(NamedTuple):
    """Chips and toolkit that a file was made for and with."""

    #: Chips, as rknn-toolkit2 names them.
    platforms: tuple[str, ...]
    toolkit_version: str


class _Graph(NamedTuple):
    """Facts that the graph adds to the description."""

    operators: tuple[Operator, ...]
    weights: tuple[Weights, ...]
    compiler_version: str
    #: Type and layout, by the name of an input or output.
    tensors: Mapping[str, Mapping[str, str]]
    #: Dynamic shapes by the same names; None if the toolkit did not write whether there are any.
    shapes: Optional[Mapping[str, Sequence[Sequence[int]]]]


def read(path: Path) -> Inspection:
    """Return the contents of the file; raise ModelError if it is no complete .rknn file."""
    with (
        open_regular(path) as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        _refuse(path, content, _OTHERS)
        try:
            return _read(path, content)
        except _DAMAGED:
            raise ModelError(
                f"{path} is not an RKNN model, or is cut short. Convert or copy it again"
            ) from None


def origin(path: Path) -> Optional[RknnOrigin]:
    """Return the origin of the file, read from its two ends; None if it is unknown.

    Raises ModelError if certainly no library of these chips reads the file: it is from other
    software, or cut short. (librknnrt aborts on some such files, and the mini runtime runs some.)
    """
    with (
        open_regular(path) as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        _refuse(path, content, _FOREIGN)
        try:
            _, begin, graph_size = _header(content)
            if len(content) < _end(content, begin + graph_size):
                raise ModelError(
                    f"{path} is cut short: it has {len(content)} bytes, and its header tells of"
                    " more"
                )
            description = _description(content, begin + graph_size)
            return RknnOrigin(tuple(description["target_platform"]), description["version"])
        except _DAMAGED:
            return None


def _refuse(path: Path, content: mmap.mmap, kinds: Mapping[bytes, str]) -> None:
    for magic, kind in kinds.items():
        if content[: len(magic)] == magic:
            raise ModelError(f"{path} {kind}")


def _read(path: Path, content: mmap.mmap) -> Inspection:
    version, begin, graph_size = _header(content)
    description = _description(content, begin + graph_size)
    is_mini = version >> 8 == _MINI_VERSION
    graph = None if is_mini else _graph(content[begin : begin + graph_size])
    inputs, outputs = _tensors(description, graph)
    lacks_weights = None
    has_dynamic_shapes = None
    if graph:
        if sum(weights.size_bytes for weights in graph.weights) > graph_size:
            # The graph lists the weights, and the file has no room for them.
            lacks_weights = True
        if graph.shapes is not None:
            has_dynamic_shapes = bool(graph.shapes)
    return Inspection(
        file=str(path),
        size_bytes=len(content),
        inputs=inputs,
        outputs=outputs,
        weights=graph.weights if graph else None,
        operators=graph.operators if graph else None,
        facts=RknnFacts(
            platforms=tuple(description["target_platform"]),
            toolkit_version=description["version"],
            compiler_version=graph.compiler_version if graph else None,
            source=description.get("ori_network_platform"),
            is_mini=is_mini,
            has_dynamic_shapes=has_dynamic_shapes,
            lacks_weights=lacks_weights,
        ),
    )


def _header(content: mmap.mmap) -> tuple[int, int, int]:
    """Return the version, the position of the graph, and its size."""
    magic, version, graph_size = _HEADER.unpack_from(content)
    if magic != _MAGIC:
        raise ValueError(magic)
    is_long = version & 0xFF > 1 and graph_size
    return version, _HEADER_SIZE if is_long else _OLD_HEADER_SIZE, graph_size


def _end(content: mmap.mmap, position: int) -> int:
    """Return the end of the description whose length should be at `position`."""
    begin = position + _LENGTH.size
    if begin > len(content):
        return begin
    (length,) = _LENGTH.unpack_from(content, position)
    return begin + int(length)


def _description(content: mmap.mmap, position: int) -> Mapping[str, Any]:
    text = content[position + _LENGTH.size : _end(content, position)]
    description: Mapping[str, Any] = json.loads(text)
    _check_texts(
        *description["target_platform"],
        description["version"],
        description.get("ori_network_platform") or "",
    )
    return description


def _graph(content: bytes) -> Optional[_Graph]:
    if content[4:8] != _MAGIC:
        return None
    model = root(content)
    # Files with several shapes have a graph for each, with the same operators and weights.
    first, *_ = model.tables(_MODEL_GRAPHS)
    nodes = Counter(node.text(_NODE_TYPE) for node in first.tables(_GRAPH_NODES))
    compiler = model.text(_MODEL_COMPILER)
    matched = _COMPILER.search(compiler)
    tensors: dict[str, Mapping[str, str]] = {}
    for field in (_MODEL_INPUTS, _MODEL_OUTPUTS):
        tensors.update(json.loads(model.text(field) or "{}"))
    return _Graph(
        operators=tuple(Operator("", name, count) for name, count in nodes.most_common()),
        weights=_weights(first),
        compiler_version=matched[1] if matched else compiler,
        tensors=tensors,
        shapes=_python_literal(model.text(_MODEL_GENERATOR) or "{}").get("dynamic_shapes"),
    )


def _python_literal(text: str) -> Any:
    """Return the value of a Python literal; ValueError if it has more than numbers, texts, lists.

    ast.literal_eval alone may end the process, with a text of thousands of operators.
    """
    if not _LITERAL.fullmatch(text):
        raise ValueError(text)
    return ast.literal_eval(text)


def _weights(graph: FlatTable) -> tuple[Weights, ...]:
    counts: Counter[Optional[str]] = Counter()
    sizes: Counter[Optional[str]] = Counter()
    for tensor in graph.tables(_GRAPH_TENSORS):
        if tensor.byte(_TENSOR_KIND) in _CONSTANTS:
            number = tensor.byte(_TENSOR_TYPE)
            name = _TYPES[number] if number < len(_TYPES) else None
            counts[name] += 1
            sizes[name] += tensor.integer(_TENSOR_SIZE)
    return tuple(Weights(name, counts[name], size) for name, size in sizes.most_common())


def _check_texts(*texts: object) -> None:
    """Raise TypeError or ValueError if one is no text that can be shown."""
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(text)
        text.encode()  # UnicodeEncodeError: half a character


def _check_sizes(shape: Sequence[object]) -> None:
    for size in shape:
        if type(size) is not int or not 0 <= size < 2**63:
            raise ValueError(size)


def _tensors(
    description: Mapping[str, Any], graph: Optional[_Graph]
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the inputs and the outputs."""
    declared = {tensor["tensor_id"]: tensor for tensor in description["norm_tensor"]}
    sides: dict[str, list[Tensor]] = {"input": [], "output": []}
    for link in description["graph"]:
        tensor = declared[link["right_tensor_id"]]
        name = tensor["url"]
        kind: Mapping[str, str] = {}
        shapes: Sequence[Sequence[int]] = ()
        if graph:
            kind = graph.tensors.get(name, {})
            shapes = (graph.shapes or {}).get(name, ())
        shown = Tensor(
            name,
            type=kind.get("dtype") or tensor["dtype"]["vx_type"] or None,
            dimensions=tuple(tensor["size"]),
            layout=kind.get("layout"),
            shapes=tuple(tuple(shape) for shape in shapes),
        )
        _check_texts(shown.name, shown.type or "", shown.layout or "")
        for shape in (shown.dimensions or (), *shown.shapes):
            _check_sizes(shape)
        sides[link["left"]].append(shown)
    return tuple(sides["input"]), tuple(sides["output"])
