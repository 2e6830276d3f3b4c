"""SVG of figures: small elements to stand inside a page, and files of their own."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.font_manager import FontProperties

from reusebench.reports.base.text_width import FONT_PX, text_width
from reusebench.system.files import replacing

__all__ = ["TextWidthRenderer", "element_of", "write_figures"]

#: Parts of matplotlib's SVG that a page does not need: comments, and styles for the whole page.
_NEEDLESS = re.compile(
    r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>|<defs>\s*</defs>|\s*\n",
    re.DOTALL,
)
#: Parts of tags that a page does not need: generated ids and defaults.
_NEEDLESS_IN_TAGS = re.compile(
    r' id="[\w.]+_\d+"| transform="rotate\(-0 [^)]*\)"'
    r'|font-size: 12px; |font-family: [^;"]*; |text-anchor: start; |; fill: currentColor(?=")'
    r'| xmlns:xlink="[^"]*"|(?<= )xlink:(?=href)'
)
_TAG = re.compile("<[^>]*>")
_PLACE = re.compile(' (?:d|x|y|width|height|transform)="[^"]*"')
#: Digits that no screen shows.
_DIGITS = re.compile(r"(?<=\.\d)\d+")
_GROUP = re.compile("<g[^>]*>|</g>")
#: Lines of equal look that follow each other.
_LINES = re.compile(r'(<path d="[^"]*"([^>]*fill: none[^>]*)/>)(?:<path d="[^"]*"\2/>)+')
#: Marks of equal look, which are alone in a group.
_MARKS = re.compile(r'<g([^>]*)>((?:<use href="#\w+" x="[^"]*" y="[^"]*"( style="[^"]*")/>)+)</g>')
_FILE_FONTS = (
    "'DejaVu Sans', Verdana, Arial, 'Noto Sans CJK SC', 'Source Han Sans SC', 'Microsoft YaHei',"
    " sans-serif"
)


class TextWidthRenderer(RendererSVG):
    """A renderer that knows the width of Chinese characters, and looks up no glyphs for others."""

    def get_text_width_height_descent(
        self,
        s: str,
        prop: FontProperties,
        ismath: object = None,  # noqa: ARG002
    ) -> tuple[float, float, float]:
        """Return the size of a line of text in pixels."""
        size_px = prop.get_size_in_points()
        return text_width(s, size_px), size_px, 0.22 * size_px


def element_of(canvas: Canvas, ink: str) -> str:
    """Return the figure as an SVG element, in which `ink` is the page's text colour."""
    file = io.StringIO()
    width_px, height_px = canvas.get_size_inches() * 72
    metadata = {"Date": None, "Creator": None}
    renderer: Any = TextWidthRenderer(  # type: ignore[no-untyped-call]
        width_px,
        height_px,
        file,
        metadata=metadata,
    )
    canvas.draw(renderer)
    renderer.finalize()
    return _without_needless(file.getvalue().replace(ink, "currentColor"))


def _without_needless(svg: str) -> str:
    """Return the svg element of matplotlib's file, a third as long and looking the same."""
    element = _NEEDLESS.sub(" ", svg[svg.index("<svg") :])
    element = re.sub(">\\s+<", "><", element).strip()
    element = _TAG.sub(lambda tag: _NEEDLESS_IN_TAGS.sub("", tag.group()), element)
    element = _PLACE.sub(lambda place: _DIGITS.sub("", place.group()), element)
    element = _without_plain_groups(element)
    element = _MARKS.sub(_with_one_style, element)
    element = _LINES.sub(_as_one_path, element)
    element = re.sub(' d="([^"]*)"', lambda path: f' d="{_dense(path[1])}"', element)
    element = re.sub(' style="([^"]*)"', lambda style: style.group().replace("; ", ";"), element)
    return element.replace(
        "<svg ",
        f'<svg font-size="{FONT_PX}" fill="currentColor" stroke-linejoin="round" ',
        1,
    )


def _without_plain_groups(element: str) -> str:
    """Leave out the groups that have no look of their own; their members stay."""
    is_kept: list[bool] = []

    def kept(tag: re.Match[str]) -> str:
        if tag.group() != "</g>":
            is_kept.append(tag.group() != "<g>")
            return tag.group() if is_kept[-1] else ""
        return tag.group() if is_kept.pop() else ""

    return _GROUP.sub(kept, element)


def _with_one_style(group: re.Match[str]) -> str:
    """Return the marks of a group with their style at the group, if all have the same."""
    look, marks, style = group.groups()
    if len(set(re.findall(' style="[^"]*"', marks))) > 1:
        return group.group()
    return f"<g{look}{style}>{marks.replace(style, '')}</g>"


def _as_one_path(lines: re.Match[str]) -> str:
    """Return lines of equal look as one path."""
    path = "".join(re.findall(' d="([^"]*)"', lines.group()))
    return f'<path d="{path}"{lines[2]}/>'


def _dense(path: str) -> str:
    """Return the commands of a path without spaces, zeros and letters that it can do without."""
    path = re.sub(r"(\d)\.0(?!\d)", r"\1", path)
    path = re.sub(r"\s*([A-Za-z])\s*", r"\1", path)
    return re.sub(
        "(?<=L)[^A-Za-z]+(?:L[^A-Za-z]+)+", lambda lines: lines[0].replace("L", " "), path
    )


def write_figures(figures: Mapping[str, str], folder: Path) -> Path:
    """Write each figure as NAME.svg into the folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in figures.items():
        file_name = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-.")
        with replacing(folder / f"{file_name}.svg") as unfinished:
            unfinished.write_text(_as_file(svg), encoding="utf-8")
    return folder


def _as_file(svg: str) -> str:
    """Return an element as a file, with the colours and fonts that the page would give it."""
    start, end, rest = svg.partition(">")
    start = re.sub(r'width="([\d.]+)pt" height="([\d.]+)pt"', r'width="\1" height="\2"', start)
    paper = '<rect width="100%" height="100%" fill="#ffffff"/>'
    file = f'{start} font-family="{_FILE_FONTS}"{end}{paper}{rest}\n'
    # Older viewers know no other links.
    file = file.replace(" href=", " xlink:href=").replace("currentColor", "#1a1a1a")
    file = file.replace("<svg ", '<svg xmlns:xlink="http://www.w3.org/1999/xlink" ', 1)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{file}'
