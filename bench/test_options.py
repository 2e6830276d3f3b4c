"""What do the runtime's own options change?"""

from __future__ import annotations

from reusebench import Measure


def test_options(runtime: str, option: str, measure: Measure) -> None:
    """One context with the default options, and one context with each option alone."""
    measure(option, runtime=runtime)
