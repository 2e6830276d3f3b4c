"""What do two, three and more resolutions of one network save when they share its weights?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

SCENARIOS = ("resolutions_2", "shared_weights_2", "resolutions_3", "shared_weights_3", "resolutions", "shared_weights")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_shared_weights(runtime: str, scenario: str, measure: Callable[[str, str], None]) -> None:
    """One context of each resolution."""
    measure(runtime, scenario)
