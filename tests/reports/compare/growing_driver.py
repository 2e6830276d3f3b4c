"""`python -m tests.reports.compare.growing_driver`: a driver whose process grows in one step.

The environment variable GROWN_BYTES has the size. A rise of a known size is then measured as any
other. The module runs in the measured process: standard library only, Python 3.8.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from reusebench.measured import driver

VARIABLE = "GROWN_BYTES"
_grown: list[bytes] = []
_take = driver.Walk.take


def _take_and_grow(walk: driver.Walk, step: Any) -> Any:
    """Take the step; in that of the first context also take memory, and write to each page."""
    if step.phase == "context" and not _grown:
        _grown.append(b"\1" * int(os.environ[VARIABLE]))
    return _take(walk, step)


if __name__ == "__main__":
    setattr(driver.Walk, "take", _take_and_grow)  # noqa: B010  a method is replaced
    sys.exit(driver.main())
