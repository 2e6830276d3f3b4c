"""What does it cost to allocate a context's memory outside of the runtime, by each allocator?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

SCENARIOS = (
    "runtime_memory",
    "external_weights",
    "external_internal",
    "external_io",
    "external_memory",
    "external_dma_heap",
    "external_physical",
    "external_mmz",
)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_external_memory(runtime: str, scenario: str, measure: Callable[[str, str], None]) -> None:
    """S x C contexts of one model; the scenario says what the application allocates, and from where."""
    measure(runtime, scenario)
