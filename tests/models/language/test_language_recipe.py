"""Recipes of built-in language models, and their files in the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reusebench.models.errors import ModelError
from reusebench.models.language import LanguageRecipe, ensure_language
from reusebench.models.language.recipe import ADAPTER, GENAI, GGUF, MERGED, MODEL, OPENVINO

_TINY = "tiny_decoder"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "huge"}, "unknown language model 'huge'; valid: decoder, tiny_decoder"),
        ({"seed": -1}, "seed -1 is not valid"),
        ({"part": "half"}, "part 'half' is not valid; valid: model, adapter, merged"),
        ({"file_type": "q2_K"}, "type 'q2_K' is not valid; valid: f16, f32, q8_0, q4_0"),
        ({"number": 1}, "the model has no number"),
        ({"part": ADAPTER}, "adapter 0 does not exist; valid: a whole number from 1 to 4"),
        ({"part": MERGED, "number": 5}, "adapter 5 does not exist"),
        (
            {"part": ADAPTER, "number": 1, "file_type": "f32"},
            "adapters have no type",
        ),
    ],
)
def test_what_is_not_valid_is_named(fields: dict[str, Any], words: str) -> None:
    """A wrong value gets a sentence with the valid ones."""
    with pytest.raises(ModelError, match=words):
        LanguageRecipe(**fields)


def test_kinds_of_files() -> None:
    """A kind that is a name is a file in a folder of the model; an adapter is always one file."""
    adapter = LanguageRecipe(_TINY, part=ADAPTER, number=1)
    assert adapter.path_in_cache(GENAI) == "tiny_decoder-seed0-adapter1-genai-v3.onnx_adapter"
    assert adapter.path_in_cache(OPENVINO) == "tiny_decoder-seed0-adapter1-openvino-v3.safetensors"
    model = LanguageRecipe(_TINY).path_in_cache(OPENVINO)
    assert model == "tiny_decoder-seed0-openvino-v3/openvino_model.xml"
    with pytest.raises(ModelError, match=r"kind '\.bin' is not valid"):
        LanguageRecipe().path_in_cache(".bin")
    with pytest.raises(ModelError, match=r"a type is for \.gguf files only; leave q8_0 out"):
        LanguageRecipe(file_type="q8_0").path_in_cache(GENAI)


def test_every_recipe_has_a_file_of_its_own() -> None:
    """Shape, seed, part, number and type are in the file's name."""
    recipes = [
        LanguageRecipe(name, seed, part, number, file_type)
        for name in ("decoder", _TINY)
        for seed in (0, 1)
        for part, number in ((MODEL, 0), (ADAPTER, 1), (MERGED, 1), (MERGED, 2))
        for file_type in (("f16",) if part == ADAPTER else ("f16", "q8_0"))
    ]
    assert len({recipe.path_in_cache(GGUF) for recipe in recipes}) == len(recipes)


@pytest.mark.process
def test_files_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second call finds the files; a damaged one is made again."""
    pytest.importorskip("gguf", reason="gguf writes the files: pip install gguf")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    recipes = [LanguageRecipe(_TINY), LanguageRecipe(_TINY, part=ADAPTER, number=1)]
    paths = ensure_language(GGUF, recipes)
    times = [path.stat().st_mtime_ns for path in paths]
    assert ensure_language(GGUF, recipes) == paths
    assert [path.stat().st_mtime_ns for path in paths] == times

    content = paths[0].read_bytes()
    paths[0].write_bytes(content[:1000])
    ensure_language(GGUF, recipes)
    assert paths[0].read_bytes() == content
    assert paths[1].stat().st_mtime_ns == times[1]


def test_the_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without gguf no process is started: the sentence says what to install."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ModelError, match=r"pip install 'reusebench\[llama\]'"):
        ensure_language(GGUF, [LanguageRecipe(_TINY)])
