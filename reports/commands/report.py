"""`python -m reports` without a command: stored runs in the terminal, as one page, as tables and as figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from reports.base.drawing_pool import DrawnFigure
from reports.base.figure_files import write_figures
from reports.base.languages import in_language
from reports.base.texts import texts_of
from reports.commands.options import add_language, add_output, add_storage
from reports.errors import cannot_write
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
from reports.results.rows import Group

__all__ = ["FORMATS", "prepare_parser", "run"]

_PAGE, _FIGURES = "html", "svg"
FORMATS = (_PAGE, *TABLE_FORMATS, _FIGURES)
_DEFAULT_FORMATS = (_PAGE, "csv", "md")


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add_storage(parser)
    add("--run", action="append", metavar="N", help="this run alone, by its number or `latest`; repeatable")
    add_output(parser)
    add_language(parser)
    add(
        "--format",
        action="append",
        choices=FORMATS,
        help=f"what is written, repeatable; default: {', '.join(_DEFAULT_FORMATS)}",
    )


def run(options: argparse.Namespace) -> int:
    """Write the report; exit code 1 where a stored file could not be read. Raise ReportError where there is none."""
    console = Console()
    material = read_material(options.storage, options.run)
    for file in material.bad_files:
        print(f"reports: {file}", file=sys.stderr)
    written = _write(material, options.format or _DEFAULT_FORMATS, options.output, options.lang)
    texts, newest = texts_of(options.lang), _of_newest_run(material.groups)
    for group in newest:
        print_group(group, texts, console)
    print_programs(material.programs, texts, console)
    if newest:
        print_opening(opening(newest, labels(newest, texts), texts), texts, console)
    for path in written:
        console.print(texts("terminal_written", path=path), highlight=False, soft_wrap=True)
    return 1 if material.bad_files else 0


def _write(material: Material, formats: Sequence[str], output: Path, language: str) -> list[Path]:
    """Write in these formats into the folder and return what was written."""
    try:
        written = []
        if _PAGE in formats or _FIGURES in formats:
            shown = to_be_shown(material.groups)
            figures = figures_of(shown, material.programs)
            if _PAGE in formats:
                history = write_history_beside(PAGE, material.files, output, language, material.bad_files)
                written.append(
                    write_page(material, shown, figures, output, language, history.name if history else None)
                )
                written += [history] if history else []
            if _FIGURES in formats:
                written.append(_write_figures(material, shown, figures, output, language))
        tables = [each for each in TABLE_FORMATS if each in formats]
        return written + ([write_tables(material, output / "tables", tables)] if tables else [])
    except OSError as error:
        raise cannot_write(output, error) from None


def _write_figures(
    material: Material, shown: Sequence[Group], figures: Mapping[str, DrawnFigure], output: Path, language: str
) -> Path:
    names = file_names(shown, figures)
    drawings = {names[name]: in_language(each.drawing, each.said, language) for name, each in figures.items()}
    legends = legends_of(shown, texts_of(language), material.programs)
    return write_figures(drawings, output / "figures", {names[name]: legends[name] for name in names})


def _of_newest_run(groups: Sequence[Group]) -> list[Group]:
    """Return the groups that the newest run of scenarios has measured; the page shows the older ones too."""
    newest = groups[0].newest.path if groups else None
    return [group for group in groups if any(row.file.path == newest for row in group.rows)]
