"""`reusebench export`: stored files in, the text of another tool's file and an exit code out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from reusebench.reports.compare.exports.formats import EXPORTS
from reusebench.storage.runs import Run, read_runs
from tests.commands.replies import reply_in, result_of
from tests.helpers.support import CHECKOUT, Ended, Reusebench
from tests.reports.stored import FAILED, NOT_SUPPORTED, even, full_run, result, write_run

pytestmark = pytest.mark.process


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Two runs: the older one of 40 MiB, the newest of 50 MiB for each context."""
    folder = tmp_path / "storage"
    for number, mib in ((1, 40), (2, 50)):
        info = result(folder, "no_reuse", even(mib), run=f"run{number}")
        write_run(folder, [info], number, at=f"2026-01-0{number}T00:00:00")
    return folder


@pytest.fixture
def export(storage: Path, reusebench: Reusebench) -> Callable[..., Ended]:
    """Return export(words...), of runs of the storage."""
    return lambda *words: reusebench("export", *words, "--storage", storage)


def median_of(text: str) -> float:
    # Each of several models has a latency of its own, and no memory.
    (memory,) = [
        metrics["application-memory"]
        for metrics in json.loads(text).values()
        if "application-memory" in metrics
    ]
    return float(memory["value"])


@pytest.mark.parametrize("form", [form.name for form in EXPORTS if form.has_runs])
def test_every_format_is_printed(export: Callable[..., Ended], form: str) -> None:
    """Each format goes to standard output alone, and nothing to standard error."""
    done = export("--format", form)
    assert (done.exit_code, done.err) == (0, "")
    # A badge has one figure, whatever its configuration is called.
    assert "no_reuse" in done.out or "630.0 MiB" in done.out
    assert done.out.startswith(("{", "[", "run_number,", "<svg ", "# TYPE "))


def test_runs_are_named_as_for_every_other_command(
    export: Callable[..., Ended], storage: Path
) -> None:
    """Without a word the newest run is exported; the path of a storage means all of its runs."""
    medians = [
        median_of(export(*words, "--format", "bencher").out)
        for words in ((), ("latest",), (2,), (1,))
    ]
    assert medians[0] == medians[1] == medians[2] > medians[3]
    lines = export(storage, "--format", "csv", "--metric", "application_memory").out.splitlines()
    assert [line.partition(",")[0] for line in lines[1:]] == ["1"] * 3 + ["2"] * 3


def test_output_is_a_file(export: Callable[..., Ended], tmp_path: Path) -> None:
    """--output writes what would be printed, in UTF-8, and prints nothing."""
    for form in ("github", "csv"):
        printed = export("--format", form).out
        assert export("--format", form, "--output", tmp_path / form) == Ended(0, "", "")
        assert (tmp_path / form).read_bytes() == printed.encode()
    assert "±" in (tmp_path / "github").read_text(encoding="utf-8")
    assert len(pd.read_csv(tmp_path / "csv")) > 0
    done = export("--format", "csv", "--output", tmp_path / "none" / "file")
    assert done.exit_code == 2
    assert done.err.startswith(
        f"Error: cannot write {tmp_path}/none/file (No such file or directory). Name another"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_standard_output_that_is_full(storage: Path) -> None:
    """It is a sentence, in a locale without the characters of the export too."""
    command = [
        sys.executable,
        "-m",
        "reusebench",
        "export",
        "--storage",
        str(storage),
        "--format",
        "github",
    ]
    environment = {
        **os.environ,
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUNBUFFERED": "",
    }
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, cwd=CHECKOUT, env=environment, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert (
        done.stderr
        == b"Error: cannot write standard output (No space left on device). Name another with"
        b" --output FILE\n"
    )


def test_metrics_are_chosen(export: Callable[..., Ended]) -> None:
    """--metric is repeatable, and nothing else is exported; one that nothing has is named, with the
    exit code 1.
    """
    done = export("--format", "jsonl", "--metric", "latency", "--metric", "application_memory")
    records = [json.loads(line) for line in done.out.splitlines()]
    assert {record["metric"] for record in records} == {"latency", "application_memory"}
    done = export("--format", "github", "--metric", "latency", "--metric", "npu_memory")
    assert (done.exit_code, done.err) == (
        1,
        "Warning: not in the export: no figures of npu_memory\n",
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--format", "csv", "--metric", "memory"], "there is no metric 'memory'; the nearest is"),
        (["7", "--format", "csv"], "there is no run '7'. Valid: a number, a name, `latest`"),
        (
            ["--format", "bencher", "--metric", "npu_memory", "--output", "{file}"],
            "no figures of npu_memory. There are",
        ),
        (
            ["--format", "trace", "--metric", "latency"],
            "--format trace has a content of its own: leave --metric",
        ),
        ([], "Missing option '--format'"),
        (["--format", "parquet"], "--format parquet is a folder of files: name it with --output"),
        (
            ["--format", "parquet", "--metric", "latency", "--output", "{file}"],
            "--format parquet has all metrics as columns: leave --metric out",
        ),
    ],
)
def test_mistakes(
    export: Callable[..., Ended], words: list[str], sentence: str, tmp_path: Path
) -> None:
    """They end with exit code 2 and what is valid, and no empty file is written."""
    done = export(*(word.format(file=tmp_path / "file") for word in words))
    assert (done.exit_code, done.out) == (2, "")
    assert sentence in done.err
    assert not (tmp_path / "file").exists()


