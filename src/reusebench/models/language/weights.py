"""Weights of the built-in language models and of their adapters, from a seed.

Only the building process imports this: it imports numpy, which the harness must not.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Optional

import numpy as np
import numpy.typing as npt

from reusebench.models.language.recipe import MERGED, LanguageRecipe
from reusebench.models.language.shapes import CONTROL_TOKENS, VOCABULARY, DecoderShape

__all__ = [
    "ADAPTED",
    "ALPHA",
    "EMBEDDING",
    "RANK",
    "Array",
    "Pair",
    "adapter_pairs",
    "draw_matrices",
]

Array = npt.NDArray[np.float32]

EMBEDDING = "token_embd"

#: Weights are multiples of this step, below 1/2 in size: float16 holds each exactly, and a sum with
#: an adapter's weights too. So f16, f32 and merged files of a model have exactly equal weights.
_STEP = 2.0**-12
_LARGEST = 1900 * _STEP

#: Standard deviation of an embedding's values.
_EMBEDDING_DEVIATION = 0.125
#: Control tokens have small embeddings. The tied output then never chooses them, such as the end of
#: the text.
_CONTROL_SCALE = 0.125
#: Root mean square of each matrix's output for an input of 1. The layers outweigh the embedding, or
#: the tied output would choose the last token for ever; sharper attention (1.7 in attn_q and
#: attn_k) grows rounding errors twofold (measured).
_GAINS = {
    "attn_q": 1.0,
    "attn_k": 1.0,
    "attn_v": 1.0,
    "attn_output": 0.7,
    "ffn_gate": 1.5,
    "ffn_up": 1.5,
    "ffn_down": 0.7,
}

#: Matrices that adapters change, as in the first publication of LoRA (arXiv:2106.09685).
ADAPTED = ("attn_q", "attn_v")
#: Rank of the adapters. They are added with alpha / rank = 1, as they are.
RANK = 8
ALPHA = float(RANK)
#: Size of the values of lora_b; those of lora_a are -1 and 1. Products are multiples of _STEP.
_ADAPTER_STEP = 2.0**-8


@dataclass(frozen=True)
class Pair:
    """The two matrices of an adapter for one matrix W: W + second @ first."""

    #: Named lora_a in files: rank x columns.
    first: Array
    #: Named lora_b: rows x rank.
    second: Array


def draw_matrices(recipe: LanguageRecipe) -> Iterator[tuple[str, Array]]:
    """Yield name and values of each matrix: the embedding, then the layers'.

    Names are GGUF's without ".weight". Rows of attn_q and attn_k are in the order of Hugging Face's
    files: the first halves of a head's rows turn with its second halves. All norms are 1. The
    adapter of a merged model is added. Equal bytes need the same numpy, since its generators may
    change between versions.
    """
    shape = recipe.shape
    pairs = dict(adapter_pairs(recipe)) if recipe.part == MERGED else {}
    yield EMBEDDING, _embedding(recipe)
    for name, rows, columns in _layer_matrices(shape):
        deviation = _GAINS[name.rpartition(".")[2]] / math.sqrt(columns)
        values = _on_grid(_normal(recipe, name, (rows, columns)) * np.float32(deviation))
        pair: Optional[Pair] = pairs.get(name)
        if pair is not None:
            values += pair.second @ pair.first
        yield name, values


def adapter_pairs(recipe: LanguageRecipe) -> Iterator[tuple[str, Pair]]:
    """Yield the adapter's pairs, each with the name of its matrix."""
    for name, rows, columns in _layer_matrices(recipe.shape):
        if not name.endswith(ADAPTED):
            continue
        generator = _generator(recipe, f"{name}.lora{recipe.number}")
        first = _signs(generator, (RANK, columns))
        second = _signs(generator, (rows, RANK)) * np.float32(_ADAPTER_STEP)
        yield name, Pair(first, second)


def _layer_matrices(shape: DecoderShape) -> Iterator[tuple[str, int, int]]:
    for layer in range(shape.layers):
        for name, (rows, columns) in shape.matrices().items():
            yield f"blk.{layer}.{name}", rows, columns


def _embedding(recipe: LanguageRecipe) -> Array:
    values = _normal(recipe, EMBEDDING, (VOCABULARY, recipe.shape.width))
    values *= np.float32(_EMBEDDING_DEVIATION)
    values[: len(CONTROL_TOKENS)] *= np.float32(_CONTROL_SCALE)
    return _on_grid(values)


def _normal(recipe: LanguageRecipe, name: str, sizes: tuple[int, int]) -> Array:
    return _generator(recipe, name).standard_normal(sizes, dtype=np.float32)


def _signs(generator: np.random.Generator, sizes: tuple[int, int]) -> Array:
    return (2 * generator.integers(2, size=sizes) - 1).astype(np.float32)


def _generator(recipe: LanguageRecipe, name: str) -> np.random.Generator:
    """Return a generator of its own for each tensor of a model."""
    number = zlib.crc32(name.encode("ascii"))
    return np.random.default_rng([recipe.seed, recipe.shape.draw, number])


def _on_grid(values: Array) -> Array:
    step = np.float32(_STEP)
    rounded = np.round(values / step) * step
    clipped: Array = np.clip(rounded, -np.float32(_LARGEST), np.float32(_LARGEST))
    return clipped
