"""What the snippets of all runtimes have in common: their form, and how their templates are filled
in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
    """A complete program that does what a plan says."""

    #: "c" or "python".
    language: str
    text: str


def render(template: str, indices: Indices, values: Mapping[str, Any]) -> str:
    """Return the program of a template in templates/, with those tables of the indices that it
    reads.
    """
    source = _ENVIRONMENT.get_template(template)
    text = source.render(**values, tables={})
    used = {name: numbers for name, numbers in indices.tables.items() if f"{name}[i]" in text}
    return source.render(**values, tables=used) if used else text


def common_values(
    plan: Plan, indices: Indices, device: str, calls: Mapping[str, str], internal: str
) -> dict[str, Any]:
    """Return what every template is filled in with.

    `calls` has the runtime's word for each mechanism, `internal` that for internal memory.
    """
    contexts = plan.contexts
    count = len(plan.contexts)
    shared = plan.io_memories()
    lenders = [
        i if context.io is None else shared[context.io][0] for i, context in enumerate(contexts)
    ]
    has_lenders = lenders != list(range(count))
    names = [f"{number} {context.name}" for number, context in enumerate(contexts) if context.name]
    return {
        "title": (
            f"{count} context{'s' * (count > 1)} on {device}: the plan {plan.scenario}, written by"
            " reusebench."
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
    """Return whose frames a context takes, for a comment, which reads no table; empty if it takes
    those of all.
    """
    streams = [context.stream for context in plan.contexts]
    if len(set(streams)) <= 1:
        return ""
    of_comment = Indices(indices.count, indices.divide)
    expression = of_comment.value("stream_of", streams)
    if not of_comment.tables:
        return f" of stream {expression}"
    words = ["any" if stream is None else str(stream) for stream in streams]
    return f" of the context's stream ({', '.join(words)})"


def python_snippet(
    plan: Plan,
    template: str,
    check: Callable[[Context], None],
    values: Callable[[Plan, Indices], dict[str, Any]],
) -> Snippet:
    """Return the program of a template in Python; raise NotSupported where `check` does so of a
    context.
    """
    for context in plan.contexts:
        check(context)
    indices = Indices(len(plan.contexts), divide="//")
    return Snippet("python", render(template, indices, values(plan, indices)))


def common_python_values(
    plan: Plan, indices: Indices, device: str, calls: Mapping[str, str], internal: str
) -> dict[str, Any]:
    """Return what every template in Python is filled in with; the arguments are those of
    common_values.
    """
    turns = turns_of(plan)
    return {
        **common_values(plan, indices, device, calls, internal),
        "threads": len(turns.rows),
        "turns": _python_turns(turns),
        "shapes": _python_shapes(plan),
        "model": indices.value("model_of", [context.model for context in plan.contexts]),
        "source": indices.value("source_of", [context.source for context in plan.contexts]),
    }


def options_of(plan: Plan, indices: Indices) -> list[tuple[str, Where]]:
    """Return the runtime's own options that the plan has, each with the contexts that have it."""
    of_contexts = [plan.options_of(i) for i in range(len(plan.contexts))]
    options: list[tuple[str, Where]] = []
    for option in dict.fromkeys(option for chosen in of_contexts for option in chosen):
        has_it = indices.flagged(
            f"has_option_{len(options)}", [option in chosen for chosen in of_contexts]
        )
        options.append((option, has_it))
    return options


def _summary(plan: Plan, calls: Mapping[str, str], internal: str) -> list[str]:
    """Return lines that say who reuses what."""
    counts = Counter(context.mechanism for context in plan.contexts)
    parts = [f"{counts[LOAD]} loaded"]
    parts += [
        f"{counts[mechanism]} by {call}" for mechanism, call in calls.items() if counts[mechanism]
    ]
    lines = [f"{', '.join(parts)}."]
    for kind, memories in (
        (internal, plan.internal_memories()),
        ("input and output", plan.io_memories()),
    ):
        sizes = sorted({len(members) for members in memories.values()})
        if sizes and sizes[-1] > 1:
            numbers = " or ".join(map(str, sizes))
            lines.append(f"Shared by {numbers} contexts that run in turn: {kind}.")
    if plan.schedule is not None:
        lines.append(
            "The plan's streams of video are not in here: write your frames where infer() says so."
        )
    return lines


