"""llama.cpp's adapter: the account of its caches, its options, and what is loaded with it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reusebench.measured.runtimes import open_runtime
from reusebench.measured.runtimes.base import (
    AdapterError,
    Conversation,
    Memory,
    NotSupported,
    Runtime,
    RuntimeContext,
)
from reusebench.models.language import LanguageRecipe, ensure_language

pytestmark = pytest.mark.process

pytest.importorskip("llama_cpp")

_CONVERSATION = Conversation(tokens=300, prompt=24, generated=4, common=16)
_MEMORY = Memory(options=("n_threads=1",), conversation=_CONVERSATION)
#: The tiny decoder.
_LAYERS, _KV_HEADS, _HEAD_SIZE, _TRAINED_TOKENS, _VOCABULARY = 3, 2, 32, 2048, 259
#: Bytes of a block of values, and the values in it.
_BLOCKS = {
    "f32": (4, 1),
    "f16": (2, 1),
    "bf16": (2, 1),
    "q8_0": (34, 32),
    "q5_1": (24, 32),
    "q5_0": (22, 32),
    "q4_1": (20, 32),
    "q4_0": (18, 32),
    "iq4_nl": (18, 32),
}


@pytest.fixture(scope="module")
def llama() -> Runtime:
    """Return the adapter."""
    return open_runtime("llama_cpp")


@pytest.fixture(scope="module")
def files() -> list[str]:
    """Return the tiny model and an adapter over it."""
    recipes = [LanguageRecipe("tiny_decoder"), LanguageRecipe("tiny_decoder", 0, "adapter", 1)]
    return [str(path) for path in ensure_language(".gguf", recipes)]


def _kv_bytes(tokens: int, kind: str) -> int:
    """Return the size of a cache with K and V of one type."""
    size, values = _BLOCKS[kind]
    return _LAYERS * 2 * _KV_HEADS * _HEAD_SIZE * tokens * size // values


def _refusal(llama: Runtime, path: str, memory: Memory) -> str:
    with pytest.raises(AdapterError) as refusal:
        llama.load(path, None, memory)
    return str(refusal.value)


@pytest.mark.parametrize("kind", _BLOCKS)
def test_a_cache_takes_what_its_type_says(llama: Runtime, files: list[str], kind: str) -> None:
    """Layers x 2 x heads x head size x tokens (a multiple of 256) x bytes, to the byte."""
    memory = replace(_MEMORY, options=(*_MEMORY.options, f"cache_type={kind}"))
    context = llama.load(files[0], None, memory)
    context.infer()
    assert context.account()["kv_cache_bytes"] == _kv_bytes(512, kind)
    context.destroy()


@pytest.mark.parametrize(
    ("memory", "tokens"),
    [
        ({"sequences": 3}, 3 * 512),
        ({"sequences": 3, "unified_cache": True}, 1024),
        ({"sequences": 3, "unified_cache": True, "shared_prompts": 2}, 1024),
        ({"sequences": 17, "unified_cache": True}, 5120),
        ({"sequences": 17, "unified_cache": True, "shared_prompts": 16}, 5120 - 16 * 16),
    ],
)
def test_tokens_of_several_conversations(
    llama: Runtime, files: list[str], memory: dict[str, Any], tokens: int
) -> None:
    """A part for each is rounded up, a unified cache once; common tokens are in it once."""
    account = llama.estimate(files[0], replace(_MEMORY, **memory))
    assert account["kv_cache_bytes"] == _kv_bytes(tokens, "f16")
    assert account["outputs_bytes"] == memory["sequences"] * _VOCABULARY * 4


def test_components_beside_the_cache(llama: Runtime, files: list[str]) -> None:
    """Weights are the file's tensors, mapped or read; adapters and saved states are counted."""
    model, adapter = files
    source = llama.load(model, None, _MEMORY)
    read = llama.load(model, None, replace(_MEMORY, options=("n_threads=1", "use_mmap=0")))
    size = Path(model).stat().st_size
    assert 0.95 * size < source.account()["weights_bytes"] < size
    assert source.account() == read.account()

    over = llama.adapter(adapter, source, _MEMORY)
    assert 0 < over.account()["adapters_bytes"] < Path(adapter).stat().st_size
    restored = llama.restored_prompt(source, _MEMORY)
    # A saved state has the cells of the common tokens, and some words about each.
    kept = restored.account()["prompt_state_bytes"] - _kv_bytes(16, "f16")
    assert 0 < kept < 4096
    for context in (source, read, over, restored):
        context.destroy()


