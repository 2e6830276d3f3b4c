"""The contents of ncnn's pairs of files."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from reusebench.models.errors import ModelError
from reusebench.models.inspection import inspect
from reusebench.models.inspection.contents import Operator, Tensor, Weights
from tests.measured.runtimes.ncnn_models import DETECTOR, write_net

_WEIGHT_BYTES = sum(array.nbytes for array in DETECTOR.weights())
_TAGS = 4 * len(DETECTOR.convolutions)


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    """Return the files of a net with five convolutions."""
    return write_net(tmp_path / "detector.param", DETECTOR.layers(50), DETECTOR.weights())


def test_what_a_net_shows(detector: Path) -> None:
    """Inputs with the sizes that the file has, outputs in the order of their numbers, layers,
    weights by type.
    """
    shown = inspect(detector)
    assert shown.inputs == (Tensor("in0", "float32", (1, 3, 50, 50)),)
    assert shown.outputs == (Tensor("out0", "float32", None), Tensor("out1", "float32", None))
    assert shown.operators == (
        Operator("", "Convolution", 5),
        Operator("", "Split", 1),
        Operator("", "Sigmoid", 1),
    )
    assert shown.weights == (Weights("float32", 10, _WEIGHT_BYTES + _TAGS),)
    assert shown.size_bytes == detector.stat().st_size + detector.with_suffix(".bin").stat().st_size


def test_weights_of_several_types(tmp_path: Path) -> None:
    """Each array has the type of its tag; behind a layer of unknown layout it has none."""
    layers = [
        "Input in0 0 1 in0",
        "Convolution half 1 1 in0 a 0=5 1=1 5=1 6=15",
        "PReLU slopes 1 1 a b 0=5",
        "MemoryData constant 0 1 c 0=5",
        "BinaryOp add 2 1 b c d 0=0",
        "Convolution table 1 1 d e 0=3 1=1 6=15",
        "LSTM recurrent 1 1 e out0 0=8 1=32 2=0",
    ]
    path = write_net(tmp_path / "types.param", layers)
    half = b"\x47\x6b\x30\x01" + np.zeros(15, np.float16).tobytes() + bytes(2) + bytes(20)
    table = b"\x01\x00\x00\x00" + bytes(1024) + bytes(16)
    path.with_suffix(".bin").write_bytes(half + bytes(20) + bytes(20) + table + bytes(999))
    shown = inspect(path)
    assert shown.weights == (
        Weights("uint8", 1, len(table)),
        Weights(None, 1, 999),
        Weights("float32", 3, 60),
        Weights("float16", 1, 36),
    )
    assert shown.inputs == (Tensor("in0", "float32", (1, 3, "height", "width")),)


def test_without_weights_beside_it(detector: Path) -> None:
    """Without weights the text's contents are shown; truncated weights are an error."""
    weights = detector.with_suffix(".bin")
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"detector\.bin has fewer weights"):
        inspect(detector)
    weights.write_bytes(b"")
    with pytest.raises(ModelError, match=r"detector\.bin has fewer weights"):
        inspect(detector)
    weights.unlink()
    shown = inspect(detector)
    assert shown.weights is None
    assert "missing" in shown.facts.lines["weights in"]  # type: ignore[union-attr]


def test_files_that_are_damaged(detector: Path) -> None:
    """Files with wrong bytes are read or refused with a message."""
    text = detector.read_bytes()
    noise = random.Random(0)
    answers = []
    for _ in range(200):
        damaged = bytearray(text)
        for _ in range(noise.randint(1, 4)):
            position = noise.randrange(len(damaged))
            damaged[position : position + noise.randint(0, 3)] = bytes(
                noise.choices(b"0123456789=-. \nA\xff", k=2)
            )
        detector.write_bytes(
            damaged[: noise.choice((len(damaged), noise.randrange(1, len(damaged))))]
        )
        try:
            answers.append(inspect(detector).weight_bytes is not None)
        except ModelError as error:
            answers.append(str(error).endswith((".", "read", "again")))
    assert all(answers)
    assert len(answers) == 200


@pytest.mark.parametrize(
    "content",
    [b"\0" * 4096, b"7767517\n", b"7767517\n-1 -1\n\n", b"7767517\n1 1\nInput in0 0 99999 a\n"],
)
def test_files_that_are_no_text_of_a_network(tmp_path: Path, content: bytes) -> None:
    """They are refused with a message."""
    path = tmp_path / "other.param"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="is not ncnn's text of a network"):
        inspect(path)


def test_layers_that_nobody_has(detector: Path) -> None:
    """A layer that is not ncnn's is a hindrance, and so are missing weights."""
    assert inspect(detector).hindrances == ()
    text = detector.read_text(encoding="utf-8")
    detector.write_text(text.replace("Convolution ", "MyConvolution ", 1), encoding="utf-8")
    detector.with_suffix(".bin").unlink()
    missing, own = inspect(detector).hindrances
    assert missing.startswith(detector.with_suffix(".bin").name)
    assert "MyConvolution" in own
