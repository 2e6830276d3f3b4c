"""OpenMetrics: its text by the parser of Prometheus's client, its values by the stored runs."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from reusebench.measured.messages import Message
from reusebench.reports.compare.exports.formats import EXPORTS, export_runs
from reusebench.reports.compare.exports.openmetrics import LABELS, newest_of_boards
from reusebench.storage.metrics import METRICS
from reusebench.storage.runs import Configuration, Measured, Run, read_runs
from tests.reports.stored import (
    FAILED,
    NOT_SUPPORTED,
    even,
    fleet_run,
    result,
    write_run,
)

#: The parsers of both formats, which have no types.
_OPENMETRICS: Any = openmetrics_parser.text_string_to_metric_families
_PLAIN: Any = parser.text_string_to_metric_families
_FORMS = {form.name: form for form in EXPORTS}
_PAST = _FORMS["openmetrics"]
_CURRENT = _PAST.of_boards or _PAST
_STREAMS = {"latency": 20e6, "latency_p99": 31e6, "throughput": 0.1, "frames_lost": 2.5}
#: A metric with its selector, as in a query of the dashboard.
_SELECTOR = re.compile(r"(reusebench_\w+)(?:\{([^}]*)\})?")


def runs_in(storage: Path) -> list[Run]:
    return [run for run in read_runs(storage) if isinstance(run, Run)]


def text_of(runs: list[Run], form: Any = _CURRENT) -> str:
    return "".join(export_runs(runs, form))


def samples(text: str) -> dict[tuple[str, str, float | None], float]:
    """Return the values by metric, label of the scenario, and time."""
    values: dict[tuple[str, str, float | None], float] = {}
    for family in _OPENMETRICS(text):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            at_s = float(sample.timestamp) if sample.timestamp else None
            key = (sample.name, sample.labels.get("scenario", ""), at_s)
            assert key not in values
            values[key] = sample.value
    return values


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Two runs of a board; a scenario failed in both, another is not supported."""
    folder = tmp_path_factory.mktemp("boards")
    for number, mib in ((1, 40), (2, 50)):
        infos = [
            result(folder, "no_reuse_one_model", even(mib), run=f"run{number}"),
            result(folder, "partial_dup", [], failure=FAILED, run=f"run{number}"),
            result(folder, "shared_context", [], failure=NOT_SUPPORTED),
        ]
        write_run(folder, infos, number, at=f"2026-01-0{number}T00:00:00.250000")
    return runs_in(folder)


def every_metric(runs: list[Run]) -> list[Run]:
    """Return the newest run with all metrics, each with three repeats."""
    values = {metric.name: (4096.0, 8192.0, 4096.0) for metric in METRICS}
    values.update({name: (value, 2 * value, value) for name, value in _STREAMS.items()})
    measured = tuple(replace(row, values=values) for row in runs[-1].measured[:1])
    return [replace(runs[-1], measured=measured)]


def test_values_are_the_medians_and_spreads(runs: list[Run]) -> None:
    """Each figure is a sample in the base unit, and its spread another one."""
    values = samples(text_of(runs[-1:]))
    measured = runs[-1].measured[0]
    repeats = measured.values["application_memory"]
    scenario = measured.configuration.name
    median = statistics.median(repeats)
    assert values["reusebench_application_memory_bytes", scenario, None] == median
    spread = values["reusebench_application_memory_spread_bytes", scenario, None]
    assert spread == max(abs(value - median) for value in repeats)
    latency_s = statistics.median(measured.values["latency"]) / 1e9
    assert values["reusebench_latency_seconds", scenario, None] == latency_s
    figures = [name for name, labelled, _ in values if labelled == scenario]
    assert len(figures) == 2 * len(measured.values) + 2


def test_every_metric_has_its_unit(runs: list[Run]) -> None:
    """Names end in the base unit, which UNIT repeats; rates and shares are not scaled twice."""
    text = text_of(every_metric(runs))
    families = list(_OPENMETRICS(text))
    assert all(family.name.endswith(family.unit) for family in families)
    assert {family.unit for family in families} == {
        "",
        "bytes",
        "seconds",
        "inferences_per_second",
        "tokens_per_second",
        "ratio",
    }
    values = {name: value for (name, _, _), value in samples(text).items()}
    assert values["reusebench_latency_p99_seconds"] == 0.031
    assert values["reusebench_frames_lost_ratio"] == 0.025
    assert values["reusebench_throughput_inferences_per_second"] == 0.1
    assert len(values) == 2 * len(METRICS) + 4


def test_failures_are_samples_too(runs: list[Run]) -> None:
    """A failed configuration has 0 and its outcome; an unsupported one did not fail."""
    values = samples(text_of(runs[-1:]))
    outcomes = {key[1]: value for key, value in values.items() if key[0].endswith("_ok")}
    assert outcomes == {"no_reuse_one_model": 1, "partial_dup": 0}
    assert 'scenario="partial_dup"' in text_of(runs[-1:])
    assert f'outcome="{FAILED.kind}"' in text_of(runs[-1:])


