"""Figures: what stands in their SVG, and what was taken out of it."""

from __future__ import annotations

import random
import re
from xml.etree import ElementTree

from markupsafe import Markup

from reports.base.drawing import INK, Canvas, drawing, unique_ids

_SVG = "{http://www.w3.org/2000/svg}"


def _draw(canvas: Canvas, narrow: bool) -> None:
    axes = canvas.add_subplot()
    axes.plot([1, 2, 3], [1.25, 4.5, 2.125], marker="o", color="#0072b2")
    axes.barh(2, 3, left=0.123456, color=INK)
    axes.set_title('id="x" : a; <b> & "c"')
    axes.set_xlabel("中文" if narrow else "axis: 1.23456; of 2")


def _texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{_SVG}text")]


def test_text_stays_text_word_for_word() -> None:
    """What makes the SVG small leaves every word as it was."""
    made = drawing(_draw, lambda _: 200)
    assert {'id="x" : a; <b> & "c"', "axis: 1.23456; of 2"} <= set(_texts(made.wide))
    assert "中文" in _texts(made.narrow)


def test_the_page_colour_stands_for_ink() -> None:
    """A figure serves light and dark: black, and the colour that is drawn for the page's, are not in it."""
    made = drawing(_draw, lambda _: 200)
    assert INK not in made.wide
    assert "currentColor" in made.wide


def _ids(svg: str) -> set[str]:
    """Return the ids, after checking that what refers to one finds it."""
    tags = re.sub(r">[^<]*<", "><", svg)
    references = set(re.findall(r'(?:url\(|href=")#([^)"]+)', tags))
    assert references == set(re.findall(r' id="([^"]+)"', tags)) != set()
    return references


def test_every_reference_has_its_id_and_every_id_a_reference() -> None:
    """Clips and markers are found, also when several figures stand in one page, as plain or as safe text."""
    made = drawing(_draw, lambda _: 200)
    alone = _ids(made.wide)
    several = [_ids(unique_ids(svg, f"g0-{name}")) for name, svg in vars(made).items()]
    assert not several[0] & several[1]
    assert not alone & several[0]
    assert unique_ids(Markup(made.wide), "g0-wide") == unique_ids(made.wide, "g0-wide")


def test_nothing_is_said_that_makes_no_difference() -> None:
    """No remarks, fonts, empty groups, or digits that no screen shows: a page has many figures."""
    svg = re.sub(r">[^<]*<", "><", drawing(_draw, lambda _: 200).wide)
    for needless in ("<!--", "metadata", "font-family", "<style", "<g></g>", "rotate(-0", "\n", "<g>"):
        assert needless not in svg
    lines = [value for value in re.findall(r' d="([^"]+)"', svg) if "C" not in value]
    assert not [value for value in lines if re.search(r"\.\d\d", value)]
    assert lines


def test_markers_that_look_the_same_say_it_once() -> None:
    """The style of a line's markers stands at their group."""
    svg = drawing(_draw, lambda _: 200).wide
    group = re.search(r'<g style="[^"]*#0072b2[^"]*">(?:<use xlink:href="#\w+" x="[^"]+" y="[^"]+"/>){3}</g>', svg)
    assert group is not None


def test_a_long_line_is_as_long_as_the_eye_can_see() -> None:
    """Five times the points of a noisy line do not double it, and its one high peak is still drawn."""

    def svg_of(count: int) -> str:
        values = [random.Random(place).random() for place in range(count)]
        values[count // 3] = 50.0

        def draw(canvas: Canvas, _: bool) -> None:
            axes = canvas.add_subplot()
            axes.plot([place / count for place in range(count)], values, color="#0072b2")
            axes.set_axis_off()

        return drawing(draw, lambda _: 200).wide

    few, many = svg_of(8_000), svg_of(40_000)
    assert len(many) < 2 * len(few)
    for svg in (few, many):
        (line,) = (path for path in re.findall(r' d="([^"]+)" [^>]*#0072b2', svg))
        heights = [float(y) for y in re.findall(r"[\d.]+ ([\d.]+)", line.lstrip("M"))]
        assert max(heights) - min(heights) > 150
