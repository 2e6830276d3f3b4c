"""`reusebench compare`: stored files in, tables, sentences and an exit code out."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from reusebench.reports.compare.forms import FORMS
from reusebench.scenarios.catalogue import SCENARIOS
from reusebench.storage.result import Result
from tests.commands.replies import result_of
from tests.helpers.support import Ended, Reusebench
from tests.reports.stored import (
    FAILED,
    MIB,
    changed,
    dup,
    even,
    npu_account,
    result,
    with_memory,
    write_run,
)
from tests.reports.versions.stored_versions import three_versions

pytestmark = pytest.mark.process

LIMIT = ("--fail", "application_memory:2%+512KiB")


def store(storage: Path, number: int, *infos: Result) -> None:
    write_run(storage, list(infos), number, f"2026-01-{number:02}T00:00:00")


def grown(storage: Path, mib: float = 0.0, **changes: Any) -> Result:
    """Return full dup with `more_bytes` in each of 12 contexts."""
    return changed(result(storage, "full_dup", dup(40 + mib, 10 + mib)), **changes)


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Return a storage with a run, another like it, and one that takes 60 MiB more."""
    storage = tmp_path / "storage"
    store(storage, 1, grown(storage), result(storage, "no_reuse", even(40)))
    store(storage, 2, grown(storage), result(storage, "no_reuse", even(40)))
    store(storage, 3, grown(storage, 5), result(storage, "no_reuse", even(40)))
    return storage


@pytest.fixture
def compare(storage: Path, reusebench: Reusebench) -> Callable[..., Ended]:
    """Return compare(words...), of runs of the storage."""
    return lambda *words: reusebench("compare", *words, "--storage", storage)


def test_a_rise_is_told_with_its_size(compare: Callable[..., Ended]) -> None:
    """The table has both medians, the change with its interval and the verdict; without a limit it
    fails nothing.
    """
    done = compare(1)
    assert done.exit_code == 0
    (row,) = [
        line.split()
        for line in done.out.splitlines()
        if line.startswith("full_dup") and "+60.00" in line
    ][:1]
    assert row[0] == "full_dup"
    assert {"180.0", "240.0", "+60.00", "higher"} <= set(row)
    assert "base: 0001_" in done.out
    assert "head: 0003_" in done.out


def test_limits(compare: Callable[..., Ended]) -> None:
    """A rise beyond the limit ends with 1 and a line about it; otherwise the runs are named."""
    done = compare(1, 3, *LIMIT)
    assert done.exit_code == 1
    (line,) = [line for line in done.out.splitlines() if line.startswith("FAILED")]
    assert "full_dup" in line
    assert "180.0 -> 240.0 MiB, +60.00" in line
    assert "allowed 4.10 MiB" in line
    done = compare(1, 2, *LIMIT)
    assert done.exit_code == 0
    assert "passed application_memory:2%+512KiB: 2 compared" in done.out


def test_a_limit_is_held_beside_other_metrics(compare: Callable[..., Ended]) -> None:
    """--metric adds figures to those of the limits."""
    done = compare(1, 2, *LIMIT, "--metric", "latency")
    assert done.exit_code == 0
    assert "latency, ms" in done.out
    assert "passed application_memory:2%+512KiB: 2 compared" in done.out


def test_a_run_is_not_compared_with_itself(compare: Callable[..., Ended], storage: Path) -> None:
    """Runs of the head are left out of the base; if none is left, a sentence says so."""
    done = compare(storage, "latest")
    assert done.exit_code == 0
    assert "base: 0001_" in done.out
    done = compare(3, 3)
    assert done.exit_code == 2
    assert "3 and 3 are the same" in done.err


