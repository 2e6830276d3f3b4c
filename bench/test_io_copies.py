"""What does it save to use input and output where they are, in place of copying them?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

SCENARIOS = ("copied_io", "zero_copy_input", "zero_copy_output", "zero_copy_io")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_io_copies(runtime: str, scenario: str, measure: Callable[[str, str], None]) -> None:
    """S x C contexts of one model; the scenario says which tensors are not copied."""
    measure(runtime, scenario)
