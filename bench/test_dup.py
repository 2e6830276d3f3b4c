"""What do no reuse, partial dup and full dup of contexts cost in memory and in speed?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

SCENARIOS = ("no_reuse", "partial_dup", "no_reuse_one_model", "full_dup", "shared_context", "full_dup_internal_reuse")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_dup(runtime: str, scenario: str, measure: Callable[[str, str], None]) -> None:
    """S streams with C contexts each, laid out as the scenario says."""
    measure(runtime, scenario)
