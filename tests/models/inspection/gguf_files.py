"""GGUF files written byte by byte, also such as nobody should have."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Union

_ALIGNMENT = 32
#: Numbers of types of values, by the type of Python.
_TEXT = 8
_LIST = 9
_UINT32 = 4
_FLOAT32 = 6
_BOOL = 7

#: A decoder of 4 layers without tensors' data.
KEYS: dict[str, Any] = {
    "general.architecture": "llama",
    "general.name": "a model",
    "general.file_type": 1,
    "llama.block_count": 4,
    "llama.embedding_length": 256,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.context_length": 2048,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": ["a", "b", "c"],
}


class TensorSpec(NamedTuple):
    """An entry of the list of tensors."""

    name: str = "token_embd.weight"
    sizes: tuple[int, ...] = (256, 3)
    type: int = 1
    offset: int = 0


def gguf_bytes(
    keys: Union[Mapping[str, Any], Sequence[tuple[str, Any]]] = KEYS,
    tensors: Sequence[TensorSpec] = (TensorSpec(),),
    data_bytes: int = 256 * 3 * 2,
    version: int = 3,
    tensor_count: int | None = None,
    key_count: int | None = None,
) -> bytes:
    """Return a file; counts other than the true ones make it damaged."""
    pairs = list(keys.items()) if isinstance(keys, Mapping) else list(keys)
    counts = (
        len(tensors) if tensor_count is None else tensor_count,
        len(pairs) if key_count is None else key_count,
    )
    content = b"GGUF" + struct.pack("<IQQ", version, *counts)
    for key, value in pairs:
        content += _text(key) + _value(value)
    for tensor in tensors:
        content += _text(tensor.name) + struct.pack("<I", len(tensor.sizes))
        content += struct.pack(f"<{len(tensor.sizes)}Q", *tensor.sizes)
        content += struct.pack("<IQ", tensor.type, tensor.offset)
    return content + b"\0" * (-len(content) % _ALIGNMENT) + b"\0" * data_bytes


def save_gguf(path: Path, **parts: Any) -> Path:
    """Write a file of these parts and return its path."""
    path.write_bytes(gguf_bytes(**parts))
    return path


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _value(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, list):
        kind, content = _elements(value)
        return struct.pack("<IIQ", _LIST, kind, len(value)) + content
    kind, content = _elements([value])
    return struct.pack("<I", kind) + content


def _elements(values: list[Any]) -> tuple[int, bytes]:
    first = values[0] if values else 0
    if isinstance(first, str):
        return _TEXT, b"".join(map(_text, values))
    if isinstance(first, bool):
        return _BOOL, struct.pack(f"<{len(values)}?", *values)
    if isinstance(first, float):
        return _FLOAT32, struct.pack(f"<{len(values)}f", *values)
    return _UINT32, struct.pack(f"<{len(values)}I", *values)
