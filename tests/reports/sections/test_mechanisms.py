"""The section of mechanisms: verdicts and reasons, on the page and as exported rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.results.colours import PALETTE
from reusebench.reports.results.grouping import newest_groups
from reusebench.reports.results.labels import labels_of
from reusebench.reports.results.rows import Group
from reusebench.reports.sections.mechanisms import (
    FAILS,
    MECHANISM_COLUMNS,
    MECHANISM_VERDICTS,
    MECHANISMS,
    NOT_SUPPORTED,
    SAVES_NOTHING,
    WORKS,
    mechanism_reasons,
    mechanism_records,
    mechanisms_table,
    savings_figure,
    verdict_of,
)
from reusebench.scenarios.catalogue import SESSIONS, scenarios_of
from reusebench.targets.outcome import Failure
from tests.reports.stored import (
    FAILED,
    MIB,
    as_measured,
    dup,
    even,
    first_look,
    group_of,
    groups_of,
    in_words,
    npu_account,
    result,
    row_of,
    write_run,
)
from tests.reports.stored import NOT_SUPPORTED as LACKING

ENGLISH = texts_of("en")
_LACKING = Failure("not_supported", "context", 1, in_words("no allocator <from> Python"))


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Group:
    """Return a group with a mechanism of every verdict."""
    folder = tmp_path_factory.mktemp("mechanisms")
    return group_of(
        folder,
        result(folder, "no_reuse_one_model", even(40, spread=0.25)),
        result(folder, "full_dup", dup(40, 10)),
        result(folder, "shared_context", [], failure=FAILED),
        result(folder, "in_turn", even(40, spread=1)),
        result(folder, "internal_reuse", even(39.9, spread=1)),
        result(folder, "internal_reuse_last_first", even(45, spread=0.1)),
        result(folder, "external_memory", [], failure=_LACKING),
        result(folder, "external_mmz", [], failure=_LACKING),
        result(folder, "copied_io", even(40)),
        result(folder, "zero_copy_io", even(40)),
        result(folder, "copied_io_4k", even(40)),
        result(folder, "zero_copy_io_4k", even(10)),
        result(folder, "plain", even(40)),
        result(folder, "lean", even(10)),
        result(folder, "partial_dup", even(20)),
    )


def test_a_cell_says_verdict_and_what_was_measured(group: Group) -> None:
    """A cell has the verdict with savings and avoided copies; variants are left out."""
    table = mechanisms_table([group], ["here"], ENGLISH)
    assert table is not None
    assert (table.heads, table.looks) == (["Mechanism", "here: application memory, %"], ["", "g0"])
    assert {cells[0]: cells[1] for _, cells in table.rows} == {
        "Partial dup": "not compared",
        "Full dup": "64.7 %",
        "Shared context": "fails",
        "Internal reuse": "saves nothing",
        "Internal reuse, largest last": "saves nothing",
        "All outside (create_mem)": "not supported",
        "All outside (MMZ)": "not supported",
        "Zero-copy input and output": "3.00 MiB less copied",
        "Lean": "70.6 %; 3.00 MiB less copied",
    }


def test_what_a_group_was_not_measured_with_is_empty(group: Group, npu_group: Group) -> None:
    """Each group has a column; mechanisms are in the order of the catalogue."""
    table = mechanisms_table([group, npu_group], ["here", "there"], ENGLISH)
    assert table is not None
    cells = {cells[0]: list(cells[1:]) for _, cells in table.rows}
    of_networks = [name for name in MECHANISMS if name not in scenarios_of(SESSIONS)]
    assert list(cells) == [ENGLISH.scenario(name) for name in of_networks]
    assert cells["Shared weights"] == ["-", "45.0 %"]
    assert cells["Weights outside"][0] == "-"


@pytest.mark.parametrize("language", LANGUAGES)
def test_reasons_are_told_once_in_every_language(group: Group, language: str) -> None:
    """A reason names all its mechanisms; one that works has none."""
    texts = texts_of(language)
    lines = mechanism_reasons([group], ["here"], texts)
    assert [names for _, names, _ in lines] == [
        texts.scenario("shared_context"),
        texts.scenario("internal_reuse"),
        texts.scenario("internal_reuse_last_first"),
        texts.joined(texts.scenario(name) for name in ("external_memory", "external_mmz")),
    ]
    crashed, same, more, lacking = (reason for _, _, reason in lines)
    assert crashed.startswith(texts("outcome_crashed"))
    assert same == texts("mechanism_takes_as_much", saved="0.4 ±8.0")
    assert more == texts("mechanism_takes_more", more="20.0 ±4.4")
    assert lacking == "no allocator <from> Python"


def test_a_failure_is_a_reason_with_its_phase(group: Group) -> None:
    """The reason has the phase, the context and the message."""
    reason = next(
        reason
        for _, names, reason in mechanism_reasons([group], ["here"], ENGLISH)
        if names == "Shared context"
    )
    assert reason == "crashed (contexts made, 3): the process was ended by SIGSEGV"


def test_a_mechanism_fails_with_its_baseline(tmp_path: Path) -> None:
    """A failed baseline is the reason; without a stored one there is no verdict."""
    failed = result(tmp_path, "no_reuse_one_model", [], failure=FAILED)
    group = group_of(
        tmp_path,
        failed,
        result(tmp_path, "full_dup", even(3)),
        result(tmp_path, "partial_dup", even(3)),
    )
    verdict = verdict_of(row_of(group, "full_dup"))
    assert verdict is not None
    assert verdict.name == FAILS
    assert verdict_of(row_of(group, "partial_dup")) is None
    (row,) = mechanism_records(group)
    assert row["reason"].startswith("Its baseline No reuse, one model: crashed (")
    assert (row["memory"], row["saved_bytes"]) == (None, None)


def test_outputs_of_another_run_that_differ_are_a_failure(tmp_path: Path) -> None:
    """Memory that is saved by computing something else is no saving."""
    baseline = result(tmp_path, "no_reuse_one_model", even(40))
    group = group_of(
        tmp_path, baseline, result(tmp_path, "full_dup", dup(40, 10), digest="0000000f")
    )
    (row,) = mechanism_records(group)
    assert (row["verdict"], row["reason"]) == (FAILS, ENGLISH("differs_from_baseline"))


def test_equal_mechanisms_stand_once(tmp_path: Path) -> None:
    """If lean equals internal reuse, it has a row only if another runtime combines more."""
    more = group_of(tmp_path / "more", *first_look(tmp_path / "more"))
    plain, dups, internal, *_ = first_look(tmp_path)
    alike = group_of(tmp_path, plain, dups, internal, as_measured(internal, "lean"))

    def names(*groups: Group, question: str | None = None) -> list[str]:
        table = mechanisms_table(groups, ["here"] * len(groups), ENGLISH, question)
        return [cells[0] for _, cells in table.rows] if table else []

    assert names(alike) == names(alike, question="dup") == ["Full dup", "Full dup, internal reuse"]
    assert (
        names(alike, more)
        == names(more, question="dup")
        == ["Full dup", "Full dup, internal reuse", "Lean"]
    )
    assert names(more, question="lean") == []
    assert "Lean" not in str(savings_figure([alike], ["here"], ENGLISH))
    assert "Lean" in str(savings_figure([more], ["here"], ENGLISH))
    records = {row["scenario"]: row["combined"] for row in mechanism_records(alike)}
    assert records == {"full_dup": None, "full_dup_internal_reuse": "full_dup internal_reuse"}


def test_a_mechanism_of_two_questions_is_in_the_tables_of_both(tmp_path: Path) -> None:
    """The table of all mechanisms has it once."""
    first = result(tmp_path, "runtime_memory", even(40))
    in_place = result(tmp_path, "external_io", even(30))
    copies = [as_measured(first, "copied_io"), as_measured(in_place, "zero_copy_io")]
    group = group_of(tmp_path, first, in_place, *copies)
    for question, names in ((None, ["external_io"]), ("io_copies", ["zero_copy_io"])):
        table = mechanisms_table([group], ["here"], ENGLISH, question)
        assert table is not None
        assert [cells[0] for _, cells in table.rows] == list(map(ENGLISH.scenario, names))


def test_rows_have_figures_and_english_reasons(group: Group) -> None:
    """The columns of the export have whole bytes of the compared memory, or nothing."""
    rows = {row["scenario"]: row for row in mechanism_records(group)}
    assert all(set(row) == set(MECHANISM_COLUMNS) for row in rows.values())
    full = rows["full_dup"]
    assert [full[name] for name in ("verdict", "reason", "memory", "combined")] == [
        WORKS,
        None,
        "application",
        None,
    ]
    sizes = [full[f"{name}_bytes"] for name in ("saved", "spread", "whole", "copies_avoided")]
    assert sizes == [330 * MIB, 3 * MIB, 510 * MIB, 0]
    assert rows["lean"]["combined"] == "full_dup internal_reuse native_io shared_tensors"
    assert rows["internal_reuse"]["verdict"] == SAVES_NOTHING
    lacking = rows["external_mmz"]
    assert (lacking["verdict"], lacking["reason"]) == (NOT_SUPPORTED, "no allocator <from> Python")
    assert [
        lacking[name] for name in ("memory", "saved_bytes", "whole_bytes", "copies_avoided_bytes")
    ] == [None] * 4


def test_npu_memory_is_weighed_where_there_is_any(tmp_path: Path) -> None:
    """Application memory is not used then, and one repeat of a ledger is enough."""
    infos = [
        result(tmp_path, name, even(3, repeats=1), npu=npu_account)
        for name in ("no_reuse_one_model", "full_dup")
    ]
    (row,) = mechanism_records(group_of(tmp_path, *infos))
    assert (row["verdict"], row["memory"], row["saved_bytes"], row["spread_bytes"]) == (
        WORKS,
        "npu",
        66 * MIB,
        None,
    )


def test_without_mechanisms_there_is_no_table(tmp_path: Path) -> None:
    """Baselines alone say nothing of mechanisms."""
    group = group_of(tmp_path, result(tmp_path, "no_reuse", even(3)))
    assert mechanisms_table([group], ["here"], ENGLISH) is None
    assert (mechanism_reasons([group], ["here"], ENGLISH), mechanism_records(group)) == ([], [])


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_verdict_has_words(language: str) -> None:
    """No verdict is without its text."""
    assert {f"mechanism_{verdict}" for verdict in MECHANISM_VERDICTS} <= set(
        texts_of(language).words
    )


# Savings


def two_runtimes(storage: Path) -> None:
    """Write a run of ONNX Runtime that lacks a mechanism, and one of the NPU that fails in
    another.
    """
    write_run(
        storage,
        [
            result(storage, "no_reuse_one_model", even(40, spread=1)),
            result(storage, "full_dup", dup(40, 10)),
            result(storage, "external_memory", [], failure=LACKING),
            result(storage, "resolutions_2", even(4)),
            result(storage, "shared_weights_2", even(2)),
        ],
    )
    infos = [
        result(storage, name, even(3), npu=npu_account)
        for name in ("no_reuse_one_model", "full_dup")
    ]
    infos.append(result(storage, "shared_context", [], failure=FAILED, npu=npu_account))
    write_run(storage, infos, number=2, at="2026-02-02")


def test_figure_has_what_measurably_saves(tmp_path: Path) -> None:
    """Only mechanisms that save in some group are drawn, each group in a colour of its own."""
    two_runtimes(tmp_path)
    groups = newest_groups(groups_of(tmp_path))
    svg = savings_figure(groups, labels_of(groups, ENGLISH), ENGLISH)
    assert svg is not None
    for text in ("Full dup", "RKNN 1.6.0: NPU memory, %"):
        assert f">{text}<" in svg
    assert ">Shared context<" not in svg
    assert {colour for colour in PALETTE if f"fill: {colour}" in svg} == set(PALETTE[:2])


def test_without_comparisons_there_is_no_overview(tmp_path: Path) -> None:
    """Baselines alone give no figure."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40))])
    groups = newest_groups(groups_of(tmp_path))
    assert savings_figure(groups, ["here"], ENGLISH) is None
