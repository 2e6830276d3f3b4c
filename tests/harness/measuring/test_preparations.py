"""Models that are prepared for all configurations of a session."""

from __future__ import annotations

import gc
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest

from reusebench.storage.result import Result
from reusebench.system.cache import cache_root
from tests.harness.measuring.conftest import MakeBench, job
from tests.helpers.scripted_driver import NODE_ORDER

pytestmark = pytest.mark.process


def test_each_model_is_prepared_once_in_a_session(tmp_path: Path, make_bench: MakeBench) -> None:
    """All repeats and scenarios use one preparation; a scenario with another model has that one
    prepared, too.
    """
    logs = [tmp_path / name for name in "ab"]
    bench = make_bench(tmp_path, *(f"log={log}" for log in logs), streams=2)
    for scenario in ("full_dup", "partial_dup", "full_dup_internal_reuse"):
        assert bench.measure(job(scenario)).result.outcome == "ok"
    made = [
        [line for line in log.read_text().splitlines() if line.startswith("prepare")]
        for log in logs
    ]
    assert made == [["prepare0"], ["prepare0"]]


def test_what_was_found_is_in_the_result(tmp_path: Path, make_bench: MakeBench) -> None:
    """The node orders are stored by the digest of each model that the plan needs prepared."""
    bench = make_bench(tmp_path, "plain", "plain too", streams=2, repeats=1)
    found = {}
    for scenario in ("partial_dup", "full_dup", "no_reuse"):
        result = bench.measure(job(scenario)).result
        assert msgspec.json.decode(msgspec.json.encode(result), type=Result) == result
        found[scenario] = {digest: asdict(order) for digest, order in result.node_orders.items()}
    digests = [model.digest for model in job("partial_dup").plans(bench.supplies)[0].models]
    assert found["partial_dup"] == dict.fromkeys(digests, asdict(NODE_ORDER))
    assert found["full_dup"] == {digests[0]: asdict(NODE_ORDER)}
    assert found["no_reuse"] == {}


def test_a_preparation_that_failed_is_tried_again(tmp_path: Path, make_bench: MakeBench) -> None:
    """The next scenario tries a failed preparation again; successful ones are kept."""
    log = tmp_path / "log"
    bench = make_bench(tmp_path, f"log={log};raise@prepare0", repeats=1)
    outcomes = [
        bench.measure(job(name)).result.outcome for name in ("full_dup", "full_dup_internal_reuse")
    ]
    assert (outcomes, log.read_text().count("prepare0")) == (["not_supported", "not_supported"], 2)


def test_a_cache_that_cannot_be_written(
    tmp_path: Path, make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenarios that need prepared models fail, and name the variable for another cache; the others
    are measured.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    bench = make_bench(tmp_path, "plain", repeats=1)
    results = [bench.measure(job(scenario)).result for scenario in ("full_dup", "no_reuse")]
    assert [result.outcome for result in results] == ["failed", "ok"]
    assert "XDG_CACHE_HOME" in str(results[0].failure)


def test_nothing_stays_behind(tmp_path: Path, make_bench: MakeBench) -> None:
    """The folder of prepared models is removed with the session."""
    gc.collect()  # earlier sessions
    before = set((cache_root() / "prepared").glob("*"))
    bench = make_bench(tmp_path, "plain", repeats=1)
    bench.measure(job("full_dup"))
    assert len(set((cache_root() / "prepared").glob("*")) - before) == 1
    del bench
    gc.collect()
    assert set((cache_root() / "prepared").glob("*")) - before == set()
