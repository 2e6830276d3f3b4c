"""What do the runtime's own options change?"""

from __future__ import annotations

from reusebench import Measure


def test_options(runtime: str, option: str, measure: Measure) -> None:
    """One context, as it is by default and with each option by itself."""
    measure(option, runtime=runtime)
