"""Reads .rknn files, of rknn-toolkit2, without a library of Rockchip's.

Their format is not published. What is read here is what the open source viewer netron reads (its
rknn-schema.js), and stands in the file in the clear: a header, the graph as FlatBuffers, and a
description as JSON. The form of the mini runtime has no such graph. Everything else is unknown, and
None.
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

#: How files begin that no library of these chips reads, and what they are.
_FOREIGN = {
    b"RKNX": "is of RKNN3, for chips whose runtime reusebench does not measure",
    b"VPMN": "is of RKNN-Toolkit 1, for chips whose runtime reusebench does not measure",
}
#: The same of those that cannot be read here: librknnrt decrypts the first.
_OTHERS = {b"CYPTRKNN": "is encrypted", **_FOREIGN}
_MAGIC = b"RKNN"
#: Magic, four bytes of zero, version, size of the graph; a header of version 2 and later is longer.
_HEADER = struct.Struct("<4s4xQQ")
_OLD_HEADER_SIZE = 24
_HEADER_SIZE = 64
#: The higher bytes of the version of a file for the mini runtime.
_MINI_VERSION = 0x10
#: Stands before the description.
_LENGTH = struct.Struct("<Q")

#: What reading a damaged file raises: its offsets lead anywhere, and its texts are no JSON, or not
#: that JSON.
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

#: Fields of the tables, by their numbers.
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
#: By the number of a tensor's type; 0 is unknown.
_TYPES = (
    *(
        None,
        "float32",
        "uint8",
        "int8",
        "uint16",
        "int16",
        "int32",
        "int64",
        "str",
        "bool",
        "float16",
        "float64",
    ),
    *("uint32", "uint64", "complex64", "complex128", "bfloat16"),
)
_LITERAL = re.compile(r"""(?:'[^'\\]*'|"[^"\\]*"|-(?=\d)|[\d.]|True|False|None|[][(){},:\s])*""")
_COMPILER = re.compile(r"compiler version: (\S+)")


class RknnOrigin(NamedTuple):
    """What a file says of how it was made."""

    #: The chips, as rknn-toolkit2 names them.
    platforms: tuple[str, ...]
    toolkit_version: str


class _Graph(NamedTuple):
    """What the graph shows beyond the description."""

    operators: tuple[Operator, ...]
    weights: tuple[Weights, ...]
    compiler_version: str
    #: Type and layout, by the name of an input or output.
    tensors: Mapping[str, Mapping[str, str]]
    #: By the same; None: the toolkit did not write whether there are several.
    shapes: Optional[Mapping[str, Sequence[Sequence[int]]]]


def read(path: Path) -> Inspection:
    """Return what the file shows; raise ModelError if it is no whole .rknn file."""
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
    """Return how the file was made, from its two ends; None if it does not show.

    Raises ModelError if it is certain that no library of these chips reads it: it is of other
    software, or cut short (librknnrt aborts on some such files, and the mini runtime runs some).
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
    if graph and sum(weights.size_bytes for weights in graph.weights) > graph_size:
        # They are in the account, and there is no room for them in the file.
        lacks_weights = True
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
            has_dynamic_shapes=(
                None if graph is None or graph.shapes is None else bool(graph.shapes)
            ),
            lacks_weights=lacks_weights,
        ),
    )


def _header(content: mmap.mmap) -> tuple[int, int, int]:
    """Return the version, where the graph begins, and its size."""
    magic, version, graph_size = _HEADER.unpack_from(content)
    if magic != _MAGIC:
        raise ValueError(magic)
    return (
        version,
        _HEADER_SIZE if version & 0xFF > 1 and graph_size else _OLD_HEADER_SIZE,
        graph_size,
    )


def _end(content: mmap.mmap, position: int) -> int:
    """Return where the description ends whose length stands at the position, or should stand."""
    begin = position + _LENGTH.size
    return begin + _LENGTH.unpack_from(content, position)[0] if begin <= len(content) else begin


def _description(content: mmap.mmap, position: int) -> Mapping[str, Any]:
    description: Mapping[str, Any] = json.loads(
        content[position + _LENGTH.size : _end(content, position)]
    )
    _check(
        *description["target_platform"],
        description["version"],
        description.get("ori_network_platform") or "",
    )
    return description


def _graph(content: bytes) -> Optional[_Graph]:
    if content[4:8] != _MAGIC:
        return None
    model = root(content)
    # One for each of several shapes, with the same operators and weights.
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
    """Return what was written as Python prints it; ValueError if that is not numbers, texts and
    lists of them.

    Python's own reader may end the process with a text of thousands of operators.
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


def _check(*texts: object) -> None:
    """Raise TypeError or ValueError if one is no text that can be shown."""
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(text)
        text.encode()  # UnicodeEncodeError: half a character


def _check_sizes(*shapes: Sequence[object]) -> None:
    for size in (size for shape in shapes for size in shape):
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
        kind = graph.tensors.get(name, {}) if graph else {}
        shapes = (graph.shapes or {}).get(name, ()) if graph else ()
        shown = Tensor(
            name,
            kind.get("dtype") or tensor["dtype"]["vx_type"] or None,
            tuple(tensor["size"]),
            kind.get("layout"),
            tuple(map(tuple, shapes)),
        )
        _check(shown.name, shown.type or "", shown.layout or "")
        _check_sizes(shown.dimensions or (), *shown.shapes)
        sides[link["left"]].append(shown)
    return tuple(sides["input"]), tuple(sides["output"])
