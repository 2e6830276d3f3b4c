from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from reusebench.reports.base.table import TABLE_FORMATS
from reusebench.reports.material import Material, read_material
from reusebench.reports.page.exported_tables import TABLES, write_tables
from reusebench.targets.outcome import Failure
from tests.helpers.support import CHECKOUT
from tests.reports.conftest import WrittenReport
from tests.reports.stored import (
    FAILED,
    LATENCY_NS,
    MIB,
    changed,
    even,
    first_look,
    group_of,
    in_words,
    npu_account,
    result,
    write_run,
)

_CONFIGURATION = "runtime runtime_version target scenario streams contexts models"
_ORIGIN = "board recorded_at run_number"
#: Promised columns: none is ever renamed or moved; a new one is added at the end, here too.
PROMISED = {
    "comparison": (
        "runtime runtime_version target scenario baseline streams contexts models outcome"
        " application_memory_bytes application_memory_spread_bytes"
        " application_memory_trimmed_bytes application_memory_over_baseline_bytes"
        " system_memory_bytes system_memory_noise_bytes npu_memory_bytes saved_bytes saved_percent"
        " saved_over_baseline_percent latency_ns throughput_per_s npu_saved_bytes"
        " npu_saved_percent npu_peak_bytes npu_left_bytes copied_bytes_per_inference"
        f" copies_avoided_bytes {_ORIGIN} repeats measured_as output_difference reference_runtime"
        " reference_difference memory_short equal_scenarios application_pss_bytes counted_by"
        " memory_remarks hugetlb_memory_bytes held_memory_bytes dmabuf_memory_bytes"
    ),
    "contexts": (
        f"{_CONFIGURATION} context mechanism added_bytes added_spread_bytes"
        f" total_over_baseline_bytes load_ns {_ORIGIN}"
    ),
    "slopes": (
        f"{_CONFIGURATION} mechanism further_contexts slope_bytes slope_spread_bytes "
        f"npu_slope_bytes npu_slope_spread_bytes {_ORIGIN}"
    ),
    "npu_components": f"{_CONFIGURATION} context component bytes {_ORIGIN}",
    "mechanisms": (
        "runtime runtime_version target python_version chip recorded_at scenario verdict reason"
        " memory saved_bytes spread_bytes whole_bytes copies_avoided_bytes combined streams"
        " contexts board"
    ),
    "explanations": (
        f"{_CONFIGURATION} component baseline_bytes predicted_bytes measured_bytes"
        f" measured_spread_bytes error_bytes naive_bytes basis {_ORIGIN}"
    ),
    "claims": (
        "runtime runtime_version target streams contexts claim verdict figure spread unit reason"
        " source board"
    ),
    "speed": (
        f"{_CONFIGURATION} saved_percent saved_percent_spread throughput_per_s"
        " baseline_throughput_per_s throughput_change_percent throughput_change_spread_percent"
        f" latency_change_percent latency_change_spread_percent verdict {_ORIGIN}"
    ),
    "fits": (
        f"{_CONFIGURATION} memory slope_bytes slope_spread_bytes intercept_bytes"
        f" intercept_spread_bytes largest_residual_bytes {_ORIGIN}"
    ),
    "limits": (
        f"{_CONFIGURATION} contexts_that_fit bound failure_kind failure_phase failure survived"
        " npu_memory_limit_bytes npu_memory_bytes further_npu_bytes npu_left_bytes fd_count"
        f" fd_limit {_ORIGIN}"
    ),
    "runs": (
        "recorded_at file run board runtime runtime_version target scenario baseline streams"
        " contexts models outcome application_memory_bytes application_memory_spread_bytes"
        " npu_memory_bytes latency_ns throughput_per_s commit memory_short measured_as"
    ),
    "programs": (
        "program phase repeats outcome duration_ns pss_readings application_memory_bytes"
        " application_memory_spread_bytes application_uss_bytes application_uss_spread_bytes"
        " application_rss_bytes application_rss_spread_bytes application_peak_rss_bytes"
        " application_peak_rss_spread_bytes process_peak_rss_bytes process_peak_rss_spread_bytes"
        " system_memory_bytes system_memory_spread_bytes system_memory_over_idle_bytes"
        " system_memory_over_idle_spread_bytes npu_memory_bytes npu_memory_spread_bytes command"
        " file commit board recorded_at run_number reading_age_ns process_peaks_exact"
        " application_peak_rss_at_most_bytes application_peak_rss_at_most_spread_bytes"
        " application_memory_median_bytes application_memory_median_spread_bytes"
        " application_uss_median_bytes application_uss_median_spread_bytes"
        " application_rss_median_bytes application_rss_median_spread_bytes"
        " system_memory_median_bytes system_memory_median_spread_bytes npu_memory_median_bytes"
        " npu_memory_median_spread_bytes memory_short"
        " application_memory_at_least_bytes application_memory_at_least_spread_bytes"
        " application_memory_at_most_bytes application_memory_at_most_spread_bytes"
        " hugetlb_memory_bytes hugetlb_memory_spread_bytes held_memory_bytes"
        " held_memory_spread_bytes dmabuf_memory_bytes dmabuf_memory_spread_bytes"
        " hugetlb_memory_median_bytes hugetlb_memory_median_spread_bytes"
        " held_memory_median_bytes held_memory_median_spread_bytes"
        " dmabuf_memory_median_bytes dmabuf_memory_median_spread_bytes memory_remarks oom_kills"
        " npu_highest_bytes npu_highest_spread_bytes"
    ),
    "streams": (
        f"{_CONFIGURATION} baseline outcome asked_per_s queue duration_s video stream repeats"
        " interrupted due done dropped missed done_per_s lost_percent latency_p50_ns"
        " latency_p90_ns latency_p99_ns latency_max_ns system_memory_bytes"
        " application_memory_bytes import_memory_bytes decoding_memory_bytes"
        " inference_memory_bytes saved_bytes saved_percent inference_saved_percent"
        " cpu_process_percent cpu_harness_percent throttled_percent memory_verdict"
        " memory_slope_bytes_per_s memory_slope_low_bytes_per_s memory_slope_high_bytes_per_s"
        " memory_growing_confidence_percent memory_level_after_s memory_resolution_bytes_per_s"
        " heap_verdict heap_slope_bytes_per_s heap_slope_low_bytes_per_s"
        " heap_slope_high_bytes_per_s heap_growing_confidence_percent heap_level_after_s"
        f" heap_resolution_bytes_per_s memory_growth_bytes_per_day memory_most_growth_bytes_per_day"
        f" heap_growth_bytes_per_day heap_most_growth_bytes_per_day {_ORIGIN}"
    ),
    "leaks": (
        f"{_CONFIGURATION} quantity unit per cycles verdict slope slope_low slope_high "
        "growing_confidence_percent resolution kept times_per_day growth_per_day"
        f" growth_per_day_low growth_per_day_high limit_per_day cycles_needed {_ORIGIN}"
    ),
    "latencies": f"{_CONFIGURATION} model latency_ns latency_spread_ns {_ORIGIN}",
    "boards": (
        f"{_CONFIGURATION} board_name chip baseline outcome application_memory_bytes"
        " application_memory_spread_bytes saved_bytes saved_spread_bytes saved_percent"
        " npu_memory_bytes npu_memory_spread_bytes npu_saved_bytes npu_saved_spread_bytes"
        f" npu_saved_percent latency_ns latency_spread_ns {_ORIGIN}"
    ),
    "sessions": (
        f"{_CONFIGURATION} sessions tokens prompt_tokens generated_tokens common_tokens options"
        " over_baseline_bytes over_baseline_spread_bytes further_session_bytes"
        " further_session_spread_bytes weights_bytes kv_cache_bytes scratch_bytes outputs_bytes"
        " adapters_bytes prompt_state_bytes other_bytes account_bytes mapped_again_bytes"
        " anonymous_bytes file_bytes shared_bytes difference_bytes token_bytes token_spread_bytes"
        " token_kv_cache_bytes first_token_ns prompt_tokens_per_s generated_tokens_per_s"
        f" all_generated_tokens_per_s {_ORIGIN}"
    ),
    "side_by_side": (
        "chip network runtime runtime_version target models contexts component one_context_bytes"
        " further_context_bytes without_reuse_bytes least_scenario least_bytes shared_weights_bytes"
        " quantised_alike board recorded_at"
    ),
    "placements": (
        "runtime runtime_version target chip model npu_operators cpu_operators partitions"
        " crossing_bytes io_bytes npu_names cpu_names board"
    ),
}
#: Tables with rows of each configuration; the page explains their common columns once.
_OF_EACH = (
    "contexts",
    "slopes",
    "npu_components",
    "explanations",
    "speed",
    "fits",
    "streams",
    "limits",
    "leaks",
    "latencies",
    "boards",
    "sessions",
)


