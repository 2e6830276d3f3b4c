"""What is peculiar to ONNX Runtime GenAI; conversations.py has what adapters have in common."""

from __future__ import annotations

import json
import os
import shutil
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
        not available(find_runtime("onnxruntime_genai")),
        reason="ONNX Runtime GenAI is not installed: pip install '.[ort-genai]'",
    ),
]

_TOKENS = 128
_PROMPT = 48
_COMMON = 32


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    """Return the runtime."""
    return open_runtime("onnxruntime_genai")


@pytest.fixture(scope="module")
def files() -> list[str]:
    """Return the tiny model, an adapter, and both merged."""
    recipes = [LanguageRecipe("tiny_decoder")]
    recipes += [LanguageRecipe("tiny_decoder", part=part, number=1) for part in _PARTS]
    return [str(path) for path in ensure_language("genai_config.json", recipes)]


_PARTS = ("adapter", "merged")


def _memory(*options: str, sequences: int = 1, tokens: int = _TOKENS) -> Memory:
    conversation = Conversation(tokens, _PROMPT, 6, _COMMON)
    return Memory(conversation=conversation, options=options, sequences=sequences)


def _tokens(context: RuntimeContext) -> list[int]:
    context.infer()
    return list(context.outputs()[0])


def _code(error: pytest.ExceptionInfo[AdapterError]) -> str:
    return error.value.message.code


def test_the_cache_is_that_of_the_models_shapes(runtime: Runtime, files: list[str]) -> None:
    """Layers, heads, size of heads, tokens and float32 make the cache, once for each row."""
    decoder = json.loads(Path(files[0]).read_text(encoding="utf-8"))["model"]["decoder"]
    row = 2 * decoder["num_hidden_layers"] * decoder["num_key_value_heads"] * decoder["head_size"]
    for rows in (1, 3):
        first = runtime.load(files[0], None, _memory(sequences=rows))
        others = [runtime.sequence(first, _memory()) for _ in range(rows - 1)]
        assert first.account() == {"kv_cache_bytes": rows * row * _TOKENS * 4}
        assert [other.account() for other in others] == [{}] * (rows - 1)


def test_a_cache_that_grows_has_the_tokens_in_it(runtime: Runtime, files: list[str]) -> None:
    """Without a shared buffer the cache is smaller than its room, and the tokens are the same."""
    context = runtime.load(files[0], None, _memory("past_present_share_buffer=0"))
    whole = runtime.load(files[0], None, _memory())
    assert _tokens(context) == _tokens(whole)
    assert 0 < context.account()["kv_cache_bytes"] < whole.account()["kv_cache_bytes"]


def test_a_turn_may_keep_the_common_tokens(runtime: Runtime, files: list[str]) -> None:
    """With rewind_to=common the second turn computes the rest of the prompt alone."""
    context = runtime.load(files[0], None, _memory("rewind_to=common"))
    computed = []
    tokens = []
    for _ in range(2):
        tokens.append(_tokens(context))
        turn = context.turn()
        assert turn is not None
        computed.append(turn.prompt_tokens)
    assert computed == [_PROMPT, _PROMPT - _COMMON]
    assert tokens[0] == tokens[1] == _tokens(runtime.load(files[0], None, _memory()))


def test_an_adapter_gives_the_tokens_of_the_merged_model(
    runtime: Runtime, files: list[str]
) -> None:
    """The base keeps its own tokens beside a context with an adapter."""
    model, adapter, merged = files
    base = runtime.load(model, None, _memory())
    own = _tokens(base)
    adapted = runtime.adapter(adapter, base, _memory())
    expected = _tokens(runtime.load(merged, None, _memory()))
    assert _tokens(adapted) == expected
    assert _tokens(base) == own


def test_what_it_lacks_is_refused(runtime: Runtime, files: list[str]) -> None:
    """Each mechanism that the runtime lacks has a reason, and a batch has some options less."""
    source = runtime.load(files[0], None, _memory())
    unified = Memory(conversation=_memory().conversation, sequences=2, unified_cache=True)
    with pytest.raises(NotSupported) as error:
        runtime.load(files[0], None, unified)
    assert _code(error) == "ort_genai_no_unified_cache"
    with pytest.raises(NotSupported) as error:
        runtime.shared_prompt(source, _memory())
    assert _code(error) == "ort_genai_no_shared_prompt"
    with pytest.raises(NotSupported) as error:
        runtime.restored_prompt(source, _memory())
    assert _code(error) == "ort_genai_no_state"
    for option in ("rewind_to=common", "chunk_size=16"):
        with pytest.raises(NotSupported) as error:
            runtime.load(files[0], None, _memory(option, sequences=2))
        assert _code(error) == "ort_genai_batch_in_one_piece"
    with pytest.raises(NotSupported) as error:
        runtime.load(files[0], None, _memory(tokens=1_000_000))
    assert _code(error) == "conversation_too_long"


def test_bad_folders_are_named(runtime: Runtime, files: list[str], tmp_path: Path) -> None:
    """No JSON, no language model, a missing model and one that is cut short are sentences."""
    config = tmp_path / "genai_config.json"
    for text in ("{", "{}", '{"model": {"decoder": {}}}'):
        config.write_text(text, encoding="utf-8")
        with pytest.raises(AdapterError) as error:
            runtime.interface(str(config))
        assert _code(error) == "ort_genai_config_unreadable"
    shutil.copy(files[0], config)
    with pytest.raises(AdapterError) as error:
        runtime.load(str(config), None, _memory())
    assert _code(error) == "ort_genai_file_missing"
    (tmp_path / "model.onnx").write_bytes(b"short")
    with pytest.raises(AdapterError) as error:
        runtime.load(str(config), None, _memory())
    assert _code(error) == "ort_genai_load_failed"
    with pytest.raises(AdapterError) as error:
        runtime.adapter(str(config), runtime.load(files[0], None, _memory()), _memory())
    assert _code(error) == "ort_genai_adapter_unreadable"


def test_it_does_not_report_to_its_maker(runtime: Runtime) -> None:
    """The variable that keeps the runtime from sending events is set before the import."""
    assert runtime.version
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"
