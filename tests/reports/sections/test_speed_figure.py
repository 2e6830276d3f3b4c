from __future__ import annotations

import re
from pathlib import Path

from reports.base.texts import texts_of
from reports.results.colours import SCENARIO_COLOURS
from reports.sections.speed import speed_figure, speed_legend
from scenarios.catalogue import SCENARIOS
from tests.reports.stored import dup, even, groups_of, npu_run, result, with_speed, write_run

ENGLISH = texts_of("en")
TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")


def test_every_point_has_its_own_colour_and_marker(tmp_path: Path) -> None:
    """Of a run of all scenarios no two points look the same, and variants and baselines have none."""
    write_run(tmp_path, [result(tmp_path, each.name, even(3)) for each in SCENARIOS])
    legend = speed_legend(groups_of(tmp_path)[0], ENGLISH)
    asked = [each.name for each in SCENARIOS if each.baseline and not each.is_variant]
    assert {name for name, _, _ in legend} == {ENGLISH.scenario(name) for name in asked}
    looks = {(colour, marker) for _, colour, marker in legend}
    assert len(looks) == len(legend) == len(asked)


def test_points_are_drawn_without_words(tmp_path: Path) -> None:
    """Each point is in its scenario's colour, in both widths; words stand at the axes alone."""
    infos = [result(tmp_path, "no_reuse_one_model", even(40)), result(tmp_path, "full_dup", dup(40, 10))]
    write_run(tmp_path, infos)
    drawing = speed_figure(groups_of(tmp_path)[0], ENGLISH)
    assert drawing is not None
    for svg in (drawing.wide, drawing.narrow):
        assert SCENARIO_COLOURS["full_dup"] in svg
        assert f">{ENGLISH('axis_throughput_percent')}<" in svg
        assert f">{ENGLISH('axis_memory_saved_percent')}<" in svg
        assert ENGLISH.scenario("full_dup") not in svg


def test_a_disturbed_measurement_leaves_room_for_the_others(tmp_path: Path) -> None:
    """A point at ten times the baseline is drawn at the end of the axis, at half as fast again."""
    infos = [result(tmp_path, "no_reuse_one_model", even(40)), result(tmp_path, "full_dup", dup(40, 10))]
    infos[1] = with_speed(infos[1], throughput_per_s=[240.0] * 3)
    write_run(tmp_path, infos)
    drawing = speed_figure(groups_of(tmp_path)[0], ENGLISH)
    assert drawing is not None
    numbers = [float(text) for text in TEXT.findall(drawing.wide) if text.replace(".", "").isdigit()]
    assert 140 <= max(numbers) <= 150


def test_no_figure_where_nothing_computes(tmp_path: Path) -> None:
    """The virtual board has no speed to draw, and no legend for it."""
    npu_run(tmp_path, computes=False)
    (group,) = groups_of(tmp_path)
    assert speed_figure(group, ENGLISH) is None
    assert speed_legend(group, ENGLISH) == []
