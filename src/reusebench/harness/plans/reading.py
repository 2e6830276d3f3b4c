"""Plan files read and checked: every mistake is a sentence with the file, the line and the key."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Optional

from reusebench.harness.conversations import MOST_TOKENS, ConversationRequest
from reusebench.harness.plans.context_tables import check_cores, read_chains, read_contexts
from reusebench.harness.plans.document import Document, DocumentTable, read_document, shown
from reusebench.harness.plans.plan_file import (
    AnyRecipe,
    PlanFile,
    PlanModel,
    PlanPace,
    PlanStreams,
)
from reusebench.harness.plans.plan_name import checked_name
from reusebench.harness.plans.stored_plan import is_stored_plan, read_stored_plan
from reusebench.harness.settings import (
    MOST_CONTEXTS,
    MOST_FPS,
    MOST_QUEUED,
    parse_duration,
    parse_sizes,
)
from reusebench.measured.plan import Context
from reusebench.models import ModelError, Recipe
from reusebench.models.language import LanguageRecipe
from reusebench.models.language.recipe import ADAPTER, MERGED, MODEL
from reusebench.models.language.shapes import SHAPES
from reusebench.models.model_kinds import language_file
from reusebench.models.networks import NETWORKS, find_network
from reusebench.system.user_files import UserFileError, check_file

__all__ = ["plan_of_document", "read_plan_file", "read_plan_files"]


def read_plan_files(paths: Iterable[Path]) -> tuple[PlanFile, ...]:
    """Return the plans of the files; raise PlanFileError if one is wrong, or two have one name."""
    plans: dict[str, PlanFile] = {}
    for path in paths:
        plan = read_plan_file(path)
        known = plans.setdefault(plan.name, plan)
        if known is not plan:
            raise plan.document.error(
                ("name",), f"{known.document.path} has the name {plan.name!r} too; give another"
            )
    return tuple(plans.values())


def read_plan_file(path: Path) -> PlanFile:
    """Return the plan of a file of TOML or JSON, or of a stored plan; raise PlanFileError."""
    document = read_document(path)
    if is_stored_plan(document):
        return read_stored_plan(document)
    return plan_of_document(document)


def plan_of_document(document: Document) -> PlanFile:
    """Return the plan that the keys of a document describe; raise PlanFileError if it is wrong."""
    root = document.section()
    root.expect("name", "cores", "models", "streams", "conversation", "contexts")
    models = tuple(_model(root.section("models"), name) for name in root.names("models"))
    streams = _streams(root.section("streams")) if "streams" in root.values else None
    conversation = None
    if "conversation" in root.values:
        conversation = _conversation(root.section("conversation"))
    if len(root.names("contexts")) > MOST_CONTEXTS:
        raise root.error("contexts", f"there are too many; valid: up to {MOST_CONTEXTS}")
    contexts_section = root.section("contexts")
    contexts = read_contexts(contexts_section, [model.name for model in models])
    if not contexts and streams is None:
        raise root.error(
            "contexts", "a plan needs a context; give it a table with the names of its contexts"
        )
    if streams:
        _check_streams(root, contexts, streams)
    check_cores(contexts_section, contexts)
    return PlanFile(
        document=document,
        name=checked_name(document, root.text("name") or document.path.stem),
        models=models,
        contexts=contexts,
        chains=read_chains(contexts_section, contexts),
        streams=streams,
        conversation=conversation,
        cores=root.whole("cores", least=1),
    )


# Models


def _model(models: DocumentTable, name: str) -> PlanModel:
    """Return the model of this name: a file alone, or a table."""
    if not isinstance(models.values[name], dict):
        return PlanModel(name, _existing(models, name))
    section = models.section(name)
    section.expect(
        "file", "network", "size", "seed", "part", "number", "weightless", "shape", "inputs"
    )
    if ("file" in section.values) == ("network" in section.values):
        raise models.error(
            name, "a model is either a `file` or a built-in `network`; give one of them"
        )
    weightless = _existing_if_given(section, "weightless")
    inputs = _existing_if_given(section, "inputs")
    source = _existing_if_given(section, "file") or _recipe(section)
    return PlanModel(name, source, weightless, _shape(section), inputs)


def _existing_if_given(section: DocumentTable, key: str) -> Path | None:
    if key not in section.values:
        return None
    return _existing(section, key)


def _existing(section: DocumentTable, key: str) -> Path:
    """Return the path of a file, which is relative to the plan's."""
    path = section.document.path.parent / (section.text(key) or "")
    try:
        return check_file(language_file(path))
    except UserFileError as error:
        raise section.error(
            key, f"{error}. Give a path that is absolute, or relative to the plan's file"
        ) from None


