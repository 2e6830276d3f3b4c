"""Plan files read and checked: every mistake is a sentence with the file, the line and the key."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Optional

import msgspec

from reusebench.harness.plans.document import Document, Section, nearest, read_document, shown
from reusebench.harness.plans.plan_file import PlanFile, PlanModel, PlanPace, PlanStreams
from reusebench.harness.settings import (
    MOST_CONTEXTS,
    MOST_CYCLES,
    MOST_FPS,
    MOST_QUEUED,
    parse_duration,
    parse_sizes,
)
from reusebench.measured.plan import (
    ALLOCATORS,
    CREATE_MEM,
    DEVICES,
    DUP,
    INTERNAL,
    LOAD,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    ZERO_COPY,
    Context,
    Plan,
)
from reusebench.models import ModelError, Recipe
from reusebench.models.networks import NETWORKS, find_network
from reusebench.scenarios.catalogue import SCENARIOS, name_of_plan
from reusebench.system.user_files import UserFileError, check_file

__all__ = ["plan_of_document", "read_plan_file", "read_plan_files"]

#: They are in the names of tests, of traces and of configurations.
_NAME = re.compile(r"[\w-]+")
#: File systems allow names of 255 bytes, and those of traces have more in them.
_LONGEST_NAME_BYTES = 128
#: Ways to reuse another context, each a key with its name.
_REUSES = (DUP, SHARED_CONTEXT, SHARED_WEIGHTS, SHARED_WEIGHT_MEMORY)
_MEMORY_KEYS = (
    "internal",
    "outside",
    "allocator",
    "zero_copy",
    "io",
    "device_io",
    "device",
    "core",
    "options",
)
_CONTEXT_KEYS = ("model", "stream", "after", *_REUSES, *_MEMORY_KEYS)


def read_plan_files(paths: Iterable[Path]) -> tuple[PlanFile, ...]:
    """Return the plans of the files; raise PlanFileError if one is wrong, or has the name of
    another one.
    """
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
    """Return the plan of a file in TOML or JSON, or of the JSON of a stored plan; raise
    PlanFileError.
    """
    document = read_document(path)
    return _stored_plan(document) if "scenario" in document.values else plan_of_document(document)


def plan_of_document(document: Document) -> PlanFile:
    """Return the plan that the keys of a document describe; raise PlanFileError if it is wrong."""
    root = document.section()
    root.expect("name", "cores", "models", "streams", "contexts")
    models = tuple(_model(root.section("models"), name) for name in root.names("models"))
    streams = _streams(root.section("streams")) if "streams" in root.values else None
    if len(root.names("contexts")) > MOST_CONTEXTS:
        raise root.error("contexts", f"there are too many; valid: up to {MOST_CONTEXTS}")
    contexts = _contexts(root.section("contexts"), [model.name for model in models])
    if not contexts and streams is None:
        raise root.error(
            "contexts", "a plan needs a context; give it a table with the names of its contexts"
        )
    _check_streams(root, contexts, streams)
    _check_cores(root, contexts)
    return PlanFile(
        document=document,
        name=_checked_name(document, root.text("name") or document.path.stem),
        models=models,
        contexts=contexts,
        chains=_chains(root.section("contexts"), contexts),
        streams=streams,
        cores=root.whole("cores", least=1),
    )


def _checked_name(document: Document, name: str) -> str:
    """Return the name of a plan; raise PlanFileError if results cannot be called so."""
    if not _NAME.fullmatch(name) or len(name.encode()) > _LONGEST_NAME_BYTES:
        valid = f"letters, digits, - and _, up to {_LONGEST_NAME_BYTES} bytes"
        raise document.error(("name",), f"{shown(name)} is no name for a plan; valid: {valid}")
    if name in (scenario.name for scenario in SCENARIOS):
        raise document.error(
            ("name",), f"{name!r} is the name of a built-in scenario; give the plan another"
        )
    return name


# Models


def _model(models: Section, name: str) -> PlanModel:
    """Return the model of this name: its file alone, or a table."""
    if not isinstance(models.values[name], dict):
        return PlanModel(name, _existing(models, name))
    section = models.section(name)
    section.expect("file", "network", "size", "seed", "weightless", "shape", "inputs")
    if ("file" in section.values) == ("network" in section.values):
        raise models.error(
            name, "a model is either a `file` or a built-in `network`; give one of them"
        )
    weightless = _existing(section, "weightless") if "weightless" in section.values else None
    inputs = _existing(section, "inputs") if "inputs" in section.values else None
    source = _existing(section, "file") if "file" in section.values else _recipe(section)
    return PlanModel(name, source, weightless, _shape(section), inputs)


def _existing(section: Section, key: str) -> Path:
    """Return the path of a file, which is relative to the plan's."""
    path = section.document.path.parent / (section.text(key) or "")
    try:
        return check_file(path)
    except UserFileError as error:
        raise section.error(
            key, f"{error}. Give a path that is absolute, or relative to the plan's file"
        ) from None


