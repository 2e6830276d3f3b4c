"""`pytest bench/test_sessions.py` as a user runs it, on llama.cpp, with a tiny language model."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.measured.plan import Conversation
from reusebench.measured.runtimes import available, find_runtime
from reusebench.models.language import LanguageRecipe, ensure_language
from reusebench.storage.result import Result
from tests.bench.bench_process import Bench

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not available(find_runtime("llama_cpp")), reason="llama-cpp-python is not installed"
    ),
]

_ON_LLAMA = ("--runtime=llama_cpp", "--session-option=n_threads=1", "--sessions=2", "--tokens=256")


@pytest.fixture(scope="module")
def model(cache: Path) -> Path:
    """Return the tiny model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        (path,) = ensure_language(".gguf", [LanguageRecipe("tiny_decoder")])
    return path


@pytest.fixture(scope="module")
def results(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, model: Path
) -> dict[str, Result]:
    """Return the results of four ways to hold two conversations, and of one."""
    bench = Bench(tmp_path_factory.mktemp("sessions"), cache)
    names = "loaded or sequences or shared or restored or session_shorter or adapters"
    done = bench.run("bench/test_sessions.py", *_ON_LLAMA, "--model", model, "-k", names)
    assert done.code == 0, done.words
    assert "tokens/s, of all" in done.words
    assert "skipped: --model is given without --adapter" in done.words
    return done.results()


def test_each_way_is_measured(results: dict[str, Result]) -> None:
    """Every way has its memory, its conversation and the speed of its turns; tokens are equal."""
    assert list(results) == [
        "sessions_loaded",
        "sessions_sequences",
        "sessions_shared_prompt",
        "sessions_restored_prompt",
        "session_shorter",
    ]
    expected = Conversation(tokens=256, prompt=60, generated=8, common=32)
    digests = set()
    for name, info in results.items():
        assert (info.outcome, info.failure) == ("ok", None)
        assert (info.streams, info.contexts, info.cores, info.rounds) == (1, 2, 1, 2)
        if name != "session_shorter":
            assert info.plan.conversation == expected
            assert len(info.plan.contexts) == 2
        for values in (
            info.speed.first_token_ns,
            info.speed.prompt_tokens_per_s,
            info.speed.generated_tokens_per_s,
            info.speed.all_generated_tokens_per_s,
        ):
            assert [value is not None and value > 0 for value in values] == [True]
        for index in range(len(info.plan.contexts)):
            assert info.plan.options_of(index) == ("n_threads=1",)
        digests.add(tuple(info.output_digests.values()))
    assert len(digests) == 1


def test_the_account_of_keys_and_values(results: dict[str, Result]) -> None:
    """A sequence adds nothing of its own to the account; its context has room for both."""
    loaded = results["sessions_loaded"].runtime_accounts
    whole = results["sessions_sequences"].runtime_accounts
    assert [account["kv_cache_bytes"] for account in loaded] == [768 * 256] * 2
    assert whole[0]["kv_cache_bytes"] == 768 * 512
    assert "kv_cache_bytes" not in whole[1]


def test_only_questions_about_language_models(bench: Bench, model: Path) -> None:
    """With a language model alone the runtimes that read it are chosen; another question has none
    of them, and an option for other models is refused.
    """
    words = ("--model", model, "--collect-only", "-q")
    done = bench.run("bench/", *words, "--runtime=llama_cpp", "--sessions=2")
    assert done.code == 0, done.words
    assert "test_sessions[llama_cpp-sessions_loaded]" in done.words
    assert "full_dup" not in done.words
    done = bench.run("bench/test_dup.py", *words, "--runtime=llama_cpp", "--sessions=2")
    assert done.code != 0
    assert "llama_cpp run language models, which these questions are not about" in done.words
    done = bench.run("bench/test_sessions.py", "--runtime=onnxruntime", "--sessions=2")
    assert "these questions are about language models: name a runtime for them" in done.words
    done = bench.run("bench/test_sessions.py", "--runtime=llama_cpp", "--model", model)
    assert "--streams is not for language models" in done.words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tokens=100", "--prompt=90", "--generated=20"), "has no room for a prompt of 90"),
        (("--sessions=0",), "'0' is not valid; valid: a whole number from 1"),
        (("--session-option=q8_0",), "'q8_0' is not valid; valid: NAME=VALUE"),
        (("--model", "folder"), "--model folder: "),
    ],
)
def test_a_mistake_is_a_sentence(bench: Bench, arguments: tuple[str, ...], words: str) -> None:
    """Nothing is measured, and the exit code is that of a mistake."""
    done = bench.run("bench/test_sessions.py", "--runtime=llama_cpp", "--sessions=2", *arguments)
    assert done.code == pytest.ExitCode.USAGE_ERROR, done.words
    assert words in done.words


def test_a_part_of_a_split_file(bench: Bench, tmp_path: Path) -> None:
    """The missing part is named; a later part alone names the first one."""
    first = tmp_path / "m-00001-of-00002.gguf"
    first.write_bytes(b"GGUF")
    second = tmp_path / "m-00002-of-00002.gguf"
    arguments = ("bench/test_sessions.py", "--runtime=llama_cpp", "--sessions=2", "--model")
    done = bench.run(*arguments, first)
    assert "its part m-00002-of-00002.gguf is missing; all 2 parts must be in one" in done.words
    second.write_bytes(b"GGUF")
    done = bench.run(*arguments, second)
    assert "Give the first part, m-00001-of-00002.gguf" in done.words


def test_a_plan_of_conversations(bench: Bench, model: Path) -> None:
    """A plan is measured on the runtimes of its models alone, beside itself without reuse."""
    plan = bench.folder / "talk.toml"
    plan.write_text(
        f"""
        [models]
        m = "{model}"
        [conversation]
        tokens = 256
        prompt = 40
        [contexts]
        first = {{ model = "m", unified_cache = true, options = ["n_threads=1"] }}
        second = {{ shared_prompt = "first" }}
        """
    )
    done = bench.run("--plan", plan, "--runtime=llama_cpp", "--runtime=onnxruntime")
    assert done.code == 0, done.words
    results = done.results()
    assert list(results) == ["talk.no_reuse", "talk"]
    for info in results.values():
        assert (info.runtime, info.outcome) == ("llama_cpp", "ok")
        assert info.plan.conversation == Conversation(256, 40, 8, 21)
    assert [context.mechanism for context in results["talk"].plan.contexts] == [
        "load",
        "shared_prompt",
    ]
