"""Figures as files: each can be opened by itself."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from reports.base.drawing import INK, Canvas, Drawing, drawing
from reports.base.figure_files import write_figures
from reports.base.texts import LANGUAGES, texts_of
from reports.page.figures import figures_of
from reports.page.legends import legends_of
from tests.reports.stored import even, groups_of, result, write_run

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


def test_a_file_says_what_its_colours_mean(tmp_path: Path) -> None:
    """The legend stands below the figure, in as many lines as it needs, and no two entries overlap."""
    legend = [(f"A <long> name, number {number}" + "中文" * number, "#0072b2", "*") for number in range(9)]
    write_figures({"bars": _figure()}, tmp_path, {"bars": legend})
    root = ElementTree.fromstring((tmp_path / "bars.svg").read_text(encoding="utf-8"))
    found = {element.text: element for element in root.iter(f"{_SVG}text") if float(element.get("y") or 0) > 200}
    places = [(float(found[name].get("y") or 0), float(found[name].get("x") or 0)) for name, _, _ in legend]
    assert places == sorted(places)
    assert len({base for base, _ in places}) > 1
    assert all(base < float(root.get("height") or 0) for base, _ in places)
    for (base, left), (name, _, _), (next_base, next_left) in zip(places, legend, places[1:]):
        assert base < next_base or left + 7 * len(name) < next_left


def test_every_figure_has_its_legend(tmp_path: Path) -> None:
    """Whatever figures a report has, what their colours mean is known, in both languages."""
    names = ("no_reuse", "partial_dup", "no_reuse_one_model", "full_dup", "copied_io", "zero_copy_io", "plain", "lean")
    write_run(tmp_path, [result(tmp_path, name, even(3, spread=0.1)) for name in names])
    groups = groups_of(tmp_path)
    for language in LANGUAGES:
        legends = legends_of(groups, texts_of(language))
        for name in figures_of(groups):
            assert legends[name], name
            assert all(text and colour.startswith("#") and mark for text, colour, mark in legends[name])
