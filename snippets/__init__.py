"""What to write in an application: a plan as a program, with the runtime's calls in the order that works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

from scenarios.plan import Plan
from snippets.base import Snippet, check_is_served
from snippets.megengine_lite import write_megengine_lite
from snippets.onnxruntime import write_onnxruntime
from snippets.openvino import write_openvino
from snippets.rknn import write_c

__all__ = ["Snippet", "snippet_of"]

#: By the name of the runtime.
_WRITERS: dict[str, Callable[[Plan, Optional[str]], Snippet]] = {
    "onnxruntime": write_onnxruntime,
    "megengine_lite": write_megengine_lite,
    "openvino": write_openvino,
    "rknn": write_c,
}


def snippet_of(plan: Plan, chip: Optional[str] = None) -> Snippet:
    """Return the program of a plan, for its runtime; `chip` is Rockchip's, a name of targets.chips, where it is known.

    Raises NotSupported of what the runtime lacks, and of plans that no program of an application does.
    """
    check_is_served(plan)
    return _WRITERS[plan.runtime](plan, chip)
