"""Reads .gguf files, of llama.cpp and others: language models, their adapters and vocabularies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from reusebench.models.errors import ModelError
from reusebench.models.inspection.contents import (
    GgufAdapter,
    GgufFacts,
    GgufPart,
    Inspection,
    KvCache,
    Weights,
)
from reusebench.models.inspection.gguf_header import Header, LongList, StoredTensor, read_header
from reusebench.models.inspection.gguf_types import CACHE_TYPES, FILE_TYPES, TensorType
from reusebench.models.model_kinds import parts_of
from reusebench.system.files import printable

__all__ = ["read"]

#: Values of general.type; files without it are models.
_MODEL = "model"
_ADAPTER = "adapter"
#: A file with a vocabulary and no tensors, as llama.cpp's tests have them.
_VOCABULARY = "vocabulary"

#: Every how many layers one keeps all tokens, where files do not tell: as llama.cpp knows it of the
#: architecture (load_swa_pattern in src/models/*.cpp of 0.3.36). The others keep those of a window.
_WINDOW_PATTERNS = {
    "afmoe": 4,
    "cohere2": 4,
    "exaone4": 4,
    "exaone-moe": 4,
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gpt-oss": 2,
    "llama4": 4,
    "olmo2": 4,
    "plamo3": 8,
}
#: Window of llama4, whose files do not tell it: chunks of 8,192 tokens.
_CHUNKS = {"llama4": 8192}
#: Architectures for which llama.cpp ignores the window that their files have.
_IGNORED_WINDOWS = ("phi3",)

#: Bounds of numbers that are counted up to here.
_MOST_LAYERS = 1 << 12
_MOST_VALUES = 1 << 24


@dataclass(frozen=True)
class _Layer:
    """The keys and values that one layer keeps of a token."""

    heads: int
    key_size: int
    value_size: int
    #: Whether it keeps the tokens of the window alone.
    has_window: bool

    def bytes_in(self, kind: TensorType) -> int:
        """Return their size in a cache of that type; ValueError if it has no whole blocks."""
        for size in (self.key_size, self.value_size):
            kind.row_bytes(size)
        return self.heads * (kind.row_bytes(self.key_size) + kind.row_bytes(self.value_size))


def read(path: Path) -> Inspection:
    """Return the contents of the file, and of the other parts if it is one of a split model.

    Raises ModelError if a file is no complete GGUF file, or the first part is missing.
    """
    headers, parts = _all_parts(path)
    first = headers[0]
    tensors = [tensor for header in headers for tensor in header.tensors]
    facts = _facts(first, tensors, parts)
    return Inspection(
        file=str(path),
        size_bytes=sum(header.size_bytes for header in headers),
        inputs=(),
        outputs=(),
        weights=_weights(tensors),
        operators=None,
        facts=facts,
        hindrances=tuple(_hindrances(facts, first)),
    )


def _all_parts(path: Path) -> tuple[list[Header], tuple[GgufPart, ...]]:
    """Return the headers of the parts that are there, and all parts; no parts if it is whole."""
    paths = parts_of(path)
    if not paths:
        header = read_header(path)
        count = header.number("split.count") or 0
        if count > 1:
            raise ModelError(
                f"{printable(str(path))} is one of {count} parts of a model, and its name does not"
                f" say which: give it its name again, NAME-00001-of-{count:05}.gguf"
            )
        return [header], ()
    headers = []
    parts = []
    for part in paths:
        is_there = part.is_file()
        parts.append(GgufPart(part.name, part.stat().st_size if is_there else None))
        if is_there:
            headers.append(read_header(part))
    if parts[0].size_bytes is None:
        raise ModelError(
            f"{printable(str(paths[0]))} is missing: it is the first of the {len(paths)} parts of"
            f" {printable(path.name)}, and has the model's keys. Copy all parts into one folder"
        )
    return headers, tuple(parts)


def _facts(header: Header, tensors: list[StoredTensor], parts: tuple[GgufPart, ...]) -> GgufFacts:
    architecture = header.text("general.architecture") or ""
    kind = header.text("general.type") or _MODEL
    if kind == _MODEL and not tensors:
        kind = _VOCABULARY
    keys = _Keys(header, architecture)
    layers = keys.layers() if kind == _MODEL else []
    heads = keys.per_layer("attention.head_count", len(layers), 0)
    window = keys.window()
    file_type = header.number("general.file_type")
    return GgufFacts(
        version=header.version,
        kind=kind,
        architecture=architecture,
        name=header.text("general.name") or "",
        file_type=FILE_TYPES.get(file_type, str(file_type)) if file_type is not None else None,
        layers=keys.number("block_count"),
        heads=_distinct(heads),
        kv_heads=_distinct([layer.heads for layer in layers]),
        key_size=max((layer.key_size for layer in layers), default=None),
        value_size=max((layer.value_size for layer in layers), default=None),
        embedding=keys.number("embedding_length"),
        experts=keys.number("expert_count"),
        vocabulary=_vocabulary(header, keys),
        tokenizer=header.text("tokenizer.ggml.model"),
        context=keys.number("context_length"),
        window=window,
        window_layers=sum(layer.has_window for layer in layers),
        kv_cache=tuple(_kv_caches(layers)),
        adapter=_adapter(header, tensors) if kind == _ADAPTER else None,
        parts=parts,
    )


class _Keys:
    """The keys of the model's architecture."""

    def __init__(self, header: Header, architecture: str) -> None:
        self._header = header
        self._architecture = architecture

    def number(self, name: str, most: int = _MOST_VALUES) -> Optional[int]:
        """Return a whole number; None if it is missing, negative or larger than `most`."""
        value = self._header.number(f"{self._architecture}.{name}")
        return value if value is not None and 0 <= value <= most else None

    def per_layer(self, name: str, layers: int, default: int) -> list[int]:
        """Return the numbers of all layers; the file has one for all, or a list."""
        value = self._header.keys.get(f"{self._architecture}.{name}")
        if isinstance(value, list) and len(value) >= layers:
            return [int(entry) if 0 <= entry <= _MOST_VALUES else 0 for entry in value[:layers]]
        number = self.number(name)
        return [default if number is None else number] * layers

    def window(self) -> Optional[int]:
        """Return the tokens that layers with a window keep; None if all layers keep all."""
        if self._architecture in _IGNORED_WINDOWS:
            return None
        window = self.number("attention.sliding_window") or _CHUNKS.get(self._architecture)
        return window or None

    def layers(self) -> list[_Layer]:
        """Return the layers that keep keys and values."""
        count = min(self.number("block_count") or 0, _MOST_LAYERS)
        # The last layers, which guess further tokens, are not among those that llama.cpp runs.
        count -= min(self.number("nextn_predict_layers") or 0, count)
        heads = self.per_layer("attention.head_count", count, 0)
        kv_heads = self.per_layer("attention.head_count_kv", count, 0)
        if f"{self._architecture}.attention.head_count_kv" not in self._header.keys:
            kv_heads = heads
        keeping = count - (self.number("attention.shared_kv_layers") or 0)
        interval = self.number("full_attention_interval") or 1
        is_window = self._window_flags(count)
        layers = []
        for number in range(count):
            if number >= keeping or (number + 1) % interval or not kv_heads[number]:
                continue
            layers.append(self._layer(heads[number], kv_heads[number], is_window[number]))
        return layers

    def _layer(self, heads: int, kv_heads: int, has_window: bool) -> _Layer:
        by_default = (self.number("embedding_length") or 0) // heads if heads else 0
        suffix = "_swa" if has_window else ""
        sizes = []
        for name in ("attention.key_length", "attention.value_length"):
            size = self.number(f"{name}{suffix}") or self.number(name)
            sizes.append(by_default if size is None else size)
        # Multi-head latent attention keeps no values: they are computed from the keys.
        if self.number("attention.key_length_mla"):
            sizes[1] = 0
        return _Layer(kv_heads, sizes[0], sizes[1], has_window)

    def _window_flags(self, count: int) -> list[bool]:
        """Return for each layer whether it keeps the tokens of the window alone."""
        name = "attention.sliding_window_pattern"
        pattern = self._header.keys.get(f"{self._architecture}.{name}")
        if self.window() is None:
            return [False] * count
        if isinstance(pattern, list) and len(pattern) >= count:
            return [bool(entry) for entry in pattern[:count]]
        every = self.number(name) or _WINDOW_PATTERNS.get(self._architecture)
        if every is None:
            return [False] * count
        return [number % every < every - 1 for number in range(count)]


