"""What do the runtime's own options change?"""

from __future__ import annotations

from collections.abc import Callable


def test_options(runtime: str, option: str, measure: Callable[[str, str], None]) -> None:
    """One context, as it is by default and with each option by itself."""
    measure(runtime, option)