def test_current_samples_are_prometheus_text_too(runs: list[Run]) -> None:
    """The textfile collector's parser reads the same values; no sample has a timestamp."""
    text = text_of(every_metric(runs))
    assert text.endswith("# EOF\n")
    read = {}
    for family in _PLAIN(text):
        for sample in family.samples:
            assert sample.timestamp is None
            read[sample.name] = sample.value
    assert read == {name: value for (name, _, _), value in samples(text).items()}


def test_named_runs_have_their_times(runs: list[Run]) -> None:
    """The samples of several runs are one series in order of time; none is lost."""
    values = samples(text_of([*reversed(runs)], _PAST))
    times = [at for name, _, at in values if name == "reusebench_run_time_seconds"]
    assert times == [1767225600.25, 1767312000.25]
    for run, at_s in zip(runs, times):
        row = run.measured[0]
        key = ("reusebench_application_memory_bytes", row.configuration.name, at_s)
        assert values[key] == statistics.median(row.values["application_memory"])


def test_the_newest_run_of_each_board(runs: list[Run]) -> None:
    """Boards come by name, each with its newest finished run."""
    other = replace(runs[0], boards=("another",))
    unfinished = replace(runs[1], order=("2027", 9, ""), is_finished=False)
    assert newest_of_boards([runs[1], other, unfinished, runs[0]]) == [other, runs[1]]
    assert newest_of_boards([unfinished]) == []


def test_a_run_of_several_boards_is_that_of_each(tmp_path: Path) -> None:
    """A board has the figures of its own newest run, also if others were measured in it later."""
    fleet_run(tmp_path, ("rock5a", "rock5b"), 1)
    fleet_run(tmp_path, ("rock5b", "pico"), 2)
    runs = runs_in(tmp_path)
    assert newest_of_boards(runs) == [runs[1], runs[0]]
    text = text_of(list(reversed(runs)))
    numbers = re.findall(r'run_info{board="(\w+)",run="(\d+)_', text)
    assert numbers == [("pico", "0002"), ("rock5a", "0001"), ("rock5b", "0002")]
    assert len(re.findall('memory_bytes{board="rock5b"', text_of(runs, _PAST))) == 2 * len(
        re.findall('memory_bytes{board="rock5b"', text)
    )


@pytest.mark.parametrize("name", ['a "b"', "back\\slash", "two\nlines", "{}=,", "\u6a21\u578b", ""])
def test_labels_are_escaped(runs: list[Run], name: str) -> None:
    """Any text of a board, a scenario or a model is the same in Prometheus as it is stored."""
    row = runs[0].measured[0]
    configuration = Configuration("program", "python", name, name, (name, name))
    conditions = {**row.conditions, "board": name}
    odd = replace(row, configuration=configuration, conditions=conditions)
    text = text_of([replace(runs[0], boards=(name,), measured=(odd,))])
    for families_of in (_OPENMETRICS, _PLAIN):
        for family in families_of(text):
            for sample in family.samples:
                assert sample.labels["board"] == name
                assert sample.labels.get("scenario", name) == name
                assert sample.labels.get("models", f"{name};{name}") == f"{name};{name}"


def test_short_memory_is_marked(runs: list[Run]) -> None:
    """A figure that reads too small is marked in the labels of its conditions."""
    row: Measured = replace(runs[0].measured[0], shortage_signs=(Message("swapped_out"),))
    assert 'memory_short="true"' in text_of([replace(runs[0], measured=(row,))])
    assert 'memory_short="true"' not in text_of(runs[:1])


def dashboard() -> Any:
    return json.loads("".join(export_runs([], _FORMS["grafana"])))


def queries(board: Any) -> Iterator[str]:
    for panel in board["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def test_the_dashboard_asks_for_what_is_exported(runs: list[Run]) -> None:
    """Each query names metrics, labels and variables that there are."""
    labels_of: dict[str, set[str]] = {}
    for family in _OPENMETRICS(text_of(every_metric(runs))):
        labels_of[family.name] = set(family.samples[0].labels)
    board = dashboard()
    variables = {variable["name"] for variable in board["templating"]["list"]}
    for query in queries(board):
        for metric, selector in _SELECTOR.findall(query):
            labels = set(re.findall(r"(\w+)=~", selector))
            assert labels <= labels_of[metric], query
        used = {name.lower() for name in re.findall(r"\$(\w+)", query)}
        assert used <= variables | {"__range", "__rate_interval"}
    legends = " ".join(target["legendFormat"] for p in board["panels"] for target in p["targets"])
    assert set(re.findall(r"{{(\w+)}}", legends)) <= set(LABELS)


def test_the_dashboard_can_be_laid_out() -> None:
    """Panels have different numbers, fill the 24 columns, and do not overlap."""
    board = dashboard()
    taken = []
    for panel in board["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            taken += [(x, y) for y in range(place["y"], place["y"] + place["h"])]
    assert len(taken) == len(set(taken))
    assert {x for x, _ in taken} == set(range(24))
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
