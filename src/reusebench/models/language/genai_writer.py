"""Writes a built-in language model, or an adapter, for ONNX Runtime GenAI.

Only the building process imports this: it imports numpy, onnx and, for adapters, onnxruntime.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from reusebench.models.language.recipe import LanguageRecipe
from reusebench.models.language.shapes import EPSILON, ROPE_BASE, VOCABULARY, DecoderShape
from reusebench.models.language.tokens import BOS, EOS, UNKNOWN, write_tokenizer
from reusebench.models.language.weights import (
    ADAPTED,
    EMBEDDING,
    Array,
    adapter_pairs,
    draw_matrices,
)

__all__ = ["write_genai", "write_genai_adapter"]

_MODEL = "model.onnx"
_OPSET = 21
_IR_VERSION = 10
#: Domain of ONNX Runtime's own operators.
_CONTRIBUTED = "com.microsoft"
#: Smaller constants stay in the file: ONNX Runtime wants those that it computes with there.
_EXTERNAL_BYTES = 1024
#: Names of the projections in Hugging Face's models, by those in GGUF files.
_NAMES = {
    "attn_q": "q_proj",
    "attn_k": "k_proj",
    "attn_v": "v_proj",
    "attn_output": "o_proj",
    "ffn_gate": "gate_proj",
    "ffn_up": "up_proj",
    "ffn_down": "down_proj",
}
_BATCH = "batch_size"


def write_genai(recipe: LanguageRecipe, config: Path) -> None:
    """Write the model's files into the folder of `config`, which names them.

    Weights are float32, the type that ONNX Runtime computes with on a CPU.
    """
    graph = _Graph(recipe)
    onnx.save_model(
        graph.model(),
        str(config.with_name(_MODEL)),
        save_as_external_data=True,
        location=f"{_MODEL}.data",
        size_threshold=_EXTERNAL_BYTES,
    )
    write_tokenizer(config.parent)
    config.write_text(json.dumps(_configuration(recipe.shape), indent=1), encoding="utf-8")


def write_genai_adapter(recipe: LanguageRecipe, path: Path) -> None:
    """Write the adapter as the values of inputs that the model's file has for adapters."""
    import onnxruntime

    values = {}
    for name, pair in adapter_pairs(recipe):
        first, second = _adapter_names(_name(name))
        values[first] = _value(pair.first.T)
        values[second] = _value(pair.second.T)
    adapter = onnxruntime.AdapterFormat()
    adapter.set_adapter_version(1)
    adapter.set_model_version(1)
    adapter.set_parameters(values)
    adapter.export_adapter(str(path))


def _value(matrix: Array) -> Any:
    import onnxruntime

    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(matrix))


def _name(matrix: str) -> str:
    """Return the name of blk.N.attn_q in the ONNX file."""
    _, layer, name = matrix.split(".")
    return f"layers.{layer}.{_NAMES[name]}"


def _adapter_names(name: str) -> tuple[str, str]:
    return f"{name}.lora_A.weight", f"{name}.lora_B.weight"


