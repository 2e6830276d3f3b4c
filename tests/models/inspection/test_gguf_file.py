"""Contents of .gguf files, of good ones and of such as nobody should have."""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from reusebench.models.errors import ModelError
from reusebench.models.inspection.contents import GgufFacts
from reusebench.models.inspection.gguf_file import read
from reusebench.models.inspection.gguf_header import LongList, read_header
from reusebench.models.inspection.gguf_types import FILE_TYPES, TENSOR_TYPES
from tests.helpers.support import CHECKOUT
from tests.models.inspection.gguf_files import KEYS, TensorSpec, gguf_bytes, save_gguf


def _facts(path: Path) -> GgufFacts:
    facts = read(path).facts
    assert isinstance(facts, GgufFacts)
    return facts


def _kv_bytes(tmp_path: Path, **changes: Any) -> dict[str, tuple[int, int]]:
    keys = {key: value for key, value in {**KEYS, **changes}.items() if value is not None}
    facts = _facts(save_gguf(tmp_path / "kv.gguf", keys=keys))
    return {
        cache.type: (cache.bytes_per_token, cache.window_bytes_per_token)
        for cache in facts.kv_cache
    }


def test_a_model(tmp_path: Path) -> None:
    """Sizes, names and types come from the keys and the list of tensors."""
    tensors = (
        TensorSpec(),
        TensorSpec("blk.0.attn_q.weight", (256, 4), 2, 1536),
        TensorSpec("blk.0.attn_k.weight", (256, 2), 2, 2112),
    )
    inspection = read(save_gguf(tmp_path / "net.gguf", tensors=tensors, data_bytes=2400))
    assert [
        (entry.type, entry.tensors, entry.size_bytes) for entry in inspection.weights or ()
    ] == [
        ("F16", 1, 1536),
        ("Q4_0", 2, 6 * 144),
    ]
    facts = inspection.facts
    assert isinstance(facts, GgufFacts)
    assert (facts.version, facts.kind, facts.architecture) == (3, "model", "llama")
    assert (facts.name, facts.file_type, facts.tokenizer) == ("a model", "F16", "gpt2")
    assert (facts.layers, facts.heads, facts.kv_heads) == (4, (4,), (2,))
    assert (facts.key_size, facts.value_size, facts.embedding) == (64, 64, 256)
    assert (facts.vocabulary, facts.context, facts.window) == (3, 2048, None)
    assert inspection.hindrances == ()


