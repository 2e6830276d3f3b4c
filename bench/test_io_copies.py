"""What does it save to use input and output where they are in place of copying them, up to 4K frames?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

SCENARIOS = (
    "copied_io",
    "zero_copy_input",
    "zero_copy_output",
    "zero_copy_io",
    "device_io",
    "copied_io_1080p",
    "zero_copy_input_1080p",
    "zero_copy_output_1080p",
    "zero_copy_io_1080p",
    "device_io_1080p",
    "copied_io_4k",
    "zero_copy_input_4k",
    "zero_copy_output_4k",
    "zero_copy_io_4k",
    "device_io_4k",
    "cuda_copied_io",
    "cuda_device_io",
)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_io_copies(runtime: str, scenario: str, measure: Callable[[str, str], None]) -> None:
    """S x C contexts of one model, or one context of camera frames; the scenario says which tensors are not copied."""
    measure(runtime, scenario)
