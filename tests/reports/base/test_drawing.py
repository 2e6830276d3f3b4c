"""Figures: the contents of their SVG, room for their texts, and figures as files."""

from __future__ import annotations

import io
import itertools
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure as Canvas
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from reusebench.reports.base import drawing_pool
from reusebench.reports.base.drawing import (
    INK,
    Draw,
    Rows,
    bars,
    end_with_room,
    line,
    new_canvas,
    patch,
    svg_of,
    write_labels,
)
from reusebench.reports.base.figure_layout import lay_out
from reusebench.reports.base.paper import PAPERS, WIDE, Paper
from reusebench.reports.base.svg import TextWidthRenderer, write_figures
from reusebench.reports.base.text_width import text_width
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.history.figure import history_figure
from reusebench.reports.material import Material
from reusebench.reports.page.index import start_figures
from reusebench.reports.results.programs import programs_in
from reusebench.reports.sections.programs import programs_figure
from tests.helpers.support import CHECKOUT
from tests.reports.history.history_storage import histories_in
from tests.reports.stored import runs_of
from tests.reports.stored_programs import Repeat, program, trace, write_programs

_SVG = "{http://www.w3.org/2000/svg}"
_LABEL = '内存 1.23456: a; <b> & "c"'


def _figure(paper: Paper = WIDE) -> str:
    canvas = new_canvas(200, paper)
    axes = canvas.add_subplot()
    axes.plot([1, 2, 3], [1.25, 4.5, 2.125], marker="o", color="#0072b2")
    axes.barh(2, 3, left=0.123456, color=INK)
    axes.set_xlabel(_LABEL)
    return svg_of(canvas, [patch("bars", INK), line("points", "#0072b2", marker="o")])


def _texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{_SVG}text")]


def test_text_stays_text_word_for_word() -> None:
    """No word is lost from the SVG, and the legend is part of the figure."""
    assert {_LABEL, "bars", "points"} <= set(_texts(_figure()))


def test_the_page_colour_stands_for_ink() -> None:
    """A figure serves light and dark: it has neither black nor the colour that stands for the
    page's.
    """
    assert INK not in _figure()
    assert "currentColor" in _figure()


def test_nothing_is_left_that_makes_no_difference() -> None:
    """There are no comments, fonts, names of parts or invisible digits: a page has many figures."""
    svg = re.sub(r">[^<]*<", "><", _figure())
    for needless in ("<!--", "metadata", "font-family", "<style", "rotate(-0", "\n", "axes_1"):
        assert needless not in svg
    assert not re.search(r"\.\d\d\d", svg)


