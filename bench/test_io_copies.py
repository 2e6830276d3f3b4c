"""What does it save to use input and output in place, without copies, up to 4K frames?"""

from __future__ import annotations

import pytest

from reusebench import Measure
from reusebench.scenarios.catalogue import scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("io_copies"))
def test_io_copies(runtime: str, scenario: str, measure: Measure) -> None:
    """S x C contexts of one model, or one context of camera frames; the scenario says which
    tensors are not copied.
    """
    measure(scenario, runtime=runtime)
