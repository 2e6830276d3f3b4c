"""Recordings in a process of their own.

The recorder takes all children of its process for the program's: it waits for them, and may kill
them. A process that runs tests has children of other tests.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

__all__ = ["alone"]


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a module's function, from a process without other children."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()
