"""`python -m reports export`: stored runs for other tools and for scripts."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from reports.commands.known_runs import KnownRuns, add_run_options
from reports.compare.exports import EXPORTS, absent_metrics, export, left_out
from reports.errors import ReportError
from storage.metrics import METRICS, find_metric

__all__ = ["prepare_parser", "run"]

_LATEST = "latest"
_PRINTED = "standard output"


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("runs", nargs="?", default=_LATEST, metavar="RUNS", help=f"run or runs to export; default: {_LATEST}")
    add_run_options(parser)
    add("--format", required=True, choices=[form.name for form in EXPORTS], help="docs/ci.md says what each has")
    add(
        "--metric",
        action="append",
        default=[],
        choices=[metric.name for metric in METRICS],
        metavar="METRIC",
        help="export this figure alone, repeatable; default: every figure that the format holds. "
        f"Valid: {', '.join(metric.name for metric in METRICS)}",
    )
    add("--output", type=Path, metavar="FILE", help=f"default: {_PRINTED}")


def run(options: argparse.Namespace) -> int:
    """Export the runs; exit code 1 where something that should be in the export is not, and is named."""
    known = KnownRuns.of(options)
    runs, metrics = known.find(options.runs), [find_metric(name) for name in options.metric]
    form = next(each for each in EXPORTS if each.name == options.format)
    missing = [*left_out(runs), *(f"no figures of {name}" for name in absent_metrics(runs, metrics))]
    for each in missing:
        print(f"reports: not in the export: {each}", file=sys.stderr)
    _write(export(runs, form, metrics), options.output)
    return 1 if missing or known.bad_files else 0


def _write(text: str, output: Path | None) -> None:
    """Write UTF-8, whatever the locale of the terminal is."""
    try:
        with output.open("wb") if output else os.fdopen(sys.stdout.fileno(), "wb", closefd=False) as file:
            file.write(text.encode())
    except OSError as error:
        where = output or _PRINTED
        raise ReportError(f"cannot write {where} ({error.strerror}). Name another with --output FILE") from None
