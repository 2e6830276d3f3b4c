"""Operators on the NPU and on the CPU, and what crossing between them costs in memory."""

from __future__ import annotations

from collections.abc import Mapping

from reusebench.reports.base.formatting import component_mib, counted_mib, percent
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.placements import (
    PlacedModel,
    most_frequent_first,
    placed_models,
)
from reusebench.reports.sections.section import GroupSection, GroupView, Page, Values

_HEADS = (
    "column_model",
    "column_on_npu",
    "column_on_cpu",
    "column_partitions",
    "column_crossing",
    "column_crossing_io",
    "column_crossing_share",
    "column_cpu_operators",
    "column_npu_operators",
)


class PlacementSection(GroupSection):
    """The operators of each model by device."""

    name = "placement"

    def applies(self, page: Page) -> bool:
        """Whether the operators of any model are known by device."""
        return any(placed_models(group) for group in page.groups)

    def part(self, view: GroupView) -> Values | None:
        """Return the table of models, and the cost of crossing."""
        models = placed_models(view.group)
        if not models:
            return None
        return {
            "table": placement_table(models, view.texts),
            "sentences": [crossing_sentence(model, view.texts) for model in models],
        }

    def part_summary(self, view: GroupView) -> str | None:
        """Return the number of operators that stay on the CPU, of each model."""
        parts = []
        for model in placed_models(view.group):
            parts.append(
                view.texts(
                    "placement_summary",
                    model=model.name,
                    on_npu=model.on_npu,
                    operators=model.operators,
                )
            )
        return view.texts.joined(parts) or None


def placement_table(models: list[PlacedModel], texts: Texts) -> Table:
    """Return a row for each model: operators by device, partitions, and what crosses."""
    lines = []
    for model in models:
        placement = model.placement
        crossing = Figure(placement.crossing_bytes)
        share = crossing.percent_of(model.io) if model.io else None
        cells = [
            model.name,
            str(model.on_npu),
            str(model.on_cpu),
            str(placement.partitions),
            counted_mib(placement.crossing_bytes),
            component_mib(model.io),
            percent(share),
            _in_words(placement.cpu, texts),
            _in_words(placement.npu, texts),
        ]
        lines.append(("ok", cells))
    return Table(heads_of(_HEADS, texts), lines, words=(0, -2, -1), exported="placements")


def crossing_sentence(model: PlacedModel, texts: Texts) -> str:
    """Return the memory that operators on the CPU cost each context of the model."""
    placement = model.placement
    if not model.on_npu:
        return texts("placement_all_cpu", model=model.name)
    if not model.on_cpu:
        return texts("placement_all_npu", model=model.name, partitions=placement.partitions)
    return texts(
        "placement_crossing",
        model=model.name,
        on_cpu=model.on_cpu,
        operators=model.operators,
        partitions=placement.partitions,
        crossing=counted_mib(placement.crossing_bytes),
    )


def _in_words(operators: Mapping[str, int], texts: Texts) -> str:
    """Return the names, the most frequent first, with their numbers."""
    names = []
    for name, count in most_frequent_first(operators):
        names.append(name if count == 1 else texts("placement_count", name=name, count=count))
    return texts.joined(names)
