"""Writes files in the form of .rknn files, with only the parts that are read."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Union

__all__ = ["MINI", "STATIC", "save_rknn"]

#: Versions of the container: of rknn-toolkit2, and of its files for the mini runtime.
STATIC = 6
MINI = 0x1004

#: A field of a table: a byte, an integer of four bytes, a text, tables.
_Field = Union[bytes, int, str, Sequence["_Table"]]
_Table = Mapping[int, _Field]

_FLOAT16 = 10
_INT8 = 3
_INPUT = 1
_WEIGHT = 4


def save_rknn(
    path: Path,
    shapes: Mapping[str, Sequence[int]],
    version: int = STATIC,
    weight_bytes: int = 100,
    dynamic_shapes: Mapping[str, Sequence[Sequence[int]]] | None = None,
    generator: str | None = None,
    platform: str = "rk3588",
) -> Path:
    """Write a file with these inputs, in int8, and an output "y", in float16; return its path."""
    tensors: list[_Table] = [
        {0: bytes([_INT8]), 2: bytes([_WEIGHT]), 12: weight_bytes},
        {0: bytes([_FLOAT16]), 2: bytes([_WEIGHT]), 12: 8},
        {0: bytes([_INT8]), 2: bytes([_INPUT]), 12: 77},
    ]
    kinds = {name: {"dtype": "int8", "layout": "NHWC"} for name in shapes}
    model: _Table = {
        2: [{0: tensors, 1: [{1: "Conv"}, {1: "Conv"}, {1: "Reshape"}]}],
        3: repr({"attrs": {}, "dynamic_shapes": dynamic_shapes or {}})
        if generator is None
        else generator,
        7: "2.3.2(compiler version: 2.3.1 (e045de294f@2025-04-07T19:48:25))",
        12: json.dumps(kinds),
        13: json.dumps({"y": {"dtype": "float16", "layout": "NCHW"}}),
    }
    root = _table(model)
    graph = b"\x08\0\0\0RKNN" + root if version == STATIC else bytes(50)
    names = [*shapes, "y"]
    sizes = [*shapes.values(), (1, 10)]
    description = {
        "norm_tensor": [
            {
                "tensor_id": number,
                "url": name,
                "size": size,
                "dtype": {"vx_type": "int8" if name in shapes else ""},
            }
            for number, (name, size) in enumerate(zip(names, sizes))
        ],
        "graph": [
            {
                "left": "input" if name in shapes else "output",
                "right": "norm_tensor",
                "right_tensor_id": number,
            }
            for number, name in enumerate(names)
        ],
        "target_platform": [platform],
        "version": "2.3.2",
        "ori_network_platform": "ONNX",
    }
    text = json.dumps(description).encode()
    header = struct.pack("<4s4xQQ40x", b"RKNN", version, len(graph))
    path.write_bytes(header + graph + struct.pack("<Q", len(text)) + text)
    return path


def _table(fields: _Table) -> bytes:
    """Return a table of FlatBuffers; the list of its offsets, and what it refers to, follow it."""
    count = max(fields, default=-1) + 1
    # The offset of that list, four bytes for each field, and the list.
    begins = {number: 4 + 4 * index for index, number in enumerate(fields)}
    size = 4 + 4 * len(fields)
    offsets = [begins.get(number, 0) for number in range(count)]
    body = bytearray(size)
    body += struct.pack(f"<HH{count}H", 4 + 2 * count, size, *offsets)
    struct.pack_into("<i", body, 0, -size)
    for number, begin in begins.items():
        field = fields[number]
        if isinstance(field, bytes):
            body[begin : begin + 1] = field
        elif isinstance(field, int):
            struct.pack_into("<i", body, begin, field)
        else:
            struct.pack_into("<I", body, begin, len(body) - begin)
            body += _text(field) if isinstance(field, str) else _tables(field)
    return bytes(body)


def _text(text: str) -> bytes:
    return struct.pack("<I", len(text.encode())) + text.encode()


def _tables(tables: Sequence[_Table]) -> bytes:
    content = bytearray(struct.pack("<I", len(tables)) + bytes(4 * len(tables)))
    for index, fields in enumerate(tables):
        entry = 4 + 4 * index
        struct.pack_into("<I", content, entry, len(content) - entry)
        content += _table(fields)
    return bytes(content)
