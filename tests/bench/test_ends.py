"""Sessions that are ended from outside: the stored run is finished, and nothing is left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from reusebench.system.cache import remove_leftovers
from tests.bench.bench_process import Bench, stored_runs, wait_for

pytestmark = pytest.mark.process

_CHOSEN = ("-k", "test_dup")


def _own_cache(bench: Bench) -> Path:
    """Return a cache that no other session has."""
    return bench.folder / "cache"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_session_that_is_asked_to_end(number: int, bench: Bench, tiny_model: Path) -> None:
    """A signal ends a session like Ctrl-C, even a repeated one: a finished run, and no leftover."""
    process = bench.start("--model", tiny_model, *_CHOSEN, cache=_own_cache(bench))
    wait_for(lambda: stored_runs(bench.storage))
    for _ in range(3):
        process.send_signal(number)
    done = bench.finish(process)
    assert done.code == pytest.ExitCode.INTERRUPTED, done.words
    assert "Traceback" not in done.words
    (run,) = done.runs()
    assert run.is_finished
    assert run.results
    assert not list(bench.storage.glob(".*"))
    assert not list(_own_cache(bench).glob("reusebench/*/*"))


def test_a_session_that_is_killed_with_a_stuck_process(
    bench: Bench, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped measured process ends with the session; the next one removes prepared models."""
    process = bench.start("--model", tiny_model, *_CHOSEN, cache=_own_cache(bench))
    wait_for(lambda: list(_own_cache(bench).glob("reusebench/prepared/*/onnxruntime/*")))
    children = psutil.Process(process.pid).children(recursive=True)
    for child in children:
        child.send_signal(signal.SIGSTOP)
    os.kill(process.pid, signal.SIGKILL)
    bench.finish(process)
    wait_for(
        lambda: (
            not any(
                child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children
            )
        )
    )
    assert children
    monkeypatch.setenv("XDG_CACHE_HOME", str(_own_cache(bench)))
    (leftover,) = remove_leftovers()
    assert leftover.path.parent.name == "prepared"
    assert not leftover.path.exists()
