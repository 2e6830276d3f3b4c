"""Does anything grow when contexts infer, are made and destroyed, or are replaced, again and
again?
"""

from __future__ import annotations

import pytest

from reusebench import Measure
from reusebench.scenarios.catalogue import scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("leaks"))
def test_leaks(runtime: str, scenario: str, measure: Measure) -> None:
    """The same cycle again and again; memory, file descriptors, mappings and threads are read after
    each.
    """
    measure(scenario, runtime=runtime)
