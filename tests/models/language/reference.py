"""The built-in decoder in numpy, from its drawn weights: what every runtime must compute."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reusebench.models.language.recipe import LanguageRecipe
from reusebench.models.language.shapes import EPSILON, ROPE_BASE
from reusebench.models.language.weights import EMBEDDING, Pair, draw_matrices

Array = npt.NDArray[np.float64]


class Choice(NamedTuple):
    """A token that was chosen greedily."""

    token: int
    #: Distance of its logit from the next best, in standard deviations of all logits.
    margin: float


class Decoder:
    """One conversation with a model, in float64."""

    def __init__(self, recipe: LanguageRecipe, pairs: dict[str, Pair] | None = None) -> None:
        """`pairs` are those of an adapter, which stays apart from the weights."""
        self._shape = recipe.shape
        self._weights = {name: values.astype(np.float64) for name, values in draw_matrices(recipe)}
        self._pairs = pairs or {}
        self.clear()

    def clear(self) -> None:
        """Forget the conversation."""
        shape = self._shape
        empty = np.zeros((0, shape.kv_heads, shape.head_size))
        self._keys = [empty] * shape.layers
        self._values = [empty] * shape.layers

    def generate(self, prompt: list[int], count: int) -> list[Choice]:
        """Return the next `count` tokens."""
        choices: list[Choice] = []
        tokens = prompt
        for _ in range(count):
            logits = self.logits(tokens)
            second, best = np.argsort(logits)[-2:]
            margin = float((logits[best] - logits[second]) / logits.std())
            choices.append(Choice(int(best), margin))
            tokens = [int(best)]
        return choices

    def logits(self, tokens: list[int]) -> Array:
        """Return the logits after further tokens."""
        values = self._weights[EMBEDDING][tokens]
        for layer in range(self._shape.layers):
            values = values + self._attention(layer, _normalised(values))
            values = values + self._feed_forward(layer, _normalised(values))
        logits: Array = self._weights[EMBEDDING] @ _normalised(values[-1])
        return logits

    def _times(self, layer: int, name: str, values: Array) -> Array:
        name = f"blk.{layer}.{name}"
        product: Array = values @ self._weights[name].T
        pair = self._pairs.get(name)
        if pair is not None:
            product = product + values @ pair.first.T @ pair.second.T
        return product

    def _attention(self, layer: int, values: Array) -> Array:
        shape = self._shape
        count = len(values)
        begin = len(self._keys[layer])
        positions = np.arange(begin, begin + count)
        queries = self._times(layer, "attn_q", values).reshape(count, shape.heads, -1)
        keys = self._times(layer, "attn_k", values).reshape(count, shape.kv_heads, -1)
        new = self._times(layer, "attn_v", values).reshape(count, shape.kv_heads, -1)
        self._keys[layer] = np.concatenate([self._keys[layer], _turned(keys, positions)])
        self._values[layer] = np.concatenate([self._values[layer], new])

        group = shape.heads // shape.kv_heads
        all_keys = np.repeat(self._keys[layer], group, axis=1)
        all_values = np.repeat(self._values[layer], group, axis=1)
        scores = np.einsum("thd,nhd->htn", _turned(queries, positions), all_keys)
        scores /= np.sqrt(shape.head_size)
        is_later = np.arange(begin + count)[None] > positions[:, None]
        scores = np.where(is_later, -np.inf, scores)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = np.einsum("htn,nhd->thd", weights, all_values).reshape(count, -1)
        return self._times(layer, "attn_output", mixed)

    def _feed_forward(self, layer: int, values: Array) -> Array:
        gate = self._times(layer, "ffn_gate", values)
        silu = gate / (1 + np.exp(-gate))
        return self._times(layer, "ffn_down", silu * self._times(layer, "ffn_up", values))


def _normalised(values: Array) -> Array:
    normalised: Array = values / np.sqrt((values**2).mean(axis=-1, keepdims=True) + EPSILON)
    return normalised


def _turned(heads: Array, positions: npt.NDArray[np.int64]) -> Array:
    """Return the heads with rotary position embedding: halves of a head turn together."""
    size = heads.shape[-1]
    angles = positions[:, None] / ROPE_BASE ** (np.arange(0, size, 2) / size)
    cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
    first, second = heads[..., : size // 2], heads[..., size // 2 :]
    turned = (first * cosine - second * sine, second * cosine + first * sine)
    return np.concatenate(turned, axis=-1)
