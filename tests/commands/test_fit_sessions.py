"""`reusebench fit --sessions`: conversations of a language model."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.measured.plan import SEQUENCE, Plan
from reusebench.measured.runtimes import available, find_runtime
from reusebench.models.language import LanguageRecipe, ensure_language
from reusebench.storage.fit_sessions import SessionsAnswer, read_session_answers
from tests.commands.replies import result_of
from tests.helpers.support import Reusebench

_needs_llama = pytest.mark.skipif(
    not available(find_runtime("llama_cpp")), reason="llama.cpp is not installed"
)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--tokens 128", "--tokens is for language models: add --sessions N"),
        ("--tokens-per-s 5", "--tokens-per-s is for language models"),
        ("--sessions 2", "--sessions needs --tokens"),
        ("--sessions 2 --tokens 128 --fps 5", "language models, which have no --fps"),
        ("--sessions 2 --tokens 128 --streams 2", "language models, which have no --streams"),
        ("--sessions 2 --tokens 1", "no room for a prompt and an answer"),
        ("--sessions 2 --tokens 8 --generated 8", "--generated 8 leaves no room for a prompt"),
        ("--sessions 2 --tokens 128 --prompt 128", "are more than --tokens 128"),
        (
            "--sessions 2 --tokens 128 --prompt 50 --common 50",
            "--common 50: the prompt has 50 tokens",
        ),
        (
            "--sessions 2 --tokens 128 --model detector.onnx",
            "--sessions is for language models, and detector.onnx is none by its name",
        ),
        ("--model chat.gguf", "chat.gguf is a language model: add --sessions N and --tokens T"),
        ("--sessions 2 --tokens 128 --runtime onnxruntime", "onnxruntime has no conversations"),
    ],
)
def test_mistakes(reusebench: Reusebench, words: str, sentence: str) -> None:
    """Each is a sentence, before anything is measured."""
    ended = reusebench("fit", *words.split())
    assert ended.exit_code == 2
    assert sentence in ended.err


def _tiny_model() -> Path:
    (model,) = ensure_language(".gguf", [LanguageRecipe("tiny_decoder")])
    return model


@_needs_llama
@pytest.mark.process
def test_more_tokens_than_the_model_has(reusebench: Reusebench, tmp_path: Path) -> None:
    """The runtime says how many it was trained with; nothing is measured."""
    ended = reusebench(
        *("fit", "--model", _tiny_model(), "--storage", tmp_path),
        *("--sessions", 2, "--tokens", 5000),
    )
    assert ended.exit_code == 2
    assert "2048" in ended.err


@_needs_llama
@pytest.mark.process
@pytest.mark.slow
def test_the_answer(reusebench: Reusebench, tmp_path: Path) -> None:
    """It has a layout of all conversations, is stored, and answers again with few plans more."""
    question = ["fit", "--model", _tiny_model(), "--storage", tmp_path, "--json"]
    question += ["--sessions", "3", "--tokens", "64", "--generated", "4", "--common", "20"]
    ended = reusebench(*question, "--limit", "1GiB", "--verify")
    assert ended.exit_code == 0, ended.err
    result = result_of(ended)
    plan = Plan.from_json(result["recommended"])
    assert len(plan.contexts) == 3
    assert result["fits"]
    assert result["predicted_kv_bytes"] == result["measured_kv_bytes"]
    kinds = {point["kind"] for point in result["candidates"]}
    assert kinds == {"contexts", "sequences", "unified", "shared_prompt"}
    (stored,) = read_session_answers(tmp_path)
    assert isinstance(stored, SessionsAnswer)
    assert stored.predicted_peak_bytes == result["predicted_peak_bytes"]

    small = reusebench(*question, "--limit", "1MiB", "--stored")
    assert small.exit_code == 1
    assert "Measuring: " not in small.err
    assert not result_of(small)["fits"]
    assert Plan.from_json(result_of(small)["recommended"]).contexts[1].mechanism in (
        SEQUENCE,
        "shared_prompt",
    )
