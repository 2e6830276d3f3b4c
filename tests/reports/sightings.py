"""The places where a figure of a row is shown, read back from what people and scripts read."""

from __future__ import annotations

import csv
import html as entities
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts
from reusebench.storage.formatting import EMPTY, mib, milliseconds, per_second, percent
from reusebench.storage.measured_figure import DOUBT
from reusebench.storage.runs import Measured
from tests.reports.pages import readable

__all__ = [
    "ANY",
    "Sighting",
    "in_comparison",
    "in_export",
    "in_line",
    "in_tables",
    "in_terminal",
    "on_page",
]

#: Heads of the page's tables, by figure. MAIN is NPU memory, or without it application memory.
_HEADS = {
    "application": ("column_application",),
    "npu": ("column_npu",),
    "system": ("column_system",),
    "saved": ("column_saved", "column_application_saved"),
    "saved_percent": ("column_saved_percent", "column_application_saved_percent"),
    "npu_saved": ("column_npu_saved",),
    "npu_saved_percent": ("column_npu_saved_percent",),
    "main_saved": ("column_memory_saved", "column_measured_saved"),
    "main_saved_percent": ("column_memory_saved_percent", "column_measured_percent"),
    "latency": ("column_latency",),
    "rate": ("column_throughput", "streams_column_rate"),
    "lost": ("streams_column_lost",),
}
#: Columns of the terminal's tables, by figure: the name's key and the unit.
_TERMINAL = {
    ("application", "MiB"): "application",
    ("npu", "MiB"): "npu",
    ("system", "MiB"): "system",
    ("saved", "MiB"): "main_saved",
    ("saved", "%"): "main_saved_percent",
    ("latency", "ms"): "latency",
    ("rate", "/s"): "rate",
    ("frames", "/s"): "rate",
    ("lost", "%"): "lost",
}
#: Sentences of the page and the terminal, with the figure of each place in them. A figure whose
#: name begins with "whole_" is the baseline's.
_SENTENCES = {
    "answer_saves": {"saved": "saved", "whole": "whole_application", "percent": "saved_percent"},
    "answer_costs": {"saved": "saved"},
    "answer_nothing": {"saved": "saved"},
    "answer_npu_saves": {
        "saved": "npu_saved",
        "whole": "whole_npu",
        "percent": "npu_saved_percent",
    },
    "answer_npu_nothing": {"saved": "npu_saved", "whole": "whole_npu"},
    "explained_claim": {"measured": "main_saved_percent"},
    "explained_claim_reached": {"measured": "main_saved_percent"},
}
#: Figures of the sentence that opens the page, which names no scenario.
_OPENING = {"before": "main", "least": "main", "percent": "main_saved_percent"}
#: The scenario of a figure that is of one of the rows, without its name.
ANY = "any"
_LATENCY_SENTENCES = ("answer_speed", "answer_speed_same")
#: A figure as it is written: sizes may be a range.
_NUMBER = r"-?[\d,]+(?:\.\d+)?(?: \.\.\. [\d,.]+)?"
_FIGURE = re.compile(rf"({_NUMBER})(?: ±([\d,.]+))?")


class Sighting(NamedTuple):
    """A figure of a scenario, or of one of its models, as one place shows it."""

    scenario: str
    figure: str
    place: str
    median: str
    #: None if the place does not show it.
    spread: str | None


def on_page(html: str, texts: Texts, scenarios: Sequence[str]) -> Iterator[Sighting]:
    """Yield the figures in the tables and sentences of a page."""
    place = f"page {texts.language}"
    yield from _in_page_tables(html, texts, scenarios)
    for line in readable(html).splitlines():
        yield from _in_sentences(line, place, texts, scenarios)
        yield from _in_other_sentences(line, place, texts, scenarios)


def in_terminal(text: str, texts: Texts, scenarios: Sequence[str]) -> Iterator[Sighting]:
    """Yield the figures in the tables and sentences of the terminal's report."""
    lines = text.splitlines()
    columns: list[tuple[str, int, int]] = []
    for before, line in zip(["", *lines], lines):
        named = re.match(r".* \[([^\]]+)\] ", line)
        if line.split(" ", 1)[0] == texts("terminal_scenario"):
            columns = list(_terminal_columns(before, line, texts))
        elif named and named[1] in scenarios and columns:
            for figure, start, end in columns:
                text = line[max(start, named.end()) : end]
                yield from _sightings(named[1], figure, "terminal columns", text)
        else:
            columns = columns if line.strip() else []
            sentence = line.removeprefix("- ")
            yield from _in_sentences(sentence, "terminal", texts, scenarios)
            yield from _in_other_sentences(sentence, "terminal", texts, scenarios)


