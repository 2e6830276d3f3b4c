"""What an ONNX file says, read without the onnx package: protobuf is simple to walk.

The numbers of fields are those of onnx.proto.
"""

from __future__ import annotations

from typing import Iterator, Set, Tuple, Union

Value = Union[int, memoryview]

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}

_MODEL_GRAPH, _MODEL_FUNCTIONS = 7, 25
_GRAPH_NODE, _GRAPH_INITIALIZER = 1, 5
_NODE_NAME, _NODE_ATTRIBUTE, _NODE_DOMAIN = 4, 5, 7
_FUNCTION_NODE = 7
_ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPH, _ATTRIBUTE_TENSORS, _ATTRIBUTE_GRAPHS = 5, 6, 10, 11
_TENSOR_EXTERNAL_DATA = 13
_ENTRY_KEY, _ENTRY_VALUE = 1, 2


class NotProtobuf(ValueError):
    """Bytes that are no protobuf message."""


def _varint(data: memoryview, place: int) -> Tuple[int, int]:
    """Return the number at the place, and the place behind it."""
    value = shift = 0
    while True:
        if place >= len(data) or shift > 63:
            raise NotProtobuf("a number is cut short")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def fields(data: memoryview) -> Iterator[Tuple[int, Value]]:
    """Yield number and value of each field of a message that is a number or has a length."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == _VARINT:
            number, place = _varint(data, place)
            yield key >> 3, number
            continue
        if kind == _LENGTH:
            size, place = _varint(data, place)
        elif kind in _FIXED_BYTES:
            size = _FIXED_BYTES[kind]
        else:
            raise NotProtobuf(f"there is no kind of field {kind}")
        if place + size > len(data):
            raise NotProtobuf("a field is cut short")
        if kind == _LENGTH:
            yield key >> 3, data[place : place + size]
        place += size


def _nested(data: memoryview, *numbers: int) -> Iterator[Tuple[int, memoryview]]:
    """Yield the nested messages, or strings, with these numbers."""
    for number, value in fields(data):
        if number in numbers and isinstance(value, memoryview):
            yield number, value


class Contents:
    """The operators of a model, and the files that have its weights."""

    def __init__(self, data: memoryview) -> None:
        #: Domain and name, in all graphs and functions.
        self.operators: Set[Tuple[str, str]] = set()
        self.external_files: Set[str] = set()
        for number, message in _nested(data, _MODEL_GRAPH, _MODEL_FUNCTIONS):
            if number == _MODEL_GRAPH:
                self._add_graph(message)
            else:
                for _, node in _nested(message, _FUNCTION_NODE):
                    self._add_node(node)

    def _add_graph(self, graph: memoryview) -> None:
        for number, message in _nested(graph, _GRAPH_NODE, _GRAPH_INITIALIZER):
            if number == _GRAPH_NODE:
                self._add_node(message)
            else:
                self._add_tensor(message)

    def _add_node(self, node: memoryview) -> None:
        name = domain = ""
        for number, value in _nested(node, _NODE_NAME, _NODE_DOMAIN, _NODE_ATTRIBUTE):
            if number == _NODE_NAME:
                name = str(value, "utf-8")
            elif number == _NODE_DOMAIN:
                domain = str(value, "utf-8")
            else:
                self._add_attribute(value)
        self.operators.add((domain, name))

    def _add_attribute(self, attribute: memoryview) -> None:
        graphs = (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS)
        tensors = (_ATTRIBUTE_TENSOR, _ATTRIBUTE_TENSORS)
        for number, value in _nested(attribute, *graphs, *tensors):
            if number in graphs:
                self._add_graph(value)
            else:
                self._add_tensor(value)

    def _add_tensor(self, tensor: memoryview) -> None:
        for _, entry in _nested(tensor, _TENSOR_EXTERNAL_DATA):
            pair = dict(_nested(entry, _ENTRY_KEY, _ENTRY_VALUE))
            if bytes(pair.get(_ENTRY_KEY, b"")) == b"location" and _ENTRY_VALUE in pair:
                self.external_files.add(str(pair[_ENTRY_VALUE], "utf-8"))
