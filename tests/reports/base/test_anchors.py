"""The ids of the places of a page."""

from __future__ import annotations

from reusebench.reports.base.anchors import Anchors, group_anchors


def test_ids_say_where_they_are() -> None:
    """An id has the section and the group; outside the part it has the section alone."""
    anchors = Anchors({"g0": "ncnn-1-0"})
    assert anchors.section("speed") == "speed"
    assert anchors.part("g0") == anchors.of_part("speed", "g0") == "speed-ncnn-1-0"
    assert anchors.of("g0-speed-figure") == "speed-ncnn-1-0-speed-figure"
    assert anchors.end_part() == ""
    assert anchors.of("table") == "speed-table"


def test_no_id_stands_twice() -> None:
    """The second place of a name ends in a number, and so does the second group of a label."""
    anchors = Anchors({})
    anchors.section("runs")
    assert [anchors.of("table") for _ in range(3)] == [
        "runs-table",
        "runs-table-2",
        "runs-table-3",
    ]
    assert group_anchors(["ncnn 1.0, python", "ncnn 1.0 (python)"]) == [
        "ncnn-1-0-python",
        "ncnn-1-0-python-2",
    ]
