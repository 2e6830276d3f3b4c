"""The contexts of a plan file, read from their tables and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reusebench.harness.plans.document import DocumentTable, nearest, shown
from reusebench.measured.plan import (
    ADAPTER,
    ALLOCATORS,
    CREATE_MEM,
    DEVICES,
    DUP,
    INTERNAL,
    LOAD,
    OF_LANGUAGE_MODELS,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    ZERO_COPY,
    Context,
)

__all__ = ["check_cores", "read_chains", "read_contexts"]

#: Ways to reuse another context; each is a key whose value is that context's name.
_REUSES = (DUP, SHARED_CONTEXT, SHARED_WEIGHTS, SHARED_WEIGHT_MEMORY, *OF_LANGUAGE_MODELS)
#: Those whose contexts have a model of their own.
_WITH_OWN_MODEL = (SHARED_WEIGHTS, ADAPTER)
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
    "unified_cache",
)
_CONTEXT_KEYS = ("model", "stream", "after", *_REUSES, *_MEMORY_KEYS)


def read_contexts(section: DocumentTable, models: Sequence[str]) -> tuple[Context, ...]:
    """Return the contexts in the file's order, in which they are made."""
    contexts: dict[str, Context] = {}
    internal_memories: dict[str, int] = {}
    io_memories: dict[str, int] = {}
    for name in section.values:
        table = section.section(name)
        table.expect(*_CONTEXT_KEYS)
        mechanism, source = _source(table, name, list(section.values), contexts)
        source_context = None if source is None else list(contexts.values())[source]
        outside = table.words("outside", (WEIGHTS, INTERNAL))
        zero_copy = table.words("zero_copy", ZERO_COPY)
        internal = _number_of(table, "internal", internal_memories)
        io = _number_of(table, "io", io_memories)
        contexts[name] = Context(
            stream=table.whole("stream", least=0),
            model=_model_of(table, models, mechanism, source_context),
            mechanism=mechanism,
            source=source,
            internal=internal,
            outside=outside,
            allocator=table.word("allocator", ALLOCATORS, "allocator") or CREATE_MEM,
            zero_copy=zero_copy,
            io=io,
            device_io=table.flag("device_io"),
            device=table.word("device", DEVICES, "device"),
            core=table.whole("core", least=0),
            options=_options(table),
            unified_cache=table.flag("unified_cache"),
            name=name,
        )
    return tuple(contexts.values())


def _number_of(table: DocumentTable, key: str, numbers: dict[str, int]) -> int | None:
    """Return the number of a shared memory that contexts call by the same word."""
    word = table.text(key)
    if word is None:
        return None
    return numbers.setdefault(word, len(numbers))


def _options(table: DocumentTable) -> tuple[str, ...]:
    """Return a context's options; the runtime checks later whether it has them."""
    options = table.values.get("options", [])
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        raise table.error(
            "options", f"{shown(options)} is not valid; valid: a list of texts, NAME=VALUE each"
        )
    return tuple(options)


def _source(
    table: DocumentTable, name: str, names: Sequence[str], earlier: Mapping[str, Context]
) -> tuple[str, int | None]:
    """Return the mechanism of a context, and the index of the earlier context that it reuses."""
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
    if source not in earlier:
        reason = f"{source!r} comes later in the file"
        if source == name:
            reason = "this is the context itself"
        raise table.error(
            key, f"{reason}; a context reuses one that is made before it, so that stands above it"
        )
    if earlier[source].mechanism != LOAD:
        first = list(earlier)[earlier[source].source or 0]
        raise table.error(
            key, f"{source!r} reuses {first!r} itself; name a context that is loaded: {first!r}"
        )
    return key, list(earlier).index(source)


def _model_of(
    table: DocumentTable, models: Sequence[str], mechanism: str, source: Context | None
) -> int:
    """Return the index of a context's model; by default it is that of its source."""
    name = table.word("model", models, "model")
    if source is None or mechanism in _WITH_OWN_MODEL:
        if name is None:
            raise table.error("model", f"it is missing{nearest('', models)}")
        return models.index(name)
    if name not in (None, models[source.model]):
        raise table.error(
            "model", f"{source.name!r} has {models[source.model]!r}; leave it out, or give the same"
        )
    return source.model


def check_cores(section: DocumentTable, contexts: Sequence[Context]) -> None:
    """Raise PlanFileError if some contexts have a core and others have none."""
    with_core = [context.name for context in contexts if context.core is not None]
    without_core = [context.name for context in contexts if context.core is None]
    if with_core and without_core:
        raise section.error(
            str(without_core[0]),
            f"its `core` is missing: {with_core[0]!r} has one; give every context a core, or none",
        )


def read_chains(section: DocumentTable, contexts: Sequence[Context]) -> tuple[tuple[int, ...], ...]:
    """Return the chains that `after` gives.

    A context runs after one other context at most, and one context at most runs after it.
    """
    names = list(section.values)
    followers = _followers(section, names, contexts)
    chains = []
    chained: set[str] = set()
    for first in followers.keys() - set(followers.values()):
        chain = [first]
        while chain[-1] in followers:
            chain.append(followers[chain[-1]])
        chained.update(chain)
        chains.append(tuple(names.index(name) for name in chain))
    for name in names:
        if name in followers and name not in chained:
            raise section.section(name).error(
                "after", "these contexts run after each other in a circle; one must be first"
            )
    return tuple(sorted(chains))


def _followers(
    section: DocumentTable, names: Sequence[str], contexts: Sequence[Context]
) -> dict[str, str]:
    """Return, by its name, the context that runs after a context."""
    followers: dict[str, str] = {}
    for name in names:
        table = section.section(name)
        before = table.word("after", names, "context")
        if before is None:
            continue
        if before in followers:
            raise table.error(
                "after",
                f"{followers[before]!r} runs after {before!r} already; name the last of the chain",
            )
        if contexts[names.index(before)].stream != contexts[names.index(name)].stream:
            raise table.error(
                "after", f"{before!r} serves another stream; contexts of a chain serve the same"
            )
        followers[before] = name
    return followers
