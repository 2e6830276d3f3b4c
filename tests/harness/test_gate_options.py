"""The options of the gate, and the mistakes that they allow."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.extras import EXTRAS
from harness.gate import add_gate_options, make_gate
from tests.reports.stored import full_run


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_gate_options(parser.add_argument)
    return parser.parse_args(words)


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Return a storage with a run whose name is `run`."""
    full_run(tmp_path)
    return tmp_path


def test_no_option_is_no_gate(storage: Path) -> None:
    """Without a baseline nothing is compared."""
    assert make_gate(options(), storage) is None


def test_a_baseline_alone_is_compared_without_a_limit(storage: Path) -> None:
    """A name that a run was saved with is a baseline."""
    gate = make_gate(options("--memory-baseline=run"), storage)
    assert gate is not None
    assert (gate.baseline, gate.limits) == ("run", ())


@pytest.mark.parametrize("words", ["--memory-fail=application_memory:2%", "--memory-across=board"])
def test_a_limit_needs_a_baseline(words: str, storage: Path) -> None:
    """A limit that is held against nothing would pass whatever happens."""
    with pytest.raises(UserError, match="need --memory-baseline"):
        make_gate(options(words), storage)


@pytest.mark.parametrize("words", ["latest", "latest~3", "1..latest"])
def test_the_last_run_is_no_baseline(words: str, storage: Path) -> None:
    """A run that got worse must not become what the next one is compared with."""
    with pytest.raises(UserError, match="would be the next baseline"):
        make_gate(options(f"--memory-baseline={words}"), storage)


def test_a_baseline_that_is_not_there(storage: Path) -> None:
    """Nothing is measured for a comparison that cannot be made."""
    with pytest.raises(UserError, match="there is no run 'nobody'"):
        make_gate(options("--memory-baseline=nobody"), storage)
    with pytest.raises(UserError, match="there is no run 'base'"):
        make_gate(options("--memory-baseline=base"), storage / "not-made-yet")


def test_a_comparison_that_cannot_be_made_here(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the reports extra it is refused before anything is measured, with the line that installs it."""
    monkeypatch.setitem(EXTRAS, "reports", ("no_such_module",))
    with pytest.raises(UserError, match=r"^--memory-baseline needs the reports extra: pip install -e .*\[reports\]'$"):
        make_gate(options("--memory-baseline=run", "--memory-fail=npu_memory:0"), storage)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--memory-fail=memory:2%", "there is no metric 'memory'"),
        ("--memory-across=weather", "invalid choice: 'weather'"),
    ],
)
def test_what_cannot_be_read(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A limit or a condition that does not exist is refused with what is valid."""
    with pytest.raises(SystemExit):
        options("--memory-baseline=base", words)
    assert said in capsys.readouterr().err