def _recipe(section: Section) -> Recipe:
    for key in ("weightless", "shape", "inputs"):
        if key in section.values:
            raise section.error(
                key, "this is of a `file`; a built-in `network` has `size` and `seed`"
            )
    network = section.word("network", [entry.name for entry in NETWORKS], "built-in network")
    assert network is not None
    size = section.whole("size", least=1) or find_network(network).default_size
    try:
        return Recipe(network, size, section.whole("seed", least=0) or 0)
    except ModelError as error:
        raise section.error("size" if "size" in str(error) else "seed", str(error)) from None


def _shape(section: Section) -> tuple[tuple[Optional[str], tuple[int, ...]], ...]:
    """Return the sizes of the only input, or of those that a table names."""
    if isinstance(section.values.get("shape", {}), dict):
        table = section.section("shape")
        return tuple((name, _sizes(table, name)) for name in table.values)
    return ((None, _sizes(section, "shape")),)


def _sizes(section: Section, key: str) -> tuple[int, ...]:
    text = section.text(key) or ""
    sizes = parse_sizes(text)
    if sizes is None:
        raise section.error(key, f"{shown(text)} is no shape; valid: sizes as in 1x3x640x640")
    return sizes


# Streams


def _streams(section: Section) -> PlanStreams:
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
    pace = PlanPace(
        section.number("fps", MOST_FPS),
        section.whole("queue", least=0, most=MOST_QUEUED),
        duration_s,
    )
    return PlanStreams(count, pace)


def _check_streams(root: Section, contexts: Sequence[Context], streams: PlanStreams | None) -> None:
    """Raise PlanFileError unless every stream has contexts, or every context serves all streams."""
    if streams is None:
        return
    valid = (
        f"valid: 0 to {streams.count - 1}, or no `stream` in any context, so that each serves all"
        " streams"
    )
    served = {context.stream for context in contexts}
    for context in contexts:
        if context.stream is None and served != {None}:
            raise root.section("contexts").error(
                str(context.name), f"its `stream` is missing; {valid}"
            )
        if context.stream is not None and context.stream >= streams.count:
            name = str(context.name)
            raise (
                root.section("contexts")
                .section(name)
                .error("stream", f"there is no stream {context.stream}; {valid}")
            )
    unserved = set(range(streams.count)) - served
    if contexts and served != {None} and unserved:
        problem = (
            f"no context serves stream {min(unserved)} of {streams.count}; give it one, or lower"
            " the count"
        )
        raise root.section("streams").error("count", problem)


# Contexts


def _contexts(section: Section, models: Sequence[str]) -> tuple[Context, ...]:
    """Return the contexts, in the file's order, which is that of making them."""
    contexts: dict[str, Context] = {}
    memories: dict[str, int] = {}
    io_memories: dict[str, int] = {}
    for name in section.values:
        table = section.section(name)
        table.expect(*_CONTEXT_KEYS)
        mechanism, source = _source(table, name, list(section.values), contexts)
        outside = table.words("outside", (WEIGHTS, INTERNAL))
        zero_copy = table.words("zero_copy", ZERO_COPY)
        memory = table.text("internal")
        io = table.text("io")
        contexts[name] = Context(
            stream=table.whole("stream", least=0),
            model=_model_of(
                table,
                models,
                mechanism,
                None if source is None else list(contexts.values())[source],
            ),
            mechanism=mechanism,
            source=source,
            internal=None if memory is None else memories.setdefault(memory, len(memories)),
            outside=outside,
            allocator=table.word("allocator", ALLOCATORS, "allocator") or CREATE_MEM,
            zero_copy=zero_copy,
            io=None if io is None else io_memories.setdefault(io, len(io_memories)),
            device_io=table.flag("device_io"),
            device=table.word("device", DEVICES, "device"),
            core=table.whole("core", least=0),
            options=_options(table),
            name=name,
        )
    return tuple(contexts.values())


def _options(table: Section) -> tuple[str, ...]:
    """Return a context's options; which of them a runtime has is known where it runs."""
    options = table.values.get("options", [])
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        raise table.error(
            "options", f"{shown(options)} is not valid; valid: a list of texts, NAME=VALUE each"
        )
    return tuple(options)


def _source(
    table: Section, name: str, names: Sequence[str], made: Mapping[str, Context]
) -> tuple[str, int | None]:
    """Return the mechanism of a context, and the index of the one that it reuses; `made` are those
    above it.
    """
    reuses = [key for key in _REUSES if key in table.values]
    if not reuses:
        return LOAD, None
    key, *others = reuses
    if others:
        raise table.error(
            others[0], f"a context reuses another one in one way; leave this or `{key}` out"
        )
    source = table.word(key, names, "context")
    assert source is not None
    if source not in made:
        reason = (
            "this is the context itself"
            if source == name
            else f"{source!r} comes later in the file"
        )
        raise table.error(
            key, f"{reason}; a context reuses one that is made before it, so that stands above it"
        )
    if made[source].mechanism != LOAD:
        first = list(made)[made[source].source or 0]
        raise table.error(
            key, f"{source!r} reuses {first!r} itself; name a context that is loaded: {first!r}"
        )
    return key, list(made).index(source)


