"""`reusebench compare`: changes between two runs, limits on them, and versions of a runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from reusebench.commands.known_runs import KnownRuns, warn
from reusebench.commands.options import metrics, project, storages
from reusebench.reports.compare.changes import Changes, compare_runs
from reusebench.reports.compare.gate import GateResult, check_limits
from reusebench.reports.compare.rendering import as_csv, as_json, as_markdown, as_text
from reusebench.reports.errors import ReportError
from reusebench.reports.material import read_material
from reusebench.reports.versions import rendering as versions_text
from reusebench.reports.versions.table import VERSION_METRICS
from reusebench.reports.versions.versions import versions_of
from reusebench.storage.limits import GateLimit, LimitInvalid, parse_limit
from reusebench.storage.metrics import Metric, find_metric
from reusebench.storage.runs import CONDITIONS

__all__ = ["compare"]

#: Metrics without --metric and --fail: those that users ask for first, and the finest of memory.
_DEFAULT = (
    "application_memory",
    "application_memory_trimmed_over_baseline",
    "application_peak_rss",
    "npu_memory",
    "latency",
    "throughput",
)


def _limits(
    context: click.Context, option: click.Parameter, texts: Sequence[str]
) -> list[GateLimit]:
    try:
        return [parse_limit(text) for text in texts]
    except LimitInvalid as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("base", metavar="BASE", required=False)
@click.argument("head", metavar="[HEAD]", default="latest")
@storages
@project
@metrics(f"the metrics of --fail, or {', '.join(_DEFAULT)}")
@click.option(
    "--fail",
    "limits",
    metavar="LIMIT",
    multiple=True,
    callback=_limits,
    help=(
        "Exit with 1 if a figure got worse by more, and it is not noise; repeatable."
        " METRIC:PERCENT%+AMOUNT, such as application_memory:2%+512KiB or npu_memory:0."
    ),
)
@click.option(
    "--across",
    type=click.Choice(CONDITIONS),
    metavar="CONDITION",
    multiple=True,
    help=f"Compare although this differs; repeatable: {', '.join(CONDITIONS)}.",
)
@click.option(
    "--versions",
    is_flag=True,
    help="The versions of a runtime side by side, from all runs or from BASE and HEAD.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "markdown", "csv", "json")),
    default="text",
    show_default=True,
    help="Form of the output.",
)
def compare(
    base: str | None,
    head: str,
    storages: Sequence[Path],
    project: Path,
    metrics: Sequence[Metric],
    limits: Sequence[GateLimit],
    across: Sequence[str],
    versions: bool,
    form: str,
) -> int:
    """Compare the runs HEAD (default: the newest) with the runs BASE.

    Runs are named by a number, a name, `latest~1`, a range, a file or a git revision.

    Exits with 1 if a limit of --fail is broken, or a stored file could not be read; with 2 if there
    was nothing to hold a limit against, or memory was short.
    """
    if versions:
        if limits or across:
            raise click.UsageError(
                "--versions shows several versions: leave out --fail and --across. A limit is held"
                " between two runs, by --across runtime_version"
            )
        return _compare_versions(storages, [base, head] if base else [], metrics, form)
    if base is None:
        raise click.UsageError("name the run to compare with, BASE; only --versions needs none")
    known = KnownRuns.read_if_any(storages, project)
    head_runs = known.find(head)
    # BASE may name the runs of HEAD too.
    head_paths = {run.path.resolve() for run in head_runs}
    base_runs = [run for run in known.find(base) if run.path.resolve() not in head_paths]
    if not base_runs:
        raise ReportError(
            f"{base} and {head} are the same: a run is not compared with itself. Name another one"
        )
    compared = metrics or _default_metrics(limits)
    all_runs = {run.path.resolve(): run for run in (*known.runs, *base_runs)}.values()
    changes = compare_runs(base_runs, head_runs, all_runs, compared, across)
    result = check_limits(changes, limits) if limits else None
    click.echo(_rendered(changes, result, form))
    if not changes.rows:
        raise ReportError(
            f"{head} and {base} have nothing to compare: no configuration was measured in both"
            " with any of these metrics under the same conditions. The lines above show what"
            " differs; --across and --metric choose others"
        )
    if result and not result.passed:
        return 1
    if result and (result.is_open or changes.differing):
        return 2
    return 1 if known.bad_files else 0


def _default_metrics(limits: Sequence[GateLimit]) -> list[Metric]:
    """Return the metrics of the limits; without limits, the metrics of _DEFAULT."""
    if limits:
        return list(dict.fromkeys(limit.metric for limit in limits))
    return [find_metric(name) for name in _DEFAULT]


def _rendered(changes: Changes, result: GateResult | None, form: str) -> str:
    if form == "csv":
        return as_csv(changes)
    if form == "json":
        return as_json(changes)
    if form == "markdown":
        return as_markdown(changes, result)
    return as_text(changes, result)


def _compare_versions(
    storages: Sequence[Path], runs: Sequence[str], metrics: Sequence[Metric], form: str
) -> int:
    """Print every version with stored runs; raise ReportError if there are fewer than two."""
    material = read_material(storages, runs)
    for file in material.bad_files:
        warn(file)
    sets = versions_of(material.groups)
    if not sets:
        raise ReportError(
            "no two versions of a runtime have measured the same models and plans on one target in"
            f" {' and '.join(runs) or 'these storages'}. `reusebench libraries run --target TARGET`"
            " measures every library of Rockchip's that is here"
        )
    writers = {
        "markdown": versions_text.as_markdown,
        "csv": versions_text.as_csv,
        "json": versions_text.as_json,
    }
    click.echo(writers.get(form, versions_text.as_text)(sets, metrics or VERSION_METRICS))
    return 1 if material.bad_files else 0
