"""Frames that are written into a context's input: what each adapter gives for it, on the real runtimes and a double."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import onnx
import onnxruntime as ort
import pytest

from runtimes import open_runtime
from runtimes.base import Context, Memory, NotSupported, Runtime
from runtimes.rknn.library import LIBRARY_VARIABLE
from tests.support import CHECKOUT
from video.letterbox import Letterbox

_WAYS = [(), ("input",), ("output",), ("input", "output")]


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    """Return ONNX Runtime's adapter."""
    return open_runtime("onnxruntime")


def _frame(seed: int = 0) -> Any:
    noise = np.random.default_rng(seed).integers(0, 256, (90, 160, 3), dtype=np.uint8)
    return av.VideoFrame.from_ndarray(noise, format="rgb24")


def _outputs(context: Context) -> list[bytes]:
    context.infer()
    return [bytes(output) for output in context.outputs()]


def _identity(folder: Path, element: int, *shapes: Sequence[int]) -> str:
    """Return a model that gives its inputs back."""
    given, taken = (
        [onnx.helper.make_tensor_value_info(f"{name}{index}", element, shape) for index, shape in enumerate(shapes)]
        for name in ("given", "taken")
    )
    nodes = [onnx.helper.make_node("Identity", [one.name], [other.name]) for one, other in zip(given, taken)]
    graph = onnx.helper.make_graph(nodes, "identity", given, taken)
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 13)])
    path = folder / "identity.onnx"
    onnx.save(model, str(path))
    return str(path)


@pytest.mark.parametrize("zero_copy", _WAYS)
def test_an_inference_reads_the_frame_that_was_written(
    runtime: Runtime, tiny_model: Path, zero_copy: tuple[str, ...]
) -> None:
    """In every way of moving tensors the output is that of the same pixels given by hand, frame after frame."""
    context = runtime.load(str(tiny_model), None, Memory(zero_copy=zero_copy))
    session = ort.InferenceSession(str(tiny_model), providers=["CPUExecutionProvider"])
    noise = _outputs(context)
    image = context.image_input()
    assert (image.width, image.height, image.channels, image.layout, image.type) == (64, 64, 3, "nchw", "float32")
    letterbox, found = Letterbox(image), []
    for seed in (1, 2, 1):
        letterbox.fill(_frame(seed))
        found.append(_outputs(context))
        pixels = np.frombuffer(bytes(image.memory), np.float32).reshape(1, 3, 64, 64)
        assert 0 <= pixels.min() < pixels.max() <= 1
        expected = session.run(None, {session.get_inputs()[0].name: pixels})[0]
        assert np.allclose(np.frombuffer(found[-1][0], np.float32), expected.ravel(), rtol=1e-4, atol=1e-5)
    assert found[0] == found[2]
    assert len({found[0][0], found[1][0], noise[0]}) == 3


@pytest.mark.parametrize(
    ("element", "shape", "layout"),
    [
        (onnx.TensorProto.FLOAT, (1, 3, 32, 48), "nchw"),
        (onnx.TensorProto.UINT8, (1, 32, 48, 3), "nhwc"),
        (onnx.TensorProto.UINT8, (1, 1, 32, 48), "nchw"),
        (onnx.TensorProto.FLOAT, (1, 32, 48, 1), "nhwc"),
    ],
)
def test_layouts_are_told_by_the_shape(
    runtime: Runtime, tmp_path: Path, element: int, shape: tuple[int, ...], layout: str
) -> None:
    """What is written there comes out of a model that gives its input back, byte for byte."""
    context = runtime.load(_identity(tmp_path, element, shape), None, Memory())
    image = context.image_input()
    assert (image.width, image.height, image.layout) == (48, 32, layout)
    Letterbox(image).fill(_frame())
    assert _outputs(context) == [bytes(image.memory)]