def test_options_of_keys_and_values(llama: Runtime, files: list[str]) -> None:
    """Each may have a type of its own; values of fewer bits need flash attention."""
    options = ("n_threads=1", "cache_type_k=q8_0", "cache_type_v=f32")
    account = llama.estimate(files[0], replace(_MEMORY, options=options))
    assert account["kv_cache_bytes"] == (_kv_bytes(512, "q8_0") + _kv_bytes(512, "f32")) // 2
    with pytest.raises(NotSupported, match="flash"):
        llama.load(files[0], None, replace(_MEMORY, options=("cache_type=q4_0", "flash_attn=0")))
    keys = replace(_MEMORY, options=("n_threads=1", "cache_type_k=q4_0", "flash_attn=0"))
    context: RuntimeContext = llama.load(files[0], None, keys)
    context.infer()
    context.destroy()


def test_prompts_longer_than_a_batch(llama: Runtime, files: list[str]) -> None:
    """They are computed in parts, with equal tokens."""
    tokens = []
    for batch in (16, 24, 512):
        options = ("n_threads=1", f"n_batch={batch}")
        context = llama.load(files[0], None, replace(_MEMORY, options=options))
        context.infer()
        tokens.append(context.checksum())
        context.destroy()
    assert len(set(tokens)) == 1


def test_conversations_that_are_computed_together(llama: Runtime, files: list[str]) -> None:
    """The time of generation of the first is without its wait for the prompts of others."""
    options = ("n_threads=1", "n_batch=16")
    source = llama.load(files[0], None, replace(_MEMORY, options=options, sequences=4))
    contexts = [source, *(llama.sequence(source, _MEMORY) for _ in range(3))]
    llama.infer_together(contexts)
    first, *_, last = [turn for context in contexts if (turn := context.turn())]
    assert first.first_token_ns < last.first_token_ns
    # They are in the same batches from the second token on.
    assert first.generation_ns <= last.generation_ns
    for context in reversed(contexts):
        context.destroy()


def test_too_much_is_refused(llama: Runtime, files: list[str]) -> None:
    """More tokens than the model was trained with, more conversations than a context holds."""
    longer = replace(_CONVERSATION, tokens=_TRAINED_TOKENS + 1)
    sentence = _refusal(llama, files[0], replace(_MEMORY, conversation=longer))
    assert f"{_TRAINED_TOKENS + 1} tokens" in sentence
    assert f"Give {_TRAINED_TOKENS} tokens or fewer" in sentence
    assert "up to 256" in _refusal(llama, files[0], replace(_MEMORY, sequences=257))
    source = llama.load(files[0], None, replace(_MEMORY, sequences=2))
    with pytest.raises(NotSupported, match="unified_cache"):
        llama.shared_prompt(source, _MEMORY)
    source.destroy()


def test_files_that_are_no_models(llama: Runtime, files: list[str], tmp_path: Path) -> None:
    """A sentence each: what is wrong with the file, and what to do."""
    content = Path(files[0]).read_bytes()
    empty_head = content[:8] + bytes(8) + content[16:]
    cases = {
        "missing.gguf": (None, "cannot be read: No such file"),
        "empty.gguf": (b"", "is no GGUF file"),
        "noise.gguf": (b"ggjt" + content[4:], "is no GGUF file"),
        "cut.gguf": (content[: len(content) // 2], "is cut short"),
        "cut_header.gguf": (content[:600], "is cut short"),
        "version.gguf": (content[:4] + b"\x09\0\0\0" + content[8:], "version 9"),
        "order.gguf": (content[:4] + b"\0\0\0\x03" + content[8:], "byte order"),
        "vocabulary.gguf": (empty_head, "has a vocabulary and no weights"),
    }
    for name, (written, words) in cases.items():
        path = tmp_path / name
        if written is not None:
            path.write_bytes(written)
        sentence = _refusal(llama, str(path), _MEMORY)
        assert words in sentence, (name, sentence)
        assert name in sentence
    assert "lacks llama.context_length" in _refusal(llama, files[1], _MEMORY)


def test_adapters_that_are_none(llama: Runtime, files: list[str]) -> None:
    """A model in an adapter's place is refused by name."""
    source = llama.load(files[0], None, _MEMORY)
    with pytest.raises(AdapterError, match="is no adapter"):
        llama.adapter(files[0], source, _MEMORY)
    source.destroy()


def test_what_is_imported(files: list[str]) -> None:
    """The measured process has the library's declarations alone; a user may import the rest."""
    program = (
        "import sys;"
        "from reusebench.measured.runtimes import open_runtime;"
        "open_runtime('llama_cpp');"
        "print(sorted({'numpy', 'jinja2', 'diskcache', 'llama_cpp'} & set(sys.modules)));"
        "import llama_cpp;"
        "print(llama_cpp.Llama.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[]", "Llama"]
    assert files
