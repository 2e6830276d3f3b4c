"""Programs for ONNX Runtime GenAI and OpenVINO GenAI, run as an application would run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reusebench.measured.plan import (
    ADAPTER,
    DUP,
    RESTORED_PROMPT,
    SEQUENCE,
    SHARED_PROMPT,
    Context,
    Conversation,
    Model,
    Plan,
)
from reusebench.measured.runtimes import available, find_runtime
from reusebench.measured.runtimes.base import NotSupported
from reusebench.models.language import LanguageRecipe, ensure_language
from reusebench.snippets import snippet_of
from tests.helpers.support import PROGRAM_LIMIT_S

pytestmark = pytest.mark.process

_ORT = "onnxruntime_genai"
_OPENVINO = "openvino_genai"
_FIRST = Context(0, 0)
_UNIFIED = Context(0, 0, unified_cache=True)
_ADAPTED = Context(0, 1, mechanism=ADAPTER, source=0)


def _over_first(mechanism: str) -> Context:
    return Context(0, 0, mechanism=mechanism, source=0)


def _plan(runtime: str, contexts: tuple[Context, ...]) -> Plan:
    kind = find_runtime(runtime).folder_model
    assert kind is not None
    recipes = [LanguageRecipe("tiny_decoder"), LanguageRecipe("tiny_decoder", 0, "adapter", 1)]
    models = []
    for path in ensure_language(kind, recipes[: 1 + max(one.model for one in contexts)]):
        models.append(Model(path.name, str(path), path.name))
    conversation = Conversation(128, 40, 8, 32)
    return Plan("p", None, runtime, tuple(models), contexts, 1, 2, conversation=conversation)


@pytest.mark.parametrize(
    ("runtime", "contexts"),
    [
        (_ORT, (_FIRST, _over_first(DUP))),
        (_ORT, (_FIRST, _over_first(SEQUENCE), _over_first(SEQUENCE))),
        (_ORT, (_FIRST, _ADAPTED)),
        (_OPENVINO, (_FIRST, _FIRST)),
        (_OPENVINO, (_UNIFIED, _over_first(SEQUENCE))),
        (_OPENVINO, (_UNIFIED, _over_first(SHARED_PROMPT))),
        (_OPENVINO, (_FIRST, _ADAPTED)),
    ],
)
def test_a_program_holds_every_conversation(
    runtime: str, contexts: tuple[Context, ...], tmp_path: Path
) -> None:
    """It prints a line per conversation; those of one model have the same tokens."""
    if not available(find_runtime(runtime)):
        pytest.skip(f"{runtime} is not installed")
    plan = _plan(runtime, contexts)
    program = tmp_path / "program.py"
    program.write_text(snippet_of(plan).text, encoding="utf-8")
    command = [sys.executable, str(program), *(model.path for model in plan.models)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PROGRAM_LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(contexts)
    if _ADAPTED not in contexts:
        assert len({line.rpartition(" ")[2] for line in lines}) == 1


@pytest.mark.parametrize("mechanism", [DUP, RESTORED_PROMPT])
def test_requests_of_openvino_have_no_program(mechanism: str) -> None:
    """A program has pipelines alone, and the reason says where the others are described."""
    if not available(find_runtime(_OPENVINO)):
        pytest.skip("openvino_genai is not installed")
    with pytest.raises(NotSupported) as error:
        snippet_of(_plan(_OPENVINO, (_FIRST, _over_first(mechanism))))
    assert error.value.message.code == "openvino_genai_no_code_of_requests"
