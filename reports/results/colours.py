"""The colours of all figures; a thing has the same colour in each.

The first colours are from Okabe and Ito, which colour-blind readers can tell apart, in shades that
are legible on white and on black. The others were chosen to be far from them and from each
other, also without red or green.
"""

from __future__ import annotations

import zlib

from matplotlib.colors import to_hex, to_rgb

from reusebench.accounting.sizes import COMPONENTS
from reusebench.reports.base.stored_scenario import StoredScenario
from reusebench.scenarios.catalogue import (
    LEAN,
    QUESTIONS,
    scenarios_of,
)

_PALETTE = (
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#0072b2",
    "#8811ee",
    "#22cc55",
    "#bb3344",
    "#8877ee",
    "#557700",
    "#aa8800",
)
#: Shades of a variant's colour, which is its scenario's: (target, weight). The first variant is
#: mixed with black and the second with white.
_SHADES = ((0.0, 0.35), (1.0, 0.45))


def _colours_of(*questions: str) -> dict[str, str]:
    """Return the colour of each scenario of these questions."""
    names = [name for question in questions for name in scenarios_of(question)]
    variants = [name for name in names if StoredScenario(name).is_variant]
    # If all are variants of another question's scenarios, as for streams, each has its own colour.
    scenarios = [name for name in names if name not in variants] or names
    colours = dict(zip(scenarios, _PALETTE))

    for scenario, colour in list(colours.items()):
        # A variant is named after its scenario, with the size appended.
        own_variants = [name for name in variants if name.rpartition("_")[0] == scenario]
        for variant, (target, weight) in zip(own_variants, _SHADES):
            red, green, blue = (part + (target - part) * weight for part in to_rgb(colour))
            colours[variant] = to_hex((red, green, blue))
    return colours


#: The colour of things that have none of their own.
OTHER_COLOUR = "#808080"
_SCENARIO_COLOURS: dict[str, str] = {}
for _question in QUESTIONS:
    _SCENARIO_COLOURS.update(_colours_of(_question))
# Scenarios of LEAN mostly share a figure with scenarios of dup.
_SCENARIO_COLOURS.update(_colours_of("dup", LEAN))

COMPONENT_COLOURS = dict(
    zip(
        COMPONENTS,
        (
            "#0072b2",
            "#e69f00",
            "#009e73",
            "#d55e00",
            "#cc79a7",
            "#f0e442",
            "#56b4e9",
            "#999999",
        ),
    )
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
#: Colours of runtimes that are compared, in their order.
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
#: Markers of the same runtimes, so that points differ without colour too.
RUNTIME_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: Phases are backgrounds, behind the lines.
PHASE_ALPHA = 0.22


def scenario_colour(name: str) -> str:
    """Return a scenario's colour; no other scenario of its question has it.

    A user's plan has a colour that depends on its name; its baseline is grey.
    """
    if name in _SCENARIO_COLOURS or StoredScenario(name).plan_without_reuse:
        return _SCENARIO_COLOURS.get(name, OTHER_COLOUR)
    return _PALETTE[zlib.crc32(name.encode()) % len(_PALETTE)]
