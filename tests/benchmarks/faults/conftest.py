"""Fixtures of the tests of the campaigns of faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.faults.samples import GOOD, Samples
from benchmarks.faults.sandbox import Sandbox
from tests.reports.stored import even, result, write_run


@pytest.fixture
def samples(tmp_path: Path) -> Samples:
    """Return samples that were not measured: a good run, and another one to change."""
    samples = Samples(tmp_path / "samples")
    for storage, scenario in ((samples.good, "no_reuse"), (samples.storage, "partial_dup")):
        path = write_run(storage, [result(storage, scenario, even(10))])
        if storage == samples.good:
            path.rename(path.with_name(f"0001_{GOOD}.json"))
    Sandbox(samples.folder / "made").make()
    return samples
