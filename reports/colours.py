"""The colours of all figures, the same thing in the same colour everywhere.

They are those of Okabe and Ito, which colour-blind readers tell apart, in shades that read on white and on black.
"""

from __future__ import annotations

from reports.npu import COMPONENTS
from reports.questions import QUESTIONS, scenarios_of

__all__ = ["COMPONENT_COLOURS", "OTHER_COLOUR", "PHASE_COLOURS", "SCENARIO_COLOURS"]

_OF_SCENARIOS = ("#d55e00", "#009e73", "#cc79a7", "#0072b2", "#b8860b", "#56b4e9")

#: Distinct within a question: no figure shows the scenarios of two.
SCENARIO_COLOURS = {
    scenario: colour for question in QUESTIONS for scenario, colour in zip(scenarios_of(question), _OF_SCENARIOS)
}
COMPONENT_COLOURS = dict(zip(COMPONENTS, ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#999999")))
PHASE_COLOURS = {
    "imported": "#999999",
    "context": "#56b4e9",
    "internal_memory": "#0072b2",
    "first_inference": "#e69f00",
    "steady": "#009e73",
    "trimmed": "#f0e442",
    "destroy": "#cc79a7",
}
#: What has no colour of its own.
OTHER_COLOUR = "#808080"
