"""The contract of adapters of language models (conversations.py), on each that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.measured.runtimes import RUNTIMES, RuntimeEntry, available, open_runtime
from reusebench.measured.runtimes.base import Runtime
from reusebench.models.language import LanguageRecipe, ensure_language
from reusebench.models.language.recipe import KINDS
from tests.measured.runtimes.conversations import CONTRACT, LanguageFiles, Trial

pytestmark = pytest.mark.process

_ROWS = {entry.name: entry for entry in RUNTIMES if entry.has_conversations}
#: Options that keep the trial of a runtime quick on a machine that does other work.
_OPTIONS = {"llama_cpp": ("n_threads=1",)}


@pytest.fixture(scope="module", params=list(_ROWS))
def row(request: pytest.FixtureRequest) -> RuntimeEntry:
    """Return the row of each runtime; skips those that are not installed."""
    entry = _ROWS[request.param]
    if not available(entry):
        pytest.skip(f"{entry.title} is not installed: {entry.install}")
    return entry


@pytest.fixture(scope="module")
def opened(row: RuntimeEntry) -> Runtime:
    """Return the runtime, once for all of its tests."""
    return open_runtime(row.name)


@pytest.fixture(scope="module")
def files(row: RuntimeEntry) -> LanguageFiles:
    """Return the tiny built-in models in the runtime's own form."""
    kind = row.folder_model or row.suffix
    if kind not in KINDS:
        pytest.skip(f"the built-in language model is not made as {kind}")
    parts = [LanguageRecipe(name="tiny_decoder")]
    parts += [LanguageRecipe("tiny_decoder", part="adapter", number=n) for n in (1, 2)]
    parts += [LanguageRecipe("tiny_decoder", part="merged", number=n) for n in (1, 2)]
    model, *others = map(str, ensure_language(kind, parts))
    return LanguageFiles(model, tuple(others[:2]), tuple(others[2:]))


@pytest.mark.parametrize("clause", CONTRACT)
def test_every_adapter_keeps_the_contract(
    row: RuntimeEntry, opened: Runtime, files: LanguageFiles, clause: str, tmp_path: Path
) -> None:
    """The clause is a function of conversations.py."""
    CONTRACT[clause](Trial(row, opened, files, tmp_path, _OPTIONS.get(row.name, ())))
