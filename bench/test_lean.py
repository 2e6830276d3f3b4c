"""What do all the mechanisms that the runtime has save together?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

SCENARIOS = ("plain", "lean")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_lean(runtime: str, scenario: str, measure: Callable[[str, str], None]) -> None:
    """S x C contexts of one model."""
    measure(runtime, scenario)
