"""The figures as files: SVG that any viewer opens, each for itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from reports.drawing import Drawing

__all__ = ["write_figures"]

#: A page has a text colour, a background and fonts of its own; a file needs them, fonts with Chinese glyphs among them.
_INK, _PAPER = "#1a1a1a", "#ffffff"
_FONTS = "'DejaVu Sans', Verdana, Arial, 'Noto Sans CJK SC', 'Source Han Sans SC', 'Microsoft YaHei', sans-serif"
_UNSAFE = re.compile(r"[^a-z0-9._-]+")


def write_figures(drawings: Mapping[str, Drawing], folder: Path) -> Path:
    """Write the wide form of each figure as NAME.svg into the folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in drawings.items():
        file_name = _UNSAFE.sub("-", name.lower()).strip("-.")
        (folder / f"{file_name}.svg").write_text(_file(drawing.wide), encoding="utf-8")
    return folder


def _file(svg: str) -> str:
    """Return an element of a page as a file of its own, in pixels."""
    start, end, rest = svg.partition(">")
    start = re.sub(r'((?:width|height)="[\d.]+)pt"', r'\1"', start)
    paper = f'<rect width="100%" height="100%" fill="{_PAPER}"/>'
    drawn = f'{start} font-family="{_FONTS}"{end}{paper}{rest}\n'.replace("currentColor", _INK)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{drawn}'
