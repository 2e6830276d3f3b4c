"""Figures of stored runs: which there are, and whether their texts keep apart, by the figures' own boxes of text."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from reports.base import drawing
from reports.base.drawing import Canvas
from reports.base.texts import LANGUAGES, texts_of
from reports.page import figures as page_figures
from reports.page.figures import figures_of
from reports.page.legends import legends_of
from reports.page.material import read_material, to_be_shown
from tests.reports.stored import full_run, npu_run


def stored_cpu(storage: Path) -> None:
    full_run(storage)


def stored_npu(storage: Path) -> None:
    npu_run(storage, computes=True)


def overlaps(canvas: Canvas) -> Iterator[str]:
    """Yield the pairs of texts whose boxes share more than a pixel in both directions."""
    agg: Any = FigureCanvasAgg(canvas)
    # Labels of axes find their places when they are drawn.
    agg.draw()
    renderer = agg.get_renderer()
    beyond = set(_beyond_the_ends(canvas))
    shown = [each for each in canvas.findobj(Text) if each.get_visible() and each.get_text().strip()]
    shown = [each for each in shown if each not in beyond]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in shown]
    for (one, left), (other, right) in itertools.combinations(boxes, 2):
        wide = min(left.x1, right.x1) - max(left.x0, right.x0)
        high = min(left.y1, right.y1) - max(left.y0, right.y0)
        if wide > 1 and high > 1:
            yield f"{one} / {other}"


def _beyond_the_ends(canvas: Canvas) -> Iterator[Text]:
    """Yield the labels of ticks that lie outside their axis, which are not drawn."""
    for axis, place in ((axis, place) for axes in canvas.axes for place, axis in enumerate((axes.xaxis, axes.yaxis))):
        low, high = sorted(axis.get_view_interval())
        yield from (each for each in axis.get_ticklabels() if not low <= each.get_position()[place] <= high)


@pytest.mark.parametrize("stored", [stored_cpu, stored_npu])
@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_of_figures_keep_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: Callable[[Path], None], language: str
) -> None:
    """In no figure, in neither width, does one text lie on another."""
    stored(tmp_path)
    found: list[str] = []
    lay_out = drawing._lay_out

    def lay_out_and_look(canvas: Canvas) -> None:
        lay_out(canvas)
        found.extend(overlaps(canvas))

    monkeypatch.setattr(drawing, "_lay_out", lay_out_and_look)
    group = to_be_shown(read_material([tmp_path], None).groups)[0]
    drawn = [draw(texts_of(language)) for draw in page_figures._of_group(group).values()]
    assert len([each for each in drawn if each]) >= 4
    assert found == []


def test_the_look_finds_an_overlap() -> None:
    """Two texts in one place are found."""
    canvas = Canvas(figsize=(3, 2), dpi=72)
    canvas.add_subplot().set_axis_off()
    for _ in range(2):
        canvas.text(0.5, 0.5, "here")
    assert list(overlaps(canvas)) == ["here / here"]


@pytest.mark.parametrize("stored", [stored_cpu, stored_npu])
def test_every_figure_has_its_legend(tmp_path: Path, stored: Callable[[Path], None]) -> None:
    """What colours mean is said for each figure that there is, in the page and in its file."""
    stored(tmp_path)
    shown = to_be_shown(read_material([tmp_path], None).groups)
    legends = legends_of(shown, texts_of("en"))
    for name in figures_of(shown):
        assert legends[name], name
