"""The common parts of the snippets of all runtimes: their form, and values for their templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Optional

import jinja2

from reusebench.measured.plan import DUP, LOAD, SHARED_CONTEXT, SHARED_WEIGHTS, Context, Plan
from reusebench.measured.runtimes.base import NotSupported
from reusebench.snippets.indices import Indices, Where

__all__ = [
    "Snippet",
    "Turns",
    "check_is_served",
    "common_python_values",
    "common_values",
    "conditions",
    "files_of",
    "options_of",
    "own_files_of",
    "python_snippet",
    "render",
    "turns_of",
]

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
)


@dataclass(frozen=True)
class Snippet:
    """A complete program that carries out a plan."""

    #: Language of the program: "c" or "python".
    language: str
    text: str


def render(template: str, indices: Indices, values: Mapping[str, Any]) -> str:
    """Return the program of a template in templates/, with the tables that it reads."""
    source = _ENVIRONMENT.get_template(template)
    text = source.render(**values, tables={})
    used = {name: numbers for name, numbers in indices.tables.items() if f"{name}[i]" in text}
    return source.render(**values, tables=used) if used else text


def common_values(
    plan: Plan, indices: Indices, device: str, calls: Mapping[str, str], internal: str
) -> dict[str, Any]:
    """Return the values that every template needs.

    `calls` has the runtime's term for each mechanism, `internal` its term for internal memory.
    """
    count = len(plan.contexts)
    shared = plan.io_memories()
    lenders = []
    names = []
    for i, context in enumerate(plan.contexts):
        lenders.append(i if context.io is None else shared[context.io][0])
        if context.name:
            names.append(f"{i} {context.name}")
    has_lenders = lenders != list(range(count))
    plural = "s" if count > 1 else ""
    return {
        "title": (
            f"{count} context{plural} on {device}: the plan {plan.scenario}, written by reusebench."
        ),
        "summary": _summary(plan, calls, internal),
        "program": plan.scenario.replace(".", "_"),
        "count": count,
        "rounds": plan.rounds,
        "names": f"Contexts: {', '.join(names)}." if names else "",
        "frame": f"Write your frame{_of_stream(plan, indices)}",
        "io": has_lenders,
        "lender": indices.value("lender_of", lenders) if has_lenders else "",
    }


def _of_stream(plan: Plan, indices: Indices) -> str:
    """Return a comment's text for the stream of a context's frames; empty if there is only one."""
    streams = [context.stream for context in plan.contexts]
    if len(set(streams)) <= 1:
        return ""
    # Indices of the comment alone: it must add no table to the program.
    comment_indices = Indices(indices.count, indices.divide)
    expression = comment_indices.value("stream_of", streams)
    if not comment_indices.tables:
        return f" of stream {expression}"
    names = ["any" if stream is None else str(stream) for stream in streams]
    return f" of the context's stream ({', '.join(names)})"


def python_snippet(
    plan: Plan,
    template: str,
    check: Callable[[Context], None],
    values: Callable[[Plan, Indices], dict[str, Any]],
) -> Snippet:
    """Return the program of a template in Python; `check` raises NotSupported for a context."""
    for context in plan.contexts:
        check(context)
    indices = Indices(len(plan.contexts), divide="//")
    return Snippet("python", render(template, indices, values(plan, indices)))


def common_python_values(
    plan: Plan, indices: Indices, device: str, calls: Mapping[str, str], internal: str
) -> dict[str, Any]:
    """Return the values that every template in Python needs; for arguments see common_values."""
    turns = turns_of(plan)
    return {
        **common_values(plan, indices, device, calls, internal),
        "threads": len(turns.rows),
        "turns": _python_turns(turns),
        "shapes": _python_shapes(plan),
        "model": indices.value("model_of", [context.model for context in plan.contexts]),
        "source": indices.value("source_of", [context.source for context in plan.contexts]),
    }


def conditions(plan: Plan, indices: Indices) -> Callable[[str, Callable[[Context], bool]], Where]:
    """Return a function where(name, has) that makes the condition for contexts with a property."""

    def where(name: str, has: Callable[[Context], bool]) -> Where:
        return indices.flagged(name, [has(context) for context in plan.contexts])

    return where


def options_of(plan: Plan, indices: Indices) -> list[tuple[str, Where]]:
    """Return the runtime's own options in the plan, each with the contexts that have it."""
    chosen = [plan.options_of(i) for i in range(len(plan.contexts))]
    names = dict.fromkeys(option for options in chosen for option in options)
    return [
        (option, indices.flagged(f"has_option_{number}", [option in options for options in chosen]))
        for number, option in enumerate(names)
    ]


