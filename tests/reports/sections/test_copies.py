from __future__ import annotations

from pathlib import Path

from reusebench.measured.runtimes.base import Copies
from reusebench.reports.base.table import Table
from reusebench.reports.base.texts import texts_of
from reusebench.reports.results.copies import avoided_bytes, copied
from reusebench.reports.sections.copies import (
    by_size,
    copies_figure,
    copies_table,
)
from reusebench.scenarios.catalogue import SCENARIOS
from tests.reports.stored import (
    LATENCY_NS,
    MIB,
    MODELS,
    changed,
    even,
    group_of,
    groups_of,
    npu_account,
    result,
    row_of,
    with_speed,
    write_run,
)

ENGLISH = texts_of("en")
WAYS = [one.name for one in SCENARIOS if "copied_io_4k" in (one.name, one.baseline)]


def table(storage: Path) -> Table | None:
    (group,) = groups_of(storage)
    return copies_table(group, group.rows, ENGLISH)


def cells(table: Table | None, scenario: str) -> list[str]:
    """Return the row of a scenario as text."""
    assert table is not None
    return next(list(of_row) for _, of_row in table.rows if of_row[0] == scenario)


def test_copies_are_the_mean_over_contexts(tmp_path: Path) -> None:
    """Contexts of two models copy differently; one inference copies what they do in the mean."""
    info = result(tmp_path, "in_turn", even(3), models=MODELS[:2])
    info = changed(info, copies=(Copies(4, 2), Copies(2, 0)))
    write_run(tmp_path, [info])
    counted = copied(groups_of(tmp_path)[0].rows[0])
    assert counted is not None
    assert (counted.input_bytes, counted.output_bytes, counted.total_bytes) == (3, 1, 4)


def test_avoided_is_what_the_baseline_copies_more(tmp_path: Path) -> None:
    """A way avoids the tensors that it does not copy; without counted copies nothing is said."""
    infos = [result(tmp_path, name, even(3)) for name in WAYS]
    group = group_of(tmp_path, *infos)
    assert {row.scenario: avoided_bytes(row) for row in group.rows} == {
        "copied_io_4k": None,
        "zero_copy_input_4k": 96 * MIB,
        "zero_copy_output_4k": 48 * MIB,
        "zero_copy_io_4k": 144 * MIB,
        "native_io_4k": 144 * MIB,
        "device_io_4k": 144 * MIB,
    }
    infos = [changed(info, copies=None) for info in infos]
    group = group_of(tmp_path, *infos)
    assert avoided_bytes(row_of(group, "zero_copy_io_4k")) is None
    assert copies_table(group, group.rows, ENGLISH) is None


def test_rows_of_a_size_stand_together(tmp_path: Path) -> None:
    """Frames are grouped by their size, apart from the streams' model."""
    names = ("copied_io", "zero_copy_io", "copied_io_1080p", "zero_copy_io_1080p", "cuda_copied_io")
    group = group_of(tmp_path, *(result(tmp_path, name, even(3)) for name in names))
    sizes = {
        size: [row.scenario for row in rows] for size, rows in by_size(group.rows, ENGLISH).items()
    }
    assert sizes == {
        "Streams' model": ["copied_io", "zero_copy_io"],
        "1080p": ["copied_io_1080p", "zero_copy_io_1080p"],
        "CUDA": ["cuda_copied_io"],
    }


def test_no_saving_is_said_in_words(tmp_path: Path) -> None:
    """The verdict tells whether memory and latency differ by more than repeats do."""
    costs = {
        "copied_io_4k": even(40, spread=1),
        "zero_copy_input_4k": even(39.5),
        "zero_copy_io_4k": even(10),
    }
    write_run(tmp_path, [result(tmp_path, name, costs[name]) for name in costs])
    copies = table(tmp_path)
    same = cells(copies, "Zero-copy input, 4K")
    assert same[1:5] == ["4K", "0", "48.00", "96.00"]
    assert same[-1] == "no measurable saving of memory; no measurable difference in latency"
    assert cells(copies, "Zero-copy input and output, 4K")[-1].startswith("less memory; ")
    assert cells(copies, "Copied input and output, 4K")[-1] == "-"


def test_a_single_repeat_gives_no_verdict(tmp_path: Path) -> None:
    """Without a spread nothing is called measurable or not."""
    write_run(tmp_path, [result(tmp_path, name, even(3, repeats=1)) for name in WAYS[:2]])
    assert "single repeat" in cells(table(tmp_path), "Zero-copy input, 4K")[-1]


def test_npu_memory_decides_where_there_is_some(tmp_path: Path) -> None:
    """On an NPU the saving of its memory stands in the table, and on the virtual board no
    latency.
    """
    write_run(
        tmp_path,
        [result(tmp_path, name, even(3), npu=npu_account, computes=False) for name in WAYS],
    )
    copies = table(tmp_path)
    assert copies is not None
    assert ENGLISH("column_npu_saved") in copies.heads
    assert ENGLISH("column_latency") not in copies.heads
    assert cells(copies, "Zero-copy input, 4K")[-1] == "no measurable saving of memory"


def test_figure_has_a_panel_for_each_size(tmp_path: Path) -> None:
    """Each size that was compared is drawn, the ways in the same colours in all."""
    costs = {
        "copied_io": 40,
        "zero_copy_io": 20,
        "copied_io_1080p": 40,
        "zero_copy_io_1080p": 30,
        "copied_io_4k": 40,
    }
    rows = group_of(
        tmp_path, *(result(tmp_path, name, even(cost)) for name, cost in costs.items())
    ).rows
    svg = copies_figure(rows, ENGLISH)
    assert svg is not None
    for text in ("Streams' model", "1080p", ENGLISH("axis_saved"), "Zero-copy input and output"):
        assert f">{text}<" in svg
    assert ">4K<" not in svg
    assert ">Copied input and output<" not in svg


def test_what_is_exactly_equal_is_not_drawn(tmp_path: Path) -> None:
    """A measure in which no way differs from its baseline has no panels, and without any there is
    no figure.
    """
    infos = [result(tmp_path, name, even(3)) for name in WAYS]
    write_run(tmp_path, infos)
    assert copies_figure(groups_of(tmp_path)[0].rows, ENGLISH) is None
    infos[1] = with_speed(
        infos[1], latency_median_ns=[LATENCY_NS + 2_000_000, LATENCY_NS, LATENCY_NS]
    )
    write_run(tmp_path, infos)
    svg = copies_figure(groups_of(tmp_path)[0].rows, ENGLISH)
    assert svg is not None
    assert f">{ENGLISH('axis_latency_saved')}<" in svg
    assert f">{ENGLISH('axis_saved')}<" not in svg
