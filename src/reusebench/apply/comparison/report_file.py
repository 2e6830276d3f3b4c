"""The file to which applied processes append their reports, on this machine or on a board."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from reusebench.apply.report import ProcessReport, parse_reports, read_reports
from reusebench.targets.far.machine import FarMachine

__all__ = ["FarReportFile", "LocalReportFile", "ReportFile"]


class ReportFile(Protocol):
    """A file for the reports of one run after another."""

    #: Where the program runs.
    path: Path

    def empty(self) -> None:
        """Make the file, or empty it, before a run."""

    def reports(self) -> tuple[ProcessReport, ...]:
        """Return the reports of the run that has ended."""


class LocalReportFile:
    """A file of this machine, which the virtual board has too."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def empty(self) -> None:
        """Empty the file, which keeps its rights."""
        self.path.write_bytes(b"")

    def reports(self) -> tuple[ProcessReport, ...]:
        """Read the file."""
        return read_reports(self.path)


class FarReportFile:
    """A file in the project's folder on a remote board."""

    def __init__(self, board: FarMachine) -> None:
        self.path = Path(board.files.folder, "apply-report.jsonl")
        self._board = board

    def empty(self) -> None:
        """Make or empty the file."""
        self._board.files.watch(str(self.path))

    def reports(self) -> tuple[ProcessReport, ...]:
        """Read the file through the reader."""
        return parse_reports(self._board.host.read(str(self.path)), self.path)
