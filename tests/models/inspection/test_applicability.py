"""The mechanisms that can apply to a model, as its file shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from reusebench.measured.runtimes import RUNTIMES, open_runtime
from reusebench.measured.runtimes.base import InputData, Memory, NotSupported
from reusebench.models.inspection import inspect
from reusebench.models.inspection.applicability import Mechanism, hindrances, mechanisms
from reusebench.models.inspection.contents import Inspection, OtherFacts, RknnFacts
from reusebench.scenarios.catalogue import find_scenario
from tests.models.inspection.onnx_models import constant, save_model, value

_RKNN = RknnFacts(
    ("rk3588",),
    "2.3.2",
    "2.3.2",
    "ONNX",
    is_mini=False,
    has_dynamic_shapes=False,
    lacks_weights=None,
)
#: Options of a context for the scenarios.
_MEMORY = {
    "external_weights": Memory(outside=("weights",)),
    "external_internal": Memory(outside=("internal",)),
    "external_memory": Memory(outside=("weights", "internal"), zero_copy=("input", "output")),
    "zero_copy_io": Memory(zero_copy=("input", "output")),
    "device_io": Memory(device_io=True),
}


def _by_name(inspection: Inspection) -> dict[str, Mechanism]:
    """Return the mechanisms of the file's own runtime, by the scenarios that measure them."""
    (runtime,) = (entry for entry in RUNTIMES if entry.suffix == Path(inspection.file).suffix)
    return {mechanism.scenario: mechanism for mechanism in mechanisms(inspection, runtime)}


def _applying(inspection: Inspection, answer: bool | None = True) -> set[str]:
    return {
        scenario
        for scenario, mechanism in _by_name(inspection).items()
        if mechanism.applies is answer
    }


def _rknn(facts: RknnFacts = _RKNN) -> Inspection:
    return Inspection("net.rknn", 1, (), (), (), (), facts)


def _identity(tmp_path: Path, kind: int = TensorProto.FLOAT) -> Path:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    return save_model(
        tmp_path / "net.onnx", nodes, [value("x", (2,), kind)], [value("y", (2,), kind)]
    )


def test_each_is_measured_by_a_scenario(tmp_path: Path) -> None:
    """Mechanisms have the names of scenarios, which -k chooses."""
    for scenario in _by_name(inspect(_identity(tmp_path))):
        assert find_scenario(scenario)


@pytest.mark.parametrize(
    ("kind", "name"), [(TensorProto.FLOAT, "float32"), (TensorProto.STRING, "str")]
)
def test_the_adapter_of_onnxruntime_refuses_the_same(tmp_path: Path, kind: int, name: str) -> None:
    """The adapter refuses the same mechanisms when a context is made, with the same messages."""
    path = _identity(tmp_path, kind)
    runtime = open_runtime("onnxruntime")
    shown = _by_name(inspect(path))
    assert shown["zero_copy_io"].applies == (name != "str")
    for scenario, memory in _MEMORY.items():
        if scenario == "external_weights":
            # For a prepared model only.
            continue
        refusal = ""
        try:
            runtime.load(
                str(path), None, memory, {"x": InputData("x", name, (2,), value=1)}
            ).infer()
        except NotSupported as error:
            refusal = str(error)
        assert shown[scenario].remark == refusal
        assert shown[scenario].applies == (not refusal)


def test_what_a_dup_shares(tmp_path: Path) -> None:
    """Without weights there is nothing."""
    assert (
        _by_name(inspect(_identity(tmp_path)))["full_dup"].remark
        == "the file has no weights to share"
    )


def test_what_hinders_onnxruntime(tmp_path: Path) -> None:
    """Invalid inputs, unknown operators, and missing or truncated weights are hindrances."""
    sequence = helper.make_sequence_type_proto(
        helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    )
    outside = [constant("a", 4), constant("b", 4)]
    for tensor in outside:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=f"{tensor.name}.bin")
    (tmp_path / "b.bin").write_bytes(np.zeros(3, np.float32).tobytes())
    path = save_model(
        tmp_path / "net.onnx",
        [
            helper.make_node("Odd", ["s"], ["y"], domain="theirs"),
            helper.make_node("Gelu", [], [], domain="com.microsoft"),
        ],
        [helper.make_value_info("s", sequence)],
        [value("y")],
        outside,
        domains=["theirs", "com.microsoft"],
    )
    assert hindrances(inspect(path)) == [
        "a.bin, the file with weights, is not beside the model",
        "b.bin has 12 bytes, and 16 are needed",
        "input 's' is seq(tensor(float)): this runtime cannot be fed with it from Python",
        "operator theirs.Odd is not ONNX Runtime's, and no library of it is loaded",
    ]
    body = [helper.make_node("Relu", ["x"], ["y"])]
    function = helper.make_function(
        "theirs", "Odd", ["x"], ["y"], body, [helper.make_opsetid("", 17)]
    )
    nodes = [helper.make_node("Odd", ["x"], ["y"], domain="theirs")]
    whole = save_model(
        path, nodes, [value("x")], [value("y")], functions=[function], domains=["theirs"]
    )
    assert hindrances(inspect(whole)) == []


def test_rknn() -> None:
    """A dup needs librknnrt and the weights; a file with dynamic shapes has all resolutions by
    itself.
    """
    usual = {
        "full_dup",
        "internal_reuse",
        "shared_weights",
        "external_internal",
        "external_memory",
        "zero_copy_io",
    }
    assert _applying(_rknn()) == usual
    assert _applying(_rknn(replace(_RKNN, is_mini=True))) == usual - {"full_dup", "shared_weights"}
    assert _applying(_rknn(replace(_RKNN, has_dynamic_shapes=True))) == usual - {"shared_weights"}
    assert _applying(_rknn(replace(_RKNN, lacks_weights=True))) == {"shared_weights"}


def test_megengine() -> None:
    """It allocates weights and runtime memory itself, and a network runs in one thread."""
    inspection = Inspection("net.mge", 1, (), (), (), (), OtherFacts({"format": "MegEngine"}))
    refused: Sequence[str] = (
        "shared_context",
        "external_weights",
        "external_internal",
        "external_memory",
    )
    assert _applying(inspection, False) == set(refused)
