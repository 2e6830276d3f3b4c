"""The page: one self-contained HTML file in every language, made from the material and its figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import jinja2
from markupsafe import Markup

from reports.comparison import Group
from reports.drawing import unique_ids
from reports.languages import every_language, with_every_language
from reports.material import Material
from reports.messages import said
from reports.page_figures import DrawnFigure
from reports.sections import page_data
from reports.texts import LANGUAGES, texts_of

__all__ = ["PAGE", "write_page"]

#: The page's name inside the report's folder.
PAGE = "index.html"
_TEMPLATES = Path(__file__).parent / "templates"


def write_page(
    material: Material, shown: Sequence[Group], figures: Mapping[str, DrawnFigure], folder: Path, language: str
) -> Path:
    """Write the page into the folder, that language shown first, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PAGE
    path.write_text(_render(material, shown, figures, language), encoding="utf-8")
    return path


def _render(material: Material, shown: Sequence[Group], figures: Mapping[str, DrawnFigure], language: str) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("page.html.j2").render(
        t=lambda key: every_language(lambda texts: texts(key)),
        language=language,
        languages=[(each, texts_of(each)("language_name"), texts_of(each)("title")) for each in LANGUAGES],
        figures={name: _inline(f"f{number}", each) for number, (name, each) in enumerate(figures.items())},
        bad_files=every_language(lambda texts: [said(str(each), texts) for each in material.bad_files]),
        left_out=len(material.groups) - len(shown),
        unique=_numbered(),
        style=_read("style.css"),
        script=_read("page.js"),
        **every_language(partial(page_data, material, shown)),
    )


def _numbered() -> Callable[[str], str]:
    """Return what gives another id at each call."""
    numbers = count(1)
    return lambda name: f"{name}-{next(numbers)}"


def _inline(prefix: str, figure: DrawnFigure) -> dict[str, Markup]:
    drawing = with_every_language(figure.drawing, figure.said)
    return {width: Markup(unique_ids(svg, prefix + width[0])) for width, svg in dataclasses.asdict(drawing).items()}


def _read(name: str) -> Markup:
    return Markup((_TEMPLATES / name).read_text(encoding="utf-8"))
