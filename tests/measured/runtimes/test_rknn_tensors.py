"""Outputs in the NPU's own order of channels."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from reusebench.measured.runtimes.rknn.abi import FORMAT_NC1HWC2, FORMAT_NHWC, TensorAttr
from reusebench.measured.runtimes.rknn.application_memory import BoundMemory, Piece
from reusebench.measured.runtimes.rknn.tensors import NativeOutputs

_FORMAT_NCHW = 0


class _Binding:
    """A binding that does nothing: the memory is the test's own."""

    def set_io_mem(self, *_: Any) -> None:
        return

    mem_sync = set_io_mem


class _Memory(BoundMemory):
    """A memory that gives this array to the only tensor."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__("create_mem")
        self._array = array

    def take(self, *_: Any) -> tuple[Piece, bool]:
        memory = ctypes.pointer(_TensorMem(self._array.ctypes.data, self._array.nbytes))
        return Piece(memory, lambda: None, fd=0), False


class _TensorMem(ctypes.Structure):
    _fields_ = (("virt_addr", ctypes.c_void_p), ("size", ctypes.c_uint32))


def _attribute(shape: tuple[int, ...], layout: int, element: int, elements: int) -> TensorAttr:
    attribute = TensorAttr(n_dims=len(shape), n_elems=elements, size=elements * element, fmt=layout)
    attribute.dims[: len(shape)] = shape
    return attribute


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", ["int8", "float16", "float32"])
@pytest.mark.parametrize("channels", [3, 16, 21])
@pytest.mark.parametrize("layout", [_FORMAT_NCHW, FORMAT_NHWC])
def test_channels_come_in_the_models_order(
    layout: int,
    channels: int,
    kind: str,
    count: int,
) -> None:
    """Padding in the last group of channels is left out, whatever the size of an element."""
    height = 4
    width = 5
    in_group = 8
    groups = -(-channels // in_group)
    shape = (count, channels, height, width)
    plain = np.random.default_rng(1).integers(0, 100, shape).astype(kind)
    filled = np.zeros((count, groups * in_group, height, width), kind)
    filled[:, :channels] = plain
    native = np.ascontiguousarray(
        filled.reshape(count, groups, in_group, height, width).transpose(0, 1, 3, 4, 2)
    )
    expected = plain if layout == _FORMAT_NCHW else plain.transpose(0, 2, 3, 1)
    element = plain.itemsize
    attributes = [_attribute(native.shape, FORMAT_NC1HWC2, element, native.size)]
    of_model = [_attribute(expected.shape, layout, element, plain.size)]
    outputs = NativeOutputs(_Binding(), 1, attributes, of_model, _Memory(native))  # type: ignore[arg-type]
    assert b"".join(outputs.in_order()) == expected.tobytes()
    assert bytes(outputs.views()[0]) == native.tobytes()
