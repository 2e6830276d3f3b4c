"""The page: one self-contained HTML file per language, made from the groups alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from reports import figures, page_tables
from reports.answers import answers, not_supported, warnings
from reports.colours import COMPONENT_COLOURS, OTHER_COLOUR, PART_COLOURS, PHASE_COLOURS, SCENARIO_COLOURS
from reports.comparison import Group, Row
from reports.contexts_figure import contexts, npu_contexts
from reports.drawing import Drawing, unique_ids
from reports.failures import failures
from reports.format import EMPTY
from reports.io_figure import copies_figure, way_colours
from reports.io_table import by_size, copies_table
from reports.material import Material
from reports.mechanisms import reasons, trials_dates, trials_table
from reports.npu import npu_source
from reports.parts import application_parts
from reports.published import PublishedRow
from reports.questions import QUESTIONS
from reports.resolutions_figure import LINES, resolutions_figure
from reports.savings import newest_of_each, runtime_colours, savings_figure, savings_table
from reports.texts import LANGUAGES, Texts, texts_of
from reports.timeline import timeline
from scenarios.catalogue import MODEL_SETS, STREAMS
from storage.mechanisms import RuntimeTrials

__all__ = ["page_name", "write_pages"]

_TEMPLATES = Path(__file__).parent / "templates"
#: The question that the published figures answer.
_PUBLISHED_QUESTION = next(iter(QUESTIONS))
#: Of the do-nothing baseline, which is drawn in the page's text colour, faintly.
_BASELINE_COLOUR = "rgba(128, 128, 128, 0.5)"
#: The questions with a figure or a table of their own.
_COPIES, _RESOLUTIONS = "io_copies", "shared_weights"


def write_pages(material: Material, folder: Path) -> Path:
    """Write the page in every language into the folder and return the path of the first."""
    folder.mkdir(parents=True, exist_ok=True)
    # Each draws all figures, which takes seconds: in processes of their own they take them side by side.
    with ProcessPoolExecutor(len(LANGUAGES)) as pool:
        pages = pool.map(_render, repeat(material), map(texts_of, LANGUAGES))
        for language, html in zip(LANGUAGES, pages):
            (folder / page_name(language)).write_text(html, encoding="utf-8")
    return folder / page_name(LANGUAGES[0])


def page_name(language: str) -> str:
    """Return the file name of a language's page."""
    return "index.html" if language == LANGUAGES[0] else f"index.{language}.html"