def test_figures_of_a_page_share_no_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clips and marks are found; figures of the same data have different ids, in both widths."""
    keys = [("en", name) for name in ("one", "other")]
    monkeypatch.setattr(drawing_pool, "_jobs", dict.fromkeys(keys, _figure))
    svgs = [drawing_pool._draw(key, paper) or "" for key in keys for paper in PAPERS]
    ids = [set(re.findall(r' id="([^"]+)"', svg)) for svg in svgs]
    for names, svg in zip(ids, svgs):
        assert names == set(re.findall(r'(?:url\(|href=")#([^")]+)', svg)) != set()
    assert len(set().union(*ids)) == sum(map(len, ids))


#: A program that draws and prints two figures, and one with nothing to draw.
_DRAW = """
from reusebench.reports.base.drawing_pool import finished, start_drawing
names = {"one": "<svg>1</svg>", "other": "<svg>2</svg>", "nothing": None}
jobs = {("en", name): lambda _, svg=svg: svg for name, svg in names.items()}
print(finished(start_drawing(jobs), "en"))
"""


@pytest.mark.process
def test_a_machine_without_shared_memory() -> None:
    """Without /dev/shm, in which processes have their locks, the figures are drawn all the same."""
    here = [sys.executable, "-c", _DRAW]
    in_namespace = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs none /dev && exec "$@"', "sh"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*in_namespace, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this machine lets nobody mount a file system in a namespace")
    drawn = [
        subprocess.run(
            [*command, *here], cwd=CHECKOUT, capture_output=True, text=True, check=True
        ).stdout
        for command in ([], in_namespace)
    ]
    assert drawn == ["{'one': '<svg>1</svg>', 'other': '<svg>2</svg>'}\n"] * 2


def test_a_long_line_is_as_long_as_the_eye_can_see() -> None:
    """Five times the points of a noisy line do not double its SVG, which still has its one peak."""

    def svg_with(count: int) -> str:
        values = [random.Random(index).random() for index in range(count)]
        values[count // 3] = 50.0
        canvas = new_canvas(200)
        axes = canvas.add_subplot()
        axes.plot([index / count for index in range(count)], values, color="#0072b2")
        axes.set_axis_off()
        return svg_of(canvas)

    few = svg_with(8_000)
    many = svg_with(40_000)
    assert len(many) < 2 * len(few)
    for svg in (few, many):
        (path,) = re.findall(r' d="([^"]+)" [^>]*#0072b2', svg)
        heights = [float(y) for y in path.strip("M").replace("L", " ").split()[1::2]]
        assert max(heights) - min(heights) > 140


def test_a_bar_lies_around_the_middle_of_its_row() -> None:
    """It begins at its start, has its length, and its height is centred on the middle."""
    axes = new_canvas(200).add_subplot()
    bars(axes, [(1, 2, 10)], 4)
    box = axes.collections[0].get_datalim(axes.transData)
    assert (box.x0, box.x1, box.y0, box.y1) == (1, 3, 8, 12)


# The space around texts


def crowded(canvas: Canvas) -> Iterator[str]:
    """Yield texts that an edge cuts, and pairs that overlap by more than a pixel both ways."""
    width, height = canvas.get_size_inches() * 72
    renderer: Any = TextWidthRenderer(width, height, io.StringIO())  # type: ignore[no-untyped-call]
    boxes = []
    beyond = set(_beyond_the_ends(canvas))
    for text in canvas.findobj(Text):
        if text.get_visible() and text.get_text().strip() and text not in beyond:
            boxes.append((text.get_text(), text.get_window_extent(renderer)))
    for name, box in boxes:
        if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1:
            yield f"{name} is cut"
    for (one, left), (other, right) in itertools.combinations(boxes, 2):
        wide = min(left.x1, right.x1) - max(left.x0, right.x0)
        high = min(left.y1, right.y1) - max(left.y0, right.y0)
        if wide > 1 and high > 1:
            yield f"{one} / {other}"


def _beyond_the_ends(canvas: Canvas) -> Iterator[Any]:
    """Yield the labels of ticks outside their axis, which are not drawn."""
    for axes in canvas.axes:
        for index, axis in enumerate((axes.xaxis, axes.yaxis)):
            low, high = sorted(axis.get_view_interval())
            for label in axis.get_ticklabels():
                if not low <= label.get_position()[index] <= high:
                    yield label


@pytest.fixture
def canvases(monkeypatch: pytest.MonkeyPatch) -> list[Canvas]:
    """Return a list to which every figure that is drawn is added."""
    drawn: list[Canvas] = []

    def lay_out_and_keep(canvas: Canvas, *legend: Any) -> None:
        lay_out(canvas, *legend)
        drawn.append(canvas)

    monkeypatch.setattr("reusebench.reports.base.drawing.lay_out", lay_out_and_keep)
    return drawn


def _jobs(material: Material, monkeypatch: pytest.MonkeyPatch) -> Mapping[Any, Draw]:
    """Return a function to draw each figure of the page in each language."""
    jobs: dict[Any, Draw] = {}
    monkeypatch.setattr(
        "reusebench.reports.page.index.start_drawing", lambda drawn, _: jobs.update(drawn)
    )
    start_figures(material, LANGUAGES)
    return jobs


def _overlapping(canvas: Canvas) -> Iterator[tuple[Bbox, Bbox]]:
    """Yield every pair of bars that overlap."""
    for axes in canvas.axes:
        collections = [artist for artist in axes.collections if isinstance(artist, PolyCollection)]
        bars = [path.get_extents() for collection in collections for path in collection.get_paths()]
        if not bars:
            continue
        # The ends of each bar in each direction.
        low = np.array([bar.min for bar in bars])
        high = np.array([bar.max for bar in bars])
        common = np.minimum(high[:, None], high) - np.maximum(low[:, None], low)
        visible = (1e-6 * axes.viewLim.width, 1e-6 * abs(axes.viewLim.height))
        for one, other in np.argwhere((common > visible).all(axis=2)):
            if one < other:
                yield bars[one], bars[other]


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_figure_can_be_read(
    material: Material,
    canvases: list[Canvas],
    monkeypatch: pytest.MonkeyPatch,
    language: str,
    paper: Paper,
) -> None:
    """No text or bar of the page's figures overlaps another one or an edge; all figures have
    legends.
    """
    names = []
    for (figure_language, name), draw in _jobs(material, monkeypatch).items():
        if figure_language == language and draw(paper):
            names.append(name)
            assert list(crowded(canvases[-1])) == [], name
            assert list(_overlapping(canvases[-1])) == [], name
            assert canvases[-1].legends, name
    kinds = {name.rpartition("-")[2] for name in names}
    assert kinds >= {
        "layouts",
        "savings",
        "programs",
        "timeline",
        "contexts",
        "npu_contexts",
        "speed",
        "copies",
        "explanation",
    }
    assert kinds >= {
        "streams_1_memory",
        "streams_1_over_time",
        "streams_1_latency",
        "streams_1_explanation",
    }


def test_texts_of_programs_and_histories_have_room(tmp_path: Path, canvases: list[Canvas]) -> None:
    """Many programs with many phases and long names, and series of many runs, have room."""
    for number in range(7):
        path = trace(
            tmp_path,
            f"trace-{number}",
            [f"phase {index}" for index in range(3 * number + 1)],
            npu=True,
        )
        name = f"a program whose name is far too long for the title of a figure {number}"
        write_programs(tmp_path, [program(name, [Repeat({"run": 5}, path)])], number + 1)
    histories = histories_in(tmp_path / "history", 24, 4)
    assert any(history.changes for history in histories)
    for language, paper in itertools.product(LANGUAGES, PAPERS):
        texts = texts_of(language)
        assert programs_figure(programs_in(runs_of(tmp_path)), texts, paper)
        assert history_figure(histories[:2], texts, paper)
    for canvas in canvases:
        assert list(crowded(canvas)) == []


@pytest.mark.parametrize("paper", PAPERS)
def test_names_and_numbers_of_bars_have_room(canvases: list[Canvas], paper: Paper) -> None:
    """Names above the bars of narrow paper have lines; the number of the longest bar is whole."""
    rows = Rows(paper)
    name = "a scenario with a name that is far longer than narrow paper is wide, 又有中文"
    labels = []
    for end in (3.0, 23456.8):
        middle = rows.add(name[: 30 if paper.has_names_at_left else None], 20) + 10
        labels.append((f"{end:,} measured", end, middle))
    canvas = new_canvas(rows.end_px + 50, paper)
    axes = canvas.add_subplot()
    bars(axes, [(0, end, middle) for _, end, middle in labels], 12)
    write_labels(axes, labels)
    rows.draw_names(axes)
    axes.set_xlim(0, end_with_room(labels, rows.panel_px))
    svg_of(canvas, [patch(name, INK), patch(name + name, INK)])
    assert canvases == [canvas]
    assert list(crowded(canvas)) == []


def test_a_crowd_is_seen() -> None:
    """Two texts in one place are found, and so is one beyond the edge."""
    canvas = Canvas(figsize=(3, 2), dpi=72)
    for _ in range(2):
        canvas.text(0.5, 0.5, "here")
    canvas.text(0.98, 0.1, "cut off")
    assert list(crowded(canvas)) == ["cut off is cut", "here / here"]


@pytest.mark.parametrize("text", ["内存与上下文, MiB", "NPU memory, MiB", "1,234.5 ±0.1"])
def test_chinese_characters_are_as_wide_as_high(text: str) -> None:
    """Matplotlib's font has no Chinese; others are at least as wide as in their own font."""
    wide = sum(character > "\u2e80" for character in text)
    assert text_width(text, 10) >= 10 * wide + 4 * (len(text) - wide)
    assert text_width(text, 20) == pytest.approx(2 * text_width(text, 10))