def rows_of(folder: Path, table: str) -> list[dict[str, str]]:
    with (folder / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def document_of(folder: Path, table: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / f"{table}.json").read_text(encoding="utf-8"))
    return document


def material_of(storage: Path) -> Material:
    """Return all that the storage holds."""
    return read_material([storage], None)


@pytest.fixture(scope="module")
def full_tables(full_storage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of all tables, in all formats, of the run on a CPU."""
    return write_tables(material_of(full_storage), tmp_path_factory.mktemp("tables"), TABLE_FORMATS)


@pytest.fixture(scope="module")
def npu_tables(npu_storage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the tables of the run on a virtual board."""
    return write_tables(
        material_of(npu_storage), tmp_path_factory.mktemp("tables"), ["csv", "markdown"]
    )


def test_the_layout_of_every_table_is_the_promised_one() -> None:
    """Scripts read the tables by these names in this order, and no table is missing."""
    assert {table.name: " ".join(table.columns) for table in TABLES} == PROMISED


def test_the_files_have_the_promised_layout(full_tables: Path) -> None:
    """The three formats of every table have the same columns in the same order."""
    for name, columns in PROMISED.items():
        csv_head = (full_tables / f"{name}.csv").read_text(encoding="utf-8").splitlines()[0]
        markdown_head = (full_tables / f"{name}.md").read_text(encoding="utf-8").splitlines()[0]
        assert csv_head.split(",") == document_of(full_tables, name)["columns"] == columns.split()
        assert markdown_head == f"| {' | '.join(columns.split())} |"


def test_only_the_named_formats_are_written(full_storage: Path, tmp_path: Path) -> None:
    """One file per table and format."""
    folder = write_tables(material_of(full_storage), tmp_path, ["json"])
    assert {path.name for path in folder.iterdir()} == {f"{name}.json" for name in PROMISED}


@pytest.mark.parametrize("page", ["reference/tables.md", "reference/tables.zh-CN.md"])
def test_the_documentation_names_every_column(page: str) -> None:
    """Each table has a section with its columns, or with a link to those it has in common."""
    text = (CHECKOUT / "docs" / page).read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE))
    assert list(sections) == list(PROMISED)
    for name, columns in PROMISED.items():
        common = set(f"{_CONFIGURATION} {_ORIGIN}".split()) if name in _OF_EACH else set()
        assert (
            set(columns.split()) - common - set(re.findall(r"`(\w+)`", sections[name])) == set()
        ), name
    assert set(f"{_CONFIGURATION} {_ORIGIN}".split()) <= set(
        re.findall(r"`(\w+)`", text.partition("## `")[0])
    )


