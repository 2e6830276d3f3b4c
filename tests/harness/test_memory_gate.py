"""The options of the gate, and mistakes in them."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from reusebench.harness.errors import UserError
from reusebench.harness.extras import EXTRAS
from reusebench.harness.memory_gate import (
    BROKEN,
    MemoryGate,
    add_gate_options,
    make_gate,
    refuse_workers,
)
from tests.helpers.support import known
from tests.reports.stored import changed, even, full_run, result, write_run

pytestmark = pytest.mark.process


def _gate(storage: Path, *arguments: str) -> MemoryGate | None:
    parser = argparse.ArgumentParser()
    add_gate_options(parser.add_argument)
    return make_gate(parser.parse_args(arguments), storage)


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage with a run whose name is `run`."""
    folder = tmp_path_factory.mktemp("storage")
    full_run(folder)
    return folder


def test_a_baseline_makes_a_gate(storage: Path) -> None:
    """The name of a saved run is a baseline, with or without limits and conditions; without a
    baseline there is no gate.
    """
    assert _gate(storage) is None
    assert _gate(storage, "--baseline=run") == MemoryGate("run", (), (), storage)
    gate = known(
        _gate(
            storage,
            "--baseline=run",
            "--fail=npu_memory:2%+1KiB",
            "--across=board",
        )
    )
    assert ([limit.text for limit in gate.limits], gate.across) == (
        ["npu_memory:2%+1KiB"],
        ("board",),
    )


def test_a_run_that_was_not_stored(storage: Path) -> None:
    """A gate does not pass if nothing was measured, and reports say so."""
    verdict = known(_gate(storage, "--baseline=run")).judge(None)
    assert not verdict.passed
    (case,) = verdict.cases
    assert case.outcome == BROKEN
    assert "nothing was measured" in verdict.text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        # A limit without a baseline would always pass.
        (["--fail=application_memory:2%"], "need --baseline"),
        (["--across=board"], "need --baseline"),
        (["--strict-gate"], "need --baseline"),
        # A run that got worse must not become the baseline of the next one.
        (["--baseline=latest"], "would be the next baseline"),
        (["--baseline=latest~3"], "would be the next baseline"),
        (["--baseline=1..latest~1"], "would be the next baseline"),
        (["--baseline=nobody"], "there is no run 'nobody'"),
        (["--baseline=nightly-latest"], "there is no run 'nightly-latest'"),
    ],
)
def test_mistakes(storage: Path, arguments: list[str], sentence: str) -> None:
    """Nothing is measured for a comparison that cannot be made."""
    with pytest.raises(UserError, match=sentence):
        _gate(storage, *arguments)


def test_the_limits_and_conditions_are_those_of_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions that differ are compared on request alone; a broken limit fails; the text is the
    command's output.
    """
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    base = result(tmp_path, "no_reuse", even(40))
    head = changed(result(tmp_path, "no_reuse", even(50), run="run2"), runtime_version="9")
    write_run(tmp_path, [base])
    saved = write_run(tmp_path, [head], 2)
    limit = "--fail=application_memory:{}%"
    for arguments, passed, text, outcomes in (
        # The base has nothing to hold the limit against.
        ([limit.format(50)], False, "runtime_version", ["broken"]),
        (
            ["--across=runtime_version", limit.format(50)],
            True,
            "passed application_memory:50%",
            ["passed"],
        ),
        (
            ["--across=runtime_version", limit.format(2)],
            False,
            "FAILED application_memory:2%",
            ["failed"],
        ),
        (
            ["--across=runtime_version", limit.format(25)],
            True,
            "UNDECIDED application_memory:25%",
            ["undecided"],
        ),
        (
            ["--across=runtime_version", limit.format(25), limit.format(2), "--strict-gate"],
            False,
            "NOT PASSED application_memory:25%",
            ["broken", "failed"],
        ),
        (["--across=runtime_version"], True, "higher", ["passed"]),
    ):
        gate = known(_gate(tmp_path, "--baseline=1", *arguments))
        verdict = gate.judge(saved)
        assert (verdict.passed, text in verdict.text) == (passed, True), verdict.text
        assert [case.outcome for case in verdict.cases] == outcomes
        assert verdict.annotations == ""


def test_annotations_are_for_githubs_runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it runs the session, the verdict has its commands."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40))])
    saved = write_run(tmp_path, [result(tmp_path, "no_reuse", even(80), run="run2")], 2)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    gate = known(_gate(tmp_path, "--baseline=1", "--fail=application_memory:2%"))
    lines = gate.judge(saved).annotations.splitlines()
    assert [line.split()[0] for line in lines] == ["::error", "::notice"]


@pytest.mark.parametrize("processes", [None, 0, 2])
def test_several_processes_are_refused(processes: int | None) -> None:
    """A gate needs one process; pytest-xdist may be absent, or have nothing to share out."""
    option = argparse.Namespace(baseline="run")
    refuse_workers(option)
    option.numprocesses = processes
    if processes:
        with pytest.raises(UserError, match="leave out -n"):
            refuse_workers(option)
    else:
        refuse_workers(option)


def test_a_storage_that_is_not_made_yet(storage: Path) -> None:
    """An empty storage has no baseline."""
    with pytest.raises(UserError, match="there is no run 'base'"):
        _gate(storage / "new", "--baseline=base")


def test_a_comparison_that_cannot_be_made_here(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the libraries of reports the gate is refused before anything is measured, with the
    command that installs them.
    """
    monkeypatch.setitem(EXTRAS, "reports", ("no_such_module",))
    with pytest.raises(
        UserError, match=r"^--baseline needs no_such_module: pip install no_such_module$"
    ):
        _gate(storage, "--baseline=run")


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("--fail=memory:2%", "there is no metric 'memory'"),
        ("--across=weather", "invalid choice: 'weather'"),
    ],
)
def test_what_cannot_be_read(
    storage: Path, argument: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown limit or condition is refused with the valid ones."""
    with pytest.raises(SystemExit):
        _gate(storage, "--baseline=run", argument)
    assert sentence in capsys.readouterr().err
