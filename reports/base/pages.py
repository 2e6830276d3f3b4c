"""The rendering of a page: a self-contained HTML file in one language, with its figures inside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from reusebench.reports.base.anchors import Anchors
from reusebench.reports.base.drawing_pool import Figures, finished
from reusebench.reports.base.paper import NARROW
from reusebench.reports.base.terms import Term, Terms
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.system.files import replacing

#: The folder of exported tables, beside the page that links to them.
TABLES_FOLDER = "tables"
_TEMPLATES = Path(__file__).parent.parent / "templates"
_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_TEMPLATES),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def page_name(stem: str, language: str, first: str) -> str:
    """Return the file name of a page in a language; the first language has the plain name."""
    if language == first:
        return f"{stem}.html"
    return f"{stem}.{language}.html"


def write_page(
    folder: Path,
    stem: str,
    language: str,
    first: str,
    title: str,
    figures: Figures,
    groups_in_ids: Mapping[str, str],
    table_format: str | None = None,
    page_terms: Mapping[str, Term] | None = None,
    **values: Any,
) -> Path:
    """Write the page from its template into the folder, and return its path.

    It links to the same page in the other languages. The title is a key of the texts; `figures` are
    being drawn. `groups_in_ids` has a name of each group, and `table_format` the ending of the
    exported tables beside the page, if there are any. `page_terms` has its terms by title.
    """
    others = [other for other in LANGUAGES if other != language]
    html = _ENVIRONMENT.get_template(f"{stem}.html.j2").render(
        t=texts_of(language),
        title=title,
        language=language,
        others=[
            (other, texts_of(other)("language_name"), page_name(stem, other, first))
            for other in others
        ],
        figures={name: Markup(svg) for name, svg in finished(figures, language).items()},
        narrow={name: Markup(svg) for name, svg in finished(figures, language, NARROW).items()},
        anchors=Anchors(groups_in_ids),
        terms=Terms(page_terms or {}),
        tables_folder=TABLES_FOLDER,
        table_format=table_format,
        style=_read("style.css"),
        script=_read("page.js"),
        **values,
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / page_name(stem, language, first)
    with replacing(path) as unfinished:
        unfinished.write_text(html, encoding="utf-8")
    return path


def _read(name: str) -> Markup:
    return Markup((_TEMPLATES / name).read_text(encoding="utf-8"))
