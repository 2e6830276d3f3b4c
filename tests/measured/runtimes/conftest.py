"""Fixtures for the tests of ONNX Runtime's adapter."""

from __future__ import annotations

import pytest

from reusebench.measured.runtimes import open_runtime
from reusebench.measured.runtimes.base import Runtime


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    """Return the adapter in this process; old versions register the process's arena only once."""
    return open_runtime("onnxruntime")
