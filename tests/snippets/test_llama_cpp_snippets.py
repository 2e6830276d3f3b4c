"""The programs for llama.cpp, run for real: equal tokens whatever is reused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from reusebench.measured.plan import (
    ADAPTER,
    DUP,
    INTERNAL,
    LOAD,
    RESTORED_PROMPT,
    SEQUENCE,
    SHARED_PROMPT,
    Context,
    Conversation,
    Model,
    Plan,
)
from reusebench.measured.runtimes.base import NotSupported
from reusebench.models.language import LanguageRecipe, ensure_language
from reusebench.snippets import snippet_of

pytestmark = pytest.mark.process

pytest.importorskip("llama_cpp")

_CHECKSUM = re.compile(r"CRC-32 of its tokens (\w{8})")
_OPTIONS = ("n_threads=1",)
_LAYOUTS = {
    "loaded": (LOAD, False),
    "contexts": (DUP, False),
    "sequences": (SEQUENCE, False),
    "unified": (SEQUENCE, True),
    "shared_prompt": (SHARED_PROMPT, True),
    "restored_prompt": (RESTORED_PROMPT, False),
}


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """Return the tiny model, an adapter over it, and the model merged with the adapter."""
    recipes = [
        LanguageRecipe("tiny_decoder"),
        LanguageRecipe("tiny_decoder", part="adapter", number=1),
        LanguageRecipe("tiny_decoder", part="merged", number=1),
    ]
    return ensure_language(".gguf", recipes)


def _plan(scenario: str, files: list[Path], contexts: list[Context]) -> Plan:
    models = tuple(Model(file.stem, str(file), file.stem) for file in files)
    return Plan(
        scenario,
        None,
        "llama_cpp",
        models,
        tuple(contexts),
        cores=1,
        rounds=2,
        conversation=Conversation(300, 24, 24, 16),
    )


def _layout(name: str, files: list[Path], options: tuple[str, ...] = _OPTIONS) -> Plan:
    mechanism, unified = _LAYOUTS[name]
    contexts = [Context(0, 0, options=options, unified_cache=unified)]
    for _ in range(2):
        if mechanism == LOAD:
            contexts.append(Context(0, 0, options=options))
        else:
            contexts.append(Context(0, 0, mechanism, 0))
    return _plan(name, files[:1], contexts)


def _checksums(plan: Plan, files: list[Path], folder: Path) -> list[str]:
    """Return the checksums that the plan's program prints."""
    snippet = snippet_of(plan)
    assert snippet.language == "python"
    program = folder / f"{plan.scenario}.py"
    program.write_text(snippet.text)
    done = subprocess.run(
        [sys.executable, str(program), *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return _CHECKSUM.findall(done.stdout)


def test_tokens_are_those_of_separate_models(files: list[Path], tmp_path: Path) -> None:
    """Every layout has three conversations, all with the same tokens."""
    checksums = {name: _checksums(_layout(name, files), files[:1], tmp_path) for name in _LAYOUTS}
    (checksum,) = set(checksums["loaded"])
    assert checksums == dict.fromkeys(_LAYOUTS, [checksum] * 3)


def test_an_adapter_is_in_its_context_alone(files: list[Path], tmp_path: Path) -> None:
    """It answers like the merged model, and the base like itself."""
    base, adapter, merged = files
    over = _plan(
        "adapters",
        [base, adapter],
        [Context(0, 0, options=_OPTIONS), Context(0, 1, ADAPTER, 0)],
    )
    apart = _plan(
        "merged",
        [base, merged],
        [Context(0, 0, options=_OPTIONS), Context(0, 1, options=_OPTIONS)],
    )
    checksums = _checksums(over, [base, adapter], tmp_path)
    assert len(set(checksums)) == 2
    assert checksums == _checksums(apart, [base, merged], tmp_path)


def test_options_are_parameters(files: list[Path], tmp_path: Path) -> None:
    """The program sets them by the names of llama.cpp, and runs."""
    options = ("cache_type=q8_0", "use_mmap=0", "use_extra_bufts=0", "n_ubatch=16", "flash_attn=1")
    plan = _layout("contexts", files, (*_OPTIONS, *options))
    text = snippet_of(plan).text
    for line in ("params.type_k = 8  # q8_0", "LLAMA_LOAD_MODE_NONE", "params.n_ubatch = 16"):
        assert line in text
    assert len(_checksums(plan, files[:1], tmp_path)) == 3


def test_plans_without_a_program(files: list[Path]) -> None:
    """A plan that the adapter would refuse has no code either, with a reason."""
    tensors = Model("model", str(files[0]), "digest")
    refused = [
        _plan("internal", files[:1], [Context(0, 0, outside=(INTERNAL,))]),
        _plan("kinds", files[:1], [Context(0, 0, options=("n_batch=8",)), Context(0, 0)]),
        _plan("parts", files[:1], [Context(0, 0), Context(0, 0, SHARED_PROMPT, 0)]),
        Plan("none", None, "llama_cpp", (tensors,), (Context(0, 0),), 1, 1),
    ]
    for plan in refused:
        with pytest.raises(NotSupported):
            snippet_of(plan)
