from __future__ import annotations

from pathlib import Path

from reports.base.texts import texts_of
from reports.results.labels import labels_of
from reports.results.rows import newest_groups
from reports.sections.mechanisms import runtime_colours, savings_figure, savings_table
from tests.reports.stored import FAILED, NOT_SUPPORTED, changed, dup, even, groups_of, npu_account, result, write_run

ENGLISH = texts_of("en")


def two_runtimes(storage: Path) -> None:
    """Write a run of ONNX Runtime that lacks a mechanism, and one of the NPU that fails in another."""
    write_run(
        storage,
        [
            result(storage, "no_reuse_one_model", even(40, spread=1)),
            result(storage, "full_dup", dup(40, 10)),
            result(storage, "external_memory", [], failure=NOT_SUPPORTED),
            result(storage, "resolutions_2", even(4)),
            result(storage, "shared_weights_2", even(2)),
        ],
    )
    infos = [result(storage, name, even(3), npu=npu_account) for name in ("no_reuse_one_model", "full_dup")]
    infos.append(result(storage, "shared_context", [], failure=FAILED, npu=npu_account))
    write_run(storage, infos, number=2, at="2026-02-02")


def test_mechanisms_stand_against_runtimes(tmp_path: Path) -> None:
    """A cell is what is saved in percent with its spread, or why there is nothing; never zero for what is lacking."""
    two_runtimes(tmp_path)
    groups = newest_groups(groups_of(tmp_path))
    table = savings_table(groups, labels_of(groups, ENGLISH), ENGLISH)
    assert table is not None
    assert table.columns == ["", "g0", "g1"]
    assert [head.partition(":")[0] for head in table.heads[1:]] == ["RKNN 1.6.0, python", "ONNX Runtime 1.2.3, python"]
    assert {cells[0]: [cell for cell in cells[1:]] for _, cells in table.rows} == {
        "Full dup": ["55.0 ±0.0", "68.8 ±2.5"],
        "Shared context": ["crashed", "-"],
        "All outside (create_mem)": ["-", "not supported"],
    }


def test_figure_has_what_measurably_saves(tmp_path: Path) -> None:
    """Only mechanisms that save in some group are drawn, each group in a colour of its own."""
    two_runtimes(tmp_path)
    groups = newest_groups(groups_of(tmp_path))
    drawing = savings_figure(groups, ENGLISH)
    assert drawing is not None
    for svg in (drawing.wide, drawing.narrow):
        assert ">Full dup<" in svg
        assert ">68.8<" in svg
        assert ">Shared context<" not in svg
    assert len({colour for _, colour in runtime_colours(groups, labels_of(groups, ENGLISH), ENGLISH)}) == 2


def test_the_newest_group_of_a_runtime_stands_for_it(tmp_path: Path) -> None:
    """Of two versions of one runtime on one target the newer group is chosen."""
    old = changed(result(tmp_path, "no_reuse", even(40)), runtime_version="0.0.1")
    write_run(tmp_path, [old], 1, at="2026-01-01")
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40))], 2, at="2026-01-02")
    (group,) = newest_groups(groups_of(tmp_path))
    assert group.info.runtime_version == "1.2.3"


def test_without_comparisons_there_is_no_overview(tmp_path: Path) -> None:
    """Baselines alone give neither figure nor table."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40))])
    groups = newest_groups(groups_of(tmp_path))
    assert (savings_figure(groups, ENGLISH), savings_table(groups, ["here"], ENGLISH)) == (None, None)
