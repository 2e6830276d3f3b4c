"""Four streams of video, three contexts each: what do the modes of the published test save, and what of the frames?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

SCENARIOS = (
    "streams_decode_only",
    "streams_no_reuse",
    "streams_partial_dup",
    "streams_no_reuse_one_model",
    "streams_full_dup",
    "streams_full_dup_per_core",
)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_published(runtime: str, scenario: str, measure: Callable[[str, str], None]) -> None:
    """S streams of video frames, each taken in turn by its C contexts, laid out as the scenario says."""
    measure(runtime, scenario)