def test_the_first_picture_of_several_inputs_is_written(runtime: Runtime, tmp_path: Path) -> None:
    """Of a batch its first picture; other inputs keep their noise."""
    path = _identity(tmp_path, onnx.TensorProto.FLOAT, (1, 7), (2, 3, 16, 16), (1, 3, 8, 8))
    context = runtime.load(path, None, Memory())
    before = _outputs(context)
    image = context.image_input()
    assert (image.width, len(image.memory)) == (16, 3 * 16 * 16 * 4)
    Letterbox(image).fill(_frame())
    after = _outputs(context)
    half = len(before[1]) // 2
    assert [one == other for one, other in zip(before, after)] == [True, False, True]
    assert (before[1][:half] == after[1][:half], before[1][half:] == after[1][half:]) == (False, True)


def test_each_context_has_an_input_of_its_own(runtime: Runtime, tiny_model: Path, tmp_path: Path) -> None:
    """A frame for one is not seen by its dup, nor by a handle on the same session."""
    prepared = runtime.prepare(str(tiny_model), "digest", str(tmp_path))
    source = runtime.load(str(tiny_model), prepared, Memory())
    others = [runtime.dup(source, Memory()), runtime.shared_context(source, Memory())]
    before = [_outputs(each) for each in others]
    Letterbox(source.image_input()).fill(_frame())
    assert _outputs(source) != before[0]
    assert [_outputs(each) for each in others] == before


def test_a_model_without_a_picture_is_refused(runtime: Runtime, tmp_path: Path) -> None:
    """The sentence has its shapes and what is valid."""
    path = _identity(tmp_path, onnx.TensorProto.FLOAT, (1, 7), (1, 5, 8, 8))
    with pytest.raises(NotSupported, match=r"no input of the model is a picture \(1x7, 1x5x8x8\); valid: 1x3xHxW"):
        runtime.load(path, None, Memory()).image_input()


#: Writes rows of its own into the input, as a letterbox does, and says what came out; run on the double.
_CLIENT = """
import json, sys
from runtimes import open_runtime
from runtimes.base import Memory
context = open_runtime("rknn").load(sys.argv[1], None, Memory(zero_copy=tuple(sys.argv[2:])))
context.infer()
image = context.image_input()
found = [bytes(context.outputs()[0])[0]]
for value in (1, 2, 1):
    for row in range(image.height):
        start = row * image.pitch_bytes
        image.memory[start : start + image.width * 3] = bytes((value + row,)) * (image.width * 3)
    context.infer()
    found.append(bytes(context.outputs()[0])[0])
print(json.dumps([found, image[1:], len(image.memory)]))
context.destroy()
"""


def _expected(value: int) -> int:
    """Return the double's sum over those rows."""
    total = 0
    for row in range(10):
        for _ in range(10 * 3):
            total = (31 * total + value + row) & 0xFF
    return total


@pytest.mark.parametrize(
    ("version", "zero_copy", "pitch", "syncs"),
    [
        ("librknnrt version: 1.6.0 (double)", (), 30, 0),
        # In place: once when it is bound, then before each run after somebody could have written.
        ("librknnrt version: 1.6.0 (double)", ("input",), 36, 1 + 3),
        ("librknnmrt version: 2.3.2 (double)", ("input",), 36, 1 + 3),
        # Staged: at first, then before each run, as ever.
        ("librknnmrt version: 2.3.2 (double)", (), 30, 1 + 4),
    ],
)
def test_rockchips_input_is_written_with_room_behind_rows(
    version: str, zero_copy: tuple[str, ...], pitch: int, syncs: int, rknn_double: Callable[..., Path], tmp_path: Path
) -> None:
    """8-bit RGB into the application's buffer, or into the bound memory, which is then brought to the device."""
    model, log = tmp_path / "model.rknn", tmp_path / "calls"
    model.write_text("9000 5000 1 ")
    environment = {**os.environ, LIBRARY_VARIABLE: str(rknn_double(version)), "DOUBLE_LOG": str(log)}
    command = [sys.executable, "-c", _CLIENT, str(model), *zero_copy]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outputs, image, size = json.loads(done.stdout)
    assert image == [10, 10, 3, "nhwc", "uint8", pitch]
    assert size == 9 * pitch + 30
    assert outputs[1:] == [_expected(value) for value in (1, 2, 1)]
    to_device = [line for line in log.read_text().splitlines() if line.startswith("rknn_mem_sync") and "mode=1" in line]
    assert len(to_device) == syncs
