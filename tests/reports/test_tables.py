from __future__ import annotations

import csv
from pathlib import Path

from reports.material import Material
from reports.published import published_rows
from reports.tables import COMPARISON_COLUMNS, write_tables
from tests.reports.stored import FAILED, LATENCY_NS, MIB, even, full_run, npu_run, result, tried, write_run
from tests.reports.test_comparison import groups_of

DOCUMENTED = (
    "runtime, runtime_version, target, scenario, baseline, streams, contexts, models, outcome, "
    "application_memory_bytes, application_memory_spread_bytes, application_memory_trimmed_bytes, "
    "application_memory_over_baseline_bytes, system_memory_bytes, system_memory_noise_bytes, npu_memory_bytes, "
    "saved_bytes, saved_percent, saved_over_baseline_percent, latency_ns, throughput_per_s, "
    "npu_saved_bytes, npu_saved_percent, npu_peak_bytes, npu_left_bytes, "
    "copied_bytes_per_inference, copies_avoided_bytes"
)


def rows_of(folder: Path, table: str) -> list[dict[str, str]]:
    with (folder / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_columns_of_the_comparison_are_the_documented_ones() -> None:
    """Scripts read comparison.csv by these names in this order."""
    assert ", ".join(COMPARISON_COLUMNS) == DOCUMENTED


def test_comparison_holds_whole_bytes_and_empty_cells(tmp_path: Path) -> None:
    """Bytes and nanoseconds are whole numbers, and what was not measured is empty, not zero."""
    full_run(tmp_path)
    write_tables(Material(groups_of(tmp_path), published_rows()), tmp_path / "tables")
    rows = {row["scenario"]: row for row in rows_of(tmp_path / "tables", "comparison") if row["runtime"] != "rknn"}
    assert rows["full_dup"]["saved_bytes"] == str(330 * MIB)
    assert rows["full_dup"]["latency_ns"] == str(LATENCY_NS)
    assert rows["no_reuse"]["application_memory_spread_bytes"] == str(6 * MIB)
    assert rows["no_reuse"]["saved_bytes"] == ""
    assert rows["no_reuse"]["npu_memory_bytes"] == ""
    assert rows["shared_context"]["outcome"] == FAILED["kind"]
    assert rows["shared_context"]["application_memory_bytes"] == ""


def test_published_rows_are_marked(tmp_path: Path) -> None:
    """The published RK3588 figures stand at the end, with an outcome that no measured row has."""
    full_run(tmp_path)
    write_tables(Material(groups_of(tmp_path), published_rows()), tmp_path / "tables")
    published = [row for row in rows_of(tmp_path / "tables", "comparison") if row["outcome"] == "published"]
    assert [row["application_memory_bytes"] for row in published] == ["368000000", "304000000", "259000000"]
    assert [row["saved_percent"] for row in published] == ["", "17.391", "29.62"]


def test_markdown_holds_the_same_rows(tmp_path: Path) -> None:
    """The Markdown table has a line for every row of the CSV, with as many cells as columns."""
    full_run(tmp_path)
    folder = tmp_path / "tables"
    write_tables(Material(groups_of(tmp_path), published_rows(), [tried()]), folder)
    for table in ("comparison", "contexts", "slopes", "npu_components", "mechanisms"):
        lines = (folder / f"{table}.md").read_text(encoding="utf-8").splitlines()
        assert len(lines) == len(rows_of(folder, table)) + 2
        assert len({line.count(" | ") for line in lines}) == 1


def test_npu_memory_has_its_columns_at_the_end(tmp_path: Path) -> None:
    """NPU memory, what is saved of it, its peak and what is left are whole bytes; there is no speed."""
    npu_run(tmp_path)
    write_tables(Material(groups_of(tmp_path)), tmp_path / "tables")
    rows = {row["scenario"]: row for row in rows_of(tmp_path / "tables", "comparison")}
    columns = ("npu_memory_bytes", "npu_saved_bytes", "npu_saved_percent", "npu_peak_bytes", "npu_left_bytes")
    assert [rows["full_dup"][column] for column in columns] == [
        str(54 * MIB),
        str(66 * MIB),
        "55.0",
        str(55 * MIB),
        "0",
    ]
    assert (rows["full_dup"]["latency_ns"], rows["full_dup"]["throughput_per_s"]) == ("", "")
    slopes = {row["scenario"]: row for row in rows_of(tmp_path / "tables", "slopes") if row["mechanism"] == "dup"}
    assert slopes["full_dup"]["npu_slope_bytes"] == str(4 * MIB)


def test_npu_components_add_up(tmp_path: Path) -> None:
    """The rows of a configuration are those of its contexts, and add up to its NPU memory."""
    npu_run(tmp_path)
    write_tables(Material(groups_of(tmp_path)), tmp_path / "tables")
    rows = [row for row in rows_of(tmp_path / "tables", "npu_components") if row["scenario"] == "full_dup"]
    assert {row["context"] for row in rows} == {str(number) for number in range(1, 13)}
    assert sum(int(row["bytes"]) for row in rows) == 54 * MIB


def test_copies_stand_at_the_end(tmp_path: Path) -> None:
    """What one inference copies and avoids are whole bytes; runs from before copies were counted leave them empty."""
    infos = [result(tmp_path, name, even(3)) for name in ("copied_io_1080p", "zero_copy_io_1080p", "no_reuse")]
    del infos[2]["copies"]
    write_run(tmp_path, infos)
    write_tables(Material(groups_of(tmp_path)), tmp_path / "tables")
    rows = {row["scenario"]: row for row in rows_of(tmp_path / "tables", "comparison")}
    columns = ("copied_bytes_per_inference", "copies_avoided_bytes")
    assert {name: [rows[name][column] for column in columns] for name in rows} == {
        "no_reuse": ["", ""],
        "copied_io_1080p": [str(36 * MIB), ""],
        "zero_copy_io_1080p": ["0", str(36 * MIB)],
    }


def test_trials_have_a_table(tmp_path: Path) -> None:
    """Each trial of each runtime is a row, with its reason on one line in Markdown too."""
    full_run(tmp_path)
    write_tables(Material(groups_of(tmp_path), tried=[tried(), tried("rknn")]), tmp_path / "tables")
    rows = rows_of(tmp_path / "tables", "mechanisms")
    assert len(rows) == 2 * len(tried().trials)
    assert (rows[0]["scenario"], rows[0]["verdict"], rows[0]["saved_bytes"]) == ("full_dup", "works", str(30 * MIB))
    lines = (tmp_path / "tables" / "mechanisms.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(rows) + 2
