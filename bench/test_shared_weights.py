"""What do two, three and more resolutions of one network save when they share its weights?"""

from __future__ import annotations

import pytest

from reusebench import Measure
from reusebench.scenarios.catalogue import scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("shared_weights"))
def test_shared_weights(runtime: str, scenario: str, measure: Measure) -> None:
    """Each resolution has one context."""
    measure(scenario, runtime=runtime)