def test_a_token_in_each_type_of_cache(tmp_path: Path) -> None:
    """Layers x heads x (key + value) x bytes of the type; blocks of q8_0 have 34 bytes for 32."""
    values = 4 * 2 * (64 + 64)
    sizes = _kv_bytes(tmp_path)
    assert sizes["f32"] == (values * 4, 0)
    assert sizes["f16"] == sizes["bf16"] == (values * 2, 0)
    assert sizes["q8_0"] == (values // 32 * 34, 0)
    assert sizes["q5_1"] == (values // 32 * 24, 0)
    assert sizes["q4_0"] == sizes["iq4_nl"] == (values // 32 * 18, 0)


def test_heads_that_hold_no_whole_blocks(tmp_path: Path) -> None:
    """llama.cpp has no quantised cache for them, so none is shown."""
    sizes = _kv_bytes(tmp_path, **{"llama.attention.key_length": 40})
    assert set(sizes) == {"f32", "f16", "bf16"}
    assert sizes["f16"] == (4 * 2 * (40 + 64) * 2, 0)


@pytest.mark.parametrize(
    ("changes", "f16"),
    [
        # Without the key every head has keys and values of its own.
        ({"llama.attention.head_count_kv": None}, (4 * 4 * 128 * 2, 0)),
        ({"llama.attention.head_count_kv": [2, 0, 1, 0]}, (3 * 128 * 2, 0)),
        ({"llama.attention.shared_kv_layers": 1}, (3 * 2 * 128 * 2, 0)),
        ({"llama.full_attention_interval": 4}, (2 * 128 * 2, 0)),
        ({"llama.nextn_predict_layers": 1}, (3 * 2 * 128 * 2, 0)),
        # Latent attention: the keys alone are kept.
        (
            {
                "llama.attention.head_count_kv": 1,
                "llama.attention.key_length": 576,
                "llama.attention.value_length": 512,
                "llama.attention.key_length_mla": 192,
            },
            (4 * 576 * 2, 0),
        ),
        # A window without a pattern, in an architecture of which none is known: all are counted.
        ({"llama.attention.sliding_window": 512}, (4 * 2 * 128 * 2, 0)),
        (
            {
                "llama.attention.sliding_window": 512,
                "llama.attention.sliding_window_pattern": [True, True, True, False],
            },
            (4 * 2 * 128 * 2, 3 * 2 * 128 * 2),
        ),
        (
            {
                "llama.attention.sliding_window": 512,
                "llama.attention.sliding_window_pattern": 2,
                "llama.attention.key_length_swa": 32,
                "llama.attention.value_length_swa": 32,
            },
            (2 * 2 * (128 + 64) * 2, 2 * 2 * 64 * 2),
        ),
    ],
)
def test_layers_that_differ(tmp_path: Path, changes: dict[str, Any], f16: tuple[int, int]) -> None:
    """Layers without keys and values, and layers with a window, as the keys of the file tell."""
    assert _kv_bytes(tmp_path, **changes)["f16"] == f16


@pytest.mark.parametrize(("architecture", "windows"), [("gemma3", 5), ("gemma2", 3), ("phi3", 0)])
def test_windows_that_the_architecture_tells(
    tmp_path: Path, architecture: str, windows: int
) -> None:
    """Files of gemma have the size of the window, and not the layers that have one."""
    keys = {key.replace("llama.", f"{architecture}."): value for key, value in KEYS.items()}
    keys["general.architecture"] = architecture
    keys[f"{architecture}.attention.sliding_window"] = 512
    keys[f"{architecture}.block_count"] = 6
    facts = _facts(save_gguf(tmp_path / "net.gguf", keys=keys))
    assert facts.window_layers == windows
    assert (facts.window is None) == (windows == 0)


def test_a_model_without_keys_and_values(tmp_path: Path) -> None:
    """A recurrent model has no heads, and no cache is claimed for it."""
    keys = {
        "general.architecture": "mamba",
        "mamba.block_count": 4,
        "mamba.embedding_length": 256,
        "mamba.attention.head_count": 0,
    }
    facts = _facts(save_gguf(tmp_path / "net.gguf", keys=keys))
    assert (facts.kv_cache, facts.heads, facts.layers) == ((), (), 4)


def test_an_adapter(tmp_path: Path) -> None:
    """Its kind, rank and alpha are shown; it is no model of its own."""
    keys = {
        "general.architecture": "llama",
        "general.type": "adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": 16.0,
    }
    tensors = (
        TensorSpec("blk.0.attn_q.weight.lora_a", (64, 8)),
        TensorSpec("blk.0.attn_q.weight.lora_b", (8, 64), offset=1024),
    )
    inspection = read(save_gguf(tmp_path / "a.gguf", keys=keys, tensors=tensors, data_bytes=2048))
    assert isinstance(inspection.facts, GgufFacts)
    adapter = inspection.facts.adapter
    assert adapter is not None
    assert (adapter.type, adapter.rank, adapter.alpha, adapter.pairs) == ("lora", 8, 16.0, 1)
    (hindrance,) = inspection.hindrances
    assert "give its model with --model, and this file with --adapter" in hindrance


def test_a_vocabulary_alone(tmp_path: Path) -> None:
    """llama.cpp's tests have such files; nothing can be run with one."""
    inspection = read(save_gguf(tmp_path / "vocab.gguf", tensors=(), data_bytes=0))
    assert inspection.hindrances == ("it has a vocabulary alone, and no weights",)
    assert inspection.weights == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"general.type": "mmproj"}, "it is a part of a model (mmproj), and no model of its own"),
        ({"llama.attention.causal": False}, "it is an encoder"),
        ({"general.architecture": ""}, "it does not say its architecture"),
    ],
)
def test_files_that_generate_no_text(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    """The reason is shown in place of mechanisms."""
    inspection = read(save_gguf(tmp_path / "net.gguf", keys={**KEYS, **changes}))
    assert any(words in hindrance for hindrance in inspection.hindrances)


def _split(folder: Path, missing: int | None = None) -> list[Path]:
    """Write a model of three parts, of which one may be missing."""
    paths = []
    for number in range(3):
        split = {"split.no": number, "split.count": 3, "split.tensors.count": 3}
        path = folder / f"net-{number + 1:05}-of-00003.gguf"
        paths.append(path)
        if number != missing:
            keys = {**KEYS, **split} if number == 0 else split
            save_gguf(path, keys=keys, tensors=(TensorSpec(f"blk.{number}.attn_q.weight"),))
    return paths


@pytest.mark.parametrize("given", [0, 2])
def test_a_split_model(tmp_path: Path, given: int) -> None:
    """Whichever part is given, all are read: tensors of all, keys of the first."""
    paths = _split(tmp_path)
    inspection = read(paths[given])
    assert isinstance(inspection.facts, GgufFacts)
    assert inspection.facts.architecture == "llama"
    assert [part.name for part in inspection.facts.parts] == [path.name for path in paths]
    assert inspection.size_bytes == sum(path.stat().st_size for path in paths)
    assert [weights.tensors for weights in inspection.weights or ()] == [3]


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    """The model cannot be run; without its first part nothing is known of it."""
    paths = _split(tmp_path, missing=1)
    assert read(paths[0]).hindrances == (
        "net-00002-of-00003.gguf, one of its 3 parts, is not in its folder",
    )
    paths[0].unlink()
    with pytest.raises(ModelError, match=r"net-00001-of-00003\.gguf is missing"):
        read(paths[2])


def test_a_part_with_another_name(tmp_path: Path) -> None:
    """The other parts are found by the name alone."""
    path = save_gguf(tmp_path / "net.gguf", keys={**KEYS, "split.count": 3})
    with pytest.raises(ModelError, match="is one of 3 parts of a model"):
        read(path)


_TEXT_LIST = struct.pack("<IIQ", 9, 8, 2**40)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x08\0\0\0TFL3", "is not a GGUF model"),
        (b"GGUF", "is cut short"),
        (gguf_bytes(version=1), "is of GGUF's version 1, which no runtime reads any more"),
        (gguf_bytes(version=4), "is of GGUF's version 4; versions 2 and 3 are read"),
        (gguf_bytes(version=3 << 24), "order of big-endian machines"),
        (gguf_bytes()[:100], "is cut short: it ends within its header"),
        (gguf_bytes()[:-1], "is cut short: its tensors end at byte"),
        (gguf_bytes(key_count=2**60), "it says that it has 1,152,921,504,606,846,976 keys"),
        (gguf_bytes(tensor_count=2**33), "it says that it has 8,589,934,592 tensors"),
        (gguf_bytes(key_count=11), "is cut short|is damaged"),
        (gguf_bytes(keys=[("a", 1), ("a", 2)]), "it has the key a twice"),
        (gguf_bytes(keys={"a": _TEXT_LIST}), "the key a says that it has"),
        (gguf_bytes(keys={"a": struct.pack("<I", 77)}), "the unknown type 77"),
        (gguf_bytes(keys={"a": struct.pack("<IIQ", 9, 9, 1)}), "a list of the unknown type 9"),
        (gguf_bytes(keys={"a": struct.pack("<IIQ", 9, 4, 2**62)}), "is cut short"),
        (gguf_bytes(keys={"a": struct.pack("<IQ", 8, 2**63)}), "is cut short"),
        (gguf_bytes(keys={"general.alignment": 0}), "general.alignment is no power of 2"),
        (gguf_bytes(tensors=[TensorSpec(type=99)]), "is of the unknown type 99"),
        (gguf_bytes(tensors=[TensorSpec(sizes=(33,), type=2)]), "33 values are no whole blocks"),
        (gguf_bytes(tensors=[TensorSpec(sizes=(2**63, 2**63))]), "its tensors end at byte"),
        (gguf_bytes(tensors=[TensorSpec(sizes=(1,) * 9)]), "has 9 dimensions"),
        (gguf_bytes(tensors=[TensorSpec(name="\x1b[2J", type=99)]), r"\\x1b\[2J"),
    ],
)
def test_damaged_files(tmp_path: Path, content: bytes, words: str) -> None:
    """Each gets a sentence, and none takes memory or time for what it claims to have."""
    path = tmp_path / "net.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=words):
        read(path)


