from __future__ import annotations

import pytest
from storage.mechanisms import VERDICTS, Trial

from reports.base.texts import LANGUAGES, texts_of
from reports.sections.mechanisms import reasons, trials_dates, trials_table
from tests.reports.stored import MIB, tried

ENGLISH = texts_of("en")


def test_verdicts_stand_with_what_was_saved() -> None:
    """A cell says what the trial came to, with a saving that exceeds its spread and the copies avoided."""
    table = trials_table([tried()], ENGLISH)
    assert table is not None
    assert table.heads == ["Mechanism", "ONNX Runtime 1.2.3, python"]
    cells = {cells[0].text: cells[1].text for _, cells in table.rows}
    assert cells == {
        "Full dup": "works; 30.0 ±1.0 MiB application memory saved (50.0 %)",
        "Internal reuse": "saves nothing",
        "All outside (create_mem)": "not supported",
        "All outside (MMZ)": "not supported",
        "Zero-copy input and output": "works; 3.00 MiB less copied per inference",
        "Lean": "fails",
    }


def test_a_mechanism_that_one_runtime_was_not_tried_with_is_empty() -> None:
    """Runtimes that were tried with other mechanisms leave their cell empty, and what is unknown stands last."""
    trials = (Trial("of_tomorrow", "works", "", 2 * MIB, 3 * MIB), Trial("lean", "works", "", combined=("full_dup",)))
    other = tried("rknn", runtime_version="1.6.0 (9a7b5d24c)", target="vboard:rk3588", trials=trials)
    table = trials_table([tried(), other], ENGLISH)
    assert table is not None
    assert table.heads[2] == "RKNN 1.6.0, vboard:rk3588"
    rows = {cells[0].text: [cell.text for cell in cells[1:]] for _, cells in table.rows}
    assert list(rows.items())[-1] == ("of_tomorrow", ["-", "works"])
    assert rows["Lean"] == ["fails", "works; of Full dup"]


def test_equal_reasons_stand_once() -> None:
    """Each reason of a runtime names all mechanisms that it is of."""
    found = reasons([tried()], ENGLISH)
    assert found[1] == (
        "ONNX Runtime 1.2.3, python",
        "All outside (create_mem); All outside (MMZ)",
        "no allocator <from> Python",
    )
    assert len(found) == 3


def test_trials_are_dated() -> None:
    """Each runtime stands with the time when it was tried; without trials there is no table."""
    assert "tried 2026-01-02 03:04 (UTC)" in trials_dates([tried()], ENGLISH)
    assert trials_table([], ENGLISH) is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_verdict_has_words(language: str) -> None:
    """No verdict of a trial is without its text."""
    assert {f"trial_{verdict}" for verdict in VERDICTS} <= set(texts_of(language).words)