def test_json_has_the_rows_of_the_csv(full_tables: Path) -> None:
    """Numbers are numbers, text is text, and missing figures are null, in every table."""
    for name in PROMISED:
        document = document_of(full_tables, name)
        assert list(document) == ["version", "table", "columns", "rows"]
        assert (document["version"], document["table"]) == (1, name)
        cells = [
            {key: "" if value is None else str(value) for key, value in row.items()}
            for row in document["rows"]
        ]
        assert cells == rows_of(full_tables, name)
    (row,) = (
        row
        for row in document_of(full_tables, "comparison")["rows"]
        if row["scenario"] == "full_dup" and row["board"]
    )
    assert (row["saved_bytes"], row["run_number"], row["npu_memory_bytes"]) == (330 * MIB, 1, None)
    assert (row["board"], row["recorded_at"]) == ("board-123456", "2026-01-02T03:04:05+00:00")


def test_runs_hold_what_newer_runs_have_superseded(tmp_path: Path) -> None:
    """The comparison has the newest result of a configuration, and `runs` has every one."""
    for number, mib in enumerate((40, 30), start=1):
        infos = [result(tmp_path, "no_reuse", even(mib, spread=0.5), run=f"run{number}")]
        write_run(tmp_path, infos, number, f"2026-01-0{number}T03:04:05")
    folder = write_tables(material_of(tmp_path), tmp_path / "tables", ["csv"])
    runs = rows_of(folder, "runs")
    assert [(row["run"], row["file"]) for row in runs] == [
        ("run1", "0001_run.json"),
        ("run2", "0002_run.json"),
    ]
    assert (
        int(runs[0]["application_memory_bytes"]) - int(runs[1]["application_memory_bytes"])
        == 12 * 10 * MIB
    )
    assert runs[0]["application_memory_spread_bytes"] == str(6 * MIB)
    assert [row["outcome"] for row in runs] == ["ok", "ok"]
    measured = [row for row in rows_of(folder, "comparison") if row["outcome"] == "ok"]
    assert [row["run_number"] for row in measured] == ["2"]


