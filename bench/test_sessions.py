"""What does each further conversation with a language model cost in memory and in speed?"""

from __future__ import annotations

import pytest

from reusebench import Measure
from reusebench.scenarios.catalogue import scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("sessions"))
def test_sessions(runtime: str, scenario: str, measure: Measure) -> None:
    """N conversations: a model for each, a context for each, or sequences in one context."""
    measure(scenario, runtime=runtime)
