"""Shared by the tests of ONNX Runtime's adapter."""

from __future__ import annotations

import pytest

from reusebench.measured.runtimes import open_runtime
from reusebench.measured.runtimes.base import Runtime


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    """Return the adapter, here in the tests' own process; older ones register the arena of a
    process once.
    """
    return open_runtime("onnxruntime")
