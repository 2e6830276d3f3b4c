"""`.tflite` files, as they are read without LiteRT."""

from __future__ import annotations

import random
import re
import struct
from pathlib import Path

import pytest

from reusebench.measured.runtimes import find_runtime
from reusebench.models.errors import ModelError
from reusebench.models.inspection import inspect
from reusebench.models.inspection.applicability import hindrances, mechanisms
from reusebench.models.inspection.contents import Operator, OtherFacts, Tensor

pytest.importorskip(
    "ai_edge_litert", reason="its wheel has the schema by which these tests write files"
)

from tests.measured.runtimes.litert_models import write_model
from tests.measured.runtimes.teflon_models import write_model as write_quantised

_CHANGED = 150


def test_what_a_file_shows(tmp_path: Path) -> None:
    """Inputs and outputs with free sizes, weights by type, and operators with their names."""
    path = write_model(tmp_path / "free.tflite", 0)
    inspection = inspect(path)
    assert inspection.inputs == (Tensor("images", "float32", (1, "", "", 3)),)
    assert inspection.outputs == (Tensor("c2", "float32", (1, "", "", 256)),)
    assert inspection.operators == (Operator("", "CONV_2D", 3),)
    assert inspection.weights is not None
    ((kind, tensors, size_bytes),) = [
        (one.type, one.tensors, one.size_bytes) for one in inspection.weights
    ]
    assert (kind, tensors) == ("float32", 6)
    assert 0.99 * path.stat().st_size < size_bytes < path.stat().st_size
    assert isinstance(inspection.facts, OtherFacts)
    assert inspection.facts.lines["made by"] == "written by a test"


def test_how_convolutions_are_quantised(tmp_path: Path) -> None:
    """A file with floats has them in floats, and one for Teflon has one scale for each."""
    floats = inspect(write_model(tmp_path / "floats.tflite", 64))
    quantised = inspect(write_quantised(tmp_path / "quantised.tflite"))
    told = []
    for inspection in (floats, quantised):
        assert isinstance(inspection.facts, OtherFacts)
        told.append(inspection.facts.lines["convolutions"])
    assert told[0] == "3 in floats"
    assert re.fullmatch(r"\d+ with one scale", told[1])


def test_mechanisms(tmp_path: Path) -> None:
    """A custom operator has the name that the file gives it; float16 weights share no internal
    memory.
    """
    half = inspect(write_model(tmp_path / "half.tflite", 64, weights="float16", custom="Landmarks"))
    assert Operator("custom", "Landmarks", 1) in (half.operators or ())
    plain = inspect(write_model(tmp_path / "plain.tflite", 64))
    answers = []
    for inspection in (plain, half):
        of_file = {
            one.scenario: one.applies for one in mechanisms(inspection, find_runtime("litert"))
        }
        answers.append(
            (of_file["full_dup"], of_file["internal_reuse"], of_file["external_internal"])
        )
    assert answers == [(True, True, False), (True, False, False)]


def test_variables_and_random_operators(tmp_path: Path) -> None:
    """Variable tensors, and operators with random results or lasting state, are named."""
    assert inspect(write_model(tmp_path / "plain.tflite", 64)).varying == ()
    state = write_model(tmp_path / "state.tflite", 64, state=True)
    assert inspect(state).varying == ("variable tensors",)
    random_custom = write_model(tmp_path / "flex.tflite", 64, custom="FlexRandomUniform")
    assert inspect(random_custom).varying == ("FlexRandomUniform",)


@pytest.mark.parametrize(
    ("custom", "count"), [("", 0), ("TFLite_Detection_PostProcess", 0), ("MyOp", 1)]
)
def test_custom_operators_that_nobody_has(tmp_path: Path, custom: str, count: int) -> None:
    """A custom operator that LiteRT does not register is a hindrance, and is named."""
    found = hindrances(inspect(write_model(tmp_path / "net.tflite", 64, custom=custom)))
    assert len(found) == count
    assert all("MyOp" in words for words in found)


@pytest.mark.parametrize(
    "content", [b"TFL3", b"\x00" * 100, struct.pack("<I4s", 2**31, b"TFL3"), b"nothing at all"]
)
def test_no_model(tmp_path: Path, content: bytes) -> None:
    """It is a sentence."""
    (tmp_path / "bad.tflite").write_bytes(content)
    with pytest.raises(ModelError, match="is not a LiteRT model"):
        inspect(tmp_path / "bad.tflite")


def test_damaged_files(tmp_path: Path) -> None:
    """A changed or truncated file is read or refused with a message."""
    content = write_model(tmp_path / "whole.tflite", 64, weights="float16").read_bytes()
    path = tmp_path / "damaged.tflite"
    chosen = random.Random(0)
    refused = 0
    for number in range(_CHANGED):
        changed = bytearray(
            content[: chosen.randrange(8, len(content))] if number % 3 == 0 else content
        )
        for _ in range(number % 4 * 3):
            # The tables are at the beginning and the end.
            place = chosen.choice(
                (chosen.randrange(min(2000, len(changed))), len(changed) - chosen.randrange(1, 800))
            )
            changed[max(place, 0)] = chosen.randrange(256)
        path.write_bytes(changed)
        try:
            inspect(path)
        except ModelError:
            refused += 1
    assert 0.3 * _CHANGED < refused < _CHANGED