def _recipe(section: DocumentTable) -> AnyRecipe:
    for key in ("weightless", "shape", "inputs"):
        if key in section.values:
            raise section.error(
                key, "this is of a `file`; a built-in `network` has `size` and `seed`"
            )
    language_models = [shape.name for shape in SHAPES]
    names = [*(entry.name for entry in NETWORKS), *language_models]
    network = section.word("network", names, "built-in network")
    assert network is not None
    if network in language_models:
        return _language_recipe(section, network)
    for key in ("part", "number"):
        if key in section.values:
            raise section.error(key, f"only a built-in language model has it, not {network}")
    size = section.whole("size", least=1) or find_network(network).default_size
    try:
        return Recipe(network, size, section.whole("seed", least=0) or 0)
    except ModelError as error:
        raise section.error("size" if "size" in str(error) else "seed", str(error)) from None


def _language_recipe(section: DocumentTable, name: str) -> LanguageRecipe:
    if "size" in section.values:
        raise section.error("size", f"{name} is a language model, which has no size of an input")
    seed = section.whole("seed", least=0) or 0
    part = section.word("part", (MODEL, ADAPTER, MERGED), "part") or MODEL
    try:
        return LanguageRecipe(name, seed, part, section.whole("number", least=0) or 0)
    except ModelError as error:
        raise section.error("seed" if "seed" in str(error) else "number", str(error)) from None


def _shape(section: DocumentTable) -> tuple[tuple[Optional[str], tuple[int, ...]], ...]:
    """Return the sizes of the only input, or of the inputs that a table names."""
    if isinstance(section.values.get("shape", {}), dict):
        table = section.section("shape")
        return tuple((name, _sizes(table, name)) for name in table.values)
    return ((None, _sizes(section, "shape")),)


def _sizes(section: DocumentTable, key: str) -> tuple[int, ...]:
    text = section.text(key) or ""
    sizes = parse_sizes(text)
    if sizes is None:
        raise section.error(key, f"{shown(text)} is no shape; valid: sizes as in 1x3x640x640")
    return sizes


# Language models


def _conversation(section: DocumentTable) -> ConversationRequest:
    section.expect("tokens", "prompt", "generated", "common")
    return ConversationRequest(
        tokens=section.whole("tokens", least=1, most=MOST_TOKENS),
        prompt=section.whole("prompt", least=1, most=MOST_TOKENS),
        generated=section.whole("generated", least=1, most=MOST_TOKENS),
        common=section.whole("common", least=0, most=MOST_TOKENS),
    )


# Streams


def _streams(section: DocumentTable) -> PlanStreams:
    section.expect("count", "fps", "queue", "duration")
    count = section.whole("count", least=1, most=MOST_CONTEXTS)
    if count is None:
        raise section.error("count", "it is missing; give the number of streams")
    duration_s = None
    if "duration" in section.values:
        try:
            duration_s = parse_duration(str(section.values["duration"]))
        except argparse.ArgumentTypeError as error:
            raise section.error("duration", str(error)) from None
    fps = section.number("fps", MOST_FPS)
    queue = section.whole("queue", least=0, most=MOST_QUEUED)
    return PlanStreams(count, PlanPace(fps, queue, duration_s))


def _check_streams(root: DocumentTable, contexts: Sequence[Context], streams: PlanStreams) -> None:
    """Raise PlanFileError unless every stream has contexts, or every context serves all streams."""
    served = {context.stream for context in contexts}
    serves_all = served == {None}
    valid = (
        f"valid: 0 to {streams.count - 1}, or no `stream` in any context, so that each serves all"
        " streams"
    )
    section = root.section("contexts")
    for context in contexts:
        name = str(context.name)
        if context.stream is None and not serves_all:
            raise section.error(name, f"its `stream` is missing; {valid}")
        if context.stream is not None and context.stream >= streams.count:
            problem = f"there is no stream {context.stream}; {valid}"
            raise section.section(name).error("stream", problem)
    unserved = set(range(streams.count)) - served
    if contexts and not serves_all and unserved:
        problem = (
            f"no context serves stream {min(unserved)} of {streams.count}; give it one, or lower"
            " the count"
        )
        raise root.section("streams").error("count", problem)