def test_equal_scenarios_are_one_row(tmp_path: Path) -> None:
    """The comparison names equal scenarios in one row; `runs` has a row for each."""
    write_run(tmp_path, first_look(tmp_path))
    folder = write_tables(material_of(tmp_path), tmp_path / "tables", ["csv"])
    rows = [row for row in rows_of(folder, "comparison") if row["board"]]
    assert [(row["scenario"], row["baseline"], row["equal_scenarios"]) for row in rows] == [
        ("no_reuse_one_model", "", "plain"),
        ("full_dup", "no_reuse_one_model", "lean_weights"),
        ("full_dup_internal_reuse", "no_reuse_one_model", "lean_internal"),
        ("lean", "no_reuse_one_model", ""),
    ]
    stored = {row["scenario"]: row["measured_as"] for row in rows_of(folder, "runs")}
    assert len(stored) == 7
    assert stored["lean_weights"] == "full_dup"


def test_every_configuration_is_explained(full_tables: Path) -> None:
    """The tables of explanations, mechanisms, claims, speed and fits have rows of the run's
    configurations.
    """
    for table in ("explanations", "mechanisms", "speed", "fits"):
        assert "full_dup" in {row["scenario"] for row in rows_of(full_tables, table)}, table
    claims = rows_of(full_tables, "claims")
    assert {row["verdict"] for row in claims} <= {"holds", "does_not_hold", "cannot_be_judged"}
    assert {row["board"] for row in claims} == {"board-123456"}


def test_comparison_holds_whole_bytes_and_empty_cells(full_tables: Path) -> None:
    """Bytes and nanoseconds are whole numbers; a missing figure is empty, not zero."""
    rows = {
        row["scenario"]: row
        for row in rows_of(full_tables, "comparison")
        if row["runtime"] != "rknn"
    }
    assert rows["full_dup"]["saved_bytes"] == str(330 * MIB)
    assert (rows["full_dup"]["saved_percent"], rows["full_dup"]["saved_over_baseline_percent"]) == (
        "64.706",
        "68.75",
    )
    assert rows["full_dup"]["latency_ns"] == str(LATENCY_NS)
    assert rows["no_reuse"]["application_memory_spread_bytes"] == str(6 * MIB)
    assert rows["no_reuse"]["saved_bytes"] == ""
    assert rows["no_reuse"]["npu_memory_bytes"] == ""
    assert rows["shared_context"]["outcome"] == FAILED.kind
    assert rows["shared_context"]["application_memory_bytes"] == ""


