"""The report lines of applied processes, and their sums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reusebench.apply.report import Digest, read_reports, totals

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


def test_a_line_that_is_none_is_left_out(tmp_path: Path) -> None:
    """A process that is killed while it writes, or a program that writes there itself."""
    lines = ("", "{", "[]", json.dumps({**_LINE, "contexts": "many"}), json.dumps(_LINE))
    assert [report.process for report in read_reports(_written(tmp_path / "report", *lines))] == [
        41
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
