"""The sharing between contexts that a plan asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reusebench.accounting.sizes import COMPONENTS
from reusebench.measured.plan import SHARED_CONTEXT, Context

_NONE = "none"
_FIRST = "first"
_LATER = "later"


def internal_roles(contexts: Sequence[Context]) -> list[str]:
    """Return each context's role in a shared internal memory: "none", "first" or "later"."""
    return _roles(context.internal for context in contexts)


def _roles(memories: Iterable[int | None]) -> list[str]:
    """Return the role of each user of shared memories, which are given by their numbers."""
    seen: set[int] = set()
    roles = []
    for memory in memories:
        if memory is None:
            roles.append(_NONE)
        elif memory in seen:
            roles.append(_LATER)
        else:
            roles.append(_FIRST)
            seen.add(memory)
    return roles


def reuses(contexts: Sequence[Context]) -> list[bool]:
    """Return for each context whether it reuses another one, or its internal memory."""
    roles = internal_roles(contexts)
    return [context.source is not None or role == _LATER for context, role in zip(contexts, roles)]


def shares(contexts: Sequence[Context]) -> list[bool]:
    """Return for each context whether it reuses another one, or is reused."""
    sources = {context.source for context in contexts}
    shared_memories = set()
    for context, role in zip(contexts, internal_roles(contexts)):
        if role == _LATER:
            shared_memories.add(context.internal)

    flags = []
    for index, (context, is_reusing) in enumerate(zip(contexts, reuses(contexts))):
        is_reused = index in sources or context.internal in shared_memories
        flags.append(is_reusing or is_reused)
    return flags


def shared_components(contexts: Sequence[Context]) -> tuple[str, ...]:
    """Return the components that contexts take from another one."""
    if any(context.mechanism == SHARED_CONTEXT for context in contexts):
        return COMPONENTS
    components = []
    if any(context.source is not None for context in contexts):
        components.append("weights")
    if _LATER in internal_roles(contexts):
        components.append("internal")
    if _LATER in _roles(context.io for context in contexts):
        components.append("io")
    return tuple(components)
