"""The gate of `pytest bench/`: a run against a named baseline."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

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
    """The comparison is shown, the exit code is pytest's own, and the gate is a test that has
    passed.
    """
    junit = bench.folder / "passed.xml"
    done = bench.run(*on_double, *_CHOSEN, *_GATE, "--junitxml", junit)
    assert done.code == 0, done.words
    assert _counts(junit) == {"tests": 2, "failures": 0, "errors": 0, "skipped": 0}
    assert "passed application_memory:20%+8MiB: 1 compared" in done.words


def test_a_rise_fails_the_build(bench: Bench, on_double: tuple[str, ...]) -> None:
    """A process that takes more fails a run whose tests have all passed; each limit is a test. The
    run is stored, and is not the baseline.
    """
    junit = bench.folder / "failed.xml"
    limits = ("--fail=npu_memory:0", "--fail=application_rss:1%", "-x", "--junitxml", junit)
    grow = bench.folder / "grow"
    grow.touch()
    try:
        done = bench.run(*on_double, *_CHOSEN, *_GATE, *limits)
    finally:
        grow.unlink()
    assert done.code == 1, done.words
    assert "FAILED application_memory:20%+8MiB: rknn full_dup" in done.words
    assert "2 failed, 2 passed" in done.words
    assert "base: 0001_base" in done.words
    assert _counts(junit) == {"tests": 4, "failures": 2, "errors": 0, "skipped": 0}
    failures = ElementTree.parse(junit).findall(".//testcase[@classname='memory_gate']/failure")
    for failure, limit in zip(failures, ("application_memory:20%+8MiB", "application_rss:1%")):
        assert failure.attrib["message"].startswith(f"FAILED {limit}: rknn full_dup")
        assert " MiB (+" in failure.attrib["message"]


def _counts(junit: Path) -> dict[str, int]:
    suite = ElementTree.parse(junit).find("testsuite")
    assert suite is not None
    return {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}


def test_a_mistake_is_said_before_anything_is_measured(bench: Bench) -> None:
    """A gate that could not be judged at the end stops the session at its start with code 4."""
    done = bench.run(*_CHOSEN, "--baseline=nobody", "--fail=npu_memory:0")
    assert done.code == 4
    assert "there is no run 'nobody'" in done.words
