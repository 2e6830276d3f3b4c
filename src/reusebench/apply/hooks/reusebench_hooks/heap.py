"""The memory that this process has freed, but not given back to the system."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Give it back, if the C library can: models that are read twice leave much of it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