def _render(material: Material, texts: Texts) -> str:
    groups = material.groups
    template = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    ).get_template("page.html.j2")
    return template.render(
        t=texts,
        languages=[(language, page_name(language), texts_of(language)("language_name")) for language in LANGUAGES],
        lead=_lead(groups[0], texts),
        savings=_savings(groups, texts),
        trials=_trials(material.tried, texts),
        groups=[_group(group, number, material.published, texts) for number, group in enumerate(groups)],
        scenarios=_scenarios(groups, texts),
        environment=page_tables.environment(groups[0], texts),
        memory_sources=page_tables.memory_sources(groups[0], texts),
        bad_files=[str(each) for each in material.bad_files],
        component_colours={texts(f"component_{name}"): value for name, value in COMPONENT_COLOURS.items()},
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


def _savings(groups: Sequence[Group], texts: Texts) -> dict[str, Any]:
    """Return what each mechanism saves on each runtime."""
    columns = newest_of_each(groups)
    return {
        "table": savings_table(columns, texts),
        "bars": _inline(savings_figure(columns, texts), "savings"),
        "colours": runtime_colours(columns, texts),
    }


def _trials(tried: Sequence[RuntimeTrials], texts: Texts) -> dict[str, Any]:
    """Return which runtime has which mechanism."""
    return {
        "table": trials_table(tried, texts),
        "dates": trials_dates(tried, texts),
        "reasons": reasons(tried, texts),
    }


def _group(group: Group, number: int, published: Sequence[PublishedRow], texts: Texts) -> dict[str, Any]:
    questions = group.questions
    # Lines of more scenarios than have colours would not be told apart: those of one question are drawn.
    asked = next((rows for rows in questions.values() if any(row.measured for row in rows)), [])
    drawn = [row for row in asked if not row.is_variant] or asked
    drawings = {
        "contexts": contexts(drawn, texts) if group.computes else None,
        "npu_contexts": npu_contexts(drawn, texts),
        "timeline": timeline(drawn, group.storage, texts),
    }
    return {
        "id": f"g{number}",
        "heading": _heading(group, texts),
        "conditions": _conditions(group, texts),
        "notes": _notes(group, texts),
        "warnings": warnings(group, texts),
        "computes": group.computes,
        # Memory and speed of an NPU stand in more columns than others.
        "wide": group.computes and group.has_npu_memory,
        "questions": [
            _question(group, name, rows, f"g{number}-{name}", published, texts) for name, rows in questions.items()
        ],
        "published_note": texts("published_note", **_published_conditions(published)),
        "failures": failures(group, texts),
        "sharing": page_tables.sharing(group, texts),
        "measured": bool(drawn),
        "scenario_colours": _scenario_colours(drawn, texts),
        "phase_colours": _phase_colours(drawn, texts),
        "slopes": page_tables.slopes(group, texts),
        "details": page_tables.details(group, texts),
        "timeline_note": _timeline_note(group, texts),
        **{name: _inline(drawing, f"g{number}-{name}") for name, drawing in drawings.items()},
    }


def _question(
    group: Group, name: str, rows: Sequence[Row], prefix: str, published: Sequence[PublishedRow], texts: Texts
) -> dict[str, Any]:
    """Return what the page says of one question; where nothing computes, its first figure is of NPU memory."""
    is_published = name == _PUBLISHED_QUESTION
    bars = figures.bars(rows, texts) if group.computes or not group.has_npu_memory else None
    return {
        "id": prefix,
        "title": texts(f"question_{name}"),
        "answers": _answers(name, rows, texts),
        "not_supported": not_supported(rows, texts),
        "bars": _inline(bars, f"{prefix}-bars"),
        "part_colours": _part_colours(rows, texts),
        "comparison": page_tables.comparison(group, rows, published if is_published else (), texts),
        "is_published": is_published,
        "component_bars": _inline(figures.component_bars(rows, texts), f"{prefix}-components"),
        "components": page_tables.components(rows, texts),
        "parts": page_tables.parts(rows, texts) if bars else None,
        "by_runtime": any(each["source"] == "runtime" for row in rows for each in row.accounts),
        "copies": _copies(group, rows, prefix, texts) if name == _COPIES else None,
        "resolutions": _resolutions(rows, prefix, texts) if name == _RESOLUTIONS else None,
    }


def _answers(name: str, rows: Sequence[Row], texts: Texts) -> dict[str, list[str]]:
    """Return the answers by the size of the tensors where that is part of the question, else below no heading."""
    parts = by_size(rows, texts) if name == _COPIES else {"": list(rows)}
    return {size: sentences for size, of_size in parts.items() if (sentences := answers(of_size, texts))}


def _copies(group: Group, rows: Sequence[Row], prefix: str, texts: Texts) -> dict[str, Any]:
    return {
        "table": copies_table(group, rows, texts),
        "figure": _inline(copies_figure(rows, texts), f"{prefix}-copies"),
        "colours": way_colours(rows, texts),
    }


def _resolutions(rows: Sequence[Row], prefix: str, texts: Texts) -> dict[str, Any]:
    return {
        "figure": _inline(resolutions_figure(rows, texts), f"{prefix}-resolutions"),
        "colours": {texts(f"line_{name}"): SCENARIO_COLOURS[name] for name in LINES},
    }


def _part_colours(rows: Sequence[Row], texts: Texts) -> dict[str, str]:
    """Return the parts that these rows' bars have."""
    found = [parts.over for row in rows if (parts := application_parts(row)) and parts.over]
    names = [name for name in PART_COLOURS if any(over[name].median for over in found)]
    shown = {texts(f"part_{name}"): PART_COLOURS[name] for name in names} or {texts("part_all"): OTHER_COLOUR}
    return {texts("term_do_nothing_baseline"): _BASELINE_COLOUR, **shown}


def _inline(drawing: Drawing | None, prefix: str) -> dict[str, Markup] | None:
    if drawing is None:
        return None
    widths = dataclasses.asdict(drawing)
    return {width: Markup(unique_ids(svg, f"{prefix}-{width}")) for width, svg in widths.items()}


def _heading(group: Group, texts: Texts) -> str:
    info = group.info
    of_streams = any(row.model_set == STREAMS for row in group.rows)
    return texts(
        "heading" if of_streams else "heading_one_each",
        runtime=texts.runtime(info["runtime"]),
        version=group.short_version or EMPTY,
        streams=info["streams"],
        contexts=info["contexts"],
    )


def _conditions(group: Group, texts: Texts) -> str:
    """Return under what the group was measured, and with which models."""
    info, version = group.info, group.info["runtime_version"]
    known = {
        "condition_chip": {"chip": info.get("chip")},
        "condition_driver": {"driver": info.get("driver_version")},
        "condition_library": {"version": version if version != group.short_version else None},
    }
    python = info["python_version"] or EMPTY
    parts = [texts("conditions", target=info["target"], python=python, cores=info["cores"])]
    parts += [texts(key, **values) for key, values in known.items() if all(values.values())]
    return texts("sentence_separator").join(parts + _models(group, texts))


def _models(group: Group, texts: Texts) -> list[str]:
    """Return the models by set; of rows with one set, those with most models name them all."""
    of_set = {name: [row.models for row in group.rows if row.model_set == name] for name in MODEL_SETS}
    return [texts(f"models_of_{name}", models=max(models, key=len)) for name, models in of_set.items() if models]


def _notes(group: Group, texts: Texts) -> list[str]:
    """Return what must be known before the figures are read."""
    virtual = [] if group.computes else [texts("note_virtual")]
    return virtual + [texts(f"npu_source_{source}") for source in _npu_sources(group)]


def _npu_sources(group: Group) -> list[str]:
    return list(dict.fromkeys(source for row in group.rows if (source := npu_source(row))))


def _timeline_note(group: Group, texts: Texts) -> str:
    keys = ["timeline_note", *(["timeline_npu_note"] if "ledger" in _npu_sources(group) else [])]
    return texts("sentence_separator").join(map(texts, keys))


def _scenario_colours(rows: Sequence[Row], texts: Texts) -> dict[str, str]:
    names = [row.scenario for row in rows if row.measured]
    return {texts.scenario(name): SCENARIO_COLOURS.get(name, OTHER_COLOUR) for name in names}


def _phase_colours(rows: Sequence[Row], texts: Texts) -> dict[str, str]:
    """Return the phases that these rows went through."""
    phases = {phase for row in rows for repeat in row.info["repeats"] for phase in repeat["phases"]}
    return {texts(f"phase_{name}"): value for name, value in PHASE_COLOURS.items() if name in phases}


def _scenarios(groups: Sequence[Group], texts: Texts) -> dict[str, str]:
    """Return what each scenario of the page is."""
    names = {row.scenario for group in groups for row in group.rows}
    return {texts.scenario(name): text for name, text in texts.some("about_").items() if name in names}


def _published_conditions(published: Sequence[PublishedRow]) -> dict[str, object]:
    row = published[0]
    return {"target": row.target, "streams": row.streams, "contexts": row.contexts, "source": row.source}
