"""The question of users' plans: the layout of each, and what each context adds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reusebench.measured.plan import Plan
from reusebench.reports.base.drawing import Draw
from reusebench.reports.base.formatting import EMPTY, mib
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Row
from reusebench.reports.sections.contexts import added_by_contexts
from reusebench.reports.sections.question import ComparisonSection
from reusebench.reports.sections.section import GroupView, Values
from reusebench.reports.sections.streams import workload_figures, workload_parts
from reusebench.scenarios.catalogue import PLANS

_HEADS = (
    "column_plan_context",
    "column_plan_model",
    "column_plan_stream",
    "column_plan_made",
    "column_plan_internal",
    "column_plan_after",
    "column_plan_core",
)


class PlansSection(ComparisonSection):
    """The plans of users, and what each saves against the same plan without reuse."""

    template = "sections/plans.html.j2"

    def __init__(self) -> None:
        super().__init__(PLANS)

    def part(self, view: GroupView) -> Values:
        """Return the variables of a comparison, the layout of each plan, and workloads."""
        group = view.group
        return {
            **super().part(view),
            "layouts": layout_tables(group.all_rows, group.has_npu_memory, view.texts),
            "workloads": workload_parts(view),
        }

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return the figures of a comparison, and of the workloads."""
        return {
            **super().part_figures(view),
            **workload_figures(view.group, view.texts),
        }


def layout_tables(rows: Iterable[Row], npu: bool, texts: Texts) -> list[tuple[str, Table]]:
    """Return (name, contexts) of each plan, measured or not; none for plans without reuse."""
    tables = []
    for row in rows:
        if row.info.baseline:
            tables.append((texts.scenario(row.scenario), _layout_table(row, npu, texts)))
    return tables


def _layout_table(row: Row, npu: bool, texts: Texts) -> Table:
    plan = row.info.plan
    own = added_by_contexts(row, npu)
    before = added_by_contexts(row.baseline, npu) if row.baseline else []
    lines = []
    for index in range(len(plan.contexts)):
        figures = [_figure_cell(before, index, npu), _figure_cell(own, index, npu)]
        lines.append((row.outcome, [*_plan_cells(plan, index, texts), *figures]))
    added = "column_plan_added_npu" if npu else "column_plan_added"
    heads = [*_HEADS, "column_plan_added_before", added]
    return Table(heads_of(heads, texts), lines, words=range(len(_HEADS)))


def _plan_cells(plan: Plan, index: int, texts: Texts) -> list[str]:
    """Return the cells of a context in the columns of _HEADS."""
    context = plan.contexts[index]
    chain = plan.chain_of(index)
    place = chain.index(index)
    return [
        _name(plan, index),
        plan.models[context.model].name,
        texts("plan_all_streams") if context.stream is None else str(context.stream),
        _made(plan, index, texts),
        _internal_memory(plan, index, texts),
        EMPTY if place == 0 else _name(plan, chain[place - 1]),
        EMPTY if context.core is None else str(context.core),
    ]


def _made(plan: Plan, index: int, texts: Texts) -> str:
    """Return the mechanism that makes a context, and the context that it is made from."""
    context = plan.contexts[index]
    mechanism = texts(f"mechanism_{context.mechanism}")
    if context.source is None:
        return mechanism
    return texts("plan_made_from", mechanism=mechanism, source=_name(plan, context.source))


def _internal_memory(plan: Plan, index: int, texts: Texts) -> str:
    """Return the contexts that share a context's internal memory."""
    memory = plan.contexts[index].internal
    sharing = [] if memory is None else plan.internal_memories().get(memory, [])
    others = [_name(plan, other) for other in sharing if other != index]
    if not others:
        return texts("plan_own_internal")
    return texts("plan_shared_internal", others=texts.joined(others))


def _name(plan: Plan, index: int) -> str:
    return plan.contexts[index].name or str(index + 1)


def _figure_cell(figures: Sequence[Figure | None], index: int, npu: bool) -> str:
    return mib(figures[index], npu=npu) if index < len(figures) else EMPTY
