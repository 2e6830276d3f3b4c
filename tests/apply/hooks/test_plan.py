"""A plan that the hooks follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from reusebench.apply.plan import PlanSettings
from reusebench.measured.plan import DUP, SHARED_CONTEXT, Context, Model, Plan
from tests.apply.hooks.hooked import run

pytestmark = pytest.mark.process

_SESSIONS = """
    import json, sys
    import numpy as np
    import onnxruntime as ort

    x = np.arange(192, dtype=np.float32).reshape(3, 64) / 100
    sessions = [ort.InferenceSession(name) for name in ("one.onnx",) * 4 + ("two.onnx",)]
    outputs = [session.run(None, {"x": x})[0].tobytes().hex() for session in sessions]
    same = [session._sess is sessions[0]._sess for session in sessions]
    del sessions[3]
    sessions.append(ort.InferenceSession("one.onnx"))
    print(json.dumps([outputs, same]))
"""


def _written(folder: Path, models: Path, *contexts: Context) -> PlanSettings:
    path = models / "one.onnx"
    plan = Plan(
        "mine", None, "onnxruntime", (Model("one", str(path), "one"),), contexts, 2, rounds=1
    )
    settings = PlanSettings.of(plan)
    (folder / "plan").write_text(settings.text(), encoding="utf-8")
    return settings


def test_sessions_share_what_the_plan_says(models: Path, tmp_path: Path) -> None:
    """The second is of its own, the third the first's; the fourth is beyond the plan."""
    as_is = run(models, _SESSIONS, hooks=None)
    contexts = (Context(None, 0), Context(None, 0), Context(None, 0, DUP, 0))
    settings = _written(tmp_path, models, *contexts)
    applied = run(models, _SESSIONS, REUSEBENCH_APPLY_PLAN=str(tmp_path / "plan"))
    assert applied.answer[0] == as_is.answer[0]
    assert applied.answer[1] == [True, False, True, True, False]
    (report,) = applied.reports
    digest = settings.models[0].digest
    assert report["plan"] == {
        "loaded": {digest: 3},
        "beyond": {digest: 2},
        "unknown": {"two.onnx": 1},
    }


def test_the_line_of_a_session_that_has_ended_is_free(models: Path, tmp_path: Path) -> None:
    """A later session has it."""
    callers = [Context(None, 0, SHARED_CONTEXT, 0) for _ in range(3)]
    settings = _written(tmp_path, models, Context(None, 0), *callers)
    (report,) = run(models, _SESSIONS, REUSEBENCH_APPLY_PLAN=str(tmp_path / "plan")).reports
    assert report["plan"]["loaded"] == {settings.models[0].digest: 5}
    assert report["plan"]["beyond"] == {}


def test_a_plan_that_cannot_be_read_is_as_none(models: Path, tmp_path: Path) -> None:
    """The program goes on as without one, and the report tells it."""
    (tmp_path / "plan").write_text("nothing\n", encoding="utf-8")
    (report,) = run(models, _SESSIONS, REUSEBENCH_APPLY_PLAN=str(tmp_path / "plan")).reports
    assert (report["plan"], report["failures"]) == (None, {"REUSEBENCH_APPLY_PLAN": 1})
    assert report["shared"]["context"] == 5
