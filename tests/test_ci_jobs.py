""".ci/jobs.py: which jobs run, in which order, and what one that fails keeps from running."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers.support import CHECKOUT, known

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def jobs() -> ModuleType:
    """Return the script as a module."""
    spec = known(importlib.util.spec_from_file_location("ci_jobs", CHECKOUT / ".ci" / "jobs.py"))
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look themselves up.
    sys.modules[spec.name] = module
    known(spec.loader).exec_module(module)
    return module


def test_a_job_has_what_it_needs(jobs: ModuleType) -> None:
    """A job's set-ups run once before it, with the set-ups that they need."""
    (tests,) = [job for job in jobs._JOBS if job.name == "tests"]
    (lint,) = [job for job in jobs._JOBS if job.name == "lint"]
    assert [job.name for job in jobs._needed([lint, tests])] == [
        "browser",
        "environment",
        "megengine",
    ]
    assert [job.name for job in jobs._needed([lint])] == ["environment"]


def test_a_job_that_fails(jobs: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    """Jobs that need a failed set-up do not run, the others do; its output and exit code are
    shown.
    """
    failing = jobs.Job("failing", "echo its words; exit 3")
    needing = jobs.Job("needing", "echo never", needs=("failing",))
    last = jobs.Job("last", "echo the end", is_large=True)
    assert jobs._run([failing, needing, last]) == ["failing", "needing"]
    shown = capfd.readouterr().out
    assert "FAILED with exit code 3\nits words\n" in shown
    assert "the end" in shown
    assert "never" not in shown


def test_a_large_job_runs_alone(jobs: ModuleType, tmp_path: Path) -> None:
    """It waits for the end of others, which run side by side."""
    order = tmp_path / "order"
    small = [jobs.Job(name, f"sleep 0.2; echo small >> {order}") for name in ("one", "two")]
    large = jobs.Job("large", f"echo large >> {order}", is_large=True)
    assert jobs._run([*small, large]) == []
    assert order.read_text(encoding="utf-8").split() == ["small", "small", "large"]


def test_compiled_files_are_kept(
    jobs: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Jobs lack the variable by which each of their processes would compile the package anew."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert jobs._run([jobs.Job("job", 'echo "<${PYTHONDONTWRITEBYTECODE-none}>"')]) == []
    assert "<none>" in capfd.readouterr().out


def test_a_name_that_is_none(jobs: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """The names that are valid are named."""
    with pytest.raises(SystemExit) as ended:
        jobs.main(["nothing"])
    assert ended.value.code == 2
    assert (
        "no job 'nothing'; valid: bench, wheel, docs, lint, benchmarks, tests"
        in capsys.readouterr().err
    )
