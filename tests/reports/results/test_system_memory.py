"""System memory is left out if its noise hides what layouts differ by."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.material import Material
from reusebench.reports.page.comparison_records import COMPARISON_TABLE
from reusebench.reports.page.terminal import print_group
from reusebench.reports.results.rows import Group
from reusebench.reports.results.system_memory import hidden_system_memory
from reusebench.reports.shared.answers import system_memory_note
from reusebench.reports.shared.comparison import comparison_table
from tests.reports.stored import MIB, dup, even, group_of, result, with_memory

ENGLISH = texts_of("en")
#: Application memory of 12 contexts without reuse and with dup, above the import.
_PLAIN_MIB = 480
_DUP_MIB = 150


def _group(storage: Path, plain_mib: float, dup_mib: float, noise_mib: float = 0) -> Group:
    """Return a group whose two rows have this system memory."""
    infos = []
    for name, contexts, system_mib in (
        ("no_reuse_one_model", even(40), plain_mib),
        ("full_dup", dup(40, 10), dup_mib),
    ):
        info = result(storage, name, contexts)
        repeats = len(info.memory.application_memory_bytes)
        memory = {
            "system_memory_bytes": (int(system_mib * MIB),) * repeats,
            "system_memory_noise_bytes": (int(noise_mib * MIB),) * repeats,
        }
        infos.append(with_memory(info, **memory))
    return group_of(storage, *infos)


def _shown(group: Group) -> list[bool]:
    """Return whether the page and the terminal show system memory."""
    console = Console(file=io.StringIO(), width=200)
    print_group(group, "here", ENGLISH, console)
    assert isinstance(console.file, io.StringIO)
    heads = comparison_table(group, group.rows, (), ENGLISH).heads
    return [
        ENGLISH("column_system") in heads,
        "system" in console.file.getvalue().partition("System memory is left out")[0],
    ]


def test_a_difference_above_the_noise_is_shown(tmp_path: Path) -> None:
    """The system takes less as the process does, so the column says something."""
    group = _group(tmp_path, 5000, 5000 - (_PLAIN_MIB - _DUP_MIB), noise_mib=2)
    assert hidden_system_memory(group) is None
    assert system_memory_note(group, ENGLISH) is None
    assert _shown(group) == [True, True]


@pytest.mark.parametrize(
    ("dup_mib", "noise_mib"),
    [
        (5000 - (_PLAIN_MIB - _DUP_MIB), 200),  # idle, it moved by more than the saving
        (4990, 0),  # other programs took what the layout gave back
        (5300, 0),
    ],
)
def test_a_difference_within_the_noise_is_left_out(
    tmp_path: Path, dup_mib: float, noise_mib: float
) -> None:
    """Page and terminal leave the column out and say why; the exported table has the figures."""
    group = _group(tmp_path, 5000, dup_mib, noise_mib)
    assert _shown(group) == [False, False]
    for language in LANGUAGES:
        assert "MiB" in (system_memory_note(group, texts_of(language)) or "")
    records = list(COMPARISON_TABLE.records(Material([group])))
    assert {record["system_memory_bytes"] for record in records} == {5000 * MIB, dup_mib * MIB}
