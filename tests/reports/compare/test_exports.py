from __future__ import annotations

import io
import json
import re
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest

from reusebench.measured.plan import Model
from reusebench.reports.compare.exports.figures import name_of
from reusebench.reports.compare.exports.formats import (
    EXPORTS,
    absent_metrics,
    export_runs,
    left_out,
)
from reusebench.reports.compare.exports.long_form import LONG_COLUMNS
from reusebench.reports.errors import ReportError
from reusebench.storage.metrics import METRICS, find_metric
from reusebench.storage.runs import Configuration, Run, run_of
from tests.helpers.support import CHECKOUT
from tests.reports.stored import (
    FAILED,
    MIB,
    MODELS,
    NOT_SUPPORTED,
    changed,
    even,
    result,
    runs_of,
    write_run,
)

_FORMS = {form.name: form for form in EXPORTS}
_SCHEMAS = {"bencher": "bencher", "github": "github", "github-bigger": "github"}
_CONFIGURATION = Configuration("onnxruntime", "python", "no_reuse", "4 x 3", ("a", "b"))


def short_runs_of(storage: Path) -> list[Run]:
    return [run_of(file) for file in runs_of(storage)]


def schema_of(name: str) -> Any:
    return json.loads(
        (Path(__file__).parent / "export_forms" / f"{name}.json").read_text(encoding="utf-8")
    )


def text_of(runs: list[Run], form: str, *metrics: str) -> str:
    return "".join(export_runs(runs, _FORMS[form], [find_metric(name) for name in metrics]))


@pytest.fixture(scope="module")
def runs(full_storage: Path) -> list[Run]:
    return short_runs_of(full_storage)


@pytest.mark.parametrize("form", _SCHEMAS)
def test_export_is_valid(runs: list[Run], form: str) -> None:
    """Exports have the documented format of their tools."""
    jsonschema.validate(json.loads(text_of(runs, form)), schema_of(_SCHEMAS[form]))


def test_the_forms_refuse_something() -> None:
    """The schemas of exports refuse other content."""
    for name, bad in (
        ("bencher", {"a": {"not_a_slug": {"value": 1}}}),
        ("bencher", {"a": {"slug": {"value": "1"}}}),
        ("github", []),
        ("github", [{"name": "a", "unit": "bytes", "value": "1"}]),
        ("record", {}),
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema_of(name))


def test_bencher_has_the_median_and_the_range_of_the_repeats(runs: list[Run]) -> None:
    """A metric has the median of the repeats as value, their range as lower and upper values."""
    benchmarks = json.loads(text_of(runs, "bencher"))
    for measured in runs[0].measured:
        for name, values in measured.values.items():
            metric = benchmarks[name_of(measured.configuration)][name.replace("_", "-")]
            assert metric["value"] == statistics.median(values)
            assert (metric["lower_value"], metric["upper_value"]) == (min(values), max(values))


