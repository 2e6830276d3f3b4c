"""Every mistake of a user that leaves `python -m reports` without a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "ExportMixed",
    "ExportNotWritable",
    "MetricNotOfForm",
    "NoHistory",
    "NoResults",
    "NoStorage",
    "NoSuchRuns",
    "NothingToCompare",
    "NothingToExport",
    "OutputNotWritable",
    "ReportError",
    "SameRuns",
]


class ReportError(Exception):
    """The user can put it right; the message says how."""


class NoStorage(ReportError):
    """The storage is not there."""

    def __init__(self, storage: Path) -> None:
        super().__init__(f"no storage at {storage}. Run `pytest bench/` first, or name another with --storage DIR")


class NoResults(ReportError):
    """The storages have nothing to report."""

    def __init__(self, storages: Sequence[Path], bad_files: Sequence[object]) -> None:
        names = ", ".join(str(storage) for storage in storages)
        unread = "".join(f"\n{file}" for file in bad_files)
        super().__init__(
            f"no results in {names}. Run `pytest bench/` first, or name another with --storage DIR{unread}"
        )


class NoHistory(ReportError):
    """No run has figures of what was asked for."""

    def __init__(self, metrics: Sequence[str], only: Sequence[str], names: Sequence[str]) -> None:
        of = f" of {', '.join(only)}" if only else ""
        there_are = ", ".join(names) or "none: run `pytest bench/` first, or name another storage with --storage DIR"
        super().__init__(
            f"no run has figures of {', '.join(metrics)}{of}. Name others with --metric NAME or --only NAME; "
            f"stored are: {there_are}"
        )


class OutputNotWritable(ReportError):
    """The report cannot be written."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(f"cannot write the report into {folder} ({error.strerror}). Name another with --output DIR")


class NoSuchRuns(ReportError):
    """The words mean no stored run; storage.references has the sentences."""


class NothingToCompare(ReportError):
    """The two sides have no configuration that could be compared."""

    def __init__(self, base: str, head: str) -> None:
        super().__init__(
            f"nothing of {head} can be compared with {base}: no configuration was measured in both with any of these "
            "metrics under the same conditions. The lines above say what differs; --across and --metric choose others"
        )


class SameRuns(ReportError):
    """There is nothing but the head to compare it with."""

    def __init__(self, base: str, head: str) -> None:
        super().__init__(f"{base} and {head} are the same: a run is not compared with itself. Name another one")


class NothingToExport(ReportError):
    """The runs have none of the metrics."""

    def __init__(self, metrics: Sequence[str], found: Sequence[str], runs: Sequence[str]) -> None:
        there_are = ", ".join(found) or "none"
        super().__init__(
            f"{', '.join(runs)}: no figures of {', '.join(metrics)}. There are: {there_are}. "
            "Name others with --metric NAME, or another run"
        )


class MetricNotOfForm(ReportError):
    """The form cannot hold the metric."""

    def __init__(self, metric: str, form: str, others: Sequence[str]) -> None:
        super().__init__(
            f"--format {form} does not hold {metric}: it takes one direction alone, less or more is better. "
            f"Valid for {metric}: {', '.join(others)}"
        )


class ExportMixed(ReportError):
    """Figures of one name would be of different things."""

    def __init__(self, configuration: str, condition: str, values: Sequence[tuple[str, str | None]]) -> None:
        each = ", ".join(f"{run}: {value}" for run, value in values)
        super().__init__(
            f"{configuration}: the runs differ in {condition} ({each}), and in this format one name stands for all of "
            "them. Export one run at a time, or use --format csv or jsonl"
        )


class ExportNotWritable(ReportError):
    """The export cannot be written."""

    def __init__(self, file: Path | str, error: OSError) -> None:
        super().__init__(f"cannot write {file} ({error.strerror}). Name another with --output FILE")