def test_json_is_a_reply(export: Callable[..., Ended], storage: Path, tmp_path: Path) -> None:
    """The document holds to the schema of replies and has the values as stored, on standard output
    and in a file.
    """
    document = result_of(export("..", "--format", "json"))
    stored = [run for run in read_runs(storage) if isinstance(run, Run)]
    assert [run["number"] for run in document["runs"]] == [1, 2]
    for run, stored_run in zip(document["runs"], stored):
        assert len(run["configurations"]) == len(stored_run.measured)
        for row, measured in zip(run["configurations"], stored_run.measured):
            values = {figure["metric"]: tuple(figure["values"]) for figure in row["figures"]}
            assert values == measured.values
            assert row["outcome"] == "ok"
    words = ("--format", "json", "--metric", "latency", "--output", tmp_path / "file")
    assert export(*words) == Ended(0, "", "")
    written = reply_in(Ended(0, (tmp_path / "file").read_text(encoding="utf-8"), ""))
    figures = written["result"]["runs"][0]["configurations"][0]["figures"]
    assert {figure["metric"] for figure in figures} <= {"latency"}


def test_json_has_what_failed(tmp_path: Path, reusebench: Reusebench) -> None:
    """A failed configuration is not missing: it is there with its outcome, and without figures."""
    full_run(tmp_path)
    document = result_of(reusebench("export", "--storage", tmp_path, "--format", "json"))
    failed = [row for row in document["runs"][0]["configurations"] if row["outcome"] != "ok"]
    assert [(row["outcome"], row["figures"]) for row in failed] == [(FAILED.kind, [])]


def test_parquet_is_a_folder(export: Callable[..., Ended], tmp_path: Path) -> None:
    """Each export adds its run to the partition of its month."""
    words = ("--format", "parquet", "--output", tmp_path / "out")
    for run in (1, 2):
        assert export(run, *words) == Ended(0, "", "")
    (path,) = (tmp_path / "out").rglob("*.parquet")
    query = "SELECT DISTINCT run_number FROM read_parquet($1) ORDER BY ALL"
    with duckdb.connect() as database:
        assert database.execute(query, [str(path)]).fetchall() == [(1,), (2,)]
    assert path.parent.name == "month=2026-01"


def test_what_failed_is_named(tmp_path: Path, reusebench: Reusebench) -> None:
    """The rest of a run with a failure is exported; the failure is named, and the exit code is
    1.
    """
    full_run(tmp_path)
    done = reusebench("export", "--storage", tmp_path, "--format", "github")
    assert done.exit_code == 1
    assert len(json.loads(done.out)) > 0
    assert done.err.startswith(
        "Warning: not in the export: 0001_run: onnxruntime shared_context (4 x 3, "
    )
    assert done.err.endswith(f": {FAILED.kind}\n")


def test_nothing_but_failures(tmp_path: Path, reusebench: Reusebench) -> None:
    """If every configuration failed there is no export, and each failure is named."""
    write_run(tmp_path, [result(tmp_path, "no_reuse", [], failure=FAILED)])
    done = reusebench("export", "--storage", tmp_path, "--format", "csv")
    assert (done.exit_code, done.out) == (2, "")
    assert "not in the export: 0001_run: onnxruntime no_reuse" in done.err
    assert "There are: none" in done.err


def test_what_a_runtime_does_not_have_is_no_failure(tmp_path: Path, reusebench: Reusebench) -> None:
    """A configuration that is not supported never had a figure: the export is whole."""
    missing = result(tmp_path, "shared_context", [], failure=NOT_SUPPORTED)
    write_run(tmp_path, [result(tmp_path, "no_reuse", even(40)), missing])
    done = reusebench("export", "--storage", tmp_path, "--format", "csv")
    assert (done.exit_code, done.err) == (0, "")


def test_a_damaged_file_is_named(export: Callable[..., Ended], storage: Path) -> None:
    """A file cut short may have been the newest: it is named, the newest of the others exported,
    the exit code 1.
    """
    path = next(storage.glob("*/0002_run.json"))
    path.with_name("0003_cut.json").write_text(path.read_text()[:500])
    done = export("--format", "bencher")
    assert done.exit_code == 1
    assert "0003_cut.json: cannot be read" in done.err
    assert median_of(done.out) > 0


def test_a_trace_that_is_lost_is_named(
    export: Callable[..., Ended], storage: Path, tmp_path: Path
) -> None:
    """The other processes are exported, with exit code 1; if none is left, it is an error."""
    first, *others = sorted((storage / "traces" / "run2").iterdir())
    first.write_bytes(first.read_bytes()[:100])
    done = export("--format", "trace")
    assert done.exit_code == 1
    assert re.fullmatch(
        r"Warning: not in the export: 0002_run: onnxruntime no_reuse \(.*\) repeat 1: its trace is"
        r" lost or damaged\n",
        done.err,
    )
    names = [
        event for event in json.loads(done.out)["traceEvents"] if event["name"] == "process_name"
    ]
    assert len(names) == len(others) == 2
    for other in others:
        other.unlink()
    done = export("--format", "trace", "--output", tmp_path / "file")
    assert (done.exit_code, done.out) == (2, "")
    assert done.err.endswith(
        "Error: 0002_run: no trace can be read. Traces are in the folder `traces` of the storage:"
        " copy it with the runs, or name another run\n"
    )
    assert not (tmp_path / "file").exists()
