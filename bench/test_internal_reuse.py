"""What does one internal memory for models that run in turn save, and does their order matter?"""

from __future__ import annotations

import pytest

from reusebench import Measure
from reusebench.scenarios.catalogue import scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("internal_reuse"))
def test_internal_reuse(runtime: str, scenario: str, measure: Measure) -> None:
    """Each model has one context; the contexts run one after the other."""
    measure(scenario, runtime=runtime)
