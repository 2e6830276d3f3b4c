"""The figure of boards: the memory of each configuration by board and component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.texts import Texts
from reusebench.reports.boards.boards import ComparedBoards
from reusebench.reports.boards.table import configuration_name
from reusebench.reports.explanation.explained_memory import ExplainedMemory
from reusebench.reports.explanation.explanation import measured_memory
from reusebench.reports.explanation.lanes import MOST_LANES, memory_lanes


def boards_figure(
    compared: Sequence[ComparedBoards], texts: Texts, paper: Paper = WIDE
) -> str | None:
    """Draw configurations by board, as many as a screen has room for; None without figures.

    It is NPU memory if any board has an account of that, otherwise application memory. Variants of
    other scenarios are left out.
    """
    drawn = [(boards, _memories(boards)) for boards in compared if not boards.first.is_variant]
    is_npu = any(memory.is_npu for _, by_board in drawn for memory in by_board.values())
    lanes: list[tuple[str, Mapping[str, ExplainedMemory]]] = []
    count = 0
    for boards, by_board in drawn:
        alike = {name: memory for name, memory in by_board.items() if memory.is_npu == is_npu}
        count += len(alike)
        if len(alike) < 2 or (lanes and count > MOST_LANES):
            continue
        lanes.append((configuration_name(boards, compared, texts), alike))
    return memory_lanes(lanes, is_npu, texts, paper) if lanes else None


def _memories(boards: ComparedBoards) -> dict[str, ExplainedMemory]:
    memories = {}
    for name, row in boards.rows.items():
        memory = measured_memory(row)
        if memory:
            memories[name] = memory
    return memories
