"""What does it cost to allocate a context's memory outside of the runtime, by each allocator?"""

from __future__ import annotations

import pytest

from reusebench import Measure
from reusebench.scenarios.catalogue import scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("external_memory"))
def test_external_memory(runtime: str, scenario: str, measure: Measure) -> None:
    """S x C contexts of one model; by scenario the application allocates other tensors, with other
    allocators.
    """
    measure(scenario, runtime=runtime)
