"""Writes a built-in language model, or an adapter, as a GGUF file.

Only the building process imports this: it imports numpy and gguf.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, LlamaFileType

from reusebench.models.language.recipe import ADAPTER, LanguageRecipe
from reusebench.models.language.shapes import (
    CONTROL_TOKENS,
    EPSILON,
    ROPE_BASE,
    VOCABULARY,
    DecoderShape,
)
from reusebench.models.language.tokens import BOS, EOS, UNKNOWN, byte_characters
from reusebench.models.language.weights import ALPHA, Array, adapter_pairs, draw_matrices

__all__ = ["write_gguf"]

_ARCHITECTURE = "llama"
_TYPES = {
    "f16": (GGMLQuantizationType.F16, LlamaFileType.MOSTLY_F16),
    "f32": (GGMLQuantizationType.F32, LlamaFileType.ALL_F32),
    "q8_0": (GGMLQuantizationType.Q8_0, LlamaFileType.MOSTLY_Q8_0),
    "q4_0": (GGMLQuantizationType.Q4_0, LlamaFileType.MOSTLY_Q4_0),
}
#: Matrices whose rows llama.cpp wants in another order: both of a turning pair side by side.
_TURNED = ("attn_q", "attn_k")
#: Runtimes want a list of merges that is not empty: bytes 0 and 0, which no text has.
_MERGES = ["Ā Ā"]


def write_gguf(recipe: LanguageRecipe, path: Path) -> None:
    """Write the file; equal recipes and numpy versions give equal bytes."""
    writer = gguf.GGUFWriter(path, _ARCHITECTURE)
    writer.add_name(recipe.label)
    if recipe.part == ADAPTER:
        _add_adapter(writer, recipe)
    else:
        _add_model(writer, recipe)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_model(writer: gguf.GGUFWriter, recipe: LanguageRecipe) -> None:
    shape = recipe.shape
    tensor_type, file_type = _TYPES[recipe.file_type]
    writer.add_file_type(file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_vocab_size(VOCABULARY)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_size)
    writer.add_value_length(shape.head_size)
    writer.add_rope_dimension_count(shape.head_size)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(EPSILON)
    _add_tokenizer(writer)
    for name, values in draw_matrices(recipe):
        turned = _turned(name, values, shape)
        data = gguf.quants.quantize(turned, tensor_type)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=tensor_type)
    ones = np.ones(shape.width, dtype=np.float32)
    for name in _norms(shape):
        writer.add_tensor(f"{name}.weight", ones)


def _add_adapter(writer: gguf.GGUFWriter, recipe: LanguageRecipe) -> None:
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", ALPHA)
    for name, pair in adapter_pairs(recipe):
        second = _turned(name, pair.second, recipe.shape)
        writer.add_tensor(f"{name}.weight.lora_a", pair.first.astype(np.float16))
        writer.add_tensor(f"{name}.weight.lora_b", second.astype(np.float16))


def _add_tokenizer(writer: gguf.GGUFWriter) -> None:
    """Add byte-level BPE in the form of GPT-2: OpenVINO GenAI reads no other."""
    kinds = [gguf.TokenType.CONTROL] * len(CONTROL_TOKENS) + [gguf.TokenType.NORMAL] * 256
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*CONTROL_TOKENS, *byte_characters()])
    writer.add_token_types(kinds)
    writer.add_token_merges(_MERGES)
    writer.add_unk_token_id(UNKNOWN)
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_add_bos_token(False)


def _norms(shape: DecoderShape) -> Iterator[str]:
    yield "output_norm"
    for layer in range(shape.layers):
        yield f"blk.{layer}.attn_norm"
        yield f"blk.{layer}.ffn_norm"


def _turned(name: str, values: Array, shape: DecoderShape) -> Array:
    """Return the rows in llama.cpp's order."""
    if not name.endswith(_TURNED):
        return values
    rows, columns = values.shape
    halves = values.reshape(-1, 2, shape.head_size // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows, columns)
