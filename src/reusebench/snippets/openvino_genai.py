"""Plans in Python for OpenVINO GenAI, with the calls of its adapter in their order."""

from __future__ import annotations

from typing import Any, Optional

from reusebench.measured.plan import (
    ADAPTER,
    DUP,
    LOAD,
    RESTORED_PROMPT,
    SEQUENCE,
    SHARED_PROMPT,
    Plan,
)
from reusebench.measured.runtimes.base import NotSupported
from reusebench.measured.runtimes.openvino_genai.options import Options, blocks_of
from reusebench.snippets.base import Snippet, common_values, render
from reusebench.snippets.conversations import (
    check_context,
    conversation_of,
    files_of_models,
    only_options,
)
from reusebench.snippets.indices import Indices

__all__ = ["write"]

_TITLE = "OpenVINO GenAI"
_WORDS = {
    SEQUENCE: "another request of the pipeline of one",
    SHARED_PROMPT: "another request of the pipeline of one, with prefix caching",
    ADAPTER: "another request of the pipeline of one, with an adapter",
}


def write(plan: Plan, _chip: Optional[str] = None) -> Snippet:
    """Return the program; raise NotSupported if there can be none."""
    conversation = conversation_of(plan)
    for context in plan.contexts:
        if context.mechanism in (DUP, RESTORED_PROMPT):
            raise NotSupported("openvino_genai_no_code_of_requests")
        check_context(context, _WORDS, _TITLE)
    indices = Indices(len(plan.contexts), divide="//")
    options = Options(only_options(plan))
    values = {
        **common_values(plan, indices, _TITLE, _WORDS, "scratch memory"),
        "files": files_of_models(plan),
        "entries": _entries(plan),
        "conversation": conversation,
        "properties": options.properties,
        "scheduler": options.scheduler,
        "has_adapters": any(one.mechanism == ADAPTER for one in plan.contexts),
        "has_shared": any(one.mechanism == SHARED_PROMPT for one in plan.contexts),
    }
    return Snippet("python", render("openvino_genai.py.j2", indices, values))


def _entries(plan: Plan) -> list[dict[str, Any]]:
    """Return one entry per pipeline: its file, the blocks of its cache, and its conversations."""
    assert plan.conversation is not None
    entries: list[dict[str, Any]] = []
    for index, context in enumerate(plan.contexts):
        if context.mechanism != LOAD:
            continue
        over = plan.sequences_over(index)
        if over and not context.unified_cache:
            raise NotSupported("openvino_genai_one_cache")
        shared = sum(plan.contexts[other].mechanism == SHARED_PROMPT for other in over)
        adapters = []
        for other in plan.contexts:
            if other.mechanism == ADAPTER and other.source == index:
                adapters.append(other.model)
        conversations = 1 + len(over)
        entry: dict[str, Any] = {"file": context.model, "conversations": conversations}
        room = conversations + len(adapters)
        entry["blocks"] = blocks_of(plan.conversation, room, shared)
        if shared:
            entry["prefix_caching"] = True
        if adapters:
            entry["adapters"] = adapters
        entries.append(entry)
    return entries
