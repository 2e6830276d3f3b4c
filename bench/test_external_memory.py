"""What does it cost to allocate memory of contexts outside of the runtime, for each allocator?"""

from __future__ import annotations

import pytest

from reusebench import Measure
from reusebench.scenarios.catalogue import scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("external_memory"))
def test_external_memory(runtime: str, scenario: str, measure: Measure) -> None:
    """S x C contexts of one model; the scenario says which memory the application allocates, and
    with which allocator.
    """
    measure(scenario, runtime=runtime)
