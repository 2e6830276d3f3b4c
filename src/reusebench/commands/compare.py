"""`reusebench compare`: changes between two runs, limits on them, and versions of a runtime."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click

from reusebench.commands.known_runs import KnownRuns
from reusebench.commands.options import metrics, project, storages
from reusebench.commands.reply import give, json_option, reply_of, warn
from reusebench.commands.results import ComparisonResult, VersionsResult
from reusebench.reports.compare.changes import compare_runs
from reusebench.reports.compare.choice import newest_before, newest_pair, newest_stored_pair
from reusebench.reports.compare.forms import FORMS
from reusebench.reports.compare.gate import check_limits
from reusebench.reports.compare.records import comparison_document
from reusebench.reports.errors import ReportError
from reusebench.reports.material import read_material
from reusebench.reports.versions import rendering as versions_text
from reusebench.reports.versions.table import VERSION_METRICS
from reusebench.reports.versions.versions import versions_of
from reusebench.storage.limits import GateLimit, LimitInvalid, parse_limit
from reusebench.storage.metrics import Metric, find_metric
from reusebench.storage.references import is_by_age
from reusebench.storage.runs import CONDITIONS, Run
from reusebench.system.files import replacing

__all__ = ["DEFAULT_METRICS", "compare"]

#: Metrics without --metric and --fail: those that users ask for first, and the finest of memory.
DEFAULT_METRICS = (
    "application_memory",
    "application_memory_trimmed_over_baseline",
    "application_peak_rss",
    "npu_memory",
    "kv_cache",
    "latency",
    "throughput",
    "first_token",
    "generation_speed_all",
)
#: The form of --json, in a file.
_JSON = "json"


def _limits(
    context: click.Context, option: click.Parameter, texts: Sequence[str]
) -> list[GateLimit]:
    try:
        return [parse_limit(text) for text in texts]
    except LimitInvalid as error:
        raise click.BadParameter(str(error)) from None


def _files(
    context: click.Context, option: click.Parameter, texts: Sequence[str]
) -> list[tuple[str, Path]]:
    files = []
    for text in texts:
        form, separator, name = text.partition("=")
        if form not in (*FORMS, _JSON) or not separator or not name:
            raise click.BadParameter(
                f"{text!r} is not valid; valid: FORM=FILE, such as markdown=comment.md, with a form"
                f" of {', '.join((*FORMS, _JSON))}"
            )
        files.append((form, Path(name)))
    return files


class _Sides(NamedTuple):
    base: list[Run]
    head: list[Run]
    #: How the runs were chosen; empty if the user named them.
    remark: str = ""


@click.command()
@click.argument("base", metavar="[BASE]", required=False)
@click.argument("head", metavar="[HEAD]", default="latest")
@storages
@project
@metrics(f"the metrics of --fail, or {', '.join(DEFAULT_METRICS)}")
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
    "--strict",
    is_flag=True,
    help="Exit with 2 if the measurements do not decide whether a limit of --fail is kept.",
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
    type=click.Choice(tuple(FORMS)),
    metavar="FORM",
    default="text",
    show_default=True,
    help=(
        "Form of the output: text; markdown, a comment on a change; github and gitlab,"
        " annotations; csv."
    ),
)
@click.option(
    "--all",
    "shows_all",
    is_flag=True,
    help=(
        "Show every row, also of a comparison of more than 20. Default: of those only what changed,"
        " and the number of the others. csv and --json have all in any case."
    ),
)
@click.option(
    "--write",
    "files",
    metavar="FORM=FILE",
    multiple=True,
    callback=_files,
    help="Also write the comparison in this form to a file; repeatable.",
)
@json_option
def compare(
    base: str | None,
    head: str,
    storages: Sequence[Path],
    project: Path,
    metrics: Sequence[Metric],
    limits: Sequence[GateLimit],
    strict: bool,
    across: Sequence[str],
    versions: bool,
    form: str,
    shows_all: bool,
    files: Sequence[tuple[str, Path]],
) -> int:
    """Compare the runs HEAD (default: the newest) with the runs BASE.

    Without BASE, the newest run is compared with the newest one before it that has something in
    common with it.

    Runs are named by a number, a name, `latest~1`, a range, a file or a git revision.

    Exits with 1 if a limit of --fail is broken, or a stored file could not be read; with 2 if a
    limit cannot be judged: there was nothing to hold it against, or memory was short.
    """
    if versions:
        if limits or strict or files or across or shows_all:
            raise click.UsageError(
                "--versions shows several versions: leave out --fail, --strict, --write, --all and"
                " --across. A limit is held between two runs, by --across runtime_version"
            )
        return _compare_versions(storages, [base, head] if base else [], metrics, form)
    if strict and not limits:
        raise click.UsageError("--strict is about limits: add --fail METRIC:PERCENT%+AMOUNT")
    known = KnownRuns.read_if_any(storages, project)
    compared = _compared_metrics(metrics, limits)
    sides = _sides(known, base, head, compared, across)
    earlier = _earlier(known, sides, compared)
    changes = compare_runs(sides.base, sides.head, earlier, compared, across)
    changes = replace(changes, remark=sides.remark)
    result = check_limits(changes, limits, strict) if limits else None
    give(
        ComparisonResult(**comparison_document(changes, result)),
        (FORMS[name](changes, result, shows_all) for name in (form,)),
    )
    for file_form, path in files:
        if file_form == _JSON:
            _write(path, reply_of().as_json())
        else:
            _write(path, FORMS[file_form](changes, result, shows_all))
    if not changes.rows:
        raise ReportError(_nothing_in_common(known, sides, compared, across))
    if result and result.exit_code:
        return result.exit_code
    return 1 if known.bad_files else 0


def _sides(
    known: KnownRuns,
    base: str | None,
    head: str,
    metrics: Sequence[Metric],
    across: Collection[str],
) -> _Sides:
    """Return the runs to compare; raise ReportError if there are none."""
    if base is None:
        pair = newest_stored_pair(known.stored, metrics, across)
        if pair is None:
            raise ReportError(
                "no two runs have a figure of one configuration under the same conditions:"
                " measure again, or name two runs (`reusebench runs list`) and what may differ"
                " (--across)"
            )
        newer = sum(run.is_finished and run.order > pair[1].order for run in known.runs)
        skipped = f"; newer runs without that: {newer}"
        return _Sides(
            _whole(known, pair[0]),
            _whole(known, pair[1]),
            "chosen: the newest run that has something in common with one before it, and that one"
            f"{skipped if newer else ''}",
        )
    head_runs = known.stored.with_measured(known.find(head))
    # BASE may name the runs of HEAD too.
    head_paths = {run.path.resolve() for run in head_runs}
    found = [run for run in known.find(base) if run.path.resolve() not in head_paths]
    base_runs = known.stored.with_measured(found)
    if not base_runs:
        raise ReportError(
            f"{base} and {head} are the same: a run is not compared with itself. Name another one"
        )
    if is_by_age(base) and newest_pair([*base_runs, *head_runs], metrics, across) is None:
        nearest = newest_before(head_runs, known.stored, metrics, across)
        if nearest:
            return _Sides(
                _whole(known, nearest),
                head_runs,
                f"chosen: {base} is {base_runs[0]}, which has nothing in common with the head; this"
                " is the newest run before it that has",
            )
    return _Sides(base_runs, head_runs)


def _whole(known: KnownRuns, chosen: Run) -> list[Run]:
    """Return the run with all its figures."""
    return known.stored.with_measured(run for run in known.runs if run.path == chosen.path)


def _earlier(known: KnownRuns, sides: _Sides, metrics: Sequence[Metric]) -> list[Run]:
    """Return the runs before the head that show the noise, with what is like the base in them."""
    first = min(run.order for run in sides.head)
    rows = [measured for run in sides.base for measured in run.measured]
    before = [run for run in known.runs if run.order < first]
    alike = known.stored.with_measured(before, metrics, like=rows)
    # A run of the base that was named by its path may be in no storage, or in one.
    return list({run.path.resolve(): run for run in (*alike, *sides.base)}.values())


def _nothing_in_common(
    known: KnownRuns, sides: _Sides, metrics: Sequence[Metric], across: Collection[str]
) -> str:
    nearest = newest_before(sides.head, known.stored, metrics, across)
    hint = "the lines above show what differs; --across and --metric choose others"
    if nearest:
        hint = f"the newest run before it that can be compared is {nearest}"
    return (
        f"{sides.head[-1]} and {sides.base[-1]} have nothing to compare: no configuration was"
        f" measured in both with any of these metrics under the same conditions; {hint}"
    )


def _write(path: Path, text: str) -> None:
    try:
        with replacing(path) as unfinished:
            unfinished.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise ReportError(
            f"cannot write {path} ({error.strerror}). Name another with --write FORM=FILE"
        ) from None


def _compared_metrics(metrics: Sequence[Metric], limits: Sequence[GateLimit]) -> list[Metric]:
    """Return the chosen metrics and those of the limits; without any, the metrics of
    DEFAULT_METRICS.
    """
    chosen = dict.fromkeys((*metrics, *(limit.metric for limit in limits)))
    return list(chosen) or [find_metric(name) for name in DEFAULT_METRICS]


def _compare_versions(
    storages: Sequence[Path], runs: Sequence[str], metrics: Sequence[Metric], form: str
) -> int:
    """Print every version with stored runs; raise ReportError if there are fewer than two."""
    writers = {
        "text": versions_text.as_text,
        "markdown": versions_text.as_markdown,
        "csv": versions_text.as_csv,
    }
    if form not in writers:
        raise click.UsageError(f"--versions has no {form}; valid: {', '.join(writers)}")
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
    shown = metrics or VERSION_METRICS
    give(
        VersionsResult(versions_text.as_documents(sets, shown)),
        (writers[name](sets, shown) for name in (form,)),
    )
    return 1 if material.bad_files else 0
