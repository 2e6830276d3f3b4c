"""`reusebench report`: stored runs in the terminal, as one page, as tables and as figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from reusebench.commands.options import RUNS_ARE_NAMED, language, leak_limits, output, storages
from reusebench.commands.reply import json_option, reply_of, warn
from reusebench.commands.results import ReportResult
from reusebench.reports.base.drawing_pool import finished
from reusebench.reports.base.pages import TABLES_FOLDER
from reusebench.reports.base.svg import write_figures
from reusebench.reports.base.table import TABLE_FORMATS
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.errors import ReportError
from reusebench.reports.material import Material, read_material
from reusebench.reports.page.exported_tables import TABLES, write_tables
from reusebench.reports.page.index import REPORT_PAGE, figures_by_file, start_figures, write_report
from reusebench.reports.page.terminal import (
    print_answer,
    print_group,
    print_programs,
    print_side_by_side,
)
from reusebench.reports.results.leak_limits import LeakLimits
from reusebench.reports.sections.section import Page
from reusebench.storage.metrics import find_metric

__all__ = ["FORMATS", "report"]

_PAGE = "html"
_FIGURES = "svg"
FORMATS = (_PAGE, *TABLE_FORMATS, _FIGURES)
_DEFAULT_FORMATS = (_PAGE, "csv", "markdown")


def _networks(_: click.Context, __: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Return the networks by the names of models."""
    networks = {}
    for text in given:
        model, _separator, network = text.rpartition("=")
        if not (model and network):
            raise click.BadParameter(
                f"{text!r} is not valid; valid: MODEL=NETWORK, such as detector_int8=detector"
            )
        networks[model] = network
    return networks


@click.command()
@storages
@click.option(
    "--run",
    "runs",
    metavar="RUNS",
    multiple=True,
    help=f"Only these; repeatable. {RUNS_ARE_NAMED}",
)
@output
@language
@click.option(
    "--format",
    "formats",
    type=click.Choice(FORMATS),
    multiple=True,
    help=(
        f"Form of the output; repeatable. Default: {', '.join(_DEFAULT_FORMATS)}; with --json none."
    ),
)
@click.option(
    "--details", is_flag=True, help="Print every table too, before the answer in ten lines."
)
@click.option(
    "--network",
    "networks",
    metavar="MODEL=NETWORK",
    multiple=True,
    callback=_networks,
    help=(
        "Two NPU runtimes are compared on one network: the network of a model, if the names of its"
        " files differ. Repeatable."
    ),
)
@leak_limits
@json_option
def report(
    storages: Sequence[Path],
    runs: Sequence[str],
    output: Path,
    language: str,
    formats: Sequence[str],
    details: bool,
    networks: Mapping[str, str],
    leak_limits: LeakLimits,
) -> int:
    """Write the report of stored runs, and print its answer.

    Exits with 1 if a stored file could not be read.
    """
    material = replace(read_material(storages, runs, leak_limits), networks=networks)
    for file in material.bad_files:
        warn(file)
    reply = reply_of()
    if not reply.is_json:
        formats = formats or _DEFAULT_FORMATS
    try:
        paths = _write(material, formats, output, language)
    except OSError as error:
        reason = f"cannot write the report into {output} ({error.strerror})"
        raise ReportError(f"{reason}. Name another folder with --output DIR") from None
    if reply.is_json:
        tables = {table.name: list(table.rows(material)) for table in TABLES}
        reply.result = ReportResult(tables, [str(path) for path in paths])
        return 1 if material.bad_files else 0
    # A user's text may look like markup.
    console = Console(markup=False, emoji=False)
    texts = texts_of(language)
    # The terminal shows the newest run; the page shows the older ones too.
    newest_file = material.groups[0].newest.path if material.groups else None
    newest = [
        group
        for group in material.groups
        if any(row.file.path == newest_file for row in group.rows)
    ]
    page = Page(replace(material, groups=newest), texts)
    if details:
        for group, label in zip(page.groups, page.labels):
            print_group(group, label, texts, console)
    if details or not page.groups:
        print_programs(material.programs, texts, console)
    if page.groups:
        print_answer(page, console)
        print_side_by_side(Page(material, texts), newest, console)
    for path in paths:
        console.print(texts("terminal_written", path=path), highlight=False, soft_wrap=True)
    return 1 if material.bad_files else 0


def _write(material: Material, formats: Sequence[str], output: Path, language: str) -> list[Path]:
    """Write the formats into the folder, and return the files and folders written."""
    paths = []
    histories = []
    # Drawing takes longest; other processes draw while the rest is written.
    languages: Sequence[str] = ()
    if _PAGE in formats:
        languages = LANGUAGES
    elif _FIGURES in formats:
        languages = (language,)
    figures = start_figures(material, languages)
    if _PAGE in formats:
        # Not at the top: the library that looks for change points takes a second to import.
        from reusebench.reports.history.history_page import (
            HISTORY_PAGE,
            MOST_PANELS_BESIDE,
            HistoryPage,
        )
        from reusebench.reports.history.series import HISTORY_METRICS, histories_of, is_worth_a_page
        from reusebench.reports.history.stored_configurations import stored_configurations

        metrics = [find_metric(name) for name in HISTORY_METRICS]
        stored = material.results.stored
        configurations = stored_configurations(stored, metrics, boards=material.told_boards)
        histories = histories_of(configurations, metrics)
        history = HistoryPage(histories, MOST_PANELS_BESIDE) if is_worth_a_page(histories) else None
    tables = [name for name in TABLE_FORMATS if name in formats]
    if tables:
        paths.append(write_tables(material, output / TABLES_FOLDER, tables))
    if _PAGE in formats:
        pages = write_report(
            material,
            figures,
            output,
            language,
            history=HISTORY_PAGE if history else None,
            table_format=tables[0] if tables else None,
        )
        if history:
            pages += history.write(output, language, REPORT_PAGE, material.bad_files)
        paths = pages + paths
    if _FIGURES in formats:
        drawings = figures_by_file(material, finished(figures, language))
        paths.append(write_figures(drawings, output / "figures"))
    return paths
