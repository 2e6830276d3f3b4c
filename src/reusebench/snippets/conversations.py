"""Parts that the snippets of language models' runtimes have in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reusebench.measured.plan import CREATE_MEM, LOAD, Context, Conversation, Plan
from reusebench.measured.runtimes import find_runtime
from reusebench.measured.runtimes.base import NotSupported

__all__ = ["check_context", "conversation_of", "files_of_models", "only_options"]


def conversation_of(plan: Plan) -> Conversation:
    """Return the plan's conversation; raise NotSupported if it has none."""
    if plan.conversation is None:
        raise NotSupported("conversation_missing", runtime=find_runtime(plan.runtime).title)
    return plan.conversation


def check_context(context: Context, words: Mapping[str, str], runtime: str) -> None:
    """Raise NotSupported for contexts that the runtime's adapter refuses, too."""
    if context.mechanism not in (LOAD, *words):
        raise NotSupported("no_code_of_mechanism", mechanism=context.mechanism)
    if context.internal is not None or "internal" in context.outside:
        raise NotSupported("conversation_no_internal", runtime=runtime)
    if context.outside:
        raise NotSupported("conversation_no_allocator", runtime=runtime)
    if context.zero_copy or context.io is not None:
        raise NotSupported("conversation_no_tensors")
    if context.device is not None or context.device_io or context.allocator != CREATE_MEM:
        raise NotSupported("conversation_cpu_only", runtime=runtime)


def files_of_models(plan: Plan) -> list[str]:
    """Return the name of each model's file on the command line, with its folder if it stands for
    one.
    """
    folder_model = find_runtime(plan.runtime).folder_model
    names = []
    for model in plan.models:
        path = Path(model.path or model.name)
        names.append(f"{path.parent.name}/{path.name}" if path.name == folder_model else path.name)
    return names


def only_options(plan: Plan) -> tuple[str, ...]:
    """Return the options of all contexts; raise NotSupported if they differ."""
    chosen = {plan.options_of(index) for index in range(len(plan.contexts))}
    if len(chosen) > 1:
        raise NotSupported("no_code_of_several_options")
    return chosen.pop()
