"""What do no reuse, partial dup and full dup of contexts cost in memory and in speed?"""

from __future__ import annotations

import pytest

from reusebench import Measure
from reusebench.scenarios.catalogue import scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("dup"))
def test_dup(runtime: str, scenario: str, measure: Measure) -> None:
    """The scenario lays out S streams with C contexts each."""
    measure(scenario, runtime=runtime)
