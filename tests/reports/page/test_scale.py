"""The storages that the benchmark of the report is made on."""

from __future__ import annotations

from pathlib import Path

from benchmarks.report_scale import make_storage
from reusebench.reports.results.grouping import group_results
from reusebench.scenarios.catalogue import SCENARIOS
from tests.reports.stored import runs_of


def test_a_storage_has_the_results_that_were_asked_for(tmp_path: Path) -> None:
    """Runs are added until there are enough results; newer runs supersede older ones."""
    per_run = 2 * len(SCENARIOS)
    assert make_storage(tmp_path, 6 * per_run + 1) == 7 * per_run
    files = runs_of(tmp_path)
    assert [len(file.results) for file in files] == [per_run] * 7
    groups = group_results(files)
    assert len(groups) == 12
    assert sum(len(group.rows) for group in groups) == 6 * per_run
    assert {row.outcome for group in groups for row in group.rows} == {"ok"}
