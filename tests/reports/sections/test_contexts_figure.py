from __future__ import annotations

import re
from pathlib import Path

from reports.base.texts import texts_of
from reports.results.colours import SCENARIO_COLOURS
from reports.sections.contexts import contexts, npu_contexts
from tests.reports.stored import FAILED, dup, even, groups_of, npu_account, result, write_run

ENGLISH = texts_of("en")
#: A dashed line, and a text, as SVG has them.
DASHED = re.compile(r"<path [^>]*stroke-dasharray[^>]*>")
TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")


def test_line_is_dashed_through_the_points(tmp_path: Path) -> None:
    """Each scenario has points and a dashed line in its colour, in both widths."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40)), result(tmp_path, "full_dup", dup(40, 10))])
    drawing = contexts(groups_of(tmp_path)[0].rows, ENGLISH)
    assert drawing is not None
    for svg in (drawing.wide, drawing.narrow):
        dashed = DASHED.findall(svg)
        assert len(dashed) == 2
        assert SCENARIO_COLOURS["no_reuse"] in dashed[0]
        assert SCENARIO_COLOURS["full_dup"] in dashed[1]


def test_nothing_is_written_into_the_figure(tmp_path: Path) -> None:
    """Numbers stand at the axes and in the table: the figure's words are those of its axes."""
    write_run(tmp_path, [result(tmp_path, "full_dup", dup(40, 10), npu=npu_account)])
    drawing = npu_contexts(groups_of(tmp_path)[0].rows, ENGLISH)
    assert drawing is not None
    words = {text for text in TEXT.findall(drawing.wide) if not text.isdigit()}
    assert words == {ENGLISH("axis_contexts"), ENGLISH("axis_npu_memory")}


def test_points_of_different_models_are_joined(tmp_path: Path) -> None:
    """Where no line is fitted there is none that is dashed."""
    write_run(tmp_path, [result(tmp_path, "in_turn", even(3))])
    drawing = contexts(groups_of(tmp_path)[0].rows, ENGLISH)
    assert drawing is not None
    assert DASHED.findall(drawing.wide) == []


def test_no_figure_without_figures(tmp_path: Path) -> None:
    """Nothing is drawn where all failed, nor of NPU memory where nobody says it."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", [], failure=FAILED), result(tmp_path, "full_dup", dup(40, 10))])
    no_reuse, full_dup = groups_of(tmp_path)[0].rows
    assert contexts([no_reuse], ENGLISH) is None
    assert npu_contexts([full_dup], ENGLISH) is None
