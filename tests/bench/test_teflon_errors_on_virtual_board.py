"""Errors of Mesa's delegate, and their sentences, on the virtual board of the mainline driver.

They run if the virtual board is installed (`reusebench board install --target vboard:rocket`), and
if LiteRT's schema is here to write models with.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reusebench.measured.messages import Message
from reusebench.measured.plan import Context, Model, Plan
from reusebench.measured.runtimes import find_runtime
from reusebench.targets.measured_process import try_plan
from reusebench.targets.outcome import Failure
from reusebench.targets.resolve import Selection, parse_target
from reusebench.targets.vboard.catalogue import rocket_board

pytest.importorskip("ai_edge_litert", reason="LiteRT's schema writes the models")

from tests.measured.runtimes import litert_models, teflon_models

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: An emulated process imports LiteRT in many seconds.
_TIME_LIMIT_S = 300.0


def _failure(model: Path, **environment: str) -> Failure:
    """Return the failure of one context of the model."""
    missing = rocket_board().missing_parts()
    if missing:
        pytest.skip(f"vboard:rocket is not ready: {', '.join(missing)} missing")
    target = parse_target(Selection("vboard:rocket"), find_runtime("teflon"))
    target = replace(target, environment={**target.environment, **environment})
    models = (Model("model", str(model), "0"),)
    plan = Plan("trial", None, "teflon", models, (Context(None, 0),), 1, 1)
    failure = try_plan(target, plan, _TIME_LIMIT_S)
    assert isinstance(failure, Failure)
    return failure


def _code_of(failure: Failure) -> str:
    assert isinstance(failure.message, Message)
    return failure.message.code


@pytest.mark.parametrize(
    ("fault", "code"),
    [("no-device", "teflon_no_node"), ("no-permission", "rknn_no_permission")],
)
def test_a_device_that_does_not_open(tmp_path: Path, fault: str, code: str) -> None:
    """The two are told apart, which Mesa's own words do not."""
    model = teflon_models.write_model(tmp_path / "model.tflite")
    assert _code_of(_failure(model, REUSEBENCH_FAULTS=fault)) == code


def test_floats_are_refused(tmp_path: Path) -> None:
    """Mesa would take them for bytes, without an error."""
    failure = _failure(litert_models.write_model(tmp_path / "float.tflite", 32))
    assert failure.kind == "not_supported"
    assert _code_of(failure) == "teflon_not_quantised"


def test_a_crash_without_memory_has_a_cause(tmp_path: Path) -> None:
    """Mesa's library does not check a buffer that the kernel refuses."""
    model = teflon_models.write_model(tmp_path / "model.tflite")
    failure = _failure(model, REUSEBENCH_NPU_MEMORY="16384")
    assert failure.kind == "crashed"
    assert isinstance(failure.message, Message)
    assert failure.message.values["cause"] == Message("teflon_crashed")
