"""Plans of users: how each is laid out, context by context, and what each context adds with and
without reuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reusebench.measured.plan import Context, Plan
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
            "workloads": workload_parts(group, (), view.texts),
        }

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return the figures of a comparison, and of the workloads."""
        return {
            **super().part_figures(view),
            **workload_figures(view.group, view.texts),
        }


def layout_tables(rows: Iterable[Row], npu: bool, texts: Texts) -> list[tuple[str, Table]]:
    """Return (name, contexts) of each plan, whether it was measured or not; those without reuse are
    part of them.
    """
    return [
        (texts.scenario(row.scenario), _layout_table(row, npu, texts))
        for row in rows
        if row.info.baseline
    ]


def _layout_table(row: Row, npu: bool, texts: Texts) -> Table:
    plan = row.info.plan
    own = added_by_contexts(row, npu)
    before = added_by_contexts(row.baseline, npu) if row.baseline else []
    lines = []
    for index, context in enumerate(plan.contexts):
        figures = [_cell(figures, index, npu) for figures in (before, own)]
        lines.append((row.outcome, [*_words(plan, index, context, texts), *figures]))
    heads = [
        *_HEADS,
        "column_plan_added_before",
        "column_plan_added_npu" if npu else "column_plan_added",
    ]
    return Table(heads_of(heads, texts), lines, words=range(len(_HEADS)))


def _words(plan: Plan, index: int, context: Context, texts: Texts) -> list[str]:
    """Return what the plan says of a context."""
    chain = plan.chain_of(index)
    names = [_name(plan, other) for other in range(len(plan.contexts))]
    made = texts(f"mechanism_{context.mechanism}")
    if context.source is not None:
        made = texts("plan_made_from", mechanism=made, source=names[context.source])
    sharing = (
        plan.internal_memories().get(context.internal, []) if context.internal is not None else []
    )
    others = [names[other] for other in sharing if other != index]
    return [
        names[index],
        plan.models[context.model].name,
        texts("plan_all_streams") if context.stream is None else str(context.stream),
        made,
        texts("plan_shared_internal", others=texts.joined(others))
        if others
        else texts("plan_own_internal"),
        EMPTY if index == chain[0] else names[chain[chain.index(index) - 1]],
        EMPTY if context.core is None else str(context.core),
    ]


def _name(plan: Plan, index: int) -> str:
    return plan.contexts[index].name or str(index + 1)


def _cell(figures: Sequence[Figure | None], index: int, npu: bool) -> str:
    return mib(figures[index], npu=npu) if index < len(figures) else EMPTY
