"""The page: what it says, section by section, in the words of one language, and its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reusebench.reports.base.drawing import FigureKey, Figures, finished, start_drawing
from reusebench.reports.base.formatting import counted_mib, to_the_minute, whole_mib
from reusebench.reports.base.pages import page_name, write_page
from reusebench.reports.base.stored_scenario import StoredScenario
from reusebench.reports.base.table import Table
from reusebench.reports.base.texts import LANGUAGES, Texts, texts_of
from reusebench.reports.claims.claims import claim_tests, claims_table
from reusebench.reports.explanation.figure import explanation_figure
from reusebench.reports.explanation.table import (
    explanation_sentences,
    explanation_table,
    prediction_summary,
)
from reusebench.reports.page.material import Material
from reusebench.reports.page.opening import opening
from reusebench.reports.results.breakdown import npu_source
from reusebench.reports.results.labels import driver_label, group_id, labels_of
from reusebench.reports.results.published import published_breakdown, published_throughput
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.sections.answers import (
    answers,
    equal_scenarios,
    group_warnings,
    not_supported,
    virtual_note,
)
from reusebench.reports.sections.code import code_blocks, code_of
from reusebench.reports.sections.contexts import contexts_figure, fit_table, resolutions_figure
from reusebench.reports.sections.copies import by_size, copies_figure, copies_table
from reusebench.reports.sections.failures import failures
from reusebench.reports.sections.fit import (
    fit_figure,
    fit_id,
    fit_sentences,
    fit_title,
    frontier_table,
)
from reusebench.reports.sections.layouts import layouts_figure, recommendations_table
from reusebench.reports.sections.leaks import (
    leak_definitions,
    leak_sentences,
    leaks_figure,
    level_sentences,
    slopes_of_cycles_table,
    verdicts_table,
)
from reusebench.reports.sections.limit import (
    limit_figure,
    limit_last_words,
    limit_sentences,
    limit_table,
)
from reusebench.reports.sections.mechanisms import (
    mechanism_reasons,
    mechanisms_table,
    savings_figure,
)
from reusebench.reports.sections.node_orders import node_order_note
from reusebench.reports.sections.options import options_table
from reusebench.reports.sections.plans import layout_tables
from reusebench.reports.sections.programs import (
    processes_table,
    program_warnings,
    programs_figure,
    programs_table,
)
from reusebench.reports.sections.runtimes import runtimes_figure
from reusebench.reports.sections.speed import speed_figure, speed_sentences, speed_table
from reusebench.reports.sections.tables import (
    comparison_table,
    components_table,
    details_table,
    domains_table,
    environment_table,
    memory_sources_table,
    page_kinds_table,
    runs_table,
    sharing_table,
    slopes_table,
)
from reusebench.reports.sections.timeline import timeline_figure
from reusebench.reports.streams.section import stream_definitions, workload_figures, workload_parts
from reusebench.reports.versions.figure import versions_figure
from reusebench.reports.versions.sentences import version_sentences
from reusebench.reports.versions.table import VERSION_METRICS, component_table, version_table
from reusebench.reports.versions.versions import VersionSet
from reusebench.scenarios.catalogue import (
    LIMIT,
    MODEL_SETS,
    OPTIONS,
    PLANS,
    QUESTIONS,
)
from reusebench.storage.fit_answer import FitAnswer
from reusebench.storage.run_file import StoredRun

#: The page's name inside the report's folder, without its language.
REPORT_PAGE = "index"
#: The question that the published figures answer.
_PUBLISHED_QUESTION = "dup"
#: With more groups what each section says of them stands folded, group by group: else a reader
#: would lose the place.
_MOST_OPEN = 3
#: Questions whose sections are laid out by a template of their own.
_OWN_TEMPLATES = ("streams", "leaks", LIMIT, OPTIONS)


def start_figures(material: Material, languages: Sequence[str]) -> Figures:
    """Have every figure of the page drawn in these languages."""
    jobs: dict[FigureKey, Callable[[], str | None]] = {}
    for language in languages:
        texts = texts_of(language)
        shown = material.shown
        names = labels_of(shown, texts)
        of_page: dict[str, Callable[[], str | None]] = {
            "layouts": partial(layouts_figure, shown, names, texts),
            "runtimes": partial(runtimes_figure, shown, names, texts),
            "savings": partial(savings_figure, material.of_scenarios, names, texts),
            "programs": partial(programs_figure, material.programs, texts),
        }
        for number, answer in enumerate(material.fits):
            of_page[fit_id(number)] = partial(fit_figure, answer, texts)
        for number, versions in enumerate(material.versions):
            of_page[f"versions-{number}"] = partial(versions_figure, versions, texts)
        for number, group in enumerate(shown):
            for name, draw in _group_figures(group, texts).items():
                of_page[f"{group_id(number)}-{name}"] = draw
        jobs |= {(language, name): draw for name, draw in of_page.items()}
    return start_drawing(jobs)


def figures_by_file(material: Material, figures: Mapping[str, str]) -> dict[str, str]:
    """Return the figures by the names that their files have, which name the group in English."""
    labels = labels_of(material.shown, texts_of(LANGUAGES[0]))
    words = {group_id(number): label for number, label in enumerate(labels)}
    by_file = {}
    for name, svg in figures.items():
        group, dash, rest = name.partition("-")
        by_file[f"{words.get(group, group)}{dash}{rest}"] = svg
    return by_file


def write_report(
    material: Material, figures: Figures, folder: Path, first: str, history: str | None = None
) -> list[Path]:
    """Write the page into the folder in every language, the plain name for the first, and return
    the paths.

    It links to the page of the history of this name where that is written beside it.
    """
    languages = sorted(LANGUAGES, key=lambda language: language != first)
    # All that does not wait for the figures.
    values = {language: page_values(material, texts_of(language)) for language in languages}
    paths = []
    for language in languages:
        link = page_name(history, language, first) if history else None
        drawn = finished(figures, language)
        paths.append(
            write_page(
                folder,
                REPORT_PAGE,
                language,
                first,
                "title",
                drawn,
                history=link,
                **values[language],
            )
        )
    return paths


def page_values(material: Material, texts: Texts) -> dict[str, Any]:
    """Return what the page says; its sections are of the groups that are shown, its list of runs of
    all.
    """
    shown = material.shown
    of_scenarios = material.of_scenarios
    labels = labels_of(shown, texts)
    questions = {name for group in shown for name in group.questions}
    ordered = sorted(
        questions,
        key=lambda name: list(QUESTIONS).index(name) if name in QUESTIONS else len(QUESTIONS),
    )
    boards = {group.board: group.newest for group in reversed(shown)}
    # What is known of each board that the page shows something of.
    files = {program.file.board: program.file for program in reversed(material.programs)} | boards
    scenarios = dict.fromkeys(row.scenario for group in shown for row in group.all_rows)
    first = material.published[0]
    return {
        "lead": _lead(shown, list(boards)[::-1], texts)
        if shown
        else _programs_lead(material.programs[0].file, texts),
        "contents": _contents(material),
        "bad_files": [texts.message(file.message) for file in material.bad_files],
        "left_out": len(material.groups) - len(shown),
        "groups": [
            _group(group, label, number, texts)
            for number, (group, label) in enumerate(zip(shown, labels))
        ],
        "folded": len(shown) > _MOST_OPEN,
        "opening": opening(shown, labels, texts),
        "sets": recommendations_table(shown, labels, texts),
        "fits": [
            _fit(answer, fit_id(number), texts) for number, answer in enumerate(material.fits)
        ],
        "code": code_blocks(shown, labels, texts),
        "questions": [_question(name, material, labels, texts) for name in ordered],
        "published_note": texts(
            "published_note",
            target=first.target,
            streams=first.streams,
            contexts=first.contexts,
            source=first.source,
        ),
        "predictions": prediction_summary(shown, labels, texts),
        "claims": claims_table(of_scenarios, labels, texts),
        "claim_tests": claim_tests(texts),
        "parts": [
            _part(group, label, number, texts)
            for number, (group, label) in enumerate(zip(shown, labels))
        ],
        "references": {
            "throughput": published_throughput(texts),
            "breakdown": published_breakdown(texts),
        },
        "mechanisms": mechanisms_table(of_scenarios, labels[: len(of_scenarios)], texts),
        "mechanism_reasons": mechanism_reasons(of_scenarios, labels, texts),
        "versions": [
            _versions(one, f"versions-{number}", texts)
            for number, one in enumerate(material.versions)
        ],
        "programs": programs_table(material.programs, texts),
        "program_warnings": program_warnings(material.programs, texts),
        "processes": processes_table(material.programs, texts),
        "program_definitions": [
            (texts(f"program_term_{key}"), text)
            for key, text in texts.starting_with("program_define_").items()
        ],
        "runs": runs_table(material.files, texts),
        "boards": [
            {
                "name": file.board,
                "facts": environment_table(file.machine, texts),
                "sources": memory_sources_table(file.machine, texts),
            }
            for file in list(files.values())[::-1]
        ],
        "scenarios": [
            *(
                (texts.scenario(name), text)
                for name, text in texts.starting_with("about_").items()
                if name in scenarios
            ),
            *(
                (texts.scenario(name), texts("about_plan_without_reuse"))
                for name in scenarios
                if StoredScenario(name).plan_without_reuse
            ),
        ],
        "definitions": [
            *((texts(f"term_{key}"), text) for key, text in texts.starting_with("define_").items()),
            *stream_definitions(shown, texts),
            *leak_definitions(shown, texts),
        ],
    }


def _fit(answer: FitAnswer, figure: str, texts: Texts) -> dict[str, Any]:
    """Return what `reusebench fit` answered."""
    subject = {"group": fit_title(answer, texts), "scenario": texts("fit_recommended_layout")}
    return {
        "title": fit_title(answer, texts),
        "sentences": fit_sentences(answer, texts),
        "figure": figure,
        "table": frontier_table(answer, texts),
        "code": code_of(answer.recommended, answer.chip, subject, texts)
        if answer.recommended
        else None,
    }


def _group_figures(group: Group, texts: Texts) -> dict[str, Callable[[], str | None]]:
    rows = _drawn_rows(group)
    questions = group.questions
    jobs: dict[str, Callable[[], str | None]] = {
        "timeline": partial(timeline_figure, rows, texts),
        "npu_contexts": partial(contexts_figure, rows, True, texts),
        "speed": partial(speed_figure, group, texts),
        **workload_figures(group, texts),
        "copies": partial(copies_figure, questions.get("io_copies", []), texts),
        "resolutions": partial(resolutions_figure, questions.get("shared_weights", []), texts),
        "leaks": partial(leaks_figure, questions.get("leaks", []), texts),
        "limit": partial(limit_figure, questions.get(LIMIT, []), texts),
    }
    if group.computes:
        jobs["contexts"] = partial(contexts_figure, rows, False, texts)
    for name, of_question in questions.items():
        # Those of streams are in their workloads; nothing is predicted of cycles, options, counted
        # contexts.
        compared = [row for row in of_question if row.is_compared and row.question != OPTIONS]
        if compared:
            jobs[f"{name}-explanation"] = partial(explanation_figure, compared, texts)
    return jobs


def _drawn_rows(group: Group) -> list[Row]:
    """Return the rows of the figures of a whole group: more lines could not be distinguished."""
    questions = [rows for name, rows in group.questions.items() if name != LIMIT]
    measured = next((rows for rows in questions if any(row.measured for row in rows)), [])
    return [row for row in measured if not row.is_variant] or measured


def _lead(groups: Sequence[Group], boards: Sequence[str], texts: Texts) -> str:
    if len(boards) > 1:
        return texts("lead_boards", boards=texts.joined(boards))
    return _machine_lead(
        "lead", max((group.newest for group in groups), key=lambda file: file.order), texts
    )


def _programs_lead(file: StoredRun, texts: Texts) -> str:
    return _machine_lead("programs_lead", file, texts)


def _machine_lead(key: str, file: StoredRun, texts: Texts) -> str:
    machine = file.machine.reusebench
    memory = f"{whole_mib(machine.memory_total_bytes)} MiB"
    date = to_the_minute(file.recorded_at)
    return texts(key, board=machine.board, cpus=machine.usable_cpus, memory=memory, date=date)


def _contents(material: Material) -> list[str]:
    """Return the sections behind the questions; where programs alone were recorded, those that are
    of them.
    """
    programs = ["programs"] if material.programs else []
    if not material.groups:
        return [*programs, "runs", "environment"]
    before = [
        "claims",
        "contexts",
        "speed",
        "timeline",
        "mechanisms",
        *(["versions"] if material.versions else []),
    ]
    return [*before, *programs, "failures", "runs", "environment", "scenarios", "definitions"]


def _group(group: Group, label: str, number: int, texts: Texts) -> dict[str, Any]:
    """Return what stands in the list that groups are chosen from."""
    virtual = virtual_note(group, texts)
    order = node_order_note(group, texts)
    sources = [texts(f"npu_source_{source}") for source in _npu_sources(group)]
    return {
        "id": group_id(number),
        "label": label,
        "conditions": _conditions(group, texts),
        # What must be known before the figures are read.
        "notes": [
            *([virtual] if virtual else []),
            *sources,
            *_assumptions(group, texts),
            *([order] if order else []),
        ],
        "warnings": group_warnings(group, texts),
    }


def _assumptions(group: Group, texts: Texts) -> list[str]:
    """Return what was assumed of the inputs of each model, with the option that changes it."""
    models = {model.digest: model for row in group.rows for model in row.info.plan.models}
    notes = []
    for model in models.values():
        conversion = model.conversion
        taken = conversion.inputs if conversion else model.inputs
        shapes = [
            f"{tensor.name}={'x'.join(map(str, tensor.shape))}"
            for tensor in taken
            if tensor.assumed
        ]
        values = [
            f"{tensor.name}={tensor.value}" for tensor in model.inputs if tensor.value is not None
        ]
        data = [tensor.name for tensor in model.inputs if tensor.file]
        of_keys = {"note_shapes": shapes, "note_values": values, "note_data": data}
        if conversion:
            notes.append(
                texts(
                    "note_converted",
                    model=model.name,
                    file=Path(conversion.source).name,
                    by=conversion.by,
                )
            )
        if conversion and conversion.is_calibrated:
            of_keys["note_calibrated_data"] = [
                tensor.name for tensor in conversion.inputs if tensor.file
            ]
            of_keys["note_calibrated_noise"] = [
                tensor.name for tensor in conversion.inputs if not tensor.file
            ]
        for key, inputs in of_keys.items():
            if inputs:
                notes.append(texts(key, model=model.name, inputs=texts.joined(inputs)))
    return notes


def _conditions(group: Group, texts: Texts) -> str:
    """Return under what the group was measured, and with which models."""
    info = group.info
    values = {
        "driver": driver_label(group, texts),
        "streams": info.streams,
        "contexts": info.contexts,
    }
    # Contexts of streams of video do not wait for each other.
    inferring = (
        "conditions" if any(row.schedule is None for row in group.rows) else "conditions_streams"
    )
    key = "conditions_plans" if group.is_of_plans else inferring
    parts = [texts(key, target=info.target, cores=info.cores, **values)]
    if info.chip:
        parts.append(texts("condition_chip", chip=info.chip))
    if info.npu_memory_limit_bytes:
        parts.append(texts("condition_npu_memory", limit=counted_mib(info.npu_memory_limit_bytes)))
    if info.driver_version:
        parts.append(texts("condition_driver", driver=info.driver_version))
    if info.runtime_version and info.runtime_version != group.short_version:
        parts.append(texts("condition_library", version=info.runtime_version))
    date = to_the_minute(group.newest.recorded_at)
    run = group.newest.file_name
    parts.append(texts("condition_measured", date=date, run=run, board=group.board))
    for name in MODEL_SETS:
        models = [row.models for row in group.rows if row.model_set == name]
        if models:
            # Of rows with one set, those with most models name them all.
            parts.append(texts(f"models_of_{name}", models=max(models, key=len)))
    return texts.sentences(parts)


def _npu_sources(group: Group) -> list[str]:
    return list(dict.fromkeys(source for row in group.rows if (source := npu_source(row))))


def _part(group: Group, label: str, number: int, texts: Texts) -> dict[str, Any]:
    """Return what the sections that are of no single question say of a group."""
    rows = _drawn_rows(group)
    ledger = texts("timeline_npu_note") if "ledger" in _npu_sources(group) else None
    return {
        "group": group_id(number),
        "label": label,
        "computes": group.computes,
        "measured": any(row.measured for row in rows),
        "fit": fit_table(rows, texts),
        "slopes": slopes_table(group, texts),
        "speed": speed_table(group, texts),
        "speed_sentences": speed_sentences(group, texts),
        "timeline_note": texts.sentences([texts("timeline_note"), ledger]),
        "details": details_table(group, texts),
        "sharing": sharing_table(group, texts),
        "domains": domains_table(group, texts),
        "failures": failures(group, texts),
    }


def _versions(versions: VersionSet, figure: str, texts: Texts) -> dict[str, Any]:
    """Return what the page says of the versions of one runtime on one target."""
    info = versions.group.info
    names = texts.joined(map(str, versions.versions))
    return {
        "label": texts(
            "versions_label",
            runtime=texts.runtime(info.runtime),
            target=info.target,
            versions=names,
        ),
        "sentences": version_sentences(versions, texts),
        "figure": figure,
        "tables": [
            (texts(f"versions_{metric.name}"), table)
            for metric in VERSION_METRICS
            if (table := version_table(versions, metric, texts))
        ],
        "components": component_table(versions, texts),
    }


def _question(name: str, material: Material, labels: Sequence[str], texts: Texts) -> dict[str, Any]:
    """Return what the page says of one question, group by group."""
    is_published = name == _PUBLISHED_QUESTION
    parts: list[dict[str, Any]] = []
    for number, (group, label) in enumerate(zip(material.shown, labels)):
        rows = group.questions.get(name)
        if rows is None:
            continue
        part: dict[str, Any] = {
            "group": group_id(number),
            "label": label,
            "not_supported": not_supported(rows, texts),
            "equal": equal_scenarios(rows, texts),
        }
        if name == "streams":
            parts.append({**part, "workloads": workload_parts(group, material.published, texts)})
            continue
        if name == "leaks":
            of_leaks = {
                "leaks": leak_sentences(rows, texts),
                "levels": level_sentences(rows, texts),
            }
            tables = {
                "verdicts": verdicts_table(rows, texts),
                "slopes": slopes_of_cycles_table(rows, texts),
            }
            parts.append({**part, **of_leaks, **tables})
            continue
        if name == LIMIT:
            of_limit = {
                "sentences": limit_sentences(rows, texts),
                "table": limit_table(rows, texts),
            }
            parts.append({**part, **of_limit, "last_words": limit_last_words(rows, texts)})
            continue
        if name == OPTIONS:
            parts.append({**part, "table": options_table(rows, texts)})
            continue
        is_of_plans = name == PLANS
        plans = group.all_rows if is_of_plans else []
        part["layouts"] = layout_tables(plans, group.has_npu_memory, texts)
        part["workloads"] = workload_parts(group, (), texts) if is_of_plans else []
        # Plans with streams are in the workloads.
        rows = [row for row in rows if row.schedule is None]
        # By the size of the tensors where that is part of the question, else below no heading.
        by_heading = by_size(rows, texts) if name == "io_copies" else {"": rows}
        parts.append(
            {
                **part,
                "answers": [
                    (heading, answers(of_heading, texts))
                    for heading, of_heading in by_heading.items()
                ],
                "reasons": explanation_sentences(rows, texts),
                "explanation": explanation_table(rows, texts),
                "components": components_table(rows, texts),
                "by_runtime": any(
                    account.source == "runtime" for row in rows for account in row.accounts
                ),
                "parts": None if group.has_npu_memory else page_kinds_table(rows, texts),
                "comparison": comparison_table(
                    group, rows, material.published if is_published else (), texts
                ),
                "copies": copies_table(group, rows, texts) if name == "io_copies" else None,
            }
        )
    template = f"{name if name in _OWN_TEMPLATES else 'question'}.html.j2"
    title = texts(f"question_{name}")
    return {
        "id": name,
        "title": title,
        "overview": _overview(name, material, labels, texts),
        "is_published": is_published,
        "parts": parts,
        "template": template,
    }


def _overview(
    question: str, material: Material, labels: Sequence[str], texts: Texts
) -> Table | None:
    """Return the question's mechanisms in all groups, which stands above parts that are folded;
    else None.
    """
    groups = material.of_scenarios
    if len(material.shown) <= _MOST_OPEN or question not in QUESTIONS:
        return None
    return mechanisms_table(groups, labels[: len(groups)], texts, question)
