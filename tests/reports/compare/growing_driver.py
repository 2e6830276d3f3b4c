"""`python -m tests.reports.compare.growing_driver`: the driver, whose process takes more memory in
one step.

How much is in the environment variable GROWN_BYTES. So a rise of a known size is measured as any
other. Runs in the measured process: standard library only, Python 3.8.
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
    """Take the step, and in that of the first context the memory, every page of which is
    written.
    """
    if step.phase == "context" and not _grown:
        _grown.append(b"\1" * int(os.environ[VARIABLE]))
    return _take(walk, step)


if __name__ == "__main__":
    setattr(driver.Walk, "take", _take_and_grow)  # noqa: B010  a method is replaced
    sys.exit(driver.main())