def _summary(plan: Plan, calls: Mapping[str, str], internal: str) -> list[str]:
    """Return lines that describe the reuse in the plan."""
    counts = Counter(context.mechanism for context in plan.contexts)
    parts = [f"{counts[LOAD]} loaded"]
    for mechanism, call in calls.items():
        if counts[mechanism]:
            parts.append(f"{counts[mechanism]} by {call}")
    lines = [f"{', '.join(parts)}."]

    memories_by_kind = {
        internal: plan.internal_memories(),
        "input and output": plan.io_memories(),
    }
    for kind, memories in memories_by_kind.items():
        sizes = sorted({len(members) for members in memories.values()})
        if sizes and sizes[-1] > 1:
            numbers = " or ".join(map(str, sizes))
            lines.append(f"Shared by {numbers} contexts that run in turn: {kind}.")
    if plan.schedule is not None:
        lines.append(
            "The plan's streams of video are left out: infer() shows the place for frames."
        )
    return lines


def files_of(plan: Plan, suffix: str) -> tuple[list[str], list[Optional[int]]]:
    """Return the file names of the command line, and the index of each context's file, if any."""
    names: dict[str, str] = {}
    files: list[Optional[str]] = []
    for context in plan.contexts:
        model = plan.models[context.model]
        file = model.path or model.name
        if context.mechanism == SHARED_WEIGHTS and model.weightless:
            file = model.weightless
        files.append(None if context.mechanism in (DUP, SHARED_CONTEXT) else file)
        # A plan that was not measured may name the source of the runtime's file.
        stem = Path(file).stem if model.path else model.name
        names.setdefault(file, f"{stem}{suffix}")
    numbers = {file: number for number, file in enumerate(names)}
    return list(names.values()), [None if file is None else numbers[file] for file in files]


def own_files_of(plan: Plan, suffix: str) -> tuple[list[str], list[int]]:
    """Return the same as files_of, but contexts without a file have the file of their source."""
    files, numbers = files_of(plan, suffix)
    own = []
    for context, number in zip(plan.contexts, numbers):
        if number is None and context.source is not None:
            number = numbers[context.source]
        own.append(number or 0)
    return files, own


def check_is_served(plan: Plan) -> None:
    """Raise NotSupported for plans of the harness's own questions, which no application runs."""
    if plan.cycles is not None:
        raise NotSupported("no_code_of_cycles", scenario=plan.scenario)
    if plan.fills:
        raise NotSupported("no_code_of_limit", scenario=plan.scenario)
    if not plan.contexts:
        raise NotSupported("no_code_without_contexts", scenario=plan.scenario)


class Turns(NamedTuple):
    """The contexts of each thread."""

    #: Per thread: its contexts, in running order.
    rows: list[list[int]]
    #: Whether each context has its own thread.
    is_own: bool
    #: Whether context i runs in thread i modulo the number of threads.
    is_dealt: bool


def turns_of(plan: Plan) -> Turns:
    """Return the contexts of each thread.

    Contexts of one core, or with shared memory, run in turn: one thread per core. Otherwise, and in
    plans with streams of frames, each chain has a thread. Raises NotSupported if contexts share
    memory across chains and one of the chains runs on several cores.
    """
    rows = _rows(plan)
    count = len(plan.contexts)
    dealt = [list(range(thread, count, len(rows))) for thread in range(len(rows))]
    return Turns(rows, is_own=rows == [[i] for i in range(count)], is_dealt=rows == dealt)


def _rows(plan: Plan) -> list[list[int]]:
    """Return the contexts of each thread, in running order."""
    chains = [list(chain) for chain in plan.all_chains()]
    share_across_chains = _share_across_chains(plan)
    in_turn = plan.schedule is None and all(context.core is not None for context in plan.contexts)
    if not share_across_chains and not in_turn:
        return chains

    rows: dict[int, list[int]] = {}
    for chain in chains:
        first, *others = {_turn(plan, index) for index in chain}
        if others and share_across_chains:
            raise NotSupported("no_code_of_chain", scenario=plan.scenario)
        if others:
            return chains
        rows.setdefault(first, []).extend(chain)
    return list(rows.values())


def _share_across_chains(plan: Plan) -> bool:
    for members in (*plan.internal_memories().values(), *plan.io_memories().values()):
        if not set(members) <= set(plan.chain_of(members[0])):
            return True
    return False


def _turn(plan: Plan, index: int) -> int:
    """Return a number that is equal for contexts of which only one runs at a time.

    That is the core, 0 in plans for one core, otherwise a number for the chain.
    """
    core = plan.contexts[index].core
    if core is not None:
        return core
    return 0 if plan.cores == 1 else plan.cores + min(plan.chain_of(index))


def _python_turns(turns: Turns) -> str:
    """Return the contexts of each thread as Python code; only a list of contexts for one thread."""
    count = len(turns.rows)
    if count == 1:
        return "range(CONTEXTS)" if turns.is_dealt else str(turns.rows[0])
    if turns.is_own:
        return "[[i] for i in range(CONTEXTS)]"
    if turns.is_dealt:
        return f"[range(first, CONTEXTS, {count}) for first in range({count})]"
    return str(turns.rows)


def _python_shapes(plan: Plan) -> str:
    """Return the plan's input shapes, by model and name, as Python code; empty if it has none.

    Files are no keys: a file with free sizes may be several models, and two files may have one
    name.
    """
    shapes = [{tensor.name: tensor.shape for tensor in model.inputs} for model in plan.models]
    return repr(shapes) if any(shapes) else ""