def test_measures_of_bencher_are_slugs() -> None:
    """Every metric is a measure of its own, by a slug as Bencher makes them: 64 letters, digits and
    single hyphens.
    """
    slugs = {metric.name.replace("_", "-") for metric in METRICS}
    assert len(slugs) == len(METRICS)
    assert all(re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", slug) and len(slug) <= 64 for slug in slugs)


def test_github_has_the_median_and_the_farthest_repeat(runs: list[Run]) -> None:
    """An entry has the median, the spread, and the range in words."""
    entries = {entry["name"]: entry for entry in json.loads(text_of(runs, "github"))}
    for measured in runs[0].measured:
        values = measured.values.get("application_memory", ())
        if values:
            entry = entries[f"{name_of(measured.configuration)}: application_memory"]
            median = statistics.median(values)
            assert (entry["value"], entry["unit"]) == (median, "bytes")
            assert float(entry["range"].lstrip("± ")) == max(
                median - min(values), max(values) - median
            )
            assert (
                f"{len(values)} repeats, {min(values):.0f} to {max(values):.0f}" in entry["extra"]
            )
            assert "board board-123456, runtime_version 1.2.3" in entry["extra"]


def test_names_of_github_are_unique(runs: list[Run]) -> None:
    """Names in a file are unique: the tool compares only the first entry of a name."""
    names = []
    for form in ("github", "github-bigger"):
        names += [entry["name"] for entry in json.loads(text_of(runs, form))]
    assert len(names) == len(set(names))


def test_each_direction_has_its_file(runs: list[Run]) -> None:
    """Throughput, of which more is better, is only in the file of customBiggerIsBetter."""
    units = {
        form: {entry["unit"] for entry in json.loads(text_of(runs, form))}
        for form in ("github", "github-bigger")
    }
    assert units == {"github": {"bytes", "ns"}, "github-bigger": {"1/s"}}


@pytest.mark.parametrize(
    ("form", "metric"), [("github", "throughput"), ("github-bigger", "npu_memory")]
)
def test_a_metric_of_the_other_direction_is_refused(
    runs: list[Run], form: str, metric: str
) -> None:
    """A requested metric that a format cannot hold is an error, with the formats that can."""
    with pytest.raises(ReportError, match=r"bencher, .*csv, jsonl"):
        text_of(runs, form, metric)


@pytest.mark.parametrize("form", [*_SCHEMAS, "csv", "jsonl"])
def test_nothing_is_missing(runs: list[Run], form: str) -> None:
    """Every measured configuration is in the export, with all its metrics that the format holds."""
    text = text_of(runs, form)
    held = {metric.name for metric in _FORMS[form].metrics}
    values = {measured.configuration: held & set(measured.values) for measured in runs[0].measured}
    count = sum(len(each) for each in values.values())
    if form == "bencher":
        assert sum(len(each) for each in json.loads(text).values()) == count
    elif form in _SCHEMAS:
        assert len(json.loads(text)) == count
    else:
        lines = (
            pd.read_csv(io.StringIO(text))
            if form == "csv"
            else pd.read_json(io.StringIO(text), lines=True)
        )
        assert len(lines.groupby(["name", "detail", "models", "metric"])) == count


def test_names_are_stable(tmp_path: Path) -> None:
    """Names do not depend on figures, versions and days: they carry the other tool's history."""
    names = []
    for number, mib in ((1, 40), (2, 50)):
        info = result(tmp_path, "no_reuse", even(mib), run=f"run{number}")
        info = changed(info, runtime_version=f"1.{number}")
        write_run(tmp_path, [info], number, at=f"2026-01-0{number}T00:00:00")
    for run in short_runs_of(tmp_path):
        names.append({entry["name"] for entry in json.loads(text_of([run], "github"))})
        configurations = [measured.configuration for measured in run.measured]
        assert list(json.loads(text_of([run], "bencher"))) == list(map(name_of, configurations))
    assert len(names) == 2
    assert names[0] == names[1]


def test_names_have_every_model() -> None:
    """Configurations that differ in a later model have different names; with one model it is the
    name in the report.
    """
    assert name_of(_CONFIGURATION) == "onnxruntime no_reuse (4 x 3, a, b)"
    assert name_of(_CONFIGURATION) != name_of(replace(_CONFIGURATION, models=("a", "c")))
    for models in ((), ("a",)):
        assert name_of(replace(_CONFIGURATION, models=models)) == str(
            replace(_CONFIGURATION, models=models)
        )


def test_long_names_are_cut_and_stay_different() -> None:
    """Long names are shortened to Bencher's 1024 bytes, and stay distinct."""
    long = [replace(_CONFIGURATION, models=("\u6a21\u578b" * 200, last)) for last in "ab"]
    names = [name_of(configuration) for configuration in long]
    assert all(len(name.encode()) <= 1024 for name in names)
    assert names[0] != names[1]
    assert names[0] == name_of(long[0])


def test_names_are_names_to_bencher() -> None:
    """No name can be taken for a slug or a UUID, and none asks for its alerts to be ignored."""
    for configuration in (
        _CONFIGURATION,
        Configuration("program", "python", "camera_bencher_ignore", "whole"),
    ):
        name = name_of(configuration)
        assert not re.fullmatch("[0-9a-f-]+|[a-z0-9-]+", name)
        assert not name.endswith(("_bencher_ignore", "BencherIgnore", "-bencher-ignore"))


def test_csv_and_json_lines_are_the_same_records(runs: list[Run]) -> None:
    """Both have a line for each metric and repeat, with the same columns in one order, and the
    values as stored.
    """
    lines = text_of(runs, "jsonl").split("\n")
    assert lines.pop() == ""
    records = [json.loads(line) for line in lines]
    for record in records:
        jsonschema.validate(record, schema_of("record"))
    assert {tuple(record) for record in records} == {LONG_COLUMNS}
    table = pd.read_csv(io.StringIO(text_of(runs, "csv")))
    assert tuple(table.columns) == LONG_COLUMNS
    assert table["value"].tolist() == [record["value"] for record in records]
    assert table["metric"].tolist() == [record["metric"] for record in records]
    values_of_run: list[float] = []
    for measured in runs[0].measured:
        for values in measured.values.values():
            values_of_run += values
    assert len(records) == len(values_of_run)


def test_medians_of_the_long_form_are_those_of_bencher(runs: list[Run]) -> None:
    """pandas reads the same figures from the long form as the other exports have."""
    table = pd.read_csv(io.StringIO(text_of(runs, "csv", "application_memory")))
    medians = sorted(table.groupby("name")["value"].median())
    metrics = json.loads(text_of(runs, "bencher", "application_memory")).values()
    assert medians == sorted(metric["application-memory"]["value"] for metric in metrics)


def test_text_in_the_long_form_comes_back_whole(tmp_path: Path) -> None:
    """Commas, quotes and Chinese characters in a model's name are the same in pandas as on disk."""
    name = 'a, "\u6a21\u578b"'
    write_run(
        tmp_path,
        [
            result(
                tmp_path, "no_reuse_one_model", even(40), models=[Model(name, "/m.onnx", "a" * 64)]
            )
        ],
    )
    for form, read in (
        ("csv", pd.read_csv),
        ("jsonl", lambda text: pd.read_json(text, lines=True)),
    ):
        assert set(read(io.StringIO(text_of(short_runs_of(tmp_path), form)))["models"]) == {name}


def test_programs_are_exported(runs: list[Run]) -> None:
    """A program's phase is a configuration: it has neither models nor a plan."""
    program = Configuration("program", "python", "camera", "whole")
    conditions = {**dict.fromkeys(runs[0].measured[0].conditions), "board": "board-123456"}
    measured = replace(runs[0].measured[0], configuration=program, conditions=conditions)
    alone = [replace(runs[0], measured=(measured,))]
    assert list(json.loads(text_of(alone, "bencher"))) == ["program camera (whole)"]
    for line in text_of(alone, "jsonl").splitlines():
        jsonschema.validate(json.loads(line), schema_of("record"))


def test_what_failed_is_left_out_and_named(tmp_path: Path) -> None:
    """A failed configuration is left out and named; an unsupported one is not missed."""
    infos = [
        result(tmp_path, "no_reuse", even(40)),
        result(tmp_path, "partial_dup", [], failure=FAILED),
    ]
    write_run(tmp_path, [*infos, result(tmp_path, "shared_context", [], failure=NOT_SUPPORTED)])
    runs = short_runs_of(tmp_path)
    for export in EXPORTS:
        assert left_out(runs, export) == [f"0001_run: {runs[0].measured[1].configuration}: crashed"]
    # Prometheus has a metric of outcomes.
    for form in _FORMS.keys() - {"openmetrics"}:
        assert "partial_dup" not in text_of(runs, form)
        assert "shared_context" not in text_of(runs, form)


def test_repeats_of_several_runs_are_taken_together(tmp_path: Path) -> None:
    """Repeats of several runs make one figure; the long form keeps them apart."""
    for number, mib in ((1, 10), (2, 20)):
        write_run(tmp_path, [result(tmp_path, "no_reuse", even(mib), run=f"run{number}")], number)
    runs = short_runs_of(tmp_path)
    both = [value for run in runs for value in run.measured[0].values["application_memory"]]
    metrics, *_ = json.loads(text_of(runs, "bencher")).values()
    assert metrics["application-memory"]["value"] == statistics.median(both)
    table = pd.read_csv(io.StringIO(text_of(runs, "csv", "application_memory")))
    assert table.groupby("run_number")["repeat"].count().to_dict() == {1: 3, 2: 3}


@pytest.mark.parametrize("form", _SCHEMAS)
def test_different_things_get_no_common_figure(tmp_path: Path, form: str) -> None:
    """Runs with different versions are not merged; the error names condition, runs and values."""
    for number in (1, 2):
        info = result(tmp_path, "no_reuse", even(40), run=f"run{number}")
        write_run(tmp_path, [changed(info, runtime_version=f"1.{number}")], number)
    with pytest.raises(ReportError, match=r"runtime_version \(0001_run: 1\.1, 0002_run: 1\.2\)"):
        text_of(short_runs_of(tmp_path), form)
    assert set(
        pd.read_csv(io.StringIO(text_of(short_runs_of(tmp_path), "csv")))["runtime_version"]
    ) == {1.1, 1.2}


def test_metrics_that_nothing_has(runs: list[Run]) -> None:
    """An empty export is an error that names the stored metrics; one missing metric is reported."""
    with pytest.raises(
        ReportError, match=r"0001_run: no figures of npu_memory\. There are: application_memory,"
    ):
        text_of(runs, "csv", "npu_memory")
    asked = [find_metric("npu_memory"), find_metric("application_memory")]
    assert absent_metrics(runs, asked) == ["npu_memory"]
    assert {
        each["metric"]
        for each in map(json.loads, text_of(runs, "jsonl", *(m.name for m in asked)).splitlines())
    } == {"application_memory"}


def test_npu_memory_is_exported(npu_storage: Path) -> None:
    """Results of the NPU without speed have their NPU memory, and no throughput to export."""
    runs = short_runs_of(npu_storage)
    entries = json.loads(text_of(runs, "github", "npu_memory"))
    assert all(entry["value"] % MIB == 0 and entry["range"] == "± 0" for entry in entries)
    assert "rknn on vboard:rk3588" in entries[0]["name"]
    with pytest.raises(ReportError, match="throughput"):
        text_of(runs, "github-bigger")


def test_models_are_in_the_order_of_the_plan(runs: list[Run]) -> None:
    """The long form names every model once, separated by semicolons."""
    table = pd.read_csv(io.StringIO(text_of(runs, "csv")))
    assert ";".join(model.name for model in MODELS) in set(table["models"])


@pytest.mark.parametrize("page", ["reference/exports.md", "reference/exports.zh-CN.md"])
def test_the_page_explains_every_format_and_column(page: str) -> None:
    """The page of exports names each format and each column, in both languages."""
    words = set(re.findall(r"`([\w-]+)`", (CHECKOUT / "docs" / page).read_text(encoding="utf-8")))
    assert ({form.name for form in EXPORTS} | set(LONG_COLUMNS)) - words == set()
