"""What is peculiar to OpenVINO GenAI; conversations.py has what adapters have in common."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.measured.runtimes import available, find_runtime, open_runtime
from reusebench.measured.runtimes.base import (
    AdapterError,
    Conversation,
    Memory,
    NotSupported,
    Runtime,
    RuntimeContext,
)
from reusebench.models.language import LanguageRecipe, ensure_language

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not available(find_runtime("openvino_genai")),
        reason="OpenVINO GenAI is not installed: pip install '.[openvino-genai]'",
    ),
]

_BLOCK = 32
#: Two blocks of room, of which the prompt fills one and a half, and the common tokens one.
_MEMORY = Memory(conversation=Conversation(2 * _BLOCK, 48, 6, _BLOCK))


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    """Return the runtime."""
    return open_runtime("openvino_genai")


@pytest.fixture(scope="module")
def files() -> list[str]:
    """Return the tiny model, an adapter, and both merged."""
    recipes = [LanguageRecipe("tiny_decoder")]
    for part in ("adapter", "merged"):
        recipes.append(LanguageRecipe("tiny_decoder", part=part, number=1))
    return [str(path) for path in ensure_language("openvino_model.xml", recipes)]


@pytest.fixture(scope="module")
def gguf() -> str:
    """Return the tiny model as a GGUF file."""
    (path,) = ensure_language(".gguf", [LanguageRecipe("tiny_decoder")])
    return str(path)


def _tokens(context: RuntimeContext) -> list[int]:
    context.infer()
    return list(context.outputs()[0])


def _computed(context: RuntimeContext) -> int:
    turn = context.turn()
    assert turn is not None
    return turn.prompt_tokens


def _code(error: pytest.ExceptionInfo[AdapterError]) -> str:
    return error.value.message.code


def test_a_gguf_file_gives_the_same_tokens(runtime: Runtime, files: list[str], gguf: str) -> None:
    """The model of OpenVINO and the GGUF file have equal weights; requests need the former."""
    runtime.interface(gguf)
    converted = runtime.load(gguf, None, _MEMORY)
    assert _tokens(converted) == _tokens(runtime.load(files[0], None, _MEMORY))
    with pytest.raises(NotSupported) as error:
        runtime.prepare(gguf, "digest", "folder", lambda: None)
    assert _code(error) == "openvino_genai_gguf_needs_pipeline"


def test_requests_have_blocks_of_one_cache(runtime: Runtime, files: list[str]) -> None:
    """The cache has room for each request; common blocks are kept once, and computed once."""
    alone = runtime.load(files[0], None, _MEMORY)
    expected = _tokens(alone)
    each = alone.account()["kv_cache_bytes"]
    memory = replace(_MEMORY, sequences=3, unified_cache=True)
    unified = runtime.load(files[0], None, memory)
    others = [runtime.sequence(unified, _MEMORY) for _ in range(2)]
    runtime.infer_together([unified, *others])
    assert [list(context.outputs()[0]) for context in (unified, *others)] == [expected] * 3
    assert unified.account() == {"kv_cache_bytes": 3 * each}

    sharing = runtime.load(files[0], None, replace(memory, shared_prompts=2))
    others = [runtime.shared_prompt(sharing, _MEMORY) for _ in range(2)]
    assert [_tokens(context) for context in (sharing, *others)] == [expected] * 3
    assert [_computed(context) for context in (sharing, *others)] == [48, 16, 16]
    # Six blocks less two common ones.
    assert [one.account() for one in (sharing, *others)] == [{"kv_cache_bytes": 2 * each}, {}, {}]


def test_a_smaller_type_makes_a_smaller_cache(runtime: Runtime, files: list[str]) -> None:
    """float32 takes twice what float16 takes, and u8 less."""
    sizes = {}
    for kind in ("f32", "f16", "u8"):
        memory = replace(_MEMORY, options=(f"KV_CACHE_PRECISION={kind}",))
        context = runtime.load(files[0], None, memory)
        context.infer()
        sizes[kind] = context.account()["kv_cache_bytes"]
    assert sizes["f32"] == 2 * sizes["f16"] > 2 * sizes["u8"]


def test_contexts_that_share_weights_are_requests_of_one_model(
    runtime: Runtime, files: list[str]
) -> None:
    """Their tokens are those of a pipeline; a restored prompt is not computed again."""
    model = files[0]
    preparation = runtime.prepare(model, "digest", "folder", lambda: None)
    assert preparation is not None
    assert preparation.path == model
    expected = _tokens(runtime.load(model, None, _MEMORY))
    source = runtime.load(model, model, _MEMORY)
    dup = runtime.dup(source, _MEMORY)
    restored = [runtime.restored_prompt(source, _MEMORY) for _ in range(2)]
    assert [_tokens(context) for context in (source, dup, *restored)] == [expected] * 4
    assert [_computed(context) for context in (source, dup, *restored)] == [48, 48, 16, 16]
    assert restored[0].account()["prompt_state_bytes"] > 0
    assert restored[1].account() == {}
    source.destroy()
    assert _tokens(restored[1]) == expected


def test_an_adapter_gives_the_tokens_of_the_merged_model(
    runtime: Runtime, files: list[str]
) -> None:
    """The base keeps its own tokens in a pipeline with an adapter."""
    model, adapter, merged = files
    base = runtime.load(model, None, _MEMORY)
    own = _tokens(base)
    adapted = runtime.adapter(adapter, base, _MEMORY)
    assert _tokens(adapted) == _tokens(runtime.load(merged, None, _MEMORY))
    assert _tokens(base) == own


def test_what_it_lacks_is_refused(runtime: Runtime, files: list[str]) -> None:
    """A cache in parts, a dup of a pipeline and options that it does not take have reasons."""
    pipeline = runtime.load(files[0], None, _MEMORY)
    memories = {
        "openvino_genai_one_cache": replace(_MEMORY, sequences=2),
        "openvino_genai_shares_more": replace(
            _MEMORY,
            conversation=Conversation(2 * _BLOCK, 48, 6, _BLOCK - 1),
            sequences=2,
            unified_cache=True,
            shared_prompts=1,
        ),
        "conversation_too_long": replace(
            _MEMORY, conversation=Conversation(1_000_000, 48, 6, _BLOCK)
        ),
        "unknown_option": replace(_MEMORY, options=("NO_SUCH_PROPERTY=1",)),
        "option_refused": replace(_MEMORY, options=("KV_CACHE_PRECISION=x",)),
        "option_writes": replace(_MEMORY, options=("CACHE_DIR=folder",)),
        "option_value": replace(_MEMORY, options=("max_num_seqs=many",)),
    }
    for code, memory in memories.items():
        with pytest.raises(NotSupported) as error:
            runtime.load(files[0], None, memory)
        assert _code(error) == code
    with pytest.raises(NotSupported) as error:
        runtime.dup(pipeline, _MEMORY)
    assert _code(error) == "openvino_genai_pipeline_compiles"
    with pytest.raises(NotSupported) as error:
        runtime.load(files[0], files[0], replace(_MEMORY, options=("max_num_seqs=4",)))
    assert _code(error) == "openvino_genai_no_scheduler"


def test_bad_files_are_named(runtime: Runtime, files: list[str], gguf: str, tmp_path: Path) -> None:
    """No configuration, a broken model, no language model and no GGUF file are sentences."""
    model = tmp_path / "openvino_model.xml"
    model.write_text("no model", encoding="utf-8")
    with pytest.raises(AdapterError) as error:
        runtime.interface(str(model))
    assert _code(error) == "openvino_genai_no_config"
    shutil.copy(Path(files[0]).with_name("config.json"), tmp_path)
    with pytest.raises(AdapterError) as error:
        runtime.interface(str(model))
    assert _code(error) == "openvino_genai_load_failed"
    short = tmp_path / "short.gguf"
    short.write_bytes(Path(gguf).read_bytes()[:3])
    with pytest.raises(AdapterError) as error:
        runtime.interface(str(short))
    assert _code(error) == "openvino_genai_no_gguf"
    with pytest.raises(AdapterError) as error:
        runtime.adapter(str(short), runtime.load(files[0], None, _MEMORY), _MEMORY)
    assert _code(error) == "openvino_genai_adapter_unreadable"
