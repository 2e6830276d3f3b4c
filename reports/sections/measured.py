"""The measured groups: conditions, notes and warnings of each."""

from __future__ import annotations

from pathlib import Path

from reusebench.measured.plan import Model
from reusebench.reports.base.formatting import counted_mib, to_the_minute
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.labels import driver_label
from reusebench.reports.results.memory_use import npu_source
from reusebench.reports.results.rows import Group
from reusebench.reports.sections.node_orders import node_order_note
from reusebench.reports.sections.section import GroupSection, GroupView, Page, Values
from reusebench.reports.shared.answers import memory_note, system_memory_note, virtual_note
from reusebench.scenarios.catalogue import MODEL_SETS
from reusebench.storage.group_charge import charge_words
from reusebench.storage.result import PSS


class MeasuredSection(GroupSection):
    """The list of groups, in which a reader chooses those to show."""

    name = "measured"

    def summary(self, page: Page) -> str:
        """Return the groups."""
        return page.texts.joined(page.labels)

    def values(self, page: Page) -> Values:
        """Return the parts, and how many groups the page shows and leaves out."""
        shown = len(page.groups)
        left_out = len(page.material.groups) - shown
        drawn = len(page.material.drawn)
        return {**super().values(page), "shown": shown, "left_out": left_out, "drawn": drawn}

    def part(self, view: GroupView) -> Values | None:
        """Return conditions, notes and warnings."""
        group = view.group
        texts = view.texts
        sources = dict.fromkeys(npu_source(row) for row in group.rows)
        notes = [
            virtual_note(group, texts),
            memory_note(group, texts),
            system_memory_note(group, texts),
            *(texts(f"npu_source_{source}") for source in sources if source),
            *_model_notes(group, texts),
            node_order_note(group, texts),
            *_not_compared_notes(group, texts),
            _charge_note(group, texts),
        ]
        return {
            "conditions": _conditions(group, texts),
            "notes": [note for note in notes if note],
        }


def _conditions(group: Group, texts: Texts) -> str:
    """Return the conditions of the group, and its models."""
    info = group.info
    run = group.newest
    conversation = next((row.info.plan.conversation for row in group.rows), None)
    sentences = [
        texts(
            _conditions_key(group),
            **(vars(conversation) if conversation else {}),
            sessions=info.contexts,
            target=info.target,
            cores=info.cores,
            driver=driver_label(group, texts),
            streams=info.streams,
            contexts=info.contexts,
        )
    ]
    if info.chip:
        sentences.append(texts("condition_chip", chip=info.chip))
    if info.npu_memory_limit_bytes:
        limit = counted_mib(info.npu_memory_limit_bytes)
        sentences.append(texts("condition_npu_memory", limit=limit))
    if info.driver_version:
        sentences.append(texts("condition_driver", driver=info.driver_version))
    if info.runtime_version and info.runtime_version != group.short_version:
        sentences.append(texts("condition_library", version=info.runtime_version))
    if info.counted_by == PSS:
        sentences.append(texts("condition_pss"))
    date = to_the_minute(run.recorded_at)
    sentences.append(texts("condition_measured", date=date, run=run.file_name, board=group.board))
    for name in MODEL_SETS:
        models = [row.models for row in group.rows if row.model_set == name]
        if models:
            # Rows of one set may use some of its models: the longest list is complete.
            sentences.append(texts(f"models_of_{name}", models=max(models, key=len)))
    return texts.sentences(sentences)


def _charge_note(group: Group, texts: Texts) -> str:
    """Return the largest charge of a control group, with its scenario; empty without a limit."""
    charged = []
    for row in group.rows:
        for repeat in row.info.repeats:
            if repeat.charge:
                counted = repeat.charge.most.counted_bytes
                charged.append((counted, row.info.scenario, repeat.charge))
    if not charged:
        return ""
    _, scenario, charge = max(charged, key=lambda most: most[0])
    words = charge_words([charge])
    assert words is not None
    return texts("group_charge", name=scenario, charge=texts.message(words))


def _conditions_key(group: Group) -> str:
    if group.is_of_plans:
        return "conditions_plans"
    if any(row.info.plan.conversation for row in group.rows):
        return "conditions_sessions"
    # Contexts of streams of video do not wait for each other.
    if all(row.schedule for row in group.rows):
        return "conditions_streams"
    return "conditions"


def _model_notes(group: Group, texts: Texts) -> list[str]:
    """Return notes on each model's conversion, and on assumptions about its inputs."""
    models: dict[str, Model] = {}
    for row in group.rows:
        models.update((model.digest, model) for model in row.info.plan.models)
    notes = []
    for model in models.values():
        conversion = model.conversion
        if conversion:
            file = Path(conversion.source).name
            notes.append(texts("note_converted", model=model.name, file=file, by=conversion.by))
        if model.options:
            options = texts.joined(model.options)
            notes.append(texts("note_needed_options", model=model.name, options=options))
        for key, inputs in _inputs_by_note(model).items():
            if inputs:
                notes.append(texts(key, model=model.name, inputs=texts.joined(inputs)))
    return notes


def _not_compared_notes(group: Group, texts: Texts) -> list[str]:
    """Return a note on each model whose outputs are not compared, with the reason."""
    notes = []
    for row in group.rows:
        for model in row.info.models:
            reason = row.info.not_compared.get(model.digest)
            if reason:
                notes.append(
                    texts("note_not_compared", model=model.name, reason=texts.message(reason))
                )
    return list(dict.fromkeys(notes))


def _inputs_by_note(model: Model) -> dict[str, list[str]]:
    """Return the inputs of a model that each note names, by the note's key."""
    conversion = model.conversion
    given = conversion.inputs if conversion else model.inputs
    notes: dict[str, list[str]] = {
        "note_shapes": [],
        "note_guesses": [],
        "note_values": [],
        "note_data": [],
    }
    for tensor in given:
        if tensor.assumed:
            shape = "x".join(map(str, tensor.shape))
            notes["note_shapes"].append(f"{tensor.name}={shape}")
        if tensor.doubtful:
            notes["note_guesses"].append(tensor.name)
    for tensor in model.inputs:
        if tensor.value is not None:
            notes["note_values"].append(f"{tensor.name}={tensor.value}")
        if tensor.file:
            notes["note_data"].append(tensor.name)
    if conversion and conversion.is_calibrated:
        data = [tensor.name for tensor in conversion.inputs if tensor.file]
        noise = [tensor.name for tensor in conversion.inputs if not tensor.file]
        notes["note_calibrated_data"] = data
        notes["note_calibrated_noise"] = noise
    return notes
