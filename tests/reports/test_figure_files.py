"""Figures as files: each can be opened by itself."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from reports.drawing import INK, Canvas, Drawing, drawing
from reports.figure_files import write_figures

_SVG = "{http://www.w3.org/2000/svg}"


def _figure() -> Drawing:
    def draw(canvas: Canvas, _: bool) -> None:
        axes = canvas.add_subplot()
        axes.plot([1, 2], [1, 4], marker="o", color=INK)
        axes.set_xlabel("内存 & <memory>")

    return drawing(draw, lambda _: 200)


def _written(folder: Path) -> str:
    write_figures({"g0-bars": _figure()}, folder)
    return (folder / "g0-bars.svg").read_text(encoding="utf-8")


def test_a_file_is_whole_by_itself(tmp_path: Path) -> None:
    """It is well-formed XML with its size in pixels, paper under all, and the figure's words."""
    root = ElementTree.fromstring(_written(tmp_path))
    assert root.tag == f"{_SVG}svg"
    assert (root.get("width"), root.get("height"), root.get("viewBox")) == ("860", "200", "0 0 860 200")
    assert (root[0].tag, root[0].get("fill")) == (f"{_SVG}rect", "#ffffff")
    assert "内存 & <memory>" in [element.text for element in root.iter(f"{_SVG}text")]


def test_a_file_has_its_own_colours_and_fonts(tmp_path: Path) -> None:
    """Nothing is taken from a page, and Chinese has a font that has its glyphs."""
    svg = _written(tmp_path)
    assert "currentColor" not in svg
    root = ElementTree.fromstring(svg)
    assert root.get("fill") not in (None, "#ffffff")
    assert "CJK" in (root.get("font-family") or "")


def test_a_file_refers_to_nothing_outside(tmp_path: Path) -> None:
    """Every reference is to an id of the file itself, and no address is in it but those of the namespaces."""
    svg = _written(tmp_path)
    references = re.findall(r'(?:url\(|href=")([^)"]+)', svg)
    assert {f"#{name}" for name in re.findall(r' id="([^"]+)"', svg)} == set(references) != set()
    assert set(re.findall(r"https?://[^\"]+", svg)) == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_names_of_files_are_safe_everywhere(tmp_path: Path) -> None:
    """Whatever a figure is called, its file's name has letters, digits, dots, dashes and underscores alone."""
    folder = write_figures({"../G1 Memory/时间: NPU": _figure()}, tmp_path / "figures")
    (path,) = folder.iterdir()
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*\.svg", path.name)
    assert list(tmp_path.iterdir()) == [folder]
