from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from reusebench.reports.base.texts import texts_of
from reusebench.reports.explanation.figure import explanation_figure
from reusebench.reports.results.colours import COMPONENT_COLOURS
from reusebench.reports.results.rows import Row
from tests.reports.stored import (
    FAILED,
    MIB,
    dup,
    even,
    group_of,
    groups_of,
    npu_account,
    result,
    with_more_memory,
    write_run,
)

ENGLISH = texts_of("en")


def figure(rows: Sequence[Row]) -> str:
    """Return the figure as SVG."""
    svg = explanation_figure(rows, ENGLISH)
    assert svg is not None
    return svg


def legend(svg: str) -> list[str]:
    """Return the components that the legend names."""
    names = [ENGLISH(key) for key in ENGLISH.words if key.startswith("component_")]
    return [text for text in re.findall(r">([^<]+)</text>", svg) if text in names]


def measured_bars(svg: str) -> list[tuple[float, float]]:
    """Return (start, end) of each solid bar, from the first one down."""
    bars: dict[str, list[float]] = {}
    for path in re.findall(r'd="M([^"z]+)z?"[^>]*clip-path[^>]*style="fill: #\w{6}"', svg):
        numbers = path.replace("L", " ").split()
        bars.setdefault(numbers[1], []).extend(map(float, numbers[::2]))
    return [(min(indices), max(indices)) for indices in bars.values()]


def test_each_lane_says_what_its_number_is(tmp_path: Path) -> None:
    """A baseline has one bar; a scenario has claim, prediction and measurement."""
    names = ("no_reuse_one_model", "full_dup")
    rows = group_of(
        tmp_path, *(result(tmp_path, name, even(3), npu=npu_account) for name in names)
    ).rows
    svg = figure(rows)
    for text in (
        "No reuse, one model",
        "120.00 measured",
        "Full dup",
        "10.00 if all were shared",
        "54.00 predicted",
    ):
        assert f">{text}<" in svg
    assert svg.count(" predicted<") == svg.count(" if all were shared<") == 1
    assert svg.count(" measured<") == 2
    assert ">NPU memory, MiB<" in svg


def test_application_memory_is_drawn_by_what_contexts_took(tmp_path: Path) -> None:
    """Without an account, bars and colours show the parts of application memory."""
    rows = group_of(
        tmp_path,
        result(tmp_path, "no_reuse_one_model", even(40)),
        result(tmp_path, "full_dup", dup(40, 10)),
    ).rows
    svg = figure(rows)
    assert ">180.0 measured<" in svg
    assert ">application memory, MiB<" in svg
    assert legend(svg) == [
        "Import of the runtime",
        "Contexts that reuse nothing",
        "Contexts that reuse another one",
    ]


def test_colours_are_those_of_the_components_that_are_there(tmp_path: Path) -> None:
    """A component of size zero has no colour in the legend; the others have different ones."""
    write_run(tmp_path, [result(tmp_path, "no_reuse_one_model", even(3), npu=npu_account)])
    svg = figure(groups_of(tmp_path)[0].rows)
    assert legend(svg) == [
        "Weights",
        "Internal tensors",
        "Register commands",
        "Task list",
        "Input and output",
    ]
    counts = [svg.count(colour) for colour in COMPONENT_COLOURS.values()]
    assert counts == [2, 0, 2, 2, 2, 0, 0, 2, 0]


def test_without_a_claim_there_is_no_lane_for_it(tmp_path: Path) -> None:
    """Zero copy reuses no context: it has a prediction and a measurement, but no claim."""
    write_run(
        tmp_path,
        [result(tmp_path, "copied_io", even(40)), result(tmp_path, "zero_copy_io", even(38))],
    )
    svg = figure(groups_of(tmp_path)[0].rows)
    assert "if all were shared" not in svg
    assert svg.count(" predicted<") == 1


def test_variants_are_left_out(tmp_path: Path) -> None:
    """Scenarios that show the same mechanism at another size are only in the table."""
    names = ("copied_io", "zero_copy_io", "copied_io_1080p", "zero_copy_io_1080p")
    write_run(tmp_path, [result(tmp_path, name, even(40)) for name in names])
    svg = figure(groups_of(tmp_path)[0].rows)
    assert ">Zero-copy input and output<" in svg
    assert "1080p" not in svg


def test_released_memory_shortens_the_bar(tmp_path: Path) -> None:
    """Bars of 510 and 156 MiB, with 24 given back, start at the same x and have lengths in
    proportion.
    """
    infos = [
        result(tmp_path, "no_reuse_one_model", even(40)),
        result(tmp_path, "full_dup", dup(40, 10)),
    ]
    infos[1] = with_more_memory(infos[1], -24 * MIB)
    write_run(tmp_path, infos)
    rows = groups_of(tmp_path)[0].rows
    svg = figure(rows)
    (left, whole), (begin, end) = measured_bars(svg)
    assert begin == pytest.approx(left)
    assert (end - left) / (whole - left) == pytest.approx(156 / 510, rel=0.01)
    assert "Running at the same time" not in legend(svg)


def test_without_measurements_there_is_no_figure(tmp_path: Path) -> None:
    """If all have failed, there is nothing to draw."""
    rows = group_of(tmp_path, result(tmp_path, "no_reuse", [], failure=FAILED)).rows
    assert explanation_figure(rows, ENGLISH) is None