def test_published_rows_are_marked(full_tables: Path, tmp_path: Path) -> None:
    """The published RK3588 figures stand once behind those of such a board, with an outcome that no
    measured row has; other boards have none.
    """
    assert all(row["outcome"] != "published" for row in rows_of(full_tables, "comparison"))
    groups = []
    for name in ("one", "other"):
        info = changed(result(tmp_path, "no_reuse", even(3), npu=npu_account), chip="rk3588")
        groups.append(group_of(tmp_path / name, info))
    folder = write_tables(Material(groups), tmp_path / "tables", ["csv"])
    published = [row for row in rows_of(folder, "comparison") if row["outcome"] == "published"]
    assert [row["application_memory_bytes"] for row in published] == [
        "368000000",
        "304000000",
        "259000000",
    ]
    assert [row["saved_percent"] for row in published] == ["", "17.391", "29.62"]


def test_markdown_holds_the_same_rows(tmp_path: Path) -> None:
    """Markdown has a line for every row of the CSV, and as many cells, whatever text has."""
    failure = Failure("not_supported", "context", 1, in_words("it crashed | twice\nor more"))
    write_run(
        tmp_path,
        [
            result(tmp_path, "no_reuse", even(40)),
            result(tmp_path, "partial_dup", [], failure=failure),
        ],
    )
    folder = write_tables(material_of(tmp_path), tmp_path / "tables", ["csv", "markdown"])
    assert "twice\nor more" in rows_of(folder, "mechanisms")[0]["reason"]
    for table in PROMISED:
        lines = (folder / f"{table}.md").read_text(encoding="utf-8").splitlines()
        assert len(lines) == len(rows_of(folder, table)) + 2
        assert len({line.count(" | ") for line in lines}) == 1


def test_npu_memory_has_its_columns_at_the_end(npu_tables: Path) -> None:
    """NPU memory, its saving, its peak and its rest are whole bytes; there is no speed."""
    rows = {
        row["scenario"]: row for row in rows_of(npu_tables, "comparison") if row["outcome"] == "ok"
    }
    columns = (
        "npu_memory_bytes",
        "npu_saved_bytes",
        "npu_saved_percent",
        "npu_peak_bytes",
        "npu_left_bytes",
    )
    assert [rows["full_dup"][column] for column in columns] == [
        str(54 * MIB),
        str(66 * MIB),
        "55.0",
        str(55 * MIB),
        "0",
    ]
    assert (rows["full_dup"]["latency_ns"], rows["full_dup"]["throughput_per_s"]) == ("", "")
    slopes = {
        row["scenario"]: row for row in rows_of(npu_tables, "slopes") if row["mechanism"] == "dup"
    }
    assert slopes["full_dup"]["npu_slope_bytes"] == str(4 * MIB)


def test_npu_components_add_up(npu_tables: Path) -> None:
    """The components of all contexts of a configuration add up to its NPU memory."""
    rows = [row for row in rows_of(npu_tables, "npu_components") if row["scenario"] == "full_dup"]
    assert {row["context"] for row in rows} == {str(number) for number in range(1, 13)}
    assert sum(int(row["bytes"] or 0) for row in rows) == 54 * MIB


def test_copies_stand_at_the_end(tmp_path: Path) -> None:
    """Copied and avoided bytes are whole; runs that did not count copies leave them empty."""
    infos = [
        result(tmp_path, name, even(3))
        for name in ("copied_io_1080p", "zero_copy_io_1080p", "no_reuse")
    ]
    infos[2] = changed(infos[2], copies=None)
    write_tables(Material([group_of(tmp_path, *infos)]), tmp_path / "tables", ["csv"])
    rows = {row["scenario"]: row for row in rows_of(tmp_path / "tables", "comparison")}
    columns = ("copied_bytes_per_inference", "copies_avoided_bytes")
    assert {name: [rows[name][column] for column in columns] for name in rows} == {
        "no_reuse": ["", ""],
        "copied_io_1080p": [str(36 * MIB), ""],
        "zero_copy_io_1080p": ["0", str(36 * MIB)],
    }


@pytest.mark.process
def test_the_page_links_to_tables_that_exist(written: WrittenReport) -> None:
    """A table of the page leads to the exported one with its figures."""
    linked = re.findall('href="tables/([^"]+)"', written.html["en"])
    assert set(linked) <= {f"{table.name}.csv" for table in TABLES}
    assert {"comparison.csv", "mechanisms.csv", "programs.csv"} <= set(linked)
