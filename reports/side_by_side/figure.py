"""The figure of two stacks: a bar for each layout, by component."""

from __future__ import annotations

from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.texts import Texts
from reusebench.reports.explanation.explained_memory import ExplainedMemory
from reusebench.reports.explanation.lanes import memory_lanes
from reusebench.reports.explanation.npu_prediction import npu_memory
from reusebench.reports.side_by_side.stacks import SideBySide


def side_by_side_figure(pair: SideBySide, texts: Texts, paper: Paper = WIDE) -> str:
    """Draw all contexts of each stack: without reuse, at least, and with weights in common."""
    lanes: list[tuple[str, dict[str, ExplainedMemory]]] = []
    for stack in pair.stacks:
        runtime = texts.runtime(stack.runtime)
        memories = {
            "side_lane_without": npu_memory(stack.without_reuse),
            "side_lane_predicted": stack.with_shared_weights,
            "side_lane_least": npu_memory(stack.least),
        }
        if stack.least is stack.without_reuse:
            del memories["side_lane_least"]
        by_name = {texts(key): memory for key, memory in memories.items() if memory}
        heading = texts("side_lanes", runtime=runtime, contexts=stack.contexts)
        lanes.append((heading, by_name))
    return memory_lanes(lanes, True, texts, paper)
