"""`reusebench export`: stored runs for other tools and for scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from reusebench.commands import drop_output
from reusebench.commands.known_runs import KnownRuns
from reusebench.commands.options import PATH, metrics, project, storages
from reusebench.commands.reply import choose_json, reply_of, warn
from reusebench.harness.extras import check_extra
from reusebench.reports.compare.exports.document import ExportResult
from reusebench.reports.compare.exports.formats import (
    EXPORTS,
    Export,
    absent_metrics,
    export_runs,
    left_out,
)
from reusebench.reports.compare.exports.openmetrics import newest_of_boards
from reusebench.reports.errors import ReportError
from reusebench.storage.metrics import METRICS, Metric
from reusebench.storage.runs import Run, RunSummary
from reusebench.system.files import replacing

__all__ = ["export"]

_FORMATS = {form.name: form for form in EXPORTS}
#: A folder of files.
_PARQUET = "parquet"
#: The reply of --json to other commands.
_JSON = "json"
_NAMES = [*_FORMATS, _PARQUET, _JSON]


def _reply_as_json(context: click.Context, _option: click.Parameter, name: str) -> str:
    """Reply to mistakes in JSON, too, if that is the format."""
    if name == _JSON:
        choose_json(context)
    return name


@click.command()
@click.argument("runs", metavar="[RUNS]", required=False)
@storages
@project
@click.option(
    "--format",
    "name",
    type=click.Choice(_NAMES),
    metavar="FORMAT",
    required=True,
    is_eager=True,
    callback=_reply_as_json,
    help=f"One of {', '.join(_NAMES)}; docs/reference/exports.md describes each.",
)
@metrics("every figure that the format holds")
@click.option(
    "--output",
    type=PATH,
    metavar="PATH",
    help="File, or for parquet a folder. Default: standard output.",
)
def export(
    runs: str | None,
    storages: Sequence[Path],
    project: Path,
    name: str,
    metrics: Sequence[Metric],
    output: Path | None,
) -> int:
    """Write the runs RUNS (default: the newest) in the format of another tool.

    `parquet` is a folder with a partition for each board and month. Runs that are exported take
    the place of their former rows; rows of other runs stay.

    `json` is the one document of `--json` of other commands, by the same schema.

    `trace` is a timeline of their processes for Perfetto (ui.perfetto.dev) and chrome://tracing:
    phases, memory, NPU buffers, frames of streams.

    `openmetrics` without RUNS is the newest run of each board, for Prometheus to scrape; with RUNS
    each sample has the time of its run, to backfill. `grafana` is a dashboard that shows it.

    Runs are named by a number, a name, `latest~1`, a range (`..`: all), a file or a git revision.

    Exits with 1 if something is missing in the export; warnings name it.
    """
    form = _FORMATS.get(name)
    if form and not form.has_runs:
        _write(export_runs([], form, metrics), output)
        return 0

    known = KnownRuns.read_if_any(storages, project)
    if name == _PARQUET:
        missing = _export_folder(known.find(runs or "latest"), metrics, output)
    elif form is None:
        missing = _export_json(known, known.find(runs or "latest"), metrics, output)
    else:
        missing = _export_text(form, known, runs, metrics, output)
    return 1 if missing or known.bad_files else 0


def _export_text(
    form: Export,
    known: KnownRuns,
    runs: str | None,
    metrics: Sequence[Metric],
    output: Path | None,
) -> list[str]:
    """Write the text of a format; return what is missing in it."""
    newest = newest_of_boards(known.runs)
    if runs is None and form.of_boards and newest:
        form = form.of_boards
        chosen = known.stored.with_measured(newest)
    else:
        chosen = known.stored.with_measured(known.find(runs or "latest"))
    missing = _tell(left_out(chosen, form) + _without_figures(chosen, metrics))
    _write(export_runs(chosen, form, metrics), output)
    return missing


def _export_json(
    known: KnownRuns, runs: Sequence[RunSummary], metrics: Sequence[Metric], output: Path | None
) -> list[str]:
    """Give the runs to the reply, which is the document; return what is missing in it."""
    chosen = known.stored.with_measured(runs)
    missing = _tell(_without_figures(chosen, metrics))
    reply = reply_of()
    reply.result = ExportResult.of(chosen, metrics or METRICS)
    if output:
        _write([f"{reply.as_json()}\n"], output)
        reply.is_json = False
    return missing


def _export_folder(
    runs: Sequence[RunSummary], metrics: Sequence[Metric], folder: Path | None
) -> list[str]:
    """Write the partitions of the runs; return what is missing in them."""
    if metrics:
        raise ReportError("--format parquet has all metrics as columns: leave --metric out")
    if folder is None:
        raise ReportError("--format parquet is a folder of files: name it with --output DIR")
    check_extra("parquet", "--format parquet")
    # Not at the top: pandas would delay the other formats.
    from reusebench.reports.compare.exports.parquet import write_parquet

    return _tell(write_parquet(runs, folder))


def _without_figures(runs: Sequence[Run], metrics: Sequence[Metric]) -> list[str]:
    return [f"no figures of {metric}" for metric in absent_metrics(runs, metrics)]


def _tell(missing: list[str]) -> list[str]:
    """Name what is missing on standard error."""
    for subject in missing:
        warn(f"not in the export: {subject}")
    return missing


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
