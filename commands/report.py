"""`reusebench report`: stored runs in the terminal, as one page, as tables and as figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from commands.known_runs import warn
from commands.options import language, output, storages
from reports.base.figure_files import write_figures
from reports.base.languages import in_language
from reports.base.texts import texts_of
from reports.errors import ReportError
from reports.history.page import write_history_beside
from reports.page.exported_tables import TABLE_FORMATS, write_tables
from reports.page.figures import figures_of, file_names
from reports.page.legends import legends_of
from reports.page.material import Material
from reports.page.opening import opening
from reports.page.page import PAGE, write_page
from reports.page.reading import read_material, to_be_shown
from reports.page.terminal import print_group, print_opening, print_programs
from reports.results.labels import labels

__all__ = ["FORMATS", "report"]

_PAGE, _FIGURES = "html", "svg"
FORMATS = (_PAGE, *TABLE_FORMATS, _FIGURES)
_DEFAULT_FORMATS = (_PAGE, "csv", "md")


@click.command()
@storages
@click.option("--run", "runs", metavar="RUN", multiple=True, help="This run alone, by number or `latest`; repeatable.")
@output
@language
@click.option(
    "--format",
    "formats",
    type=click.Choice(FORMATS),
    multiple=True,
    help=f"What is written; repeatable. Default: {', '.join(_DEFAULT_FORMATS)}.",
)
def report(storages: Sequence[Path], runs: Sequence[str], output: Path, language: str, formats: Sequence[str]) -> int:
    """Write the report of stored runs, and print its answers and tables.

    Exits with 1 where a stored file could not be read.
    """
    material = read_material(storages, runs)
    for file in material.bad_files:
        warn(file)
    try:
        paths = _write(material, formats or _DEFAULT_FORMATS, output, language)
    except OSError as error:
        reason = f"cannot write the report into {output} ({error.strerror})"
        raise ReportError(f"{reason}. Name another folder with --output DIR") from None
    console, texts = Console(), texts_of(language)
    # What the newest run has measured; the page shows the older ones too.
    newest_file = material.groups[0].newest.path if material.groups else None
    newest = [group for group in material.groups if any(row.file.path == newest_file for row in group.rows)]
    for group in newest:
        print_group(group, texts, console)
    print_programs(material.programs, texts, console)
    if newest:
        print_opening(opening(newest, labels(newest, texts), texts), texts, console)
    for path in paths:
        console.print(texts("terminal_written", path=path), highlight=False, soft_wrap=True)
    return 1 if material.bad_files else 0


def _write(material: Material, formats: Sequence[str], output: Path, language: str) -> list[Path]:
    """Write in these formats into the folder, and return what was written."""
    paths = []
    shown = to_be_shown(material.groups)
    figures = figures_of(shown, material.programs) if {_PAGE, _FIGURES} & set(formats) else {}
    if _PAGE in formats:
        history = write_history_beside(PAGE, material.files, output, language, material.bad_files)
        page = write_page(material, shown, figures, output, language, history.name if history else None)
        paths += [page, history] if history else [page]
    if _FIGURES in formats:
        names = file_names(shown, figures)
        legends = legends_of(shown, texts_of(language), material.programs)
        drawings = {names[name]: in_language(drawn.drawing, drawn.said, language) for name, drawn in figures.items()}
        paths.append(write_figures(drawings, output / "figures", {names[name]: legends[name] for name in names}))
    tables = [name for name in TABLE_FORMATS if name in formats]
    if tables:
        paths.append(write_tables(material, output / "tables", tables))
    return paths