# Figures as files


def _file(folder: Path, name: str = "g0-bars") -> ElementTree.Element:
    return ElementTree.fromstring(
        (write_figures({name: _figure()}, folder) / f"{name}.svg").read_text("utf-8")
    )


def test_a_file_is_whole_by_itself(tmp_path: Path) -> None:
    """It has its size in pixels, white paper, its words, fonts with Chinese glyphs, and its own
    colours.
    """
    root = _file(tmp_path)
    assert root.tag == f"{_SVG}svg"
    assert root.get("width") == str(WIDE.width_px)
    assert (root[0].tag, root[0].get("fill")) == (f"{_SVG}rect", "#ffffff")
    assert _LABEL in [element.text for element in root.iter(f"{_SVG}text")]
    assert "CJK" in (root.get("font-family") or "")
    text = (tmp_path / "g0-bars.svg").read_text(encoding="utf-8")
    assert "currentColor" not in text
    assert set(re.findall(r"https?://[^\"]+", text)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_names_of_files_are_safe_everywhere(tmp_path: Path) -> None:
    """A file's name has only letters, digits, dots, dashes and underscores, whatever the figure is
    called.
    """
    folder = write_figures({"../G1 Memory/时间: NPU": _figure()}, tmp_path / "figures")
    (path,) = folder.iterdir()
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*\.svg", path.name)
    assert list(tmp_path.iterdir()) == [folder]
