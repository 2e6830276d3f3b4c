"""Tables for scripts, of any length."""

from __future__ import annotations

import csv
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reusebench.reports.base.table import TABLE_FORMATS, write_records

_COLUMNS = ("number", "text", "empty")


def _records(count: int) -> Iterator[dict[str, Any]]:
    return (
        {"number": number, "text": f"=|{number}" if number % 2 else None} for number in range(count)
    )


@pytest.mark.parametrize("count", [0, 1, 2500])
def test_every_format_has_every_record(tmp_path: Path, count: int) -> None:
    """Heads appear once, whole numbers stay whole, and missing values are empty."""
    write_records("table", _COLUMNS, _records(count), tmp_path, TABLE_FORMATS)
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        heads, *lines = csv.reader(file)
    assert tuple(heads) == _COLUMNS
    assert lines == [[str(number), f"'=|{number}" * (number % 2), ""] for number in range(count)]
    markdown = (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
    texts = [rf"=\|{number}" * (number % 2) for number in range(count)]
    assert markdown[2:] == [f"| {number} | {text} |  |" for number, text in enumerate(texts)]
    document = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert document["rows"] == [
        {"empty": None, "text": None, **record} for record in _records(count)
    ]


def test_few_records_are_in_memory_at_a_time(tmp_path: Path) -> None:
    """Ten times the records take no more memory."""
    _peak_bytes(tmp_path, 1)  # what is made once
    assert _peak_bytes(tmp_path, 20_000) < 2 * _peak_bytes(tmp_path, 2_000)


def _peak_bytes(folder: Path, count: int) -> int:
    tracemalloc.start()
    write_records("table", _COLUMNS, _records(count), folder, TABLE_FORMATS)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak_bytes
