"""The report lines of applied processes, and their sums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reusebench.apply.errors import ApplyError
from reusebench.apply.report import Digest, read_reports, take_reports, totals
from reusebench.apply.settings import PROBLEMS_NAME, REPORT_NAME

_LINE: dict[str, Any] = {
    "runtime": "rknn",
    "version": "2.3.2",
    "process": 41,
    "contexts": 3,
    "models": 1,
    "shared": {"weights": 3, "internal": 3},
    "saved_bytes": {"weights": 100, "internal": 20},
    "most_at_once": 1,
    "left_alone": {},
    "failures": {},
    "digests": {"a.rknn": {"runs": 4, "sum": "0" * 32}},
}


def _written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_each_line_is_a_report(tmp_path: Path) -> None:
    """The names are those of the line; the order is that of the file."""
    second = {**_LINE, "process": 42, "version": None, "digests": {}}
    file = _written(tmp_path / "report", json.dumps(_LINE), json.dumps(second))
    one, other = read_reports(file)
    assert (one.process, other.process) == (41, 42)
    assert one.digests == {"a.rknn": Digest(4, "0" * 32)}
    assert other.version is None


def test_a_line_that_is_none_is_told(tmp_path: Path) -> None:
    """Library or hooks of another version, or a program that writes there itself."""
    for line in ("", "{", "[]", json.dumps({**_LINE, "contexts": "many"})):
        with pytest.raises(ApplyError, match="is no report"):
            read_reports(_written(tmp_path / "report", json.dumps(_LINE), line))


def test_the_folder_is_taken_with_its_reports(tmp_path: Path) -> None:
    """The lines go to the file that the user asked for, too; a problem is no end."""
    folder = tmp_path / "folder"
    asked = tmp_path / "asked"
    asked.write_text("before\n")
    warnings: list[object] = []
    for place in (asked, tmp_path):
        folder.mkdir()
        _written(folder / REPORT_NAME, json.dumps(_LINE))
        (folder / PROBLEMS_NAME).write_text("no compiler" if place == asked else "")
        reports = take_reports(folder, {"REUSEBENCH_APPLY_REPORT": str(place)}, warnings.append)
        assert len(reports) == (place == asked)
        assert not folder.exists()
    assert asked.read_text() == f"before\n{json.dumps(_LINE)}\n"
    assert [str(warning) for warning in warnings] == [
        "no compiler",
        f"the report cannot be appended to {tmp_path} (Is a directory), which"
        " REUSEBENCH_APPLY_REPORT names. Name a file that is writable",
    ]


def test_no_file_is_no_report(tmp_path: Path) -> None:
    """No process had anything to report."""
    assert read_reports(tmp_path / "report") == ()


def test_sums_are_by_kind(tmp_path: Path) -> None:
    """Kinds that only one process has are in the sum, too."""
    other = {**_LINE, "shared": {"weights": 2, "arena": 1}, "left_alone": {"flags": 1}}
    file = _written(tmp_path / "report", json.dumps(_LINE), json.dumps(other))
    total = totals(read_reports(file))
    assert total.contexts == 6
    assert total.shared == {"weights": 5, "internal": 3, "arena": 1}
    assert total.saved_bytes == {"weights": 200, "internal": 40}
    assert total.left_alone == {"flags": 1}
