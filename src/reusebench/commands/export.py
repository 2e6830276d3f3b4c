"""`reusebench export`: stored runs for other tools and for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from reusebench.commands import drop_output
from reusebench.commands.known_runs import KnownRuns
from reusebench.commands.options import PATH, metrics, project, storages
from reusebench.commands.reply import warn
from reusebench.reports.compare import exports
from reusebench.reports.errors import ReportError
from reusebench.storage.metrics import Metric
from reusebench.system.files import replacing

__all__ = ["export"]

_FORMATS = {form.name: form for form in exports.EXPORTS}


@click.command()
@click.argument("runs", metavar="[RUNS]", default="latest")
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
    runs: str,
    storages: Sequence[Path],
    project: Path,
    name: str,
    metrics: Sequence[Metric],
    output: Path | None,
) -> int:
    """Write the runs RUNS (default: the newest) in the format of another tool.

    `trace` is a timeline of their processes for Perfetto (ui.perfetto.dev) and chrome://tracing:
    phases, memory, NPU buffers, frames of streams.

    Runs are named by a number, a name, `latest~1`, a range, a file or a git revision.

    Exits with 1 if something is missing in the export; warnings name it.
    """
    known = KnownRuns.read_if_any(storages, project)
    chosen = known.stored.with_measured(known.find(runs))
    missing = exports.left_out(chosen, _FORMATS[name])
    missing += [f"no figures of {metric}" for metric in exports.absent_metrics(chosen, metrics)]
    for subject in missing:
        warn(f"not in the export: {subject}")
    # The formats are UTF-8, whatever the locale of the terminal is.
    content = exports.export_runs(chosen, _FORMATS[name], metrics).encode()
    try:
        if output:
            with replacing(output) as unfinished:
                unfinished.write_bytes(content)
        else:
            click.echo(content, nl=False)
    except BrokenPipeError:
        raise
    except OSError as error:
        if not output:
            drop_output()
        destination = output or "standard output"
        raise ReportError(
            f"cannot write {destination} ({error.strerror}). Name another with --output FILE"
        ) from None
    return 1 if missing or known.bad_files else 0
