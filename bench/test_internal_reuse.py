"""What does one internal memory for models that run in turn save, and does the order of making them matter?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

SCENARIOS = ("in_turn", "internal_reuse", "internal_reuse_last_first")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_internal_reuse(runtime: str, scenario: str, measure: Callable[[str, str], None]) -> None:
    """One context of each model; they run one after the other."""
    measure(runtime, scenario)
