"""What does your own pipeline take, and what does its reuse save?

Each plan of --plan FILE is measured with and without its reuse. The other questions are left out.
"""

from __future__ import annotations

from reusebench import Measure


def test_plans(runtime: str, plan: str, measure: Measure) -> None:
    """The contexts of a plan file in its order, or the same contexts without reuse."""
    measure(plan, runtime=runtime)
