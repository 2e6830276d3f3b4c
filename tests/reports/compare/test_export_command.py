from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from reports.commands.export import prepare_parser, run
from reports.compare.exports import EXPORTS
from reports.errors import ExportNotWritable, NoSuchRuns, NothingToExport
from tests.reports.stored import FAILED, NOT_SUPPORTED, even, full_run, result, write_run
from tests.support import CHECKOUT


def export(storage: Path, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    prepare_parser(parser)
    return run(parser.parse_args([*arguments, "--storage", str(storage)]))


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Two runs: the older one of 40 MiB, the newest of 50 MiB for each context."""
    folder = tmp_path / "storage"
    for number, mib in ((1, 40), (2, 50)):
        info = result(folder, "no_reuse", even(mib), run=f"run{number}")
        write_run(folder, [info], number, at=f"2026-01-0{number}T00:00:00")
    return folder


def median_of(text: str) -> float:
    [metrics] = json.loads(text).values()
    return float(metrics["application-memory"]["value"])


@pytest.mark.parametrize("form", [form.name for form in EXPORTS])
def test_every_format_is_printed(storage: Path, form: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Each format goes to standard output, with nothing beside it there, and none on standard error."""
    assert export(storage, "--format", form) == 0
    printed = capfd.readouterr()
    assert "no_reuse" in printed.out
    assert printed.out.startswith(("{", "[", "run_number,"))
    assert printed.err == ""


def test_the_newest_run_is_the_default(storage: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without a word the newest run is exported; runs are named as for every other command."""
    medians = []
    for words in ([], ["latest"], ["2"], ["1"], ["latest~1"]):
        assert export(storage, *words, "--format", "bencher") == 0
        medians.append(median_of(capfd.readouterr().out))
    newest, *others = medians
    assert others[:2] == [newest, newest]
    assert others[2] == others[3] < newest


def test_a_storage_may_be_named(storage: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The words may be the path of a whole storage: all of its runs, each in lines of its own."""
    assert export(storage, str(storage), "--format", "csv", "--metric", "application_memory") == 0
    numbers = [line.partition(",")[0] for line in capfd.readouterr().out.splitlines()[1:]]
    assert numbers == ["1"] * 3 + ["2"] * 3


def test_output_is_a_file(storage: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """--output writes what would be printed, in UTF-8, and prints nothing."""
    for form in ("github", "csv"):
        assert export(storage, "--format", form) == 0
        printed = capfd.readouterr().out
        assert export(storage, "--format", form, "--output", str(tmp_path / form)) == 0
        assert (tmp_path / form).read_bytes() == printed.encode()
        assert capfd.readouterr().out == ""
    assert "±" in (tmp_path / "github").read_text(encoding="utf-8")
    assert len(pd.read_csv(tmp_path / "csv")) > 0


def test_output_that_cannot_be_written(storage: Path, tmp_path: Path) -> None:
    """An output in a folder that is not there is an error that names the option."""
    with pytest.raises(ExportNotWritable, match="--output FILE"):
        export(storage, "--format", "csv", "--output", str(tmp_path / "none" / "file"))


def test_a_reader_that_goes_away(storage: Path) -> None:
    """An output whose reader ends early, as `head` does, is an error in a sentence, in every locale."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "reports", "export", "--storage", str(storage), "--format", "github"]
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ended = subprocess.run(command, cwd=CHECKOUT, env=environment, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert ended.returncode == 2
    assert ended.stderr.decode() == (
        "reports: cannot write standard output (Broken pipe). Name another with --output FILE\n"
    )


def test_metrics_are_chosen(storage: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """--metric is repeatable, and nothing else is exported."""
    assert export(storage, "--format", "jsonl", "--metric", "latency", "--metric", "application_memory") == 0
    records = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert {record["metric"] for record in records} == {"latency", "application_memory"}


def test_an_unknown_metric(storage: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A metric that there is none of is refused with the names that are valid, exit code 2."""
    with pytest.raises(SystemExit) as ended:
        export(storage, "--format", "csv", "--metric", "memory")
    assert ended.value.code == 2
    assert "application_memory_trimmed" in capfd.readouterr().err


def test_a_run_that_is_not_there(storage: Path) -> None:
    """Words that mean no run are an error, which says what is valid."""
    with pytest.raises(NoSuchRuns, match="latest"):
        export(storage, "7", "--format", "csv")


def test_no_figures_at_all(storage: Path) -> None:
    """A metric that the run does not have is an error, and no empty file is written."""
    with pytest.raises(NothingToExport):
        export(storage, "--format", "bencher", "--metric", "npu_memory", "--output", str(storage / "file"))
    assert not (storage / "file").exists()


def test_what_failed_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The rest of a run with a failure is exported; the failure is named, and the exit code is 1."""
    full_run(tmp_path)
    assert export(tmp_path, "--format", "github") == 1
    printed = capfd.readouterr()
    assert len(json.loads(printed.out)) > 0
    assert printed.err.startswith("reports: not in the export: 0001_run: onnxruntime shared_context (4 x 3, ")
    assert printed.err.endswith(f": {FAILED.kind}\n")


def test_nothing_but_failures(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where everything failed there is no export, and each failure is named all the same."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", [], failure=FAILED)])
    with pytest.raises(NothingToExport, match="There are: none"):
        export(tmp_path, "--format", "csv")
    assert "not in the export: 0001_run: onnxruntime no_reuse" in capfd.readouterr().err


def test_what_a_runtime_does_not_have_is_no_failure(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A configuration that is not supported never had a figure: the export is whole."""
    missing = result(tmp_path, "shared_context", [], failure=NOT_SUPPORTED)
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40)), missing])
    assert export(tmp_path, "--format", "csv") == 0
    assert capfd.readouterr().err == ""


def test_a_metric_that_is_missing_is_named(storage: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of two metrics that were asked for the one that nothing has is named, and the exit code is 1."""
    assert export(storage, "--format", "github", "--metric", "latency", "--metric", "npu_memory") == 1
    assert capfd.readouterr().err == "reports: not in the export: no figures of npu_memory\n"


def test_a_damaged_file_is_named(storage: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A file cut short may have been the newest: it is named, the newest of the others exported, the exit code 1."""
    path = next(storage.glob("*/0002_run.json"))
    path.with_name("0003_cut.json").write_text(path.read_text()[:500])
    assert export(storage, "--format", "bencher") == 1
    printed = capfd.readouterr()
    assert "0003_cut.json" in printed.err
    assert median_of(printed.out) > 0