def test_other_conditions_are_said_and_fail_a_gate(
    compare: Callable[..., Ended], storage: Path
) -> None:
    """Another version of the runtime is not compared silently: with a limit the exit code is not
    0.
    """
    store(storage, 4, grown(storage, runtime_version="9.9"), result(storage, "no_reuse", even(40)))
    done = compare(3, 4)
    assert done.exit_code == 0
    assert "runtime_version 1.2.3 -> 9.9" in done.out
    assert "--across runtime_version" in done.out
    assert compare(2, 4, *LIMIT).exit_code == 2
    done = compare(2, 4, *LIMIT, "--across", "runtime_version")
    assert done.exit_code == 0
    assert "compared although they differ" in done.out


def test_nothing_to_compare(compare: Callable[..., Ended], storage: Path) -> None:
    """Two runs without a common configuration end with exit code 2 and what to do."""
    store(storage, 4, result(storage, "shared_context", dup(40, 10)))
    done = compare(3, 4)
    assert done.exit_code == 2
    assert "0004_run and 0003_run have nothing to compare" in done.err
    assert "only in the base: onnxruntime full_dup, no_reuse" in done.out
    assert "only in the head: onnxruntime shared_context" in done.out


def test_without_arguments_the_newest_runs_with_something_in_common(
    compare: Callable[..., Ended], storage: Path
) -> None:
    """A run of another runtime is passed over, and it is said which runs were taken."""
    done = compare()
    assert done.exit_code == 0
    assert "base: 0002_" in done.out
    assert "head: 0003_" in done.out
    store(storage, 4, changed(result(storage, "no_reuse", even(40)), runtime="ncnn"))
    done = compare()
    assert done.exit_code == 0
    assert "base: 0002_" in done.out
    assert "head: 0003_" in done.out
    assert "newer runs without that: 1" in done.out
    store(storage, 5, grown(storage, 5))
    done = compare()
    assert "base: 0003_" in done.out
    assert "head: 0005_" in done.out


def test_without_two_runs_that_can_be_compared(
    storage: Path, tmp_path: Path, reusebench: Reusebench
) -> None:
    """One run is compared with nothing: it is said what to do."""
    store(tmp_path / "one", 1, grown(storage))
    done = reusebench("compare", "--storage", tmp_path / "one")
    assert done.exit_code == 2
    assert "no two runs have a figure of one configuration" in done.err


def test_an_age_means_the_nearest_run_that_can_be_compared(
    compare: Callable[..., Ended], storage: Path
) -> None:
    """`latest~1` passes over a run of another runtime, and says so; a run that is named stays, and
    the error names the nearest.
    """
    store(storage, 4, changed(result(storage, "no_reuse", even(40)), runtime="ncnn"))
    store(storage, 5, grown(storage, 5))
    done = compare("latest~1", "--fail", "application_memory:2%+512KiB")
    assert done.exit_code == 0
    assert "base: 0003_" in done.out
    assert "latest~1 is 0004_run, which has nothing in common with the head" in done.out
    assert done.out.count("only in") == 1
    done = compare(4, 5)
    assert done.exit_code == 2
    assert "the newest run before it that can be compared is 0003_run" in done.err


def test_a_strict_gate_needs_a_decision(compare: Callable[..., Ended]) -> None:
    """A limit within the noise passes, and says that this proves nothing; with --strict the exit
    code is 2.
    """
    words = (1, 2, "--metric", "application_memory", "--fail", "application_memory:0")
    done = compare(*words)
    assert done.exit_code == 0
    assert "passed application_memory:0: 2 compared, 2 of them undecided" in done.out
    assert compare(*words, "--strict").exit_code == 2
    # What is worse beyond doubt fails in any case.
    assert compare(1, 3, *LIMIT, "--strict").exit_code == 1


def test_one_comparison_in_several_files(compare: Callable[..., Ended], tmp_path: Path) -> None:
    """--write adds files of other forms to what is printed, also if a limit is broken."""
    files = {form: tmp_path / f"comparison.{form}" for form in (*FORMS, "json")}
    words = [f"--write={form}={path}" for form, path in files.items()]
    done = compare(1, 3, *LIMIT, *words)
    assert done.exit_code == 1
    for form, path in files.items():
        as_form = ["--json"] if form == "json" else ["--format", form]
        assert path.read_text() == compare(1, 3, *LIMIT, *as_form).out
    assert files["text"].read_text() == done.out
    (broken,) = result_of(compare(1, 3, *LIMIT, "--json"))["gate"]["limits"]
    assert (broken["outcome"], broken["sentences"][0][:6]) == ("worse", "FAILED")
    done = compare(1, 3, "--write", f"csv={tmp_path / 'missing' / 'rows.csv'}")
    assert done.exit_code == 2
    assert "cannot write" in done.err


