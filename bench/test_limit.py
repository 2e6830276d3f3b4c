"""How many contexts fit before one fails, how does it fail, and which mechanism moves the limit?"""

from __future__ import annotations

import pytest

from reusebench import Measure
from reusebench.scenarios.catalogue import scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("limit"))
def test_limit(runtime: str, scenario: str, measure: Measure) -> None:
    """Contexts of one model are added and run until one fails, or --most-contexts is reached."""
    measure(scenario, runtime=runtime)
