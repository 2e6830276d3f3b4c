"""The page: one self-contained HTML file per language, made from the groups alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from reports import figures
from reports.answers import answers, warnings
from reports.comparison import Group, Row
from reports.contexts import further_costs
from reports.format import EMPTY, mib, milliseconds, per_second, percent
from reports.published import PublishedRow
from reports.summary import Figure
from reports.texts import LANGUAGES, Texts, texts_of
from storage.files import BadFile

__all__ = ["page_name", "write_pages"]

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    text: str
    #: Aligned and set as a number.
    number: bool = True


@dataclass(frozen=True)
class Table:
    """A table: its heads, and rows of as many cells, each with a class for its look."""

    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]


def write_pages(
    groups: Sequence[Group], published: Sequence[PublishedRow], bad_files: Sequence[BadFile], folder: Path
) -> Path:
    """Write the page in every language into the folder and return the path of the first."""
    folder.mkdir(parents=True, exist_ok=True)
    for language in LANGUAGES:
        html = _render(groups, published, bad_files, texts_of(language))
        (folder / page_name(language)).write_text(html, encoding="utf-8")
    return folder / page_name(LANGUAGES[0])


def page_name(language: str) -> str:
    """Return the file name of a language's page."""
    return "index.html" if language == LANGUAGES[0] else f"index.{language}.html"


def _render(
    groups: Sequence[Group], published: Sequence[PublishedRow], bad_files: Sequence[BadFile], texts: Texts
) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("page.html.j2").render(
        t=texts,
        languages=[(language, page_name(language), texts_of(language)("language_name")) for language in LANGUAGES],
        lead=_lead(groups[0], texts),
        groups=[_group(group, number, published, texts) for number, group in enumerate(groups)],
        environment=_environment(groups[0], texts),
        bad_files=[str(each) for each in bad_files],
        scenario_colours={texts.scenario(name): value for name, value in figures.SCENARIO_COLOURS.items()},
        phase_colours={texts(f"phase_{name}"): value for name, value in figures.PHASE_COLOURS.items()},
        style=Markup((_TEMPLATES / "style.css").read_text(encoding="utf-8")),
    )


def _lead(group: Group, texts: Texts) -> str:
    machine = group.newest.machine["reusebench"]
    return texts(
        "lead",
        board=machine["board"],
        cpus=machine["usable_cpus"],
        memory=f"{machine['memory_total_bytes'] / 2**20:,.0f} MiB",
        date=group.newest.recorded_at[:16].replace("T", " "),
    )


def _group(group: Group, number: int, published: Sequence[PublishedRow], texts: Texts) -> dict[str, Any]:
    info = group.info
    # The rows that use most models name them all; the others use the first of these.
    models = max((row.models for row in group.rows), key=len)
    drawings = {
        "bars": figures.bars(group, texts) if any(row.measured for row in group.rows) else None,
        "contexts": figures.contexts(group, texts) if any(row.measured for row in group.rows) else None,
        "timeline": figures.timeline(group, texts),
    }
    conditions = {key: info[key] for key in ("runtime", "target", "streams", "contexts", "cores")}
    versions = {"version": info["runtime_version"] or EMPTY, "python": info["python_version"] or EMPTY}
    return {
        "heading": texts("heading", **conditions, **versions),
        "conditions": texts("conditions", **conditions, **versions),
        "models": texts("models_of", models=models),
        "answers": answers(group, texts),
        "warnings": warnings(group, texts),
        "comparison": _comparison(group, published, texts),
        "details": _details(group, texts),
        "slopes": _slopes(group, texts),
        "failures": _failures(group, texts),
        "published_note": texts("published_note", **_published_conditions(published)),
        **{name: _inline(drawing, f"g{number}-{name}") for name, drawing in drawings.items()},
    }


def _inline(drawing: figures.Drawing | None, prefix: str) -> dict[str, Markup] | None:
    if drawing is None:
        return None
    widths = dataclasses.asdict(drawing)
    return {width: Markup(figures.unique_ids(svg, f"{prefix}-{width}")) for width, svg in widths.items()}


_COMPARISON: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("column_application", lambda row: mib(row.memory("application_memory_bytes"))),
    ("column_trimmed", lambda row: mib(row.memory("application_memory_trimmed_bytes"))),
    ("column_saved", lambda row: mib(row.saved)),
    ("column_saved_percent", lambda row: percent(row.saved_percent)),
    ("column_saved_over", lambda row: percent(row.saved_over_baseline_percent)),
    ("column_system", lambda row: mib(_with_noise(row))),
    ("column_latency", lambda row: milliseconds(row.latency)),
    ("column_throughput", lambda row: per_second(row.throughput)),
)

_DETAILS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("column_baseline_memory", lambda row: mib(row.memory("baseline_memory_bytes"))),
    ("column_rss", lambda row: mib(row.memory("application_rss_bytes"))),
    ("column_peak", lambda row: mib(row.memory("application_peak_rss_bytes"))),
    ("column_npu", lambda row: mib(row.memory("npu_memory_bytes"))),
    ("column_residue", lambda row: mib(row.memory("residue_memory_bytes"))),
    ("column_load", lambda row: milliseconds(_load(row))),
)