def test_what_fails_now_fails_the_gate(compare: Callable[..., Ended], storage: Path) -> None:
    """A configuration that crashes, but was measured in the base, breaks a gate."""
    crashed = result(storage, "full_dup", [], failure=FAILED)
    store(storage, 4, crashed, result(storage, "no_reuse", even(40)))
    assert compare(3, 4).exit_code == 0
    done = compare(3, 4, *LIMIT)
    assert done.exit_code == 1
    assert "it was measured in the base, and here it is: crashed" in done.out


def test_damaged_files_are_named(compare: Callable[..., Ended], storage: Path) -> None:
    """A file that was cut short is named and left out; the exit code is 1."""
    (path,) = storage.glob("*/0002_*.json")
    path.write_text(path.read_text()[:1000])
    done = compare(1, 3)
    assert (done.exit_code, "0003" in done.out) == (1, True)
    assert done.err.startswith(f"Warning: {path}: cannot be read")


def test_files_are_compared_without_a_storage(
    storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reusebench: Reusebench
) -> None:
    """Two files are enough, wherever they are."""
    files = sorted(storage.glob("*/*.json"))
    monkeypatch.chdir(tmp_path)
    done = reusebench("compare", files[0], files[2])
    assert done.exit_code == 0
    assert "higher" in done.out


def test_a_baseline_in_a_folder_of_its_own_shows_its_noise(
    compare: Callable[..., Ended], storage: Path, tmp_path: Path
) -> None:
    """The runs of a baseline that is kept elsewhere are earlier runs of the series."""
    for number in range(1, 7):
        store(tmp_path / "baseline", number, grown(storage))
    store(storage, 9, grown(storage))
    done = compare(tmp_path / "baseline", 9)
    assert done.exit_code == 0
    assert "The noise is known from 9 earlier runs" in done.out


