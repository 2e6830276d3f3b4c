"""`python -m reports compare`: stored files in, tables, sentences and an exit code out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reports.__main__ import main
from storage.result import Result
from tests.reports.stored import FAILED, MIB, changed, dup, even, npu_account, result, with_memory, write_run

LIMIT = ("--fail", "application_memory:2%+512KiB")


def store(storage: Path, number: int, *infos: Result) -> None:
    write_run(storage, list(infos), number, f"2026-01-{number:02}T00:00:00")


def grown(storage: Path, mib: float = 0.0, **changes: Any) -> Result:
    """Return full dup with so much more in each of 12 contexts."""
    return changed(result(storage, "full_dup", dup(40 + mib, 10 + mib)), **changes)


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Return a storage with a run, another like it, and one that takes 60 MiB more."""
    storage = tmp_path / "storage"
    store(storage, 1, grown(storage), result(storage, "no_reuse", even(40)))
    store(storage, 2, grown(storage), result(storage, "no_reuse", even(40)))
    store(storage, 3, grown(storage, 5), result(storage, "no_reuse", even(40)))
    return storage


def compare(storage: Path, *words: object) -> int:
    return main(["compare", *map(str, words), "--storage", str(storage)])


def test_a_rise_is_told_with_its_size(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table has both medians, the change with its interval and the verdict; without a limit it fails nothing."""
    assert compare(storage, 1) == 0
    printed = capsys.readouterr().out
    (row,) = [line.split() for line in printed.splitlines() if line.startswith("full_dup") and "+60.00" in line][:1]
    assert row[0] == "full_dup"
    assert {"180.00", "240.00", "+60.00", "higher"} <= set(row)
    assert "base: 0001_" in printed
    assert "head: 0003_" in printed


def test_a_limit_fails(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rise beyond the limit ends with exit code 1 and one line that says all of it."""
    assert compare(storage, 1, 3, *LIMIT) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILED")]
    assert "full_dup" in line
    assert "180.00 -> 240.00 MiB, +60.00" in line
    assert "allowed 4.10 MiB" in line


def test_a_limit_passes(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a change a limit passes, and it is said how much it was held against."""
    assert compare(storage, 1, 2, *LIMIT) == 0
    assert "passed application_memory:2%+512KiB: 2 compared" in capsys.readouterr().out


def test_a_run_is_not_compared_with_itself(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the base's words mean the head too it is left out of the base, and where nothing is left that is said."""
    assert compare(storage, storage, "latest") == 0
    assert "base: 0001_" in capsys.readouterr().out
    assert compare(storage, 3, 3) == 2
    assert "3 and 3 are the same" in capsys.readouterr().err


def test_other_conditions_are_said_and_fail_a_gate(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another version of the runtime is not compared silently: with a limit the exit code is not 0."""
    store(storage, 4, grown(storage, runtime_version="9.9"), result(storage, "no_reuse", even(40)))
    assert compare(storage, 3, 4) == 0
    printed = capsys.readouterr().out
    assert "runtime_version 1.2.3 -> 9.9" in printed
    assert "--across runtime_version" in printed
    assert compare(storage, 2, 4, *LIMIT) == 2
    assert compare(storage, 2, 4, *LIMIT, "--across", "runtime_version") == 0
    assert "compared although they differ" in capsys.readouterr().out


def test_nothing_to_compare(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs without a common configuration end with exit code 2 and what to do."""
    store(storage, 4, result(storage, "shared_context", dup(40, 10)))
    assert compare(storage, 3, 4) == 2
    said = capsys.readouterr()
    assert "nothing of 4 can be compared with 3" in said.err
    assert "only in the base: onnxruntime full_dup" in said.out


def test_what_fails_now_fails_the_gate(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A configuration that crashes where the base measured it breaks a gate."""
    crashed = result(storage, "full_dup", [], failure=FAILED)
    store(storage, 4, crashed, result(storage, "no_reuse", even(40)))
    assert compare(storage, 3, 4) == 0
    assert compare(storage, 3, 4, *LIMIT) == 1
    assert "it was measured in the base, and here it is: crashed" in capsys.readouterr().out


def test_damaged_files_are_named(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that was cut short is named and costs nothing else."""
    (path,) = storage.glob("*/0002_*.json")
    path.write_text(path.read_text()[:1000])
    assert compare(storage, 1, 3) == 0
    assert path.name in capsys.readouterr().err


def test_files_are_compared_without_a_storage(
    storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two files are enough, wherever they are."""
    files = sorted(storage.glob("*/*.json"))
    monkeypatch.chdir(tmp_path)
    assert main(["compare", str(files[0]), str(files[2])]) == 0
    assert "higher" in capsys.readouterr().out


def test_a_baseline_in_a_folder_of_its_own_shows_its_noise(
    storage: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runs of a baseline that is kept elsewhere are earlier runs of the series."""
    for number in range(1, 7):
        store(tmp_path / "baseline", number, grown(storage))
    store(storage, 9, grown(storage))
    assert compare(storage, tmp_path / "baseline", 9) == 0
    assert "The noise is known from 9 earlier runs" in capsys.readouterr().out


def test_a_narrow_terminal_cuts_nothing(
    storage: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row is as long as it must be: what does not fit goes on in the next line of the terminal."""
    monkeypatch.setenv("COLUMNS", "40")
    assert compare(storage, 1, "--metric", "application_memory") == 0
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert any(line.startswith("full_dup") and "higher" in line for line in printed.splitlines())


def test_counted_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """NPU memory is compared to the byte."""
    storage = tmp_path / "npu"
    for number, more in ((1, 0), (2, 1)):
        info = result(storage, "full_dup", dup(40, 10), npu=npu_account, computes=False)
        sizes = [(size or 0) + more for size in info.memory.npu_memory_bytes]
        store(storage, number, with_memory(info, npu_memory_bytes=sizes))
    assert compare(storage, 1, 2, "--fail", "npu_memory:0") == 1
    assert "+1 B ±0.00 MiB" in capsys.readouterr().out
    assert compare(storage, 1, 2, "--fail", "npu_memory:1B") == 0
    assert "rknn, vboard:rk3588, 4 x 3" in capsys.readouterr().out


def test_forms(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CSV and JSON hold the rows in the metrics' own units; Markdown is for the summary of a CI job."""
    compare(storage, 1, 3, "--metric", "application_memory", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["name"], row["verdict"]) for row in rows] == [("full_dup", "higher"), ("no_reuse", "no change")]
    assert float(rows[0]["change"]) == 60 * MIB
    compare(storage, 1, 3, "--metric", "application_memory", "--format", "json")
    document = json.loads(capsys.readouterr().out)
    assert document["changes"][0]["change"] == 60 * MIB
    compare(storage, 1, 3, *LIMIT, "--format", "md")
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("- FAILED application_memory") for line in lines)
    assert sum(line.startswith("| full_dup |") for line in lines) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["1", "--fail", "memory:2%"], "there is no metric 'memory'"),
        (["1", "--metric", "memory"], "there is no metric 'memory'; valid: application_memory"),
        (["1", "--across", "weather"], "invalid choice: 'weather'"),
        (["77"], "there is no run '77'"),
        (["1", "latest~9"], "there is no run 'latest~9'"),
    ],
)
def test_mistakes(storage: Path, words: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be understood ends with exit code 2 and what is valid."""
    try:
        code: object = compare(storage, *words)
    except SystemExit as error:
        code = error.code
    assert code == 2
    assert said in capsys.readouterr().err
