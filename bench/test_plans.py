"""What does your own pipeline take, and what does its reuse save?

Each plan of --plan FILE is measured beside itself without reuse; the other questions are not asked then.
"""

from __future__ import annotations

from collections.abc import Callable


def test_plans(runtime: str, plan: str, measure: Callable[[str, str], None]) -> None:
    """The contexts of a plan file, in its order, or the same contexts without reuse."""
    measure(runtime, plan)
