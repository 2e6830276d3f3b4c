"""The reports of applied processes: a JSON line for each process and runtime."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import msgspec

from reusebench.apply.errors import ApplyError
from reusebench.apply.settings import PREFIX, PROBLEMS_NAME, REPORT_NAME

__all__ = [
    "Digest",
    "PlanUse",
    "ProcessReport",
    "Totals",
    "parse_reports",
    "read_reports",
    "take_reports",
    "totals",
]


class Digest(msgspec.Struct, frozen=True):
    """All outputs of a model, in any order of its runs."""

    runs: int
    #: Sum of the digests of the runs, as 32 hexadecimal digits.
    sum: str


class PlanUse(msgspec.Struct, frozen=True):
    """The contexts of a process by the plan; the names are those of the JSON line."""

    #: Digest of a model of the plan to the number of contexts that had a line of it.
    loaded: dict[str, int]
    #: The same, for those beyond its lines.
    beyond: dict[str, int]
    #: Name, or size, of a model that the plan lacks to the number of its contexts.
    unknown: dict[str, int]


class ProcessReport(msgspec.Struct, frozen=True):
    """What was shared of a runtime in a process; the names are those of the JSON line."""

    #: rknn, onnxruntime, openvino or litert.
    runtime: str
    version: Optional[str]
    process: int
    #: All that were made, with those that were left alone.
    contexts: int
    #: Different ones.
    models: int
    #: Kind of memory to the number of contexts that share it.
    shared: dict[str, int]
    #: Kind of memory to what was saved, if that is exactly known.
    saved_bytes: dict[str, int]
    most_at_once: int
    #: Code of a reason (reasons.py) to the number of contexts.
    left_alone: dict[str, int]
    #: Call of the runtime to how often it failed when library or hooks made it.
    failures: dict[str, int]
    #: Name or digest of a model to the digest of its outputs.
    digests: dict[str, Digest]
    #: None without a plan.
    plan: Optional[PlanUse] = None


@dataclass(frozen=True)
class Totals:
    """The sums over several reports."""

    contexts: int
    shared: dict[str, int]
    saved_bytes: dict[str, int]
    left_alone: dict[str, int]
    failures: dict[str, int]


def read_reports(file: Path) -> tuple[ProcessReport, ...]:
    """Return the reports in the file; none if it does not exist. Raises ApplyError."""
    return parse_reports(file.read_bytes(), file) if file.exists() else ()


def parse_reports(content: bytes, file: Path) -> tuple[ProcessReport, ...]:
    """Return the reports in order of the ends of their processes.

    Raises ApplyError for a line that is none, such as one of another version.
    """
    lines = content.splitlines()
    try:
        return tuple(msgspec.json.decode(line, type=ProcessReport) for line in lines)
    except msgspec.DecodeError as error:
        raise ApplyError(
            f"a line of {file} is no report ({error}). Library and hooks must be of the same"
            " version as reusebench, and nothing else may write to the file"
        ) from None


def take_reports(
    folder: Path, environment: Mapping[str, str], warn: Callable[[object], None]
) -> tuple[ProcessReport, ...]:
    """Return the reports in the folder, and remove it; `warn` gets what could not be done.

    If the user asked for a report in the environment, its lines are appended to that file.
    """
    report = folder / REPORT_NAME
    try:
        for problem in (folder / PROBLEMS_NAME).read_text(encoding="utf-8").splitlines():
            warn(problem)
        _append(report, environment.get(f"{PREFIX}REPORT"))
        return read_reports(report)
    except ApplyError as error:
        warn(error)
        return ()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _append(report: Path, asked: str | None) -> None:
    if not asked:
        return
    try:
        with Path(asked).open("ab") as file:
            file.write(report.read_bytes())
    except OSError as error:
        raise ApplyError(
            f"the report cannot be appended to {asked} ({error.strerror}), which {PREFIX}REPORT"
            " names. Name a file that is writable"
        ) from None


def totals(reports: Sequence[ProcessReport]) -> Totals:
    """Return the sums over the reports."""
    return Totals(
        contexts=sum(report.contexts for report in reports),
        shared=_sum(report.shared for report in reports),
        saved_bytes=_sum(report.saved_bytes for report in reports),
        left_alone=_sum(report.left_alone for report in reports),
        failures=_sum(report.failures for report in reports),
    )


def _sum(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)
