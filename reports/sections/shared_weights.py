"""The question of shared weights, with memory against the number of resolutions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.ticker import MaxNLocator

from reusebench.reports.base.drawing import Draw, line, new_canvas, svg_of
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import looks_of
from reusebench.reports.results.rows import Row
from reusebench.reports.sections.contexts import draw_points
from reusebench.reports.sections.question import ComparisonSection
from reusebench.reports.sections.section import GroupView
from reusebench.storage.savings import APPLICATION, NPU

#: Whether weights are shared. Key: the scenario of all resolutions, which gives the line's colour.
RESOLUTION_LINES = {"resolutions": False, "shared_weights": True}


class SharedWeightsSection(ComparisonSection):
    """Savings of contexts that share weights between resolutions of one network."""

    template = "sections/shared_weights.html.j2"

    def __init__(self) -> None:
        super().__init__("shared_weights")

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return the figures of a comparison, and memory by number of resolutions."""
        return {
            **super().part_figures(view),
            "resolutions": partial(resolutions_figure, view.rows, view.texts),
        }


def resolutions_figure(rows: Sequence[Row], texts: Texts, paper: Paper = WIDE) -> str | None:
    """Draw memory against the number of resolutions, with and without sharing weights.

    NPU memory, or application memory if there is none. None for a single number of resolutions.
    """
    npu = any(row.memory(NPU) for row in rows)
    lines: dict[str, dict[int, Figure]] = {name: {} for name in RESOLUTION_LINES}
    counts = set()
    for row in rows:
        memory = row.memory(NPU if npu else APPLICATION)
        if memory is None:
            continue
        count = len(row.info.models)
        counts.add(count)
        for name, is_shared in RESOLUTION_LINES.items():
            if bool(row.info.baseline) == is_shared:
                lines[name][count] = memory
    if len(counts) < 2:
        return None
    canvas = new_canvas(280, paper)
    axes = canvas.add_subplot()
    legend = []
    looks = dict(zip(lines, looks_of(list(lines))))
    for name, points in lines.items():
        look = looks[name]
        draw_points(axes, dict(sorted(points.items())), 6, linewidth=2, **look)
        legend.append(line(texts(f"line_{name}"), **look))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(min(counts) - 0.2, max(counts) + 0.2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(texts("axis_resolutions"))
    axes.set_ylabel(texts("axis_npu_memory" if npu else "axis_application_memory"))
    return svg_of(canvas, legend)
