"""The memory of two stacks by component, and the differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Optional

from reusebench.accounting.sizes import COMPONENTS
from reusebench.reports.base.formatting import EMPTY, component_mib, metric_number, mib
from reusebench.reports.base.statistics import Figure, difference, rounded
from reusebench.reports.base.table import Table
from reusebench.reports.base.texts import Texts
from reusebench.reports.explanation.explained_memory import TOTAL
from reusebench.reports.explanation.npu_prediction import npu_memory
from reusebench.reports.results.rows import Row
from reusebench.reports.side_by_side.stacks import SideBySide, Sizes, Stack
from reusebench.storage.metrics import find_metric
from reusebench.storage.savings import APPLICATION

#: The row of application memory, after the components of NPU memory and their total.
_APPLICATION = "application"
_BIASES = "biases"
_OVER_BASELINE = "application_memory_over_baseline_bytes"
_NPU_METRIC = find_metric("npu_memory")
_APPLICATION_METRIC = find_metric("application_memory")
#: Columns of the exported table; new ones come at the end.
SIDE_BY_SIDE_COLUMNS = (
    "chip",
    "network",
    "runtime",
    "runtime_version",
    "target",
    "models",
    "contexts",
    "component",
    "one_context_bytes",
    "further_context_bytes",
    "without_reuse_bytes",
    "least_scenario",
    "least_bytes",
    "shared_weights_bytes",
    "quantised_alike",
    "board",
    "recorded_at",
)


def contexts_table(pair: SideBySide, texts: Texts) -> Table:
    """Return the memory of one context and of each further one, by component, and differences."""
    columns = []
    heads = [texts("column_component")]
    for stack in pair.stacks:
        name = texts.runtime(stack.runtime)
        columns += [_one_context(stack), _further_context(stack)]
        heads += [texts(f"column_side_{part}", runtime=name) for part in ("one", "further")]
    first_one, first_further, second_one, second_further = columns
    differences = [
        differences_of(first_one, second_one),
        differences_of(first_further, second_further),
    ]
    heads += [texts("column_side_one_more"), texts("column_side_further_more")]
    return _table(heads, columns, differences, texts)


def layouts_table(pair: SideBySide, texts: Texts) -> Table:
    """Return the memory of all contexts, without reuse and at least, by component."""
    columns = []
    heads = [texts("column_component")]
    for stack in pair.stacks:
        name = texts.runtime(stack.runtime)
        columns += [layout_sizes(stack.without_reuse), layout_sizes(stack.least)]
        heads += [texts(f"column_side_{part}", runtime=name) for part in ("without", "least")]
    differences = []
    if pair.has_equal_contexts:
        _, first, _, second = columns
        differences.append(differences_of(first, second))
        heads.append(texts("column_side_least_more"))
    return _table(heads, columns, differences, texts)


def layout_sizes(row: Row) -> Sizes:
    """Return the memory of a layout: by component, in all, and that of the application."""
    memory = npu_memory(row)
    sizes: Sizes = dict(memory.with_total) if memory else {}
    return {**sizes, _APPLICATION: row.memory(APPLICATION)}


def differences_of(first: Sizes, second: Sizes) -> Sizes:
    """Return the second's size of each component minus the first's.

    A source without biases has them with the weights: they are none, so that the differences add up
    to the total's.
    """
    differences = {}
    for name in first.keys() | second.keys():
        sizes = [first.get(name), second.get(name)]
        if name == _BIASES and any(sizes):
            sizes = [size or Figure(0) for size in sizes]
        own, other = sizes
        differences[name] = difference(other, own)
    return differences


def side_by_side_records(pair: SideBySide) -> Iterator[dict[str, Any]]:
    """Yield a record in SIDE_BY_SIDE_COLUMNS for each runtime and component, and the totals."""
    for stack in pair.stacks:
        info = stack.group.info
        shared = stack.with_shared_weights
        columns: dict[str, Sizes] = {
            "one_context_bytes": _one_context(stack),
            "further_context_bytes": _further_context(stack),
            "without_reuse_bytes": layout_sizes(stack.without_reuse),
            "least_bytes": layout_sizes(stack.least),
            "shared_weights_bytes": shared.with_total if shared else {},
        }
        for component in (*COMPONENTS, TOTAL, _APPLICATION):
            yield {
                "chip": pair.chip,
                "network": pair.network,
                "runtime": info.runtime,
                "runtime_version": info.runtime_version,
                "target": info.target,
                "models": stack.without_reuse.models,
                "contexts": stack.contexts,
                "component": component,
                **{name: rounded(sizes.get(component)) for name, sizes in columns.items()},
                "least_scenario": stack.least.scenario,
                "quantised_alike": "yes" if pair.is_quantised_alike else "no",
                "board": stack.group.board,
                "recorded_at": stack.without_reuse.file.recorded_at,
            }


def _one_context(stack: Stack) -> Sizes:
    return {**stack.one_context, _APPLICATION: stack.application_of_one}


def _further_context(stack: Stack) -> Sizes:
    return {**stack.further_context, _APPLICATION: stack.application_of_further}


def _table(
    heads: Sequence[str], columns: Sequence[Sizes], differences: Sequence[Sizes], texts: Texts
) -> Table:
    """Return a row for each component that any column has."""
    lines = []
    for name in (*COMPONENTS, TOTAL, _APPLICATION):
        if not any(_is_shown(name, sizes.get(name)) for sizes in columns):
            continue
        is_npu = name != _APPLICATION
        key = f"component_{name}" if is_npu else "side_application"
        cells = [texts(key)]
        for sizes in columns:
            cells.append(_cell(name, sizes.get(name), texts))
        cells += [signed(sizes.get(name), is_npu) for sizes in differences]
        lines.append(("total" if name == TOTAL else "ok", cells))
    return Table(heads, lines, exported="side_by_side")


def _is_shown(name: str, size: Optional[Figure]) -> bool:
    return bool(size and (size.median or name in (TOTAL, _APPLICATION)))


def _cell(name: str, size: Optional[Figure], texts: Texts) -> str:
    if name == _APPLICATION:
        return mib(size)
    if name == _BIASES and size is None:
        return texts("side_with_weights")
    return component_mib(size)


def signed(size: Optional[Figure], is_npu: bool = True) -> str:
    """Return a difference in MiB with its sign, in a smaller unit if it is tiny."""
    if size is None:
        return EMPTY
    metric = _NPU_METRIC if is_npu else _APPLICATION_METRIC
    spread = f" ±{metric_number(size.spread, metric)}" if size.spread else ""
    return metric_number(size.median, metric, sign=True) + spread
