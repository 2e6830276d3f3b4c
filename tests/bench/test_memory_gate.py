"""The gate of `pytest bench/`: a run against a named baseline."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.bench_process import Bench

pytestmark = pytest.mark.process

#: A plugin: the measured process takes 64 MiB more while there is a file of that name.
_GROWING = """
import os

if os.path.exists(os.path.join(os.path.dirname(__file__), "grow")):
    grown = b"1" * (64 << 20)
"""
#: A single repeat has no spread, so nothing can be told.
_CHOSEN = ("-k", "full_dup and not internal", "--repeats=2")
_GATE = ("--baseline=base", "--fail=application_memory:20%+8MiB")


@pytest.fixture(scope="module")
def bench(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, on_double: tuple[str, ...]
) -> Bench:
    """Return a bench whose storage has a baseline."""
    folder = tmp_path_factory.mktemp("gate")
    (folder / "sitecustomize.py").write_text(_GROWING)
    bench = Bench(folder, cache)
    done = bench.run(*on_double, *_CHOSEN, "--benchmark-save=base")
    assert done.code == 0, done.words
    return bench


def test_a_run_like_the_baseline_passes(bench: Bench, on_double: tuple[str, ...]) -> None:
    """The comparison is shown, and the exit code is pytest's own."""
    done = bench.run(*on_double, *_CHOSEN, *_GATE)
    assert done.code == 0, done.words
    assert "passed application_memory:20%+8MiB: 1 compared" in done.words


def test_a_rise_fails_the_build(bench: Bench, on_double: tuple[str, ...]) -> None:
    """A process that takes more fails a run whose tests have all passed; it is stored, and is not
    the baseline.
    """
    grow = bench.folder / "grow"
    grow.touch()
    try:
        done = bench.run(*on_double, *_CHOSEN, *_GATE)
    finally:
        grow.unlink()
    assert done.code == 1, done.words
    assert "FAILED application_memory:20%+8MiB: rknn full_dup" in done.words
    assert "1 passed" in done.words
    assert "base: 0001_base" in done.words


def test_a_mistake_is_said_before_anything_is_measured(bench: Bench) -> None:
    """A gate that could not be judged at the end stops the session at its start with code 4."""
    done = bench.run(*_CHOSEN, "--baseline=nobody", "--fail=npu_memory:0")
    assert done.code == 4
    assert "there is no run 'nobody'" in done.words
