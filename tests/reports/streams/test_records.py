"""The exported table of streams."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.reports.material import Material
from reusebench.reports.page.exported_tables import write_tables
from reusebench.reports.results.rows import Group
from reusebench.reports.streams.records import STREAM_COLUMNS
from tests.reports.page.test_exported_tables import document_of, material_of
from tests.reports.stored import MIB, STREAMS, full_run, write_run
from tests.reports.stored_streams import (
    HOT,
    NAMES,
    SCHEDULE,
    Frames,
    moving,
    published_run,
    streams_result,
)


def rows_of(storage: Path, folder: Path) -> list[dict[str, object]]:
    """Return the rows of the table of streams, which is written into the folder."""
    folder = write_tables(material_of(storage), folder / "tables", ["json"])
    rows: list[dict[str, object]] = document_of(folder, "streams")["rows"]
    return rows


@pytest.fixture(scope="module")
def published(
    streams_storage: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, object]]:
    """Return the rows of all scenarios of streams."""
    return rows_of(streams_storage, tmp_path_factory.mktemp("tables"))


def test_each_stream_has_a_row_and_all_together_have_one(
    published: list[dict[str, object]],
) -> None:
    """The counts of a configuration's streams add up to the row of all, and to the frames due."""
    assert [row["stream"] for row in published] == ["all", 1, 2, 3, 4] * len(NAMES)
    for index in range(0, len(published), STREAMS + 1):
        whole, *streams = published[index : index + STREAMS + 1]
        for name in ("due", "done", "dropped", "missed"):
            assert whole[name] == sum(int(str(stream[name])) for stream in streams)
        assert whole["due"] == sum(int(str(whole[name])) for name in ("done", "dropped", "missed"))
        assert (whole["asked_per_s"], streams[0]["asked_per_s"]) == (120.0, 30.0)
        assert streams[0]["application_memory_bytes"] is None


def test_memory_stands_in_the_row_of_all(published: list[dict[str, object]]) -> None:
    """Parts of application memory add up; the inference saving is relative to inference memory."""
    (full,) = (
        row for row in published if (row["scenario"], row["stream"]) == ("streams_full_dup", "all")
    )
    parts = [full[f"{name}_memory_bytes"] for name in ("import", "decoding", "inference")]
    assert parts == [30 * MIB, 64 * MIB, 150 * MIB]
    assert full["application_memory_bytes"] == 244 * MIB
    assert (full["saved_bytes"], full["inference_saved_percent"]) == (330 * MIB, 68.75)


def test_growth_and_throttling_are_numbers(tmp_path: Path) -> None:
    """A script reads the verdict with its slope, and the share of time with throttling."""
    growing = Frames(machine=HOT, rss=moving(1.02), interrupted=True)
    write_run(tmp_path, [streams_result(tmp_path, "streams_no_reuse", [growing])])
    whole = rows_of(tmp_path, tmp_path)[0]
    assert (whole["memory_verdict"], whole["memory_growing_confidence_percent"]) == (
        "growing",
        99.9,
    )
    assert whole["memory_slope_bytes_per_s"] == pytest.approx(1.02 * MIB / 60, rel=1e-6)
    assert (whole["throttled_percent"], whole["interrupted"]) == (35.0, "yes")


def test_if_nothing_computes_frames_are_empty(tmp_path: Path) -> None:
    """The row of all remains with its memory; single streams have no rows."""
    schedule = replace(SCHEDULE, video=None)
    write_run(
        tmp_path,
        [streams_result(tmp_path, "streams_no_reuse", [Frames(computes=False)], schedule=schedule)],
    )
    (row,) = rows_of(tmp_path, tmp_path)
    assert (row["stream"], row["done"], row["latency_p99_ns"], row["video"]) == (
        "all",
        None,
        None,
        None,
    )
    assert row["decoding_memory_bytes"] is None
    assert row["inference_memory_bytes"] == 474 * MIB


def test_other_tables_have_no_latency_of_frames(tmp_path: Path) -> None:
    """`latency_ns` and `throughput_per_s` are about single inferences in every table."""
    full_run(tmp_path)
    published_run(tmp_path, 2)
    folder = write_tables(material_of(tmp_path), tmp_path / "tables", ["json"])
    for name in ("comparison", "runs"):
        rows = [row for row in document_of(folder, name)["rows"] if row["scenario"] in NAMES]
        assert len(rows) == len(NAMES)
        assert {(row["latency_ns"], row["throughput_per_s"]) for row in rows} == {(None, None)}
    assert not any(row["scenario"] in NAMES for row in document_of(folder, "speed")["rows"])


def test_without_streams_the_table_is_empty(full_group: Group, tmp_path: Path) -> None:
    """It has its columns all the same."""
    folder = write_tables(Material([full_group]), tmp_path, ["json"])
    document = document_of(folder, "streams")
    assert document["rows"] == []
    assert set(STREAM_COLUMNS) < set(document["columns"])
