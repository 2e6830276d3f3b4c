"""What a program got of a plan, in words."""

from __future__ import annotations

from typing import Optional

from reusebench.apply.plan import PlannedContext, PlannedModel, PlanSettings
from reusebench.apply.plan_result import plan_lines
from reusebench.apply.report import PlanUse, ProcessReport

_CONTEXT = PlannedContext(0, 0, 0, -1)
_SETTINGS = PlanSettings(
    "rknn",
    (
        PlannedModel("detector", "d", 4096, (_CONTEXT, _CONTEXT)),
        PlannedModel("recogniser", "r", 2048, (_CONTEXT,)),
    ),
    ("1 context: tensors in place; ...",),
    predicted_bytes=3 << 20,
)


def _report(plan: Optional[PlanUse], runtime: str = "rknn") -> ProcessReport:
    return ProcessReport(runtime, None, 1, 1, 1, {}, {}, 1, {}, {}, {}, plan)


def _lines(*plans: PlanUse, taken_bytes: Optional[int] = None) -> list[str]:
    return list(plan_lines(_SETTINGS, [_report(plan) for plan in plans], taken_bytes))


def test_a_program_with_the_contexts_of_the_plan() -> None:
    """Each model is told, and what was not applied, and both figures of memory."""
    lines = _lines(PlanUse({"d": 2, "r": 1}, {}, {}), taken_bytes=3 << 20)
    assert lines == [
        "plan: detector: 2 contexts as planned",
        "plan: recogniser: 1 context as planned",
        "plan, not applied to 1 context: tensors in place; ...",
        "plan: NPU memory by fit: 3.00 MiB (3,145,728 bytes), taken to the byte",
    ]


def test_models_that_are_not_in_both_are_named() -> None:
    """One that the program did not load, one that the plan lacks, and contexts beyond the plan."""
    lines = _lines(
        PlanUse({"d": 2}, {"d": 3}, {"other.rknn": 1}),
        PlanUse({"d": 1}, {}, {"other.rknn": 1}),
        taken_bytes=(3 << 20) + 4096,
    )
    assert lines[:3] == [
        "plan: detector: 2 contexts as planned, and 3 more, which share as without a plan",
        (
            "plan: recogniser was not loaded: no model of the program has the content of its file"
            " (2,048 bytes)"
        ),
        "plan: 2 contexts of other.rknn, which it does not have, shared as without a plan",
    ]
    assert lines[-1].endswith("3.00 MiB (3,149,824 bytes) was taken, +4,096 bytes")


def test_fewer_contexts_than_planned() -> None:
    """The program made only some; without a ledger nothing is known of its NPU memory."""
    lines = _lines(PlanUse({"d": 1}, {}, {}))
    assert lines[0] == "plan: detector: 1 of 2 contexts as planned; no more were made"
    assert "--target vboard:CHIP tells" in lines[-1]


def test_a_program_without_the_runtime_of_the_plan() -> None:
    """There is one line."""
    lines = list(plan_lines(_SETTINGS, [_report(None, "onnxruntime")]))
    assert lines == ["plan: it is for rknn, which no process of the program has used"]
