"""The badge of a run."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from reusebench.reports.compare.badge import badge_json, badge_svg
from reusebench.reports.errors import ReportError
from reusebench.storage.runs import Run, read_runs
from tests.reports.stored import changed, dup, even, npu_account, result, write_run


def _runs(folder: Path) -> list[Run]:
    return [run for run in read_runs(folder) if isinstance(run, Run)]


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Return a run in which dup saves most of the memory."""
    results = [
        result(tmp_path, "no_reuse_one_model", even(40)),
        result(tmp_path, "full_dup", dup(40, 10)),
    ]
    write_run(tmp_path, results)
    return _runs(tmp_path)


def test_the_memory_of_the_recommended_layout_and_its_saving(runs: list[Run]) -> None:
    """The document is what shields.io expects of an endpoint."""
    assert json.loads(badge_json(runs)) == {
        "schemaVersion": 1,
        "label": "memory",
        "message": "180.0 MiB (-64.7 %)",
        "color": "blue",
    }


def test_a_picture_that_needs_no_network(runs: list[Run]) -> None:
    """It has both texts, and one for those who cannot see it; nothing else is loaded."""
    svg = badge_svg(runs)
    root = ElementTree.fromstring(svg)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["memory", "180.0 MiB (-64.7 %)"]
    assert root.attrib["aria-label"] == "memory: 180.0 MiB (-64.7 %)"
    assert svg.count("http") == 1


def test_npu_memory_comes_first(tmp_path: Path) -> None:
    """If it is known, the badge is of it."""
    write_run(
        tmp_path,
        [
            result(tmp_path, name, layout, npu=npu_account, computes=False)
            for name, layout in (("no_reuse_one_model", even(40)), ("full_dup", dup(40, 10)))
        ],
    )
    assert json.loads(badge_json(_runs(tmp_path)))["label"] == "NPU memory"


def test_without_a_saving_the_memory_alone(tmp_path: Path) -> None:
    """Nothing that was not measured is claimed."""
    write_run(tmp_path, [result(tmp_path, "no_reuse_one_model", even(40))])
    assert json.loads(badge_json(_runs(tmp_path)))["message"] == "510.0 MiB"


def test_a_run_without_a_layout_has_no_badge(tmp_path: Path) -> None:
    """Cycles are no layout of contexts."""
    write_run(tmp_path, [changed(result(tmp_path, "cycles_contexts", even(40)), baseline=None)])
    with pytest.raises(ReportError, match="no contexts were measured without reuse"):
        badge_json(_runs(tmp_path))
