from __future__ import annotations

from pathlib import Path

from reports.base.texts import texts_of
from reports.sections.contexts import resolutions_figure
from tests.reports.stored import FAILED, even, groups_of, npu_account, result, write_run

ENGLISH = texts_of("en")
NAMES = ("resolutions_2", "shared_weights_2", "resolutions", "shared_weights")


def test_lines_are_drawn_over_the_numbers_measured(tmp_path: Path) -> None:
    """Two and four resolutions give a figure, whose axis counts them."""
    write_run(tmp_path, [result(tmp_path, name, even(3)) for name in NAMES])
    drawing = resolutions_figure(groups_of(tmp_path)[0].rows, ENGLISH)
    assert drawing is not None
    for svg in (drawing.wide, drawing.narrow):
        assert f">{ENGLISH('axis_resolutions')}<" in svg
        assert f">{ENGLISH('axis_over_baseline')}<" in svg
        assert {">2<", ">4<"} <= {f">{text}<" for text in "1234" if f">{text}<" in svg}


def test_one_number_is_no_figure(tmp_path: Path) -> None:
    """Of one number of resolutions, or where the others failed, nothing is drawn."""
    infos = [result(tmp_path, name, even(3)) for name in NAMES[2:]]
    write_run(tmp_path, [*infos, result(tmp_path, NAMES[0], [], failure=FAILED)])
    assert resolutions_figure(groups_of(tmp_path)[0].rows, ENGLISH) is None


def test_npu_memory_is_drawn_where_there_is_some(tmp_path: Path) -> None:
    """On an NPU the lines are of its memory."""
    write_run(tmp_path, [result(tmp_path, name, even(3), npu=npu_account) for name in NAMES])
    drawing = resolutions_figure(groups_of(tmp_path)[0].rows, ENGLISH)
    assert drawing is not None
    assert f">{ENGLISH('axis_npu_memory')}<" in drawing.wide
