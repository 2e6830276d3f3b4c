"""The built-in language models as GGUF files: exactly equal weights in all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reusebench.models.language.recipe import ADAPTER, MERGED, LanguageRecipe
from reusebench.models.language.weights import EMBEDDING, RANK, adapter_pairs, draw_matrices

gguf = pytest.importorskip("gguf", reason="gguf writes the files: pip install gguf")

_TINY = "tiny_decoder"


def _written(recipe: LanguageRecipe, folder: Path) -> Path:
    from reusebench.models.language.gguf_writer import write_gguf

    path = folder / f"{recipe.label}-{recipe.file_type}.gguf"
    write_gguf(recipe, path)
    return path


def _tensors(path: Path) -> dict[str, np.ndarray]:
    return {
        tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        for tensor in gguf.GGUFReader(path).tensors
    }


def test_equal_recipes_give_equal_bytes(tmp_path: Path) -> None:
    """The digest of a built-in model is the same on every machine with this numpy."""
    first = _written(LanguageRecipe(_TINY), tmp_path).read_bytes()
    assert _written(LanguageRecipe(_TINY), tmp_path).read_bytes() == first


def test_f16_and_f32_have_equal_weights(tmp_path: Path) -> None:
    """Nothing is rounded in float16, so tokens differ only by how a runtime computes."""
    half = _tensors(_written(LanguageRecipe(_TINY), tmp_path))
    full = _tensors(_written(LanguageRecipe(_TINY, file_type="f32"), tmp_path))
    assert half.keys() == full.keys()
    for name, values in half.items():
        np.testing.assert_array_equal(values, full[name])


def test_a_merged_model_is_the_exact_sum(tmp_path: Path) -> None:
    """A merged model has the base's weights plus the products of its adapter's matrices."""
    base = _tensors(_written(LanguageRecipe(_TINY), tmp_path))
    merged = _tensors(_written(LanguageRecipe(_TINY, part=MERGED, number=1), tmp_path))
    adapter = _tensors(_written(LanguageRecipe(_TINY, part=ADAPTER, number=1), tmp_path))
    changed = {name for name in base if not np.array_equal(base[name], merged[name])}
    assert {f"{name}.{part}" for name in changed for part in ("lora_a", "lora_b")} == set(adapter)
    for name in changed:
        product = adapter[f"{name}.lora_b"] @ adapter[f"{name}.lora_a"]
        np.testing.assert_array_equal(base[name] + product, merged[name])


def test_adapters_differ() -> None:
    """Each number and each seed gives other matrices, of the stated rank."""
    pairs = [
        dict(adapter_pairs(LanguageRecipe(_TINY, seed, ADAPTER, number)))["blk.0.attn_q"]
        for seed, number in ((0, 1), (0, 2), (1, 1))
    ]
    assert len({pair.first.tobytes() for pair in pairs}) == len(pairs)
    assert {pair.first.shape[0] for pair in pairs} == {RANK}


def test_the_parameters_are_counted_without_drawing_them() -> None:
    """`models list` shows the number of weights that the file has."""
    recipe = LanguageRecipe(_TINY)
    drawn = sum(values.size for _, values in draw_matrices(recipe))
    norms = (2 * recipe.shape.layers + 1) * recipe.shape.width
    assert recipe.shape.parameter_count() == drawn + norms
    assert next(draw_matrices(recipe))[0] == EMBEDDING
