from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.markers import MarkerStyle

from reusebench.reports.material import MOST_SHOWN
from reusebench.reports.results.colours import (
    COMPONENT_COLOURS,
    OTHER_COLOUR,
    PALETTE,
    group_look,
    scenario_colour,
)
from reusebench.scenarios.catalogue import LEAN, QUESTIONS, scenarios_of


def test_colours_of_a_figure_are_distinct() -> None:
    """Within a question, within dup and lean together, and among components, each has its own
    colour.
    """
    shown_together = [scenarios_of(question) for question in QUESTIONS]
    for names in (*shown_together, scenarios_of("dup") + scenarios_of(LEAN)):
        colours = [OTHER_COLOUR, *map(scenario_colour, names)]
        assert len(set(colours)) == len(colours)
    assert len(set(COMPONENT_COLOURS.values())) == len(COMPONENT_COLOURS)


def test_a_layout_has_one_colour_on_the_whole_page() -> None:
    """Full dup of streams, and at the limit, has the colour of full dup."""
    for prefix in ("streams", "limit"):
        for layout in ("no_reuse", "full_dup"):
            assert scenario_colour(f"{prefix}_{layout}") == scenario_colour(layout)


def test_variants_differ_from_their_scenario() -> None:
    """The shades of one colour are at least a tenth of the lightness apart."""
    for scenario in ("copied_io", "native_io", "device_io"):
        names = [scenario, f"{scenario}_1080p", f"{scenario}_4k"]
        lights = sorted(lab(linear(scenario_colour(name)))[0] for name in names)
        assert min(after - before for before, after in zip(lights, lights[1:])) > 4


#: Linear RGB as seen by eyes that lack one kind of cones (Machado, Oliveira and Fernandes 2009,
#: severity 1.0).
_EYES = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "no green": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "no blue": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}
_TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
_WHITE = (0.9505, 1.0, 1.089)


def linear(colour: str) -> np.ndarray:
    parts = np.array(to_rgb(colour))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(seen: np.ndarray) -> np.ndarray:
    """Return CIE L*a*b* of linear RGB."""
    x, y, z = np.cbrt(np.maximum(_TO_XYZ @ np.clip(seen, 0, 1), 0) / _WHITE)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("eyes", _EYES)
def test_colours_of_groups_are_told_apart(eyes: str) -> None:
    """All eyes see a difference of at least 10, which is plain, between any two groups."""
    seen = [lab(_EYES[eyes] @ linear(group_look(number)["color"])) for number in range(12)]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) > 10


def test_marks_of_groups_are_told_apart_without_colour() -> None:
    """Each of twelve groups has a shape of its own; no page has more groups."""
    shapes = set()
    for number in range(12):
        style = MarkerStyle(group_look(number)["marker"])
        corners = np.array(style.get_path().vertices)
        turned = style.get_transform().transform(corners)
        shapes.add(tuple(map(tuple, turned.round(2).tolist())))
    assert len(shapes) == 12 >= MOST_SHOWN


@pytest.mark.parametrize("paper", ["#ffffff", "#15181c"])
def test_colours_read_on_both_papers(paper: str) -> None:
    """A contrast of 3 at least, on the light page and on the dark one, also of variants."""
    names = [name for question in QUESTIONS for name in scenarios_of(question)]
    colours = (*PALETTE, OTHER_COLOUR, *map(scenario_colour, names), paper)
    lights = [float(_TO_XYZ[1] @ linear(colour)) for colour in colours]
    for light in lights[:-1]:
        assert (max(light, lights[-1]) + 0.05) / (min(light, lights[-1]) + 0.05) > 3
