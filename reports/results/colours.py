"""The colours and marks of all figures; a thing has the same ones in each.

The colours were found by a search: each has a contrast of 3 to the light page and to the dark one,
and any two differ as much as that allows, also for eyes that lack red, green or blue. The first
four are close to those of Okabe and Ito.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Union

from matplotlib.colors import to_hex, to_rgb

from reusebench.accounting.sizes import COMPONENTS
from reusebench.reports.base.stored_scenario import StoredScenario
from reusebench.scenarios.catalogue import (
    LEAN,
    LIMIT,
    QUESTIONS,
    scenarios_of,
)

#: A mark of matplotlib's, or the corners of a shape.
Marker = Union[str, tuple[tuple[float, float], ...]]
PALETTE = (
    "#0078b4",
    "#d25a00",
    "#00a578",
    "#c378a5",
    "#871eff",
    "#965a2d",
    "#ff1e69",
    "#69694b",
    "#8787f0",
    "#b42d87",
    "#f000c3",
    "#694be1",
)
#: The colour of things that have none of their own.
OTHER_COLOUR = "#808080"
#: The marks of things that are told apart by shape too. Two shapes are not matplotlib's: an
#: hourglass and a flat bar.
MARKERS: tuple[Marker, ...] = (
    "o",
    "s",
    "^",
    "D",
    "v",
    "P",
    "X",
    "*",
    "<",
    ">",
    ((-1, -1), (1, -1), (-1, 1), (1, 1), (-1, -1)),
    ((-1, -0.4), (1, -0.4), (1, 0.4), (-1, 0.4), (-1, -0.4)),
)
#: Sizes of marks whose arms are thin, in pixels; the others have 6.
_SIZES_PX: dict[Marker, float] = {"*": 9, "P": 7.5, "X": 7.5, "<": 7, ">": 7}
#: The dashes of lines that are told apart without colour too.
DASHES = ("-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)))
#: The luminances of the shades of a variant's colour, from the darkest that is legible on the dark
#: page to the lightest that is legible on the light one. A variant has one that its scenario lacks.
_SHADES = (0.132, 0.2, 0.297)


#: Questions whose scenarios have the layouts of other ones.
_OF_SAME_LAYOUTS = ("streams", "leaks", LIMIT)


def _with_luminance(colour: str, luminance: float) -> str:
    """Return the shade of a colour with this relative luminance: mixed with black or white."""
    target = float(luminance > _luminance(to_rgb(colour)))
    low, high = 0.0, 1.0
    for _ in range(20):
        weight = (low + high) / 2
        red, green, blue = (part + (target - part) * weight for part in to_rgb(colour))
        is_beyond = (_luminance((red, green, blue)) > luminance) == bool(target)
        low, high = (low, weight) if is_beyond else (weight, high)
    return to_hex((red, green, blue))


def _luminance(colour: tuple[float, float, float]) -> float:
    """Return the relative luminance of WCAG 2.1."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _colours_of(*questions: str) -> dict[str, str]:
    """Return the colour of each scenario of these questions."""
    names = [name for question in questions for name in scenarios_of(question)]
    variants = [name for name in names if StoredScenario(name).is_variant]
    scenarios = [name for name in names if name not in variants]
    colours = dict(zip(scenarios, PALETTE))

    for scenario, colour in list(colours.items()):
        # A variant is named after its scenario, with the size appended.
        own_variants = [name for name in variants if name.rpartition("_")[0] == scenario]
        own_luminance = _luminance(to_rgb(colour))
        _, *shades = sorted(_SHADES, key=lambda shade: abs(shade - own_luminance))
        for variant, luminance in zip(own_variants, sorted(shades)):
            colours[variant] = _with_luminance(colour, luminance)
    return colours


def _colours_like(known: Mapping[str, str], question: str) -> dict[str, str]:
    """Return the colour of each scenario: that of the same layout, which is the end of its name."""
    names = scenarios_of(question)
    colours = {name: known.get(name.partition("_")[2]) for name in names}
    free = (colour for colour in PALETTE if colour not in colours.values())
    return {name: colour or next(free) for name, colour in colours.items()}


_SCENARIO_COLOURS: dict[str, str] = {}
for _question in QUESTIONS:
    _SCENARIO_COLOURS.update(_colours_of(_question))
# Scenarios of LEAN mostly share a figure with scenarios of dup.
_OF_LAYOUTS = _colours_of("dup", LEAN)
_SCENARIO_COLOURS.update(_OF_LAYOUTS)
for _question in _OF_SAME_LAYOUTS:
    _SCENARIO_COLOURS.update(_colours_like(_OF_LAYOUTS, _question))

#: Components that are not in the order of the palette, and their colours.
_SPECIAL_COLOURS = {"biases": PALETTE[8], "other": OTHER_COLOUR}
_ORDERED = (name for name in COMPONENTS if name not in _SPECIAL_COLOURS)
_COLOURS = {**dict(zip(_ORDERED, PALETTE)), **_SPECIAL_COLOURS}
COMPONENT_COLOURS = {name: _COLOURS[name] for name in COMPONENTS}
PHASE_COLOURS = {
    "imported": "#999999",
    "decoders": "#d55e00",
    "context": "#56b4e9",
    "internal_memory": "#0072b2",
    "first_inference": "#e69f00",
    "steady": "#009e73",
    "cycle": "#8877ee",
    "trimmed": "#f0e442",
    "decoders_closed": "#bb3344",
    "destroy": "#cc79a7",
}
#: Colours of the phases that programs mark, in the order of the phases.
PROGRAM_PHASE_COLOURS = (
    "#56b4e9",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#0072b2",
    "#f0e442",
    "#d55e00",
    "#999999",
)
#: Phases are backgrounds, behind the lines.
PHASE_ALPHA = 0.22


def group_look(number: int) -> dict[str, Any]:
    """Return the colour and the mark of a group of the page, by its position."""
    place = number % len(PALETTE)
    marker = MARKERS[place]
    return {"color": PALETTE[place], "marker": marker, "markersize": _SIZES_PX.get(marker, 6)}


def looks_of(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the colour and the mark of each scenario of a figure; no two have both in common."""
    looks: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        colour = scenario_colour(name)
        first = number % len(MARKERS)
        marks = [*MARKERS[first:], *MARKERS[:first]]
        used = [look["marker"] for look in looks if look["color"] == colour]
        mark = next((mark for mark in marks if mark not in used), marks[0])
        looks.append({"color": colour, "marker": mark})
    return looks


def scenario_colour(name: str) -> str:
    """Return a scenario's colour; no other scenario of its question has it.

    A user's plan has a colour that depends on its name; its baseline is grey.
    """
    if name in _SCENARIO_COLOURS or StoredScenario(name).plan_without_reuse:
        return _SCENARIO_COLOURS.get(name, OTHER_COLOUR)
    return PALETTE[zlib.crc32(name.encode()) % len(PALETTE)]
