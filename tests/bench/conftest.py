"""Shared by the tests that run a whole `pytest bench/`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.bench_process import Bench


@pytest.fixture
def bench(tmp_path: Path, cache: Path) -> Bench:
    """Return a bench with a storage of its own."""
    return Bench(tmp_path, cache)
