"""The figures as files: SVG that any viewer opens, each for itself, with its legend."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from reports.base.drawing import Drawing

#: A page has a text colour, a background and fonts of its own; a file needs them, fonts with Chinese glyphs among them.
_INK, _PAPER = "#1a1a1a", "#ffffff"
_FONTS = "'DejaVu Sans', Verdana, Arial, 'Noto Sans CJK SC', 'Source Han Sans SC', 'Microsoft YaHei', sans-serif"
_UNSAFE = re.compile(r"[^a-z0-9._-]+")
_START = re.compile(r'width="([\d.]+)pt" height="([\d.]+)pt" viewBox="[^"]*"')
#: Pixels of the legend below the figure: a line, from one entry to the next, a mark, and a letter or Chinese character.
_LINE, _GAP, _MARK, _LETTER, _WIDE_LETTER = 20, 18, 16, 7.5, 12


def write_figures(
    drawings: Mapping[str, Drawing], folder: Path, legends: Mapping[str, Sequence[tuple[str, str, str]]] | None = None
) -> Path:
    """Write the wide form of each figure as NAME.svg into the folder, and return the folder.

    A legend is a list of what is meant, the colour, and the mark that is drawn in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in drawings.items():
        file_name = _UNSAFE.sub("-", name.lower()).strip("-.")
        svg = _file(drawing.wide, (legends or {}).get(name, ()))
        (folder / f"{file_name}.svg").write_text(svg, encoding="utf-8")
    return folder


def _file(svg: str, legend: Sequence[tuple[str, str, str]]) -> str:
    """Return an element of a page as a file of its own, in pixels."""
    start, end, rest = svg.partition(">")
    width, height = (float(size) for size in _START.findall(start)[0])
    places = list(_places([_width(name) for name, _, _ in legend], width))
    whole = height + (_LINE * (places[-1][1] + 1.5) if places else 0)
    start = _START.sub(f'width="{width:g}" height="{whole:g}" viewBox="0 0 {width:g} {whole:g}"', start)
    paper = f'<rect width="100%" height="100%" fill="{_PAPER}"/>'
    entries = "".join(_entry(left, height + _LINE * (line + 1), *each) for (left, line), each in zip(places, legend))
    drawn = f'{start} font-family="{_FONTS}"{end}{paper}{rest.replace("</svg>", entries + "</svg>")}\n'
    return f'<?xml version="1.0" encoding="utf-8"?>\n{drawn.replace("currentColor", _INK)}'


def _places(widths: Sequence[float], whole: float) -> Iterator[tuple[float, int]]:
    """Yield the left pixel and the line of entries of these widths, as many in a line as there is room for."""
    left, line = float(_GAP), 0
    for width in widths:
        if left + width > whole and left > _GAP:
            left, line = float(_GAP), line + 1
        yield left, line
        left += width + _GAP


def _width(name: str) -> float:
    """Return at least how many pixels an entry takes."""
    return _MARK + sum(_WIDE_LETTER if unicodedata.east_asian_width(letter) in "WF" else _LETTER for letter in name)


def _entry(left: float, base: float, name: str, colour: str, mark: str) -> str:
    drawn = f'<text x="{left:g}" y="{base:g}" fill="{colour}">{mark}</text>'
    return f'{drawn}<text x="{left + _MARK:g}" y="{base:g}">{escape(name)}</text>'