def _distinct(numbers: Iterable[int]) -> tuple[int, ...]:
    """Return the numbers that layers have, the most frequent first."""
    return tuple(number for number, _ in Counter(numbers).most_common())


def _vocabulary(header: Header, keys: _Keys) -> Optional[int]:
    tokens = header.keys.get("tokenizer.ggml.tokens")
    if isinstance(tokens, LongList):
        return tokens.count
    return keys.number("vocab_size")


def _kv_caches(layers: list[_Layer]) -> Iterator[KvCache]:
    """Yield the size of a token by type of the cache; types that do not fit a head are left out."""
    for name, kind in CACHE_TYPES.items():
        try:
            sizes = [(layer.has_window, layer.bytes_in(kind)) for layer in layers]
        except ValueError:
            continue
        if sizes:
            windows = sum(size for has_window, size in sizes if has_window)
            yield KvCache(name, sum(size for _, size in sizes), windows)


def _adapter(header: Header, tensors: list[StoredTensor]) -> GgufAdapter:
    """Return the facts of an adapter; its rank is the number of rows of its first matrices."""
    ranks = [
        tensor.sizes[1]
        for tensor in tensors
        if tensor.name.endswith(".lora_a") and len(tensor.sizes) > 1
    ]
    alpha = header.keys.get("adapter.lora.alpha")
    return GgufAdapter(
        type=header.text("adapter.type") or "",
        rank=max(ranks, default=None),
        alpha=float(alpha) if isinstance(alpha, (int, float)) else None,
        pairs=len(ranks),
    )


def _weights(tensors: Iterable[StoredTensor]) -> tuple[Weights, ...]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        counts[tensor.type.name] += 1
        sizes[tensor.type.name] += tensor.size_bytes
    return tuple(Weights(name, counts[name], size) for name, size in sizes.most_common())


def _hindrances(facts: GgufFacts, header: Header) -> Iterator[str]:
    for part in facts.parts:
        if part.size_bytes is None:
            yield f"{part.name}, one of its {len(facts.parts)} parts, is not in its folder"
    if facts.kind == _VOCABULARY:
        yield "it has a vocabulary alone, and no weights"
    elif facts.kind == _ADAPTER:
        yield "it is an adapter: give its model with --model, and this file with --adapter"
    elif facts.kind != _MODEL:
        yield f"it is a part of a model ({facts.kind}), and no model of its own"
    elif not facts.architecture:
        yield "it does not say its architecture"
    elif header.keys.get(f"{facts.architecture}.attention.causal") is False:
        yield "it is an encoder, which generates no text"
