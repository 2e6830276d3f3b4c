"""`reusebench export`: stored runs for other tools and for scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from reusebench.commands import drop_output
from reusebench.commands.known_runs import KnownRuns
from reusebench.commands.options import PATH, metrics, project, storages
from reusebench.commands.reply import warn
from reusebench.reports.compare.exports.formats import (
    EXPORTS,
    Export,
    absent_metrics,
    export_runs,
    left_out,
)
from reusebench.reports.compare.exports.openmetrics import newest_of_boards
from reusebench.reports.errors import ReportError
from reusebench.storage.metrics import Metric
from reusebench.storage.runs import RunSummary
from reusebench.system.files import replacing

__all__ = ["export"]

_FORMATS = {form.name: form for form in EXPORTS}


@click.command()
@click.argument("runs", metavar="[RUNS]", required=False)
@storages
@project
@click.option(
    "--format",
    "name",
    type=click.Choice(list(_FORMATS)),
    required=True,
    help="docs/reference/exports.md describes each.",
)
@metrics("every figure that the format holds")
@click.option("--output", type=PATH, metavar="FILE", help="Default: standard output.")
def export(
    runs: str | None,
    storages: Sequence[Path],
    project: Path,
    name: str,
    metrics: Sequence[Metric],
    output: Path | None,
) -> int:
    """Write the runs RUNS (default: the newest) in the format of another tool.

    `trace` is a timeline of their processes for Perfetto (ui.perfetto.dev) and chrome://tracing:
    phases, memory, NPU buffers, frames of streams.

    `openmetrics` without RUNS is the newest run of each board, for Prometheus to scrape; with RUNS
    each sample has the time of its run, to backfill. `grafana` is a dashboard that shows it.

    Runs are named by a number, a name, `latest~1`, a range (`..`: all), a file or a git revision.

    Exits with 1 if something is missing in the export; warnings name it.
    """
    form = _FORMATS[name]
    if not form.has_runs:
        _write(export_runs([], form, metrics), output)
        return 0

    known = KnownRuns.read_if_any(storages, project)
    form, named = _chosen(form, known, runs)
    chosen = known.stored.with_measured(named)
    missing = left_out(chosen, form)
    missing += [f"no figures of {metric}" for metric in absent_metrics(chosen, metrics)]
    for subject in missing:
        warn(f"not in the export: {subject}")
    _write(export_runs(chosen, form, metrics), output)
    return 1 if missing or known.bad_files else 0


def _chosen(form: Export, known: KnownRuns, runs: str | None) -> tuple[Export, list[RunSummary]]:
    """Return the runs that are named, or the format's default, and the format for them."""
    newest = newest_of_boards(known.runs)
    if runs is None and form.of_boards and newest:
        return form.of_boards, newest
    return form, known.find(runs or "latest")


def _write(parts: Iterable[str], output: Path | None) -> None:
    """Write the text to the file, or to standard output."""
    # The formats are UTF-8, whatever the locale of the terminal is.
    content = (part.encode() for part in parts)
    try:
        if output:
            with replacing(output) as unfinished, unfinished.open("wb") as file:
                file.writelines(content)
        else:
            for part in content:
                click.echo(part, nl=False)
    except BrokenPipeError:
        raise
    except OSError as error:
        if not output:
            drop_output()
        destination = output or "standard output"
        raise ReportError(
            f"cannot write {destination} ({error.strerror}). Name another with --output FILE"
        ) from None
