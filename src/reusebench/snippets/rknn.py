"""Plans in C for Rockchip's librknnrt and librknnmrt, with the calls of measured/runtimes/rknn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

from reusebench.measured.plan import (
    CREATE_MEM,
    DUP,
    INPUT,
    INTERNAL,
    LOAD,
    MODEL,
    NATIVE_OUTPUT,
    OUTPUT,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Plan,
)
from reusebench.measured.runtimes.base import NotSupported
from reusebench.snippets.base import Snippet, common_values, files_of, render, turns_of
from reusebench.snippets.indices import Indices, Where
from reusebench.targets.chips import CHIPS, MINI_RUNTIME, RUNTIME

__all__ = ["write"]

_INTERNAL_OUTSIDE = "RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE"
_ALL_OUTSIDE = "RKNN_FLAG_MEM_ALLOC_OUTSIDE"
_WORDS = {
    DUP: "rknn_dup_context",
    SHARED_WEIGHTS: "RKNN_FLAG_SHARE_WEIGHT_MEM",
    SHARED_WEIGHT_MEMORY: "rknn_set_weight_mem with the memory of another context",
}


def write(plan: Plan, chip: Optional[str]) -> Snippet:
    """Return the program for the chip (None: one with librknnrt).

    Raises NotSupported if there can be none.
    """
    is_mini = chip in CHIPS and CHIPS[chip].runtime == MINI_RUNTIME
    for context in plan.contexts:
        _check(context, plan)
        lacking = _lacking(context, plan) if is_mini else None
        if lacking:
            raise NotSupported("no_code_of_mini_runtime", chip=str(chip), function=lacking)
    indices = Indices(len(plan.contexts), divide="/")
    return Snippet("c", render("rknn.c.j2", indices, _Program(plan, is_mini, indices).values()))


def _check(context: Context, plan: Plan) -> None:
    """Raise NotSupported for contexts that the adapter refuses too or that were never tried."""
    if context.mechanism == SHARED_CONTEXT:
        raise NotSupported("rknn_one_thread")
    if context.device is not None:
        raise NotSupported("rknn_npu_only", device=context.device)
    if context.device_io:
        raise NotSupported("rknn_already_on_device")
    has_weights = context.mechanism == SHARED_WEIGHT_MEMORY or WEIGHTS in context.outside
    if has_weights and not _internal_is_outside(context):
        raise NotSupported("rknn_weights_alone_outside")
    if has_weights and MODEL in context.zero_copy:
        raise NotSupported("rknn_weights_twice")
    if context.mechanism == DUP and not _internal_is_outside(context):
        source = context if context.source is None else plan.contexts[context.source]
        if _internal_is_outside(source):
            # The dup has its source's flag, so the library gives it no internal memory.
            raise NotSupported("rknn_dup_without_internal")
    if context.allocator != CREATE_MEM:
        raise NotSupported("no_code_of_allocator", allocator=context.allocator)
    if MODEL in context.zero_copy and INTERNAL in context.outside:
        # The program would query its sizes before its dups are made, which crashes.
        raise NotSupported("no_code_of_model_in_place")


def _internal_is_outside(context: Context) -> bool:
    """Whether the application provides the internal memory."""
    return context.internal is not None or INTERNAL in context.outside


def _lacking(context: Context, plan: Plan) -> Optional[str]:
    """Return the function or flag that the context needs and librknnmrt lacks, if any."""
    if context.mechanism in (DUP, SHARED_WEIGHTS):
        return _WORDS[context.mechanism]
    if MODEL in context.zero_copy:
        return "RKNN_FLAG_MODEL_BUFFER_ZERO_COPY"
    return "rknn_set_core_mask" if plan.cores > 1 else None


class _Program:
    """The values for the template."""

    def __init__(self, plan: Plan, is_mini: bool, indices: Indices) -> None:
        self._plan = plan
        self._contexts = plan.contexts
        self._is_mini = is_mini
        self._indices = indices

    def values(self) -> dict[str, Any]:
        """Return all values."""
        plan = self._plan
        values: dict[str, Any] = {
            **common_values(plan, self._indices, "an RKNN NPU", _WORDS, "internal memory"),
            "library": (MINI_RUNTIME if self._is_mini else RUNTIME)[len("lib") :],
            "has_dynamic_shapes": any(model.inputs for model in plan.models),
            **self._making(),
            **self._tensors(),
            **self._internal(),
            **self._threads(),
        }

        def has_any(*names: str) -> bool:
            return any(values[name].any for name in names)

        has_groups = values["groups"] > 0
        values["allocates"] = has_groups or has_any(
            "given_weights", "own_internal", "bound_inputs", "bound_outputs"
        )
        values["borrows"] = has_groups or values["io"] or has_any("borrowed_weights")
        values["has_memory"] = values["allocates"] or values["borrows"] or has_any("in_place")
        values["asks_sizes"] = has_groups or has_any(
            "given_weights", "own_internal", "borrowed_weights"
        )
        values["reads_content"] = has_any("loaded", "shared_weights", "borrowed_weights")
        return values

    def _where(self, name: str, belongs: Callable[[Context], bool]) -> Where:
        return self._indices.flagged(name, [belongs(context) for context in self._contexts])

    def _choice(self, name: str, constants: Mapping[int, str]) -> str:
        """Return an expression of the constants of these contexts; others may get any of them."""
        *others, last = dict.fromkeys(constants.values())
        choices = []
        for number, constant in enumerate(others):
            members = [i for i, other in constants.items() if other == constant]
            condition = self._indices.where(f"{name}_{number}", members).condition
            choices.append(f"{condition} ? {constant} : ")
        return "".join([*choices, last])

    def _making(self) -> dict[str, Any]:
        """Return the values for making contexts, with memory of the application."""
        where = self._where
        contexts = self._contexts
        kinds = {
            "loaded": where(
                "is_loaded", lambda context: context.mechanism == LOAD and not _is_in_place(context)
            ),
            "in_place": where("is_in_place", _is_in_place),
            "dups": where("is_dup", lambda context: context.mechanism == DUP),
            "shared_weights": where(
                "shares_weights", lambda context: context.mechanism == SHARED_WEIGHTS
            ),
            "borrowed_weights": where(
                "borrows_weights", lambda context: context.mechanism == SHARED_WEIGHT_MEMORY
            ),
        }
        flags = {}
        for i, context in enumerate(contexts):
            if context.mechanism in (LOAD, SHARED_WEIGHTS):
                flags[i] = self._flags(context)
        files, paths = files_of(self._plan, ".rknn")
        core = None
        if self._plan.cores > 1 and contexts[0].core is not None:
            core = self._indices.value("core_of", [context.core for context in contexts])
        return {
            **kinds,
            "makes": _branches(
                [(kinds[kind], statement) for kind, statement in _MAKES.items()],
                declaration="void *",
            ),
            "flags": self._choice("flags", flags),
            "flags_notes": [
                note for flag, note in self._flag_notes().items() if flag in flags.values()
            ],
            "source": self._indices.value("source_of", [context.source for context in contexts]),
            "core": core,
            "given_weights": where(
                "has_weights",
                lambda context: context.mechanism == LOAD and self._flags(context) == _ALL_OUTSIDE,
            ),
            "own_internal": where("has_internal", lambda context: INTERNAL in context.outside),
            "files": files,
            "path": self._indices.value("path_of", paths),
        }

    def _flags(self, context: Context) -> str:
        """Return the flags of allocation, as in measured/runtimes/rknn/adapter.py."""
        internal_is_outside = _internal_is_outside(context)
        if WEIGHTS in context.outside or (self._is_mini and internal_is_outside):
            return _ALL_OUTSIDE
        return _INTERNAL_OUTSIDE if internal_is_outside else "0"

    def _flag_notes(self) -> dict[str, str]:
        """Return comments for the flags."""
        internal = (
            "rknn_set_internal_mem provides the internal tensors. librknnmrt ignores this flag and"
            " overwrites other\n     * memory: it needs RKNN_FLAG_MEM_ALLOC_OUTSIDE."
        )
        everything = (
            "Weights and internal tensors both come from outside: with weights alone librknnrt"
            " 1.6.0 fails at the\n     * first input."
        )
        if self._is_mini:
            everything = (
                "Weights come from outside too: librknnmrt ignores"
                " RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE, returns 0 and\n     * overwrites other memory."
            )
        return {_INTERNAL_OUTSIDE: internal, _ALL_OUTSIDE: everything}

    def _tensors(self) -> dict[str, Any]:
        """Return the values for inputs and outputs: copied, or bound in place."""
        where = self._where
        contexts = self._contexts
        is_mini = self._is_mini
        in_place = {OUTPUT, NATIVE_OUTPUT}
        forms = {}
        for i, context in enumerate(contexts):
            if is_mini or in_place & set(context.zero_copy):
                forms[i] = "RKNN_QUERY_OUTPUT_ATTR"
                if is_mini or NATIVE_OUTPUT in context.zero_copy:
                    forms[i] = "RKNN_QUERY_NATIVE_OUTPUT_ATTR"
        values: dict[str, Any] = {
            "copied_inputs": where(
                "copies_input", lambda context: not is_mini and INPUT not in context.zero_copy
            ),
            "bound_inputs": where(
                "binds_input", lambda context: is_mini or INPUT in context.zero_copy
            ),
            "copied_outputs": where(
                "copies_output",
                lambda context: not is_mini and not in_place & set(context.zero_copy),
            ),
            "bound_outputs": where(
                "binds_output", lambda context: is_mini or bool(in_place & set(context.zero_copy))
            ),
            "input_query": "RKNN_QUERY_NATIVE_INPUT_ATTR" if is_mini else "RKNN_QUERY_INPUT_ATTR",
            "output_query": self._choice("form", forms) if forms else "",
        }
        values["opens_inputs"] = _branches(
            [
                (values["copied_inputs"], "copy_inputs(i);"),
                (values["bound_inputs"], "bind_inputs(i);"),
            ]
        )
        values["opens_outputs"] = _branches(
            [
                (values["copied_outputs"], "copy_outputs(i);"),
                (values["bound_outputs"], "bind_outputs(i);"),
            ]
        )
        return values

    def _internal(self) -> dict[str, Any]:
        """Return the values for shared internal memory."""
        groups = list(self._plan.internal_memories().values())
        members = [i for group in groups for i in group]
        values: dict[str, Any] = {"groups": len(groups), "in_group": "", "not_in_group": ""}
        if len(groups) > 1:
            numbers = [-1] * len(self._contexts)
            for number, group in enumerate(groups):
                for i in group:
                    numbers[i] = number
            memory = self._indices.value("internal_of", numbers)
            values.update(in_group=f"{memory} == memory ? ", not_in_group=f"{memory} != memory")
        elif groups and len(members) < len(self._contexts):
            condition = self._indices.where("in_internal", members).condition
            values.update(in_group=f"{condition} ? ", not_in_group=f"!({condition})")

        has_core_each = all(len({self._contexts[i].core for i in group}) == 1 for group in groups)
        users = "contexts that run in turn"
        if has_core_each and self._plan.cores > 1:
            users = "the contexts of a core"
        values["internal_note"] = f"One internal memory for {users}."
        return values

    def _threads(self) -> dict[str, Any]:
        """Return the values for the threads that run the contexts."""
        turns = turns_of(self._plan)
        longest = max(map(len, turns.rows))
        in_order = turns.rows[0] == list(range(len(self._contexts)))
        return {
            "threads": len(turns.rows),
            "turns": turns,
            "turn_rows": [[*row, *[-1] * (longest + 1 - len(row))] for row in turns.rows],
            "turn_columns": longest + 1,
            "order": turns.rows[0] if len(turns.rows) == 1 and not in_order else [],
        }


#: Statements that make a context, by kind.
_MAKES = {
    "loaded": "model = load(i);",
    "in_place": "load_in_place(i);",
    "dups": "dup_context(i);",
    "shared_weights": "model = share_weights(i);",
    "borrowed_weights": "model = load_without_weights(i);",
}


def _is_in_place(context: Context) -> bool:
    return context.mechanism == LOAD and MODEL in context.zero_copy


def _branches(statements: list[tuple[Where, str]], declaration: str = "") -> list[str]:
    """Return lines that run, for each context, the statement of its kind: if, else if, else.

    A single statement that assigns becomes a declaration.
    """
    needed = [(where, statement) for where, statement in statements if where.any]
    if len(needed) == 1:
        _, statement = needed[0]
        return [f"{declaration}{statement}" if "=" in statement else statement]

    lines = []
    for number, (where, statement) in enumerate(needed):
        words = []
        if number > 0:
            words.append("else")
        if number < len(needed) - 1:
            words.append(f"if ({where.condition})")
        lines.append(" ".join(words))
        lines.append(f"    {statement}")
    return lines