def _model_of(table: Section, models: Sequence[str], mechanism: str, source: Context | None) -> int:
    """Return the index of a context's model, which is its source's where it is missing."""
    name = table.word("model", models, "model")
    if source is None or mechanism == SHARED_WEIGHTS:
        if name is None:
            raise table.error("model", f"it is missing{nearest('', models)}")
        return models.index(name)
    if name not in (None, models[source.model]):
        raise table.error(
            "model", f"{source.name!r} has {models[source.model]!r}; leave it out, or give the same"
        )
    return source.model


def _check_cores(root: Section, contexts: Sequence[Context]) -> None:
    with_core = [context.name for context in contexts if context.core is not None]
    for context in contexts:
        if with_core and context.core is None:
            problem = (
                f"its `core` is missing: {with_core[0]!r} has one; give every context a core, or"
                " none"
            )
            raise root.section("contexts").error(str(context.name), problem)


def _chains(section: Section, contexts: Sequence[Context]) -> tuple[tuple[int, ...], ...]:
    """Return the chains that `after` gives: each context runs after one other at most, and one at
    most after it.
    """
    names = list(section.values)
    following: dict[str, str] = {}
    for name in names:
        table = section.section(name)
        before = table.word("after", names, "context")
        if before is None:
            continue
        if before in following:
            raise table.error(
                "after",
                f"{following[before]!r} runs after {before!r} already; name the last of the chain",
            )
        if contexts[names.index(before)].stream != contexts[names.index(name)].stream:
            raise table.error(
                "after", f"{before!r} serves another stream; contexts of a chain serve the same"
            )
        following[before] = name
    chains = []
    for first in following.keys() - set(following.values()):
        chain = [first]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        chains.append(tuple(names.index(name) for name in chain))
    in_circle = set(following) - {names[index] for chain in chains for index in chain}
    if in_circle:
        name = next(name for name in names if name in in_circle)
        raise section.section(name).error(
            "after", "these contexts run after each other in a circle; one must be first"
        )
    return tuple(sorted(chains))


# Stored plans


class _BoundsOfStreams(msgspec.Struct):
    count: Annotated[int, msgspec.Meta(le=MOST_CONTEXTS)]
    fps: Annotated[float, msgspec.Meta(le=MOST_FPS)]


class _BoundsOfCycles(msgspec.Struct):
    count: Annotated[int, msgspec.Meta(le=MOST_CYCLES)]


class _Bounds(msgspec.Struct):
    """What a stored plan is looked at for before all of it is checked, which takes time and memory
    by these numbers.
    """

    contexts: Annotated[list[Any], msgspec.Meta(max_length=MOST_CONTEXTS)]
    chains: Annotated[list[Any], msgspec.Meta(max_length=MOST_CONTEXTS)] = []
    schedule: Optional[_BoundsOfStreams] = None
    cycles: Optional[_BoundsOfCycles] = None


def _stored_plan(document: Document) -> PlanFile:
    """Return the plan of the JSON that results store.

    It keeps its name; that of a built-in scenario, or of a plan without reuse, is called as its
    file.
    """
    try:
        msgspec.convert(document.values, _Bounds)
        plan = msgspec.convert(document.values, Plan)
    except msgspec.ValidationError as error:
        raise document.error(
            (), f"this has a `scenario`, as stored plans have, and is none: {error}"
        ) from None
    if plan.cycles is not None:
        raise document.error(
            ("cycles",),
            "this plan does the same again and again, which bench/test_leaks.py measures",
        )
    is_built_in = plan.scenario in (scenario.name for scenario in SCENARIOS)
    is_users = not is_built_in and name_of_plan(plan.scenario) is None
    models = []
    for model in plan.models:
        for file in filter(
            None, (model.path, model.weightless, *(tensor.file for tensor in model.inputs))
        ):
            try:
                check_file(Path(file))
            except UserFileError as error:
                raise document.error(
                    ("models",), f"{error}; it was there when the plan was stored"
                ) from None
        models.append(PlanModel(model.name, model))
    contexts = []
    for index, context in enumerate(plan.contexts):
        contexts.append(replace(context, name=context.name or f"context-{index + 1}"))
    return PlanFile(
        document=document,
        name=_checked_name(document, plan.scenario if is_users else document.path.stem),
        models=tuple(models),
        contexts=tuple(contexts),
        chains=plan.chains,
        streams=_stored_streams(plan),
        cores=plan.cores,
        rounds=plan.rounds,
        runtime=plan.runtime,
    )


def _stored_streams(plan: Plan) -> PlanStreams | None:
    schedule = plan.schedule
    if schedule is None:
        return None
    pace = PlanPace(schedule.fps, schedule.queue, schedule.duration_s, schedule.warm_up_s)
    return PlanStreams(schedule.count, pace, schedule.video.digest if schedule.video else None)
