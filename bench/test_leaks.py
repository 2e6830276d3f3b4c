"""Does anything grow when contexts infer, or are created, destroyed or replaced, many times?"""

from __future__ import annotations

import pytest

from reusebench import Measure
from reusebench.scenarios.catalogue import scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("leaks"))
def test_leaks(runtime: str, scenario: str, measure: Measure) -> None:
    """The same cycle many times; memory, file descriptors, mappings and threads are read after each
    one.
    """
    measure(scenario, runtime=runtime)