def test_bytes_of_all_kinds(tmp_path: Path) -> None:
    """However a header is damaged, the file is read or named; nothing else is raised."""
    generator = random.Random(1)
    good = gguf_bytes()
    path = tmp_path / "net.gguf"
    for _ in range(500):
        content = bytearray(good)
        for _ in range(generator.choice((1, 1, 2, 8))):
            content[generator.randrange(4, len(good) - 1500)] = generator.randrange(256)
        path.write_bytes(content)
        with suppress(ModelError):
            read(path)


def test_long_lists_are_not_kept(tmp_path: Path) -> None:
    """A vocabulary is counted; its tokens, their scores and types are skipped."""
    keys = {**KEYS, "tokenizer.ggml.tokens": ["token"] * 50_000, "scores": [0.5] * 50_000}
    header = read_header(save_gguf(tmp_path / "net.gguf", keys=keys))
    assert header.keys["tokenizer.ggml.tokens"] == header.keys["scores"] == LongList(50_000)
    assert _facts(tmp_path / "net.gguf").vocabulary == 50_000


def test_types_are_those_of_ggml() -> None:
    """Names, blocks and numbers are those of gguf, the library of llama.cpp's project."""
    gguf = pytest.importorskip("gguf", reason="compared with gguf: pip install gguf")
    sizes = {
        int(number): (number.name, *blocks) for number, blocks in gguf.GGML_QUANT_SIZES.items()
    }
    for number, kind in TENSOR_TYPES.items():
        if number in sizes:
            assert (kind.name, kind.values, kind.size_bytes) == sizes[number]
    assert sizes.keys() <= TENSOR_TYPES.keys()
    names = {
        int(number): number.name.removeprefix("MOSTLY_").removeprefix("ALL_")
        for number in gguf.LlamaFileType
        if number.name != "GUESSED"
    }
    assert names.items() <= FILE_TYPES.items()


