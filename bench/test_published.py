"""What do the modes of the published test save with streams of video, and are frames lost?"""

from __future__ import annotations

import pytest

from reusebench import Measure
from reusebench.scenarios.catalogue import scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("streams"))
def test_published(runtime: str, scenario: str, measure: Measure) -> None:
    """S streams of video; the C contexts of a stream take its frames in turn."""
    measure(scenario, runtime=runtime)
