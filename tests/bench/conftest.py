"""Fixtures of the tests that run a whole `pytest bench/`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.bench_process import Bench
from tests.helpers.support import made_once


@pytest.fixture
def bench(tmp_path: Path, cache: Path) -> Bench:
    """Return a bench with a storage of its own."""
    return Bench(tmp_path, cache)


@pytest.fixture(scope="session")
def on_double(rknn_double: Callable[..., Path], shared_folder: Path) -> tuple[str, ...]:
    """Return the options that measure one model on a double of Rockchip's library.

    Tests use it for behaviour that is the same on every runtime: its processes take a third of the
    time of ONNX Runtime's.
    """
    library = rknn_double("librknnrt version: 2.3.2 (double)")
    model = made_once(shared_folder / "double.rknn", lambda path: path.write_text("9000 5000 1 "))
    return "--runtime=rknn", f"--rknn-library={library}", f"--model={model}"
