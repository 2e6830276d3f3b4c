"""What do all the mechanisms that the runtime has save together?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reusebench.scenarios.catalogue import scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("lean"))
def test_lean(runtime: str, scenario: str, measure: Callable[[str, str], None]) -> None:
    """S x C contexts of one model."""
    measure(runtime, scenario)
