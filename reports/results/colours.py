"""The colours of all figures, the same thing in the same colour everywhere.

The first are those of Okabe and Ito, which colour-blind readers tell apart, in shades that read on white and on black;
the others were chosen to be far from them and from each other, also without red or green.
"""

from __future__ import annotations

from matplotlib.colors import to_hex, to_rgb

from accounting.sizes import COMPONENTS
from reports.results.questions import QUESTIONS, scenarios_of
from scenarios.catalogue import find_scenario

_OF_SCENARIOS = ("#d55e00", "#009e73", "#cc79a7", "#0072b2", "#8811ee", "#22cc55", "#bb3344", "#8877ee")
#: A variant has its scenario's colour, the first of them nearer to black and the second to white.
_SHADES = ((0.0, 0.35), (1.0, 0.45))


def _colours_of(question: str) -> dict[str, str]:
    names = scenarios_of(question)
    # Where all are variants of another question's, as those of streams are, each has a colour of its own.
    own = dict(zip([name for name in names if not find_scenario(name).is_variant] or names, _OF_SCENARIOS))
    return own | {shade: colour for name in own for shade, colour in zip(_variants(name, names), _shades(own[name]))}


def _variants(name: str, names: list[str]) -> list[str]:
    """Return the variants of a scenario, which are called after it with their size behind."""
    return [each for each in names if find_scenario(each).is_variant and each.rpartition("_")[0] == name]


def _shades(colour: str) -> list[str]:
    red, green, blue = to_rgb(colour)
    return [
        to_hex((red + (end - red) * weight, green + (end - green) * weight, blue + (end - blue) * weight))
        for end, weight in _SHADES
    ]


#: Distinct within a question: no figure shows the scenarios of two.
SCENARIO_COLOURS = {name: colour for question in QUESTIONS for name, colour in _colours_of(question).items()}
COMPONENT_COLOURS = dict(zip(COMPONENTS, ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#999999")))
PHASE_COLOURS = {
    "imported": "#999999",
    "decoders": "#d55e00",
    "context": "#56b4e9",
    "internal_memory": "#0072b2",
    "first_inference": "#e69f00",
    "steady": "#009e73",
    "trimmed": "#f0e442",
    "decoders_closed": "#bb3344",
    "destroy": "#cc79a7",
}
#: Of the phases that programs mark, in the order in which they come.
PROGRAM_PHASE_COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#0072b2", "#f0e442", "#d55e00", "#999999")
#: Of runtimes that stand beside each other, in their order.
RUNTIME_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
#: What has no colour of its own.
OTHER_COLOUR = "#808080"
