"""How a page is made from its template: one self-contained HTML file in every language, with its figures inside."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from reports.base.drawing import unique_ids
from reports.base.drawing_pool import DrawnFigure
from reports.base.languages import every_language, with_every_language
from reports.base.texts import LANGUAGES, texts_of

_TEMPLATES = Path(__file__).parent.parent / "templates"


def write_html(
    path: Path, template: str, title: str, language: str, figures: Mapping[str, DrawnFigure], **values: Any
) -> Path:
    """Write the page whose title has this key, that language shown first, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    html = environment.get_template(template).render(
        t=lambda key: every_language(lambda texts: texts(key)),
        title=title,
        language=language,
        languages=[(each, texts_of(each)("language_name"), texts_of(each)(title)) for each in LANGUAGES],
        figures={name: _inline(f"f{number}", each) for number, (name, each) in enumerate(figures.items())},
        unique=_numbered(),
        style=_read("style.css"),
        script=_read("page.js"),
        **values,
    )
    path.write_text(html, encoding="utf-8")
    return path


def _numbered() -> Callable[[str], str]:
    """Return what gives another id at each call."""
    numbers = count(1)
    return lambda name: f"{name}-{next(numbers)}"


def _inline(prefix: str, figure: DrawnFigure) -> dict[str, Markup]:
    drawing = with_every_language(figure.drawing, figure.said)
    return {width: Markup(unique_ids(svg, prefix + width[0])) for width, svg in dataclasses.asdict(drawing).items()}


def _read(name: str) -> Markup:
    return Markup((_TEMPLATES / name).read_text(encoding="utf-8"))
