"""What the snippets of all runtimes have in common: their form, and how their templates are filled in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from runtimes.base import NotSupported
from scenarios.plan import LOAD, Plan
from snippets.indices import Indices

__all__ = ["Snippet", "check_is_served", "names_of", "render", "summary_of", "title_of", "turns_of"]

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    line_statement_prefix="%%",
    trim_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
)


@dataclass(frozen=True)
class Snippet:
    """A complete program that does what a plan says."""

    #: "c" or "python".
    language: str
    text: str


def render(template: str, indices: Indices, values: Mapping[str, Any]) -> str:
    """Return the program of a template in templates/, with those tables of the indices that it reads."""
    source = _ENVIRONMENT.get_template(template)
    text = source.render(**values, tables={})
    used = {name: numbers for name, numbers in indices.tables.items() if f"{name}[i]" in text}
    return source.render(**values, tables=used) if used else text


def title_of(plan: Plan, device: str) -> str:
    """Return what a program opens with."""
    count = len(plan.contexts)
    return f"{count} context{'s' * (count > 1)} on {device}: the plan {plan.scenario}, written out by reusebench."


def summary_of(plan: Plan, calls: Mapping[str, str]) -> list[str]:
    """Return lines that say who reuses what; `calls` has the runtime's word for each mechanism."""
    counts = Counter(context.mechanism for context in plan.contexts)
    parts = [f"{counts[LOAD]} loaded"]
    parts += [f"{counts[mechanism]} by {call}" for mechanism, call in calls.items() if counts[mechanism]]
    lines = [f"{', '.join(parts)}."]
    for kind, memories in (("internal memory", plan.internal_memories()), ("input and output", plan.io_memories())):
        sizes = sorted({len(members) for members in memories.values()})
        if sizes and sizes[-1] > 1:
            number = " or ".join(map(str, sizes))
            lines.append(f"{len(memories)} x {kind} of the application, each for {number} contexts, which run in turn.")
    if plan.schedule is not None:
        lines.append("The plan's streams of video are not in here: write your frames where infer() says so.")
    return lines


def names_of(plan: Plan) -> str:
    """Return what the user calls the contexts; empty where they have no names."""
    names = [f"{number} {context.name}" for number, context in enumerate(plan.contexts) if context.name]
    return f"Contexts: {', '.join(names)}." if names else ""


def check_is_served(plan: Plan) -> None:
    """Raise NotSupported for a plan of the harness's own questions, which no application does."""
    if plan.cycles is not None:
        raise NotSupported("no_code_of_cycles", scenario=plan.scenario)
    if plan.fills:
        raise NotSupported("no_code_of_limit", scenario=plan.scenario)
    if not plan.contexts:
        raise NotSupported("no_code_without_contexts", scenario=plan.scenario)


def turns_of(plan: Plan) -> list[list[int]]:
    """Return the contexts of each thread, in the order in which it runs them.

    Contexts of one core run in turn, and so do those that share memory: a thread for each core. Else each chain has
    one, and in streams of frames, where nothing waits for a core. Raises NotSupported where contexts share memory
    across chains, and one of these runs on several cores.
    """
    chains = [list(chain) for chain in plan.all_chains()]
    share = any(_spans_chains(plan, members) for members in _sharing(plan))
    in_turn = plan.schedule is None and all(context.core is not None for context in plan.contexts)
    if not (share or in_turn):
        return chains
    turns: dict[int, list[int]] = {}
    for chain in chains:
        first, *others = {_turn(plan, index) for index in chain}
        if others and share:
            raise NotSupported("no_code_of_chain", scenario=plan.scenario)
        if others:
            return chains
        turns.setdefault(first, []).extend(chain)
    return list(turns.values())


def _sharing(plan: Plan) -> list[Sequence[int]]:
    return [*plan.internal_memories().values(), *plan.io_memories().values()]


def _spans_chains(plan: Plan, members: Sequence[int]) -> bool:
    return not set(members) <= set(plan.chain_of(members[0]))


def _turn(plan: Plan, index: int) -> int:
    """Return what runs one context at a time: a core, all of a plan of one core; else the context's own chain."""
    core = plan.contexts[index].core
    if core is not None:
        return core
    return 0 if plan.cores == 1 else plan.cores + min(plan.chain_of(index))