def files_of(plan: Plan, suffix: str) -> tuple[list[str], list[Optional[int]]]:
    """Return the names of the files on the command line, and which of them each context is made
    from, if any.
    """
    names: dict[str, str] = {}
    files: list[Optional[str]] = []
    for context in plan.contexts:
        model = plan.models[context.model]
        file = (
            (context.mechanism == SHARED_WEIGHTS and model.weightless) or model.path or model.name
        )
        files.append(None if context.mechanism in (DUP, SHARED_CONTEXT) else file)
        # A plan that was not measured may name the file that the runtime's own is converted from.
        names.setdefault(file, f"{Path(file).stem if model.path else model.name}{suffix}")
    numbers = {file: number for number, file in enumerate(names)}
    return list(names.values()), [None if file is None else numbers[file] for file in files]


def own_files_of(plan: Plan, suffix: str) -> tuple[list[str], list[int]]:
    """Return the same, where a context that is made from no file has its source's, whose tensors it
    has.
    """
    files, numbers = files_of(plan, suffix)
    own = []
    for context, number in zip(plan.contexts, numbers):
        source = None if context.source is None else numbers[context.source]
        own.append(source or 0 if number is None else number)
    return files, own


def check_is_served(plan: Plan) -> None:
    """Raise NotSupported for a plan of the harness's own questions, which no application does."""
    if plan.cycles is not None:
        raise NotSupported("no_code_of_cycles", scenario=plan.scenario)
    if plan.fills:
        raise NotSupported("no_code_of_limit", scenario=plan.scenario)
    if not plan.contexts:
        raise NotSupported("no_code_without_contexts", scenario=plan.scenario)


class Turns(NamedTuple):
    """Which thread runs which contexts."""

    #: Of each thread, in the order in which it runs them.
    rows: list[list[int]]
    #: Whether each context has a thread.
    is_own: bool
    #: Whether they are dealt out in turn: context i to thread i modulo their number.
    is_dealt: bool


def turns_of(plan: Plan) -> Turns:
    """Return which thread runs which contexts.

    Contexts of one core run in turn, and so do those that share memory: a thread for each core.
    Else each chain has one, and in streams of frames, where nothing waits for a core. Raises
    NotSupported where contexts share memory across chains, and one of these runs on several cores.
    """
    rows = _rows(plan)
    count = len(plan.contexts)
    dealt = [list(range(thread, count, len(rows))) for thread in range(len(rows))]
    return Turns(rows, is_own=rows == [[i] for i in range(count)], is_dealt=rows == dealt)


def _rows(plan: Plan) -> list[list[int]]:
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
    """Return what runs one context at a time: a core, all of a plan of one core; else the context's
    own chain.
    """
    core = plan.contexts[index].core
    if core is not None:
        return core
    return 0 if plan.cores == 1 else plan.cores + min(plan.chain_of(index))


def _python_turns(turns: Turns) -> str:
    """Return the contexts of each thread in Python; of a single thread its contexts."""
    count = len(turns.rows)
    if count == 1:
        return "range(CONTEXTS)" if turns.is_dealt else str(turns.rows[0])
    if turns.is_own:
        return "[[i] for i in range(CONTEXTS)]"
    if turns.is_dealt:
        return f"[range(first, CONTEXTS, {count}) for first in range({count})]"
    return str(turns.rows)


def _python_shapes(plan: Plan) -> str:
    """Return the shapes of the inputs that the plan names, by model and name, in Python; empty if
    it names none.

    Not by file: one that leaves sizes free may be several models, and two files may have one name.
    """
    shapes = [{tensor.name: tensor.shape for tensor in model.inputs} for model in plan.models]
    return repr(shapes) if any(shapes) else ""