def in_line(scenario: str, line: str, is_npu: bool) -> Iterator[Sighting]:
    """Yield the figures of the live line of a configuration."""
    memory = "npu" if is_npu else "application"
    patterns = {
        memory: rf"^({_FIGURE.pattern}) MiB",
        "main_saved_percent": rf", ({_NUMBER} % (?:less|more)) than",
        "latency": rf", ({_FIGURE.pattern}) ms",
        "rate": rf", ({_FIGURE.pattern})(?: of [\d.]+)? frames/s",
    }
    for figure, pattern in patterns.items():
        found = re.search(pattern, line)
        if found:
            size, _, than = found[1].partition(" % ")
            sign = "-" if than == "more" else ""
            yield from _sightings(scenario, figure, "live line", f"{sign}{size}")


def in_tables(folder: Path) -> Iterator[Sighting]:
    """Yield the figures in the exported tables; all formats of a table have the same values."""
    for path in sorted(folder.glob("*.json")):
        records = json.loads(path.read_text(encoding="utf-8"))["rows"]
        name = path.stem
        assert _of_csv(path.with_suffix(".csv")) == [
            list(map(_cell, row.values())) for row in records
        ]
        markdown = path.with_suffix(".md").read_text(encoding="utf-8").splitlines()[2:]
        for line, row in zip(markdown, records):
            cells = [_cell(value).replace("|", "\\|") for value in row.values()]
            assert line == f"| {' | '.join(cells)} |"
        for record in records:
            if record.get("outcome") != "published":
                for figure, text in _of_record(name, record):
                    scenario = record["scenario"]
                    if name == "latencies" and "," in record["models"]:
                        scenario = f"{scenario} {record['model']}"
                    yield from _sightings(scenario, figure, f"{name} table", text)


#: Metrics of comparisons, by figure.
_METRICS = {
    "application_memory": "application",
    "npu_memory": "npu",
    "system_memory": "system",
    "latency": "latency",
    "throughput": "rate",
    "frames_lost": "lost",
}


def in_export(
    form: str, benchmarks: Mapping[str, Figure], names: Mapping[str, Measured]
) -> Iterator[Sighting]:
    """Yield the figures of an export; `names` has the measurement of each name."""
    written: Mapping[str, tuple[str, Callable[[Figure], str]]] = {
        "application-memory": ("application", mib),
        "npu-memory": ("npu", lambda figure: mib(figure, npu=True)),
        "latency": ("latency", milliseconds),
        "throughput": ("rate", per_second),
        "frames-lost": ("lost", percent),
    }
    for key, value in benchmarks.items():
        name, _, metric = key.rpartition(": ")
        if metric not in written:
            continue
        figure, write = written[metric]
        measured = names[name]
        scenario = measured.configuration.name
        if measured.model:
            scenario = f"{scenario} {measured.model}"
        yield from _sightings(scenario, figure, form, write(value))


def in_comparison(text: str, names: Mapping[str, Measured]) -> Iterator[Sighting]:
    """Yield the figures of a comparison; `names` has the measurement of each short name."""
    figure = None
    for line in text.splitlines():
        title = line.partition(", ")[0]
        figure = _METRICS.get(title, figure if line.strip() else None)
        name, *cells = re.split(r" {2,}", line)
        if figure and name in names:
            measured = names[name]
            model = f" {measured.model}" if measured.model else ""
            scenario = f"{measured.configuration.name}{model}"
            for cell in cells[:2]:
                yield from _sightings(scenario, figure, "compare", cell.partition(" (")[0])


def _sightings(scenario: str, figure: str, place: str, text: str) -> Iterator[Sighting]:
    shown = text.replace(DOUBT, "").strip()
    found = _FIGURE.fullmatch(shown)
    if found:
        yield Sighting(scenario, figure, place, found[1], found[2])
        return
    assert shown in (EMPTY, ""), (place, scenario, figure, text)
    # Tables for scripts have other columns for other kinds of run, and the terminal names the
    # latency of each model below its table.
    if shown == EMPTY and " table" not in place and figure != "latency":
        yield Sighting(scenario, figure, place, EMPTY, None)