def test_a_narrow_terminal_cuts_nothing(
    compare: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is as long as it must be: what does not fit goes on in the next line of the
    terminal.
    """
    monkeypatch.setenv("COLUMNS", "40")
    lines = compare(1, "--metric", "application_memory").out.splitlines()
    assert any(line.startswith("full_dup") and line.endswith("higher") for line in lines)


def test_counted_memory(tmp_path: Path, reusebench: Reusebench) -> None:
    """NPU memory is compared to the byte."""
    storage = tmp_path / "npu"
    for number, more in ((1, 0), (2, 1)):
        info = result(storage, "full_dup", dup(40, 10), npu=npu_account, computes=False)
        sizes = [(size or 0) + more for size in info.memory.npu_memory_bytes]
        store(storage, number, with_memory(info, npu_memory_bytes=sizes))
    done = reusebench("compare", 1, 2, "--storage", storage, "--fail", "npu_memory:0")
    assert done.exit_code == 1
    assert "+1 B ±0.00 MiB" in done.out
    done = reusebench("compare", 1, 2, "--storage", storage, "--fail", "npu_memory:1B")
    assert done.exit_code == 0
    assert "rknn, vboard:rk3588, 4 x 3" in done.out


def test_forms(compare: Callable[..., Ended]) -> None:
    """CSV and JSON hold the rows in the metrics' own units; Markdown is for the summary of a CI
    job.
    """
    words = (1, 3, "--metric", "application_memory", "--format")
    rows = list(csv.DictReader(io.StringIO(compare(*words, "csv").out)))
    assert [(row["name"], row["verdict"]) for row in rows] == [
        ("full_dup", "higher"),
        ("no_reuse", "no change"),
    ]
    assert float(rows[0]["change"]) == 60 * MIB
    assert result_of(compare(*words[:-1], "--json"))["changes"][0]["change"] == 60 * MIB
    comment = compare(1, 3, *LIMIT, "--format", "markdown").out
    assert comment.startswith("<!-- reusebench compare -->\n### ❌ Worse than allowed")
    assert compare(1, 3, *LIMIT, "--format", "md").out == comment


def test_a_large_comparison_shows_what_changed(tmp_path: Path, reusebench: Reusebench) -> None:
    """More than 20 rows are shown if they changed; --all shows every row, JSON in any case."""
    storage = tmp_path / "large"
    names = [scenario.name for scenario in SCENARIOS if not scenario.is_variant][:12]
    for number, mib in enumerate((40, 90), start=1):
        results = [result(storage, name, even(40)) for name in names[1:]]
        store(storage, number, result(storage, names[0], even(mib)), *results)
    words = ("compare", 1, 2, "--storage", storage)
    short = reusebench(*words).out
    assert re.findall(r"^no_reuse ", short, re.MULTILINE)
    assert not re.findall(rf"^{names[1]} ", short, re.MULTILINE)
    assert "--all shows every row" in short
    assert re.findall(rf"^{names[1]} ", reusebench(*words, "--all").out, re.MULTILINE)
    rows = result_of(reusebench(*words, "--json"))["changes"]
    assert {row["name"] for row in rows} == set(names)


def test_versions_of_a_library(tmp_path: Path, reusebench: Reusebench) -> None:
    """Without runs all versions of the storage are shown; with runs only theirs."""
    storage = three_versions(tmp_path / "versions")
    done = reusebench("compare", "--versions", "--storage", storage)
    assert done.exit_code == 0
    heads = [line.split() for line in done.out.splitlines() if line.startswith("Scenario  ")]
    assert ["Scenario", "1.5.2", "(aarch64)", "1.6.0", "(armhf)", "2.3.2", "(aarch64)"] in heads
    assert "Each dup takes 69,632 bytes more in register commands." in done.out
    done = reusebench("compare", 1, 2, "--versions", "--storage", storage, "--metric", "npu_memory")
    assert done.exit_code == 0
    assert "1.5.2" not in done.out
    assert "application_memory_over_baseline" not in done.out
    done = reusebench("compare", 1, 2, "--versions", "--storage", storage, "--format", "csv")
    assert {row["version"][:5] for row in csv.DictReader(io.StringIO(done.out))} == {
        "1.6.0",
        "2.3.2",
    }


def test_there_must_be_two_versions(compare: Callable[..., Ended]) -> None:
    """Else it is said how to get them."""
    done = compare("--versions")
    assert done.exit_code == 2
    assert "no two versions of a runtime" in done.err
    assert "reusebench libraries run" in done.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["1", "--fail", "memory:2%"], "there is no metric 'memory'"),
        (["1", "--metric", "memory"], "there is no metric 'memory'; the nearest is npu_memory"),
        (["1", "--across", "weather"], "'weather' is not one of 'board'"),
        (["1", "--strict"], "--strict is about limits"),
        (["1", "--write", "pdf=x"], "valid: FORM=FILE"),
        (["1", "--write", "csv"], "valid: FORM=FILE"),
        (["--versions", "--format", "github"], "--versions has no github"),
        (
            ["--versions", "--fail", "npu_memory:0"],
            "leave out --fail, --strict, --write, --all and --across",
        ),
        (
            ["--versions", "--across", "models"],
            "leave out --fail, --strict, --write, --all and --across",
        ),
        (["77"], "there is no run '77'"),
        (["1", "latest~9"], "there is no run 'latest~9'"),
    ],
)
def test_mistakes(compare: Callable[..., Ended], words: Sequence[str], sentence: str) -> None:
    """Invalid arguments end with exit code 2 and the valid ones."""
    done = compare(*words)
    assert (done.exit_code, done.out) == (2, "")
    assert sentence in done.err