def _comparison(group: Group, published: Sequence[PublishedRow], texts: Texts) -> Table:
    heads = ["column_scenario", "column_models", *(head for head, _ in _COMPARISON), "column_against", "column_outcome"]
    rows = [
        (
            row.outcome,
            [
                Cell(texts.scenario(row.scenario), False),
                Cell(_model_count(row, texts), False),
                *(Cell(show(row)) for _, show in _COMPARISON),
                Cell(texts.scenario(row.info["baseline"]) if row.info["baseline"] else EMPTY, False),
                Cell(texts(f"outcome_{row.outcome}"), False),
            ],
        )
        for row in group.rows
    ]
    return Table([texts(head) for head in heads], rows + [_published(row, texts) for row in published])


def _published(row: PublishedRow, texts: Texts) -> tuple[str, list[Cell]]:
    """Return a published row in the heads of the comparison; its own units are part of its figures."""
    shown = {
        "column_application": f"{row.application_memory_bytes / 1e6:,.0f} MB",
        "column_saved": f"{row.saved_bytes / 1e6:,.0f} MB" if row.saved_bytes else EMPTY,
        "column_saved_percent": percent(row.saved_percent),
        "column_system": f"{row.system_memory_bytes / 1e9:,.2f} GB",
    }
    cells = [
        Cell(f"{texts.scenario(row.scenario)} ({row.target})", False),
        Cell(EMPTY, False),
        *(Cell(shown.get(head, EMPTY)) for head, _ in _COMPARISON),
        Cell(texts.scenario(row.baseline) if row.baseline else EMPTY, False),
        Cell(texts("outcome_published"), False),
    ]
    return "published", cells


def _details(group: Group, texts: Texts) -> Table:
    rows = [
        (row.outcome, [Cell(texts.scenario(row.scenario), False), *(Cell(show(row)) for _, show in _DETAILS)])
        for row in group.rows
        if row.measured
    ]
    return Table([texts("column_scenario"), *(texts(head) for head, _ in _DETAILS)], rows)


def _slopes(group: Group, texts: Texts) -> Table:
    rows = [
        (
            row.outcome,
            [
                Cell(texts.scenario(row.scenario), False),
                Cell(texts.words.get(f"mechanism_{cost.mechanism}", cost.mechanism), False),
                Cell(mib(cost.slope)),
                Cell(str(cost.count)),
            ],
        )
        for row in group.rows
        for cost in further_costs(row)
    ]
    heads = ("column_scenario", "column_mechanism", "column_slope", "column_count")
    return Table([texts(head) for head in heads], rows)


def _failures(group: Group, texts: Texts) -> list[dict[str, str]]:
    return [
        {
            "scenario": texts.scenario(row.scenario),
            "outcome": texts(f"outcome_{row.outcome}"),
            **_what_happened(row, texts),
        }
        for row in group.rows
        if not row.measured
    ]


def _what_happened(row: Row, texts: Texts) -> dict[str, str]:
    failure = row.info["failure"]
    if failure is None:
        return {"phase": EMPTY, "message": texts("differs_from_baseline"), "last_words": ""}
    phase = texts.words.get(f"phase_{failure['phase']}", failure["phase"])
    place = phase if failure["context"] is None else f"{phase}, {failure['context'] + 1}"
    return {"phase": place, "message": failure["message"], "last_words": failure["last_words"]}


def _model_count(row: Row, texts: Texts) -> str:
    if row.models_in_turn:
        return texts("models_in_turn", files=row.info["model_files"], streams=row.info["streams"])
    return str(len(row.info["models"]))


def _with_noise(row: Row) -> Figure | None:
    """Return the system memory with the idle noise as its spread, which is mostly the larger."""
    system, noise = row.memory("system_memory_bytes"), row.memory("system_memory_noise_bytes")
    return Figure(system.median, noise.median) if system and noise else None


def _load(row: Row) -> Figure | None:
    medians = [Figure.of(repeat) for repeat in row.info["speed"]["context_load_ns"]]
    return Figure.of(figure.median for figure in medians if figure)


def _published_conditions(published: Sequence[PublishedRow]) -> dict[str, object]:
    row = published[0]
    return {"target": row.target, "streams": row.streams, "contexts": row.contexts, "source": row.source}


def _environment(group: Group, texts: Texts) -> Table:
    file = group.newest
    machine, own = file.machine, file.machine["reusebench"]
    variables = " ".join(f"{key}={value}" for key, value in own["variables"].items())
    facts = {
        "board": own["board"],
        "board_model": own["board_model"],
        "cpu": machine.get("cpu", {}).get("brand_raw"),
        "usable_cpus": own["usable_cpus"],
        "cpu_governor": own["cpu_governor"],
        "cpu_max_khz": own["cpu_max_khz"],
        "memory_total": f"{own['memory_total_bytes'] / 2**20:,.0f}",
        "cma_total": f"{own['cma_total_bytes'] / 2**20:,.0f}" if own["cma_total_bytes"] else None,
        "page_size_bytes": own["page_size_bytes"],
        "transparent_hugepages": own["transparent_hugepages"],
        "overcommit_memory": own["overcommit_memory"],
        "address_randomisation": own["address_randomisation"],
        "swaps": own["swaps"],
        "kernel": f"{machine['system']} {machine['release']} {machine['machine']}",
        "python": machine["python_version"],
        "variables": variables,
    }
    unknown = texts("environment_unknown")
    rows = [
        ("ok", [Cell(texts(f"environment_{key}"), False), Cell(unknown if value in (None, "") else str(value), False)])
        for key, value in facts.items()
    ]
    return Table((), rows)
