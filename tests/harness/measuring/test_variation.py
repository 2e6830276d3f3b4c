"""Models whose outputs differ from inference to inference."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from reusebench.harness.measuring.variation import Variation
from reusebench.measured.messages import Message
from reusebench.measured.plan import Context, Model, Plan
from tests.helpers.forks import ONNX_FORKS, SCRIPTED_FORKS
from tests.helpers.support import TIME_LIMIT_S

pytestmark = pytest.mark.process


def _reason(runtime: str, path: str) -> Message | None:
    model = Model("net", path, "0" * 64)
    plan = Plan("full_dup", None, runtime, (model,), (Context(None, 0),), cores=1, rounds=1)
    targets = {"scripted": SCRIPTED_FORKS, "onnxruntime": ONNX_FORKS}
    return Variation(targets, TIME_LIMIT_S).reason(plan, model)


@pytest.mark.parametrize(
    ("script", "reason"),
    [("plain", None), ("varies=1", Message("outputs_vary")), ("abort@load0", None)],
)
def test_a_context_alone_shows_it(script: str, reason: Message | None) -> None:
    """A file that no reader knows is run; outputs should be equal if that fails."""
    assert _reason("scripted", script) == reason


def test_the_file_shows_it(tmp_path: Path) -> None:
    """The operators of a file are the reason, and nothing is run."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    node = helper.make_node("RandomNormalLike", ["x"], ["y"])
    path = tmp_path / "random.onnx"
    onnx.save(helper.make_model(helper.make_graph([node], "g", values[:1], values[1:])), path)
    reason = Message("outputs_vary_by_operators", {"operators": "RandomNormalLike"})
    assert _reason("nothing", str(path)) == reason
