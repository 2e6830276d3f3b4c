"""Four streams of video, three contexts each: what do the modes of the published test save, and are
frames lost?
"""

from __future__ import annotations

import pytest

from reusebench import Measure
from reusebench.scenarios.catalogue import scenarios_of


@pytest.mark.parametrize("scenario", scenarios_of("streams"))
def test_published(runtime: str, scenario: str, measure: Measure) -> None:
    """S streams of video frames, each taken in turn by its C contexts, laid out by the scenario."""
    measure(scenario, runtime=runtime)