def test_a_file_of_the_library(tmp_path: Path) -> None:
    """A built-in model's file shows what the recipe says."""
    pytest.importorskip("gguf", reason="gguf writes the file: pip install gguf")
    from reusebench.models.language.gguf_writer import write_gguf
    from reusebench.models.language.recipe import LanguageRecipe

    recipe = LanguageRecipe("tiny_decoder")
    write_gguf(recipe, tmp_path / "net.gguf")
    inspection = read(tmp_path / "net.gguf")
    facts = inspection.facts
    assert isinstance(facts, GgufFacts)
    sizes = {cache.type: cache.bytes_per_token for cache in facts.kv_cache}
    assert sizes["f16"] == recipe.shape.kv_bytes_per_token()
    assert (facts.layers, facts.context) == (recipe.shape.layers, recipe.shape.context)


@pytest.mark.process
def test_sizes_are_those_that_the_runtime_allocates(tmp_path: Path) -> None:
    """For every type of the cache llama.cpp's account is the bytes of a token times the tokens."""
    pytest.importorskip("gguf", reason="gguf writes the file: pip install gguf")
    if find_spec("llama_cpp") is None:
        pytest.skip("compared with llama.cpp: pip install llama-cpp-python")
    from reusebench.models.language.gguf_writer import write_gguf
    from reusebench.models.language.recipe import LanguageRecipe

    path = tmp_path / "net.gguf"
    write_gguf(LanguageRecipe("tiny_decoder"), path)
    tokens = 512
    expected = {cache.type: cache.bytes_per_token * tokens for cache in _facts(path).kv_cache}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.models.inspection.kv_bytes"),
            *(str(path), str(tokens), *expected),
        ],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == expected
