"""Plans in Python for ONNX Runtime GenAI, with the calls of its adapter in their order."""

from __future__ import annotations

from typing import Any, Optional

from reusebench.measured.plan import ADAPTER, DUP, LOAD, SEQUENCE, Plan
from reusebench.measured.runtimes.base import NotSupported
from reusebench.measured.runtimes.onnxruntime_genai.options import Options
from reusebench.snippets.base import Snippet, common_values, render
from reusebench.snippets.conversations import (
    check_context,
    conversation_of,
    files_of_models,
    only_options,
)
from reusebench.snippets.indices import Indices

__all__ = ["write"]

_TITLE = "ONNX Runtime GenAI"
_WORDS = {
    DUP: "another Generator over the Model of one",
    SEQUENCE: "another row in the batch of one",
    ADAPTER: "another Generator over the Model of one, with an adapter",
}


def write(plan: Plan, _chip: Optional[str] = None) -> Snippet:
    """Return the program; raise NotSupported if there can be none."""
    conversation = conversation_of(plan)
    for context in plan.contexts:
        check_context(context, _WORDS, _TITLE)
        if context.unified_cache:
            raise NotSupported("ort_genai_no_unified_cache")
    indices = Indices(len(plan.contexts), divide="//")
    options = Options(only_options(plan))
    if any(one.mechanism == SEQUENCE for one in plan.contexts):
        options.check_batch()
    values = {
        **common_values(plan, indices, _TITLE, _WORDS, "scratch memory"),
        "files": files_of_models(plan),
        "entries": _entries(plan),
        "conversation": conversation,
        "session": options.session,
        "search": options.search,
        "keeps": options.keeps_common,
        "has_adapters": any(one.mechanism == ADAPTER for one in plan.contexts),
    }
    return Snippet("python", render("onnxruntime_genai.py.j2", indices, values))


def _entries(plan: Plan) -> list[dict[str, Any]]:
    """Return one entry per Generator: the number of its Model, its file, its rows, its adapter."""
    entries: list[dict[str, Any]] = []
    loaded: dict[int, int] = {}
    for index, context in enumerate(plan.contexts):
        if context.mechanism == SEQUENCE:
            continue
        if context.mechanism == LOAD:
            loaded[index] = len(loaded)
        owner = index if context.source is None else context.source
        # A dup of a dup is over the same Model.
        while owner not in loaded:
            owner = plan.contexts[owner].source or 0
        entry: dict[str, Any] = {"model": loaded[owner]}
        if context.mechanism == LOAD:
            entry["file"] = context.model
        entry["rows"] = 1 + len(plan.sequences_over(index))
        if context.mechanism == ADAPTER:
            entry["adapter"] = context.model
        entries.append(entry)
    return entries