class _Graph:
    """The decoder's graph while it is made."""

    def __init__(self, recipe: LanguageRecipe) -> None:
        self._shape = recipe.shape
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []
        self._inputs = [
            helper.make_tensor_value_info(
                "input_ids", TensorProto.INT64, [_BATCH, "sequence_length"]
            ),
            helper.make_tensor_value_info(
                "attention_mask", TensorProto.INT64, [_BATCH, "total_sequence_length"]
            ),
        ]
        self._outputs = [
            helper.make_tensor_value_info(
                "logits", TensorProto.FLOAT, [_BATCH, "sequence_length", VOCABULARY]
            )
        ]
        self._weights = dict(draw_matrices(recipe))

    def model(self) -> onnx.ModelProto:
        """Return the whole model."""
        self._constant("embed_tokens", self._weights[EMBEDDING])
        values = self._node("Gather", ["embed_tokens", "input_ids"], "embedded")
        self._lengths()
        self._turns()
        for layer in range(self._shape.layers):
            values = self._layer(layer, values)
        values = self._norm(values, "norm")
        # Tied: the output's matrix is the embedding's.
        self._node("Transpose", ["embed_tokens"], "head", perm=[1, 0])
        self._node("MatMul", [values, "head"], "logits")
        graph = helper.make_graph(
            self._nodes, "decoder", self._inputs, self._outputs, self._constants
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_CONTRIBUTED, 1)]
        return helper.make_model(
            graph, producer_name="reusebench", ir_version=_IR_VERSION, opset_imports=opsets
        )

    def _lengths(self) -> None:
        """Add the lengths that attention takes, as int32: those of the mask."""
        self._constant("one", np.array([1], dtype=np.int64))
        self._constant("second", np.array(1, dtype=np.int64))
        self._node("ReduceSum", ["attention_mask", "one"], "mask.sum", keepdims=1)
        self._node("Sub", ["mask.sum", "one"], "last")
        self._node("Cast", ["last"], "last.int32", to=TensorProto.INT32)
        self._node("Shape", ["attention_mask"], "mask.shape")
        self._node("Gather", ["mask.shape", "second"], "total", axis=0)
        self._node("Cast", ["total"], "total.int32", to=TensorProto.INT32)

    def _turns(self) -> None:
        """Add the tables of rotary position embedding."""
        size = self._shape.head_size
        frequencies = ROPE_BASE ** -(np.arange(0, size, 2) / size)
        angles = np.arange(self._shape.context)[:, None] * frequencies
        self._constant("cosines", np.cos(angles).astype(np.float32))
        self._constant("sines", np.sin(angles).astype(np.float32))

    def _layer(self, layer: int, values: str) -> str:
        name = f"layers.{layer}"
        normed = self._norm(values, f"{name}.input_layernorm")
        attended = self._attention(layer, normed)
        projected = self._projection(layer, "attn_output", attended)
        values = self._node("Add", [values, projected], f"{name}.attended")
        normed = self._norm(values, f"{name}.post_attention_layernorm")
        gate = self._projection(layer, "ffn_gate", normed)
        up = self._projection(layer, "ffn_up", normed)
        sigmoid = self._node("Sigmoid", [gate], f"{name}.sigmoid")
        silu = self._node("Mul", [gate, sigmoid], f"{name}.silu")
        product = self._node("Mul", [silu, up], f"{name}.product")
        down = self._projection(layer, "ffn_down", product)
        return self._node("Add", [values, down], f"{name}.fed_forward")

    def _attention(self, layer: int, values: str) -> str:
        shape = self._shape
        projections = [
            self._projection(layer, name, values) for name in ("attn_q", "attn_k", "attn_v")
        ]
        pasts = [
            self._kept(self._inputs, f"past_key_values.{layer}.{part}", "past_sequence_length")
            for part in ("key", "value")
        ]
        presents = [
            self._kept(self._outputs, f"present.{layer}.{part}", "total_sequence_length")
            for part in ("key", "value")
        ]
        result = f"layers.{layer}.attention"
        self._nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                [*projections, *pasts, "last.int32", "total.int32", "cosines", "sines"],
                [result, *presents],
                name=result,
                domain=_CONTRIBUTED,
                num_heads=shape.heads,
                kv_num_heads=shape.kv_heads,
                do_rotary=1,
                rotary_interleaved=0,
                scale=1 / math.sqrt(shape.head_size),
            )
        )
        return result

    def _kept(self, tensors: list[ValueInfoProto], name: str, tokens: str) -> str:
        """Declare the keys or values of a layer as an input or output."""
        shape = self._shape
        sizes: list[str | int | None] = [_BATCH, shape.kv_heads, tokens, shape.head_size]
        tensors.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes))
        return name

    def _projection(self, layer: int, matrix: str, values: str) -> str:
        name = f"layers.{layer}.{_NAMES[matrix]}"
        weights = self._weights[f"blk.{layer}.{matrix}"]
        self._constant(f"{name}.weight", weights.T)
        product = self._node("MatMul", [values, f"{name}.weight"], name)
        return self._adapted(name, values, product, weights) if matrix in ADAPTED else product

    def _adapted(self, name: str, values: str, product: str, weights: Array) -> str:
        """Add the inputs of an adapter, of rank 0 unless it is given."""
        first, second = _adapter_names(name)
        rows, columns = weights.shape
        rank = f"{name}.rank"
        for tensor, sizes in ((first, [columns, rank]), (second, [rank, rows])):
            self._inputs.append(helper.make_tensor_value_info(tensor, TensorProto.FLOAT, sizes))
            empty = [0 if size == rank else int(size) for size in sizes]
            self._constant(tensor, np.zeros(empty, dtype=np.float32))
        inner = self._node("MatMul", [values, first], f"{name}.lora.first")
        outer = self._node("MatMul", [inner, second], f"{name}.lora.second")
        return self._node("Add", [product, outer], f"{name}.adapted")

    def _norm(self, values: str, name: str) -> str:
        self._constant(f"{name}.weight", np.ones(self._shape.width, dtype=np.float32))
        return self._node(
            "SimplifiedLayerNormalization",
            [values, f"{name}.weight"],
            name,
            axis=-1,
            epsilon=EPSILON,
            stash_type=1,
        )

    def _constant(self, name: str, values: npt.NDArray[Any]) -> None:
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))

    def _node(self, operator: str, sources: list[str], result: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, sources, [result], name=result, **attributes))
        return result


def _configuration(shape: DecoderShape) -> dict[str, Any]:
    return {
        "model": {
            "type": "llama",
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "pad_token_id": UNKNOWN,
            "context_length": shape.context,
            "vocab_size": VOCABULARY,
            "decoder": {
                "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
                "filename": _MODEL,
                "head_size": shape.head_size,
                "hidden_size": shape.width,
                "num_attention_heads": shape.heads,
                "num_key_value_heads": shape.kv_heads,
                "num_hidden_layers": shape.layers,
                "inputs": {
                    "input_ids": "input_ids",
                    "attention_mask": "attention_mask",
                    "past_key_names": "past_key_values.%d.key",
                    "past_value_names": "past_key_values.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
            },
        },
        "search": {
            "do_sample": False,
            "early_stopping": False,
            "max_length": shape.context,
            "min_length": 0,
            "num_beams": 1,
            "num_return_sequences": 1,
            "past_present_share_buffer": True,
            "temperature": 1.0,
            "top_k": 1,
            "top_p": 1.0,
            "repetition_penalty": 1.0,
        },
    }