def _in_page_tables(html: str, texts: Texts, scenarios: Sequence[str]) -> Iterator[Sighting]:
    figures = {texts(head): figure for figure, heads in _HEADS.items() for head in heads}
    names = {texts.scenario(name): name for name in scenarios}
    of_rows = {texts("column_scenario"), texts("column_option")}
    for table in re.findall(r"<table.*?</table>", html, re.DOTALL):
        heads = _cells(table, r'<th scope="col"[^>]*>(.*?)</th>')
        place = " ".join(_cells(table, r"<caption[^>]*>(.*?)</caption>"))
        for line in table.split("<tr class=")[1:]:
            cells = _cells(line, r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>")
            scenario = names.get(cells[0])
            if scenario is None or not set(heads[:1]) & of_rows:
                continue
            if heads[1] == texts("streams_column_stream"):
                scenario = f"{scenario} {cells[1]}"
            if heads[1] == texts("column_model"):
                scenario = f"{scenario} {cells[1]}"
            for head, cell in zip(heads, cells):
                if head in figures:
                    where = f"page {texts.language}, {place}"
                    yield from _sightings(scenario, figures[head], where, cell)


def _cells(html: str, pattern: str) -> list[str]:
    return [entities.unescape(cell) for cell in re.findall(pattern, html, re.DOTALL)]


def _in_other_sentences(
    line: str, place: str, texts: Texts, scenarios: Sequence[str]
) -> Iterator[Sighting]:
    """Yield the figures of the sentence that opens the page, and the latencies of models."""
    opening = _pattern(texts.words["answer_sentence"]).search(line)
    if opening:
        for name, figure in _OPENING.items():
            yield from _sightings(ANY, figure, f"{place}, answer", opening[name])
    names = {texts.scenario(name): name for name in scenarios}
    listed = _pattern(texts.words["latencies_of"]).fullmatch(line)
    if listed and listed["scenario"] in names:
        for part in re.finditer(rf"(\S+) ({_NUMBER} ±[\d,.]+) ms", listed["parts"]):
            scenario = f"{names[listed['scenario']]} {part[1]}"
            yield from _sightings(scenario, "latency", f"{place}, latencies", part[2])


def _in_sentences(
    line: str, place: str, texts: Texts, scenarios: Sequence[str]
) -> Iterator[Sighting]:
    names = {texts.scenario(name): name for name in scenarios}
    for key, figures in _SENTENCES.items():
        found = _pattern(texts.words[key]).match(line)
        if found is None or found["scenario"] not in names:
            continue
        values = found.groupdict()
        scenario = names[found["scenario"]]
        for name, figure in figures.items():
            of = scenario
            if figure.startswith("whole_"):
                of = names[values["baseline"]]
            spread = values.get("spread") or "" if name == "saved" else ""
            sign = "-" if key == "answer_costs" else ""
            shown = figure.removeprefix("whole_")
            yield from _sightings(of, shown, f"{place}, {key}", f"{sign}{values[name]}{spread}")
        for latency_key in _LATENCY_SENTENCES:
            latency = _pattern(texts.words[latency_key]).search(line)
            if latency:
                where = f"{place}, {latency_key}"
                yield from _sightings(scenario, "latency", where, latency["latency"])


def _pattern(template: str) -> re.Pattern[str]:
    """Return the pattern of a text with its values as groups."""
    pattern = re.escape(template)
    for name in re.findall(r"\{(\w+)\}", template):
        value = rf"(?P<{name}>.+?)"
        if name == "spread":
            value = r"(?P<spread>(?: ±[\d,.]+)?)"
        elif name in ("saved", "whole", "percent", "measured"):
            value = rf"(?P<{name}>{_NUMBER})"
        elif "latency" in name or name in ("before", "least"):
            value = rf"(?P<{name}>{_NUMBER}(?: ±[\d,.]+)?)"
        pattern = pattern.replace(re.escape(f"{{{name}}}"), value, 1)
    return re.compile(pattern)


def _terminal_columns(names: str, units: str, texts: Texts) -> Iterator[tuple[str, int, int]]:
    """Yield (figure, start, end) of the columns, whose heads end where their cells do."""
    figures = {
        (texts(f"terminal_{name}"), unit): figure for (name, unit), figure in _TERMINAL.items()
    }
    found = list(re.finditer(r"\S+", units))
    for before, unit in zip(found, found[1:]):
        start = before.end()
        head = names[start : unit.end()].strip()
        if (head, unit[0]) in figures:
            yield figures[(head, unit[0])], start, unit.end() + 1


def _of_record(table: str, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (figure, text) of a record of an exported table."""

    def size(name: str, spread: str = "", npu: bool = False) -> str:
        return mib(_figure(record.get(name), record.get(spread)), npu)

    npu = record.get("memory") == "npu"
    if table in ("comparison", "runs", "streams"):
        if record.get("stream", "all") != "all":
            return
        yield "application", size("application_memory_bytes", "application_memory_spread_bytes")
        yield "npu", size("npu_memory_bytes", npu=True)
        yield "system", size("system_memory_bytes")
        yield "saved", size("saved_bytes")
        yield "npu_saved", size("npu_saved_bytes", npu=True)
        for name in ("saved_percent", "npu_saved_percent"):
            yield name, percent(record.get(name))
        yield "latency", milliseconds(_figure(record.get("latency_ns")))
        yield "rate", per_second(_figure(record.get("throughput_per_s", record.get("done_per_s"))))
        yield "lost", percent(record.get("lost_percent"))
    elif table == "mechanisms" and record["memory"]:
        yield "main_saved", size("saved_bytes", "spread_bytes", npu)
    elif table == "speed":
        yield "main_saved_percent", percent(record["saved_percent"])
        yield "rate", per_second(_figure(record["throughput_per_s"]))
    elif table == "latencies":
        latency = _figure(record["latency_ns"], record["latency_spread_ns"])
        yield "latency", milliseconds(latency)
    elif table == "explanations" and record["component"] == "total":
        yield "main", size("measured_bytes", "measured_spread_bytes", record["basis"] == "account")


def _figure(value: float | None, spread: float | None = None) -> Figure | None:
    return None if value is None else Figure(value, spread)


def _of_csv(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def _cell(value: object) -> str:
    return "" if value is None else str(value)
