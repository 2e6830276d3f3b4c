"""What do all the mechanisms of the runtime save together?"""

from __future__ import annotations

import pytest

from reusebench import Measure
from reusebench.scenarios.catalogue import scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("lean"))
def test_lean(runtime: str, scenario: str, measure: Measure) -> None:
    """S x C contexts of one model, with more mechanisms in each scenario."""
    measure(scenario, runtime=runtime)
