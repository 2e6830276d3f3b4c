"""Commands say the same with an index and without one."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from reusebench.commands import main
from reusebench.storage.index import covered, storage_index
from tests.storage.index.made_storages import make_storage, results_of_all_kinds

_COMMANDS = (
    "compare",
    "compare latest~1 latest --across board --across plan --across models --all",
    "compare .. latest --metric latency",
    "compare 1 9",
    "export --format csv ..",
    "export --format jsonl latest",
    "export --format trace latest",
    "runs list",
    "runs list --newest 3 --json",
)


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the storages of two boards."""
    folder = tmp_path_factory.mktemp("boards")
    kinds = results_of_all_kinds(folder / "one")
    shutil.copytree(folder / "one", folder / "two")
    for seed, board in enumerate(("one", "two")):
        make_storage(folder / board, kinds, random.Random(seed), runs=9)
    return folder


@pytest.mark.parametrize("command", _COMMANDS)
def test_the_output_is_the_same(
    boards: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Texts, figures, warnings and exit codes do not depend on the index."""
    monkeypatch.setattr(covered, "_STEP_S", 0)
    monkeypatch.setattr(storage_index, "LEAST_BYTES", 0)
    words = [*command.split(), "--storage", str(boards)]
    by_index = CliRunner().invoke(main, words)
    assert list(boards.glob("*/.index/*/*/files"))
    monkeypatch.setenv("REUSEBENCH_INDEX", "off")
    by_files = CliRunner().invoke(main, words)
    assert (by_index.output, by_index.exit_code) == (by_files.output, by_files.exit_code)
    assert by_index.output
