"""What the page says, section by section, as plain data in the words of one language; figures are not part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.base.formatting import EMPTY
from reports.base.texts import Texts
from reports.claims.table import claim_tests, claims_table
from reports.explanation.table import prediction_summary
from reports.page.figures import drawn_rows
from reports.page.legends import legends_of
from reports.page.material import Material
from reports.page.opening import opening
from reports.page.question_section import asked_questions, question_section
from reports.results.labels import group_id, labels
from reports.results.memory import npu_source
from reports.results.published import PublishedRow
from reports.results.published_tables import breakdown_sources, breakdown_table, throughput_sources, throughput_table
from reports.results.rows import Group
from reports.results.runs_table import runs_table
from reports.sections import tables as page_tables
from reports.sections.answers import warnings
from reports.sections.contexts import fit_table
from reports.sections.failures import failures
from reports.sections.mechanisms import mechanisms_table, reasons
from reports.sections.programs import RecordedProgram, processes_table, programs_table
from reports.sections.savings import savings_table
from reports.sections.speed import speed_sentences, speed_table
from reports.streams.section import stream_definitions
from scenarios.catalogue import MODEL_SETS
from storage.run_file import MachineInfo


def page_data(material: Material, shown: Sequence[Group], texts: Texts) -> dict[str, Any]:
    """Return what the page says; its sections are of the groups that are shown, its list of runs of all."""
    names = labels(shown, texts)
    return {
        "lead": _lead(shown, texts) if shown else _programs_lead(material.programs[0], texts),
        "contents": _contents(material, shown),
        "groups": [_group(group, name, number, texts) for number, (group, name) in enumerate(zip(shown, names))],
        "opening": opening(shown, names, texts),
        "savings": savings_table(shown, names, texts),
        "legends": legends_of(shown, texts, material.programs),
        "questions": [
            question_section(name, shown, names, material.published, texts) for name in asked_questions(shown)
        ],
        "published_note": texts("published_note", **_published_conditions(material.published)),
        "predictions": prediction_summary(shown, texts),
        "claims": claims_table(shown, names, texts),
        "claim_tests": claim_tests(texts),
        "parts": [_part(group, name, number, texts) for number, (group, name) in enumerate(zip(shown, names))],
        "references": _references(texts),
        "mechanisms": mechanisms_table(shown, names, texts),
        "mechanism_reasons": reasons(shown, names, texts),
        "programs": programs_table(material.programs, texts),
        "processes": processes_table(material.programs, texts),
        "program_definitions": [
            (texts(f"program_term_{key}"), text) for key, text in texts.some("program_define_").items()
        ],
        "runs": runs_table(material.files, texts),
        "boards": [_board(machine, texts) for machine in _machines(material, shown)],
        "scenarios": _scenarios(shown, texts),
        "definitions": [
            *((texts(f"term_{key}"), text) for key, text in texts.some("define_").items()),
            *stream_definitions(shown, texts),
        ],
    }


def _lead(groups: Sequence[Group], texts: Texts) -> str:
    boards = _one_of_each_board(groups)
    if len(boards) > 1:
        return texts("lead_boards", boards=texts.joined(group.board for group in boards))
    machine = boards[0].newest.machine.reusebench
    return texts(
        "lead",
        board=machine.board,
        cpus=machine.usable_cpus,
        memory=f"{machine.memory_total_bytes / 2**20:,.0f} MiB",
        date=_date(groups[0]),
    )


def _contents(material: Material, groups: Sequence[Group]) -> list[str]:
    """Return the sections behind the questions: where programs alone were recorded, what can be said of them."""
    programs = ["programs"] if material.programs else []
    if not groups:
        return [*programs, "runs", "environment"]
    before = ["claims", "contexts", "speed", "timeline", "mechanisms"]
    return [*before, *programs, "failures", "runs", "environment", "scenarios", "definitions"]


def _programs_lead(newest: RecordedProgram, texts: Texts) -> str:
    machine = newest.file.machine.reusebench
    return texts(
        "programs_lead",
        board=machine.board,
        cpus=machine.usable_cpus,
        memory=f"{machine.memory_total_bytes / 2**20:,.0f} MiB",
        date=newest.file.recorded_at[:16].replace("T", " "),
    )


def _group(group: Group, name: str, number: int, texts: Texts) -> dict[str, Any]:
    """Return what stands in the list that groups are chosen from."""
    return {
        "id": group_id(number),
        "label": name,
        "conditions": _conditions(group, texts),
        "notes": _notes(group, texts),
        "warnings": warnings(group, texts),
    }


def _part(group: Group, name: str, number: int, texts: Texts) -> dict[str, Any]:
    """Return what the sections that are of no single question say of a group."""
    rows = drawn_rows(group)
    return {
        "group": group_id(number),
        "label": name,
        "computes": group.computes,
        "measured": any(row.measured for row in rows),
        "fit": fit_table(rows, texts),
        "slopes": page_tables.slopes(group, texts),
        "speed": speed_table(group, texts),
        "speed_sentences": speed_sentences(group, texts),
        "timeline_note": _timeline_note(group, texts),
        "details": page_tables.details(group, texts),
        "sharing": page_tables.sharing(group, texts),
        "failures": failures(group, texts),
    }


def _references(texts: Texts) -> dict[str, Any]:
    """Return what others have published, to stand beside."""
    return {
        "throughput": {
            "table": throughput_table(texts),
            "sources": throughput_sources(texts),
            "note": texts("reference_throughput_note"),
        },
        "breakdown": {
            "table": breakdown_table(texts),
            "sources": breakdown_sources(texts),
            "note": texts("reference_breakdown_note"),
        },
    }


def _one_of_each_board(groups: Sequence[Group]) -> list[Group]:
    return list({group.board: group for group in reversed(groups)}.values())[::-1]


def _machines(material: Material, groups: Sequence[Group]) -> list[MachineInfo]:
    """Return what is known of each board that the page shows something of."""
    of_groups = [group.newest.machine for group in _one_of_each_board(groups)]
    machines = [*of_groups, *(program.file.machine for program in material.programs)]
    return list({machine.reusebench.board: machine for machine in reversed(machines)}.values())[::-1]


def _board(machine: MachineInfo, texts: Texts) -> dict[str, Any]:
    return {
        "name": machine.reusebench.board,
        "facts": page_tables.environment(machine, texts),
        "sources": page_tables.memory_sources(machine, texts),
    }


def _conditions(group: Group, texts: Texts) -> str:
    """Return under what the group was measured, and with which models."""
    info, version = group.info, group.info.runtime_version
    known = {
        "condition_chip": {"chip": info.chip},
        "condition_driver": {"driver": info.driver_version},
        "condition_library": {"version": version if version != group.short_version else None},
    }
    # Contexts of streams of video do not wait for each other.
    inferring = "conditions" if any(row.schedule is None for row in group.rows) else "conditions_streams"
    python = info.python_version or EMPTY
    parts = [
        texts(
            inferring,
            python=python,
            streams=info.streams,
            contexts=info.contexts,
            target=info.target,
            cores=info.cores,
        )
    ]
    parts += [texts(key, **values) for key, values in known.items() if all(values.values())]
    parts += [texts("condition_measured", date=_date(group), run=group.newest.path.name, board=group.board)]
    return texts("sentence_separator").join(parts + _models(group, texts))


def _date(group: Group) -> str:
    return group.newest.recorded_at[:16].replace("T", " ")


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


def _scenarios(groups: Sequence[Group], texts: Texts) -> list[tuple[str, str]]:
    """Return what each scenario of the page is."""
    names = {row.scenario for group in groups for row in group.rows}
    return [(texts.scenario(name), text) for name, text in texts.some("about_").items() if name in names]


def _published_conditions(published: Sequence[PublishedRow]) -> dict[str, object]:
    row = published[0]
    return {"target": row.target, "streams": row.streams, "contexts": row.contexts, "source": row.source}
