"""The page: one self-contained HTML file in every language, made from the material and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from reports.base.drawing_pool import DrawnFigure
from reports.base.languages import every_language
from reports.base.messages import in_words
from reports.base.pages import write_html
from reports.page.content import page_data
from reports.page.material import Material
from reports.results.rows import Group

#: The page's name inside the report's folder.
PAGE = "index.html"


def write_page(
    material: Material,
    shown: Sequence[Group],
    figures: Mapping[str, DrawnFigure],
    folder: Path,
    language: str,
    history: str | None = None,
) -> Path:
    """Write the page into the folder, that language shown first, and return its path.

    Where there is a page of the history beside it, it is named, and the page links to it.
    """
    return write_html(
        folder / PAGE,
        "page.html.j2",
        "title",
        language,
        figures,
        bad_files=every_language(lambda texts: [in_words(file.message, texts) for file in material.bad_files]),
        left_out=len(material.groups) - len(shown),
        history=history,
        **every_language(partial(page_data, material, shown)),
    )
