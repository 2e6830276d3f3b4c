"""The colours of all figures, the same thing in the same colour everywhere.

The first are those of Okabe and Ito, which colour-blind readers tell apart, in shades that read on
white and on black; the others were chosen to be far from them and from each other, also without red
or green.
"""

from __future__ import annotations

import zlib

from matplotlib.colors import to_hex, to_rgb

from reusebench.accounting.sizes import COMPONENTS
from reusebench.scenarios.catalogue import (
    LEAN,
    QUESTIONS,
    find_scenario,
    name_of_plan,
    scenarios_of,
)

_OF_SCENARIOS = (
    *("#d55e00", "#009e73", "#cc79a7", "#0072b2", "#8811ee"),
    *("#22cc55", "#bb3344", "#8877ee", "#557700", "#aa8800"),
)
#: A variant has its scenario's colour, the first of them nearer to black and the second to white.
_SHADES = ((0.0, 0.35), (1.0, 0.45))


def _colours_of(*questions: str) -> dict[str, str]:
    names = [name for question in questions for name in scenarios_of(question)]
    # Where all are variants of another question's, as those of streams are, each has a colour of
    # its own.
    colours = dict(
        zip([name for name in names if not find_scenario(name).is_variant] or names, _OF_SCENARIOS)
    )
    for scenario, colour in list(colours.items()):
        # Variants are called after their scenario, with their size behind.
        variants = [
            name
            for name in names
            if find_scenario(name).is_variant and name.rpartition("_")[0] == scenario
        ]
        for variant, (end, weight) in zip(variants, _SHADES):
            red, green, blue = (part + (end - part) * weight for part in to_rgb(colour))
            colours[variant] = to_hex((red, green, blue))
    return colours


#: What has no colour of its own.
OTHER_COLOUR = "#808080"
#: Scenarios of LEAN mostly stand beside those of dup.
_SCENARIO_COLOURS = {
    **{name: colour for question in QUESTIONS for name, colour in _colours_of(question).items()},
    **_colours_of("dup", LEAN),
}
COMPONENT_COLOURS = dict(
    zip(COMPONENTS, ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#999999"))
)
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
#: Of the phases that programs mark, in the order in which they come.
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
#: Of runtimes that stand beside each other, in their order.
RUNTIME_COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#d55e00",
    "#56b4e9",
    "#8811ee",
    "#99bb66",
)
#: Of their points, which differ without colour too.
RUNTIME_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: Phases are backgrounds, behind the lines.
PHASE_ALPHA = 0.22


def scenario_colour(name: str) -> str:
    """Return a scenario's colour, which is distinct within its question: no figure shows the
    scenarios of two.

    A user's plan has one that follows from its name; without reuse it is grey.
    """
    if name in _SCENARIO_COLOURS or name_of_plan(name):
        return _SCENARIO_COLOURS.get(name, OTHER_COLOUR)
    return _OF_SCENARIOS[zlib.crc32(name.encode()) % len(_OF_SCENARIOS)]
