"""Writes a built-in language model for OpenVINO GenAI: a folder with an IR, or an adapter.

Only the building process imports this: it imports numpy and openvino.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import openvino as ov
from openvino import PartialShape, Type
from openvino import opset13 as ops
from openvino.op.util import Variable, VariableInfo

from reusebench.models.language.recipe import LanguageRecipe
from reusebench.models.language.shapes import EPSILON, ROPE_BASE, VOCABULARY
from reusebench.models.language.tokens import BOS, EOS, write_tokenizer
from reusebench.models.language.weights import (
    ALPHA,
    EMBEDDING,
    Array,
    adapter_pairs,
    draw_matrices,
)

__all__ = ["write_openvino", "write_openvino_adapter"]

#: Names of the projections in Hugging Face's models, by those in GGUF files. The runtime finds the
#: matrices of an adapter by the names that an export with optimum-intel gives them.
_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
#: Added to the scores of tokens that come later: the lowest number of float16.
_MASKED = -65504.0
#: End of a slice that has no end.
_END = 2**62


def write_openvino(recipe: LanguageRecipe, path: Path) -> None:
    """Write the IR, whose weights are float16 and computed with as float32, and the tokenizer."""
    model = _Graph(recipe).model()
    ov.save_model(model, str(path), compress_to_fp16=False)
    write_tokenizer(path.parent)
    config = {
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "max_position_embeddings": recipe.shape.context,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }
    path.with_name("config.json").write_text(json.dumps(config), encoding="utf-8")


def write_openvino_adapter(recipe: LanguageRecipe, path: Path) -> None:
    """Write the adapter as safetensors, with the names that Hugging Face's PEFT gives."""
    tensors = dict(_adapter_tensors(recipe))
    header = {}
    offset = 0
    for name, values in tensors.items():
        end = offset + values.nbytes
        header[name] = {
            "dtype": "F32",
            "shape": list(values.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            file.write(values.tobytes())


def _adapter_tensors(recipe: LanguageRecipe) -> Iterator[tuple[str, Array]]:
    for matrix, pair in adapter_pairs(recipe):
        _, layer, name = matrix.split(".")
        prefix = f"base_model.model.model.layers.{layer}.{_NAMES[name]}"
        yield f"{prefix}.lora_A.weight", pair.first
        yield f"{prefix}.lora_B.weight", pair.second
        yield f"{prefix}.alpha", np.array([ALPHA], dtype=np.float32)


def _number(value: Any, kind: npt.DTypeLike = np.int64) -> Any:
    return ops.constant(np.array(value, dtype=kind))


def _float(value: float) -> Any:
    return _number(value, np.float32)


def _input(name: str, dimensions: int, kind: Type) -> Any:
    parameter = ops.parameter(PartialShape([-1] * dimensions), kind, name=name)
    parameter.output(0).get_tensor().set_names({name})
    return parameter


class _Graph:
    """The decoder's graph while it is made: stateful, as optimum-intel exports models."""

    def __init__(self, recipe: LanguageRecipe) -> None:
        self._shape = recipe.shape
        self._weights = dict(draw_matrices(recipe))
        self._assigned: list[Any] = []
        self._tokens = _input("input_ids", 2, Type.i64)
        self._mask = _input("attention_mask", 2, Type.i64)
        self._positions = _input("position_ids", 2, Type.i64)
        self._beams = _input("beam_idx", 1, Type.i32)
        sizes = ops.shape_of(self._tokens)
        self._batch = ops.gather(sizes, _number([0]), _number(0))
        self._new = ops.gather(sizes, _number([1]), _number(0))
        self._total = ops.gather(ops.shape_of(self._mask), _number([1]), _number(0))

    def model(self) -> Any:
        """Return the whole model."""
        table = self._constant("model.embed_tokens", self._weights[EMBEDDING])
        name = "__module.model.embed_tokens/aten::embedding/Gather"
        values = ops.gather(table, self._tokens, _number(0), 0, name=name)
        turns = self._turns()
        bias = self._bias()
        for layer in range(self._shape.layers):
            attended = self._attention(layer, self._norm(values), turns, bias)
            values = ops.add(values, attended)
            values = ops.add(values, self._feed_forward(layer, self._norm(values)))
        # Tied: the output's matrix is the embedding's.
        name = "__module.lm_head/aten::linear/MatMul"
        result = ops.result(ops.matmul(self._norm(values), table, False, True, name=name))
        result.output(0).get_tensor().set_names({"logits"})
        inputs = [self._tokens, self._mask, self._positions, self._beams]
        return ov.Model([result], self._assigned, inputs, "decoder")

    def _constant(self, name: str, values: Array) -> Any:
        """Return the matrix as float32; float16 holds each of its values exactly."""
        half = ops.constant(values.astype(np.float16), name=f"{name}.weight")
        return ops.convert(half, "f32")

    def _projection(self, layer: int, matrix: str, values: Any) -> Any:
        name = f"model.layers.{layer}.{_NAMES[matrix]}"
        weights = self._constant(name, self._weights[f"blk.{layer}.{matrix}"])
        node = f"__module.{name}/aten::linear/MatMul"
        return ops.matmul(values, weights, False, True, name=node)

    def _norm(self, values: Any) -> Any:
        squares = ops.power(values, _float(2.0))
        mean = ops.reduce_mean(squares, _number([-1]), True)
        root = ops.sqrt(ops.add(mean, _float(EPSILON)))
        ones = ops.constant(np.ones((1, 1, self._shape.width), dtype=np.float32))
        scaled = ops.multiply(values, ops.divide(_float(1.0), root))
        return ops.multiply(scaled, ones)

    def _turns(self) -> tuple[Any, Any]:
        """Return cosines and sines of the positions' angles, for both halves of a head."""
        size = self._shape.head_size
        frequencies = ROPE_BASE ** -(np.arange(0, size, 2) / size)
        column = ops.constant(frequencies.astype(np.float32).reshape(1, -1, 1))
        positions = ops.convert(ops.unsqueeze(self._positions, _number(1)), "f32")
        angles = ops.transpose(ops.matmul(column, positions, False, False), _number([0, 2, 1]))
        both = ops.concat([angles, angles], -1)
        heads = _number(1)
        return ops.unsqueeze(ops.cos(both), heads), ops.unsqueeze(ops.sin(both), heads)

    def _turned(self, heads: Any, turns: tuple[Any, Any]) -> Any:
        cosines, sines = turns
        half = self._shape.head_size // 2
        step, axis = _number([1]), _number([3])
        first = ops.slice(heads, _number([0]), _number([half]), step, axis)
        second = ops.slice(heads, _number([half]), _number([_END]), step, axis)
        rotated = ops.concat([ops.multiply(second, _float(-1.0)), first], -1)
        return ops.add(ops.multiply(heads, cosines), ops.multiply(rotated, sines))

    def _bias(self) -> Any:
        """Return a summand of scores: 0 for earlier tokens that the mask allows."""
        zero, one, first = _number(0), _number(1), _number([0])
        past = ops.squeeze(ops.subtract(self._total, self._new), first)
        total = ops.squeeze(self._total, first)
        columns = ops.unsqueeze(ops.range(zero, total, one, "i64"), zero)
        rows = ops.unsqueeze(ops.range(past, total, one, "i64"), one)
        earlier = ops.unsqueeze(ops.unsqueeze(ops.less_equal(columns, rows), zero), zero)
        allowed = ops.unsqueeze(ops.unsqueeze(ops.not_equal(self._mask, zero), one), one)
        is_seen = ops.logical_and(earlier, allowed)
        return ops.select(is_seen, _float(0.0), _float(_MASKED))

    def _attention(self, layer: int, values: Any, turns: tuple[Any, Any], bias: Any) -> Any:
        shape = self._shape
        heads = self._heads(layer, "attn_q", values, shape.heads)
        queries = self._turned(heads, turns)
        keys = self._turned(self._heads(layer, "attn_k", values, shape.kv_heads), turns)
        new_values = self._heads(layer, "attn_v", values, shape.kv_heads)
        all_keys = self._kept(layer, "key", keys)
        all_values = self._kept(layer, "value", new_values)
        scale = _float(1 / math.sqrt(shape.head_size))
        name = f"model.layers.{layer}.self_attn/aten::scaled_dot_product_attention"
        mixed = ops.scaled_dot_product_attention(
            queries, all_keys, all_values, bias, scale, name=name
        )
        rows = ops.reshape(ops.transpose(mixed, _number([0, 2, 1, 3])), _number([0, 0, -1]), True)
        return self._projection(layer, "attn_output", rows)

    def _heads(self, layer: int, matrix: str, values: Any, count: int) -> Any:
        sizes = _number([0, 0, count, self._shape.head_size])
        heads = ops.reshape(self._projection(layer, matrix, values), sizes, True)
        return ops.transpose(heads, _number([0, 2, 1, 3]))

    def _kept(self, layer: int, part: str, new: Any) -> Any:
        """Return keys or values of all tokens, one for each head; the model keeps them."""
        shape = self._shape
        info = VariableInfo()
        info.data_shape = PartialShape([-1, shape.kv_heads, -1, shape.head_size])
        info.data_type = Type.f32
        info.variable_id = f"past_key_values.{layer}.{part}present.{layer}.{part}"
        variable = Variable(info)
        sizes = [self._batch, _number([shape.kv_heads]), _number([0]), _number([shape.head_size])]
        empty = ops.broadcast(_float(0.0), ops.concat(sizes, 0))
        old = ops.gather(ops.read_value(empty, variable), self._beams, _number(0))
        kept = ops.concat([old, new], 2)
        self._assigned.append(ops.assign(kept, variable))

        group = shape.heads // shape.kv_heads
        sizes = [
            self._batch,
            _number([shape.kv_heads]),
            _number([group]),
            self._total,
            _number([shape.head_size]),
        ]
        wide = ops.unsqueeze(kept, _number(2))
        wide = ops.broadcast(wide, ops.concat(sizes, 0), "BIDIRECTIONAL")
        return ops.reshape(wide, _number([0, shape.heads, -1, shape.head_size]), True)

    def _feed_forward(self, layer: int, values: Any) -> Any:
        gate = ops.swish(self._projection(layer, "ffn_gate", values))
        product = ops.multiply(gate, self._projection(layer, "ffn_up", values))
        return self._projection(layer, "ffn_down", product)
