"""How a network's input gets in and its output out: copied, in the application's arrays, or left on
the device.
"""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np
from megenginelite import (
    LiteDeviceType,
    LiteLayout,
    LiteTensor,
    LiteTensorPhase,
    lite_dtype_2_numpy,
)
from megenginelite.struct import LiteDataType

from reusebench.measured.runtimes.arrays import (
    Arrays,
    as_buffer,
    filled,
    image_in,
    noise,
    numpy_type,
)
from reusebench.measured.runtimes.base import (
    Allocation,
    DeclaredTensor,
    ImageInput,
    InputData,
    Inputs,
    NotSupported,
)

__all__ = [
    "MegEngineInputTensors",
    "MegEngineOutputTensors",
    "declared",
    "open_inputs",
    "open_outputs",
]


def declared(name: str, layout: Any) -> DeclaredTensor:
    """Return the tensor of that layout (megenginelite.LiteLayout), whose sizes the file always
    gives.
    """
    kind = np.dtype(lite_dtype_2_numpy(LiteDataType(layout.data_type))).name
    return DeclaredTensor(name, kind, tuple(layout.shapes[: layout.ndim]))


class MegEngineInputTensors:
    """All inputs of one network, each with an array of the application."""

    def __init__(self, network: Any, inputs: Sequence[InputData], arrays: Arrays) -> None:
        self._tensors = [
            network.get_io_tensor(tensor.name, LiteTensorPhase.LITE_INPUT) for tensor in inputs
        ]
        #: Whether no other context has made them.
        self._are_own = not any(tensor.name in arrays for tensor in inputs)
        for tensor in inputs:
            if tensor.name not in arrays:
                arrays[tensor.name] = filled(tensor)
        self._arrays = [arrays[tensor.name] for tensor in inputs]

    def send(self) -> None:
        """Have the input ready for an inference; nothing to do where the network reads it in
        place.
        """

    def copied_bytes(self) -> int:
        """Return how many bytes one inference copies."""
        return 0

    def image_input(self) -> ImageInput:
        """Return the application's array of the first input that is a picture."""
        return image_in(self._arrays)

    def allocations(self) -> List[Allocation]:
        """Return the memory of the application that the network uses."""
        return []


class _CopiedInputs(MegEngineInputTensors):
    """set_data_by_copy: the network has a copy of the application's array."""

    def send(self) -> None:
        for tensor, array in zip(self._tensors, self._arrays):
            tensor.set_data_by_copy(array)

    def copied_bytes(self) -> int:
        return sum(array.nbytes for array in self._arrays)


class _SharedInputs(MegEngineInputTensors):
    """set_data_by_share: the network reads the application's array, which lives as long as this."""

    def __init__(self, network: Any, inputs: Sequence[InputData], arrays: Arrays) -> None:
        super().__init__(network, inputs, arrays)
        for tensor, array in zip(self._tensors, self._arrays):
            tensor.set_data_by_share(array)

    def allocations(self) -> List[Allocation]:
        return [Allocation("input", array.nbytes, 0) for array in self._arrays if self._are_own]


class _DeviceInputs(MegEngineInputTensors):
    """The input was sent to the device once; share_memory_with makes the network read it there."""

    def __init__(self, network: Any, inputs: Sequence[InputData], device: LiteDeviceType) -> None:
        super().__init__(network, inputs, {})
        self._on_device = []
        for tensor, array in zip(self._tensors, self._arrays):
            on_device = LiteTensor(layout=LiteLayout(array.shape, array.dtype), device_type=device)
            on_device.set_data_by_copy(array)
            tensor.share_memory_with(on_device)
            self._on_device.append(on_device)
        self._arrays.clear()

    def image_input(self) -> ImageInput:
        raise NotSupported("input_on_device")


class MegEngineOutputTensors:
    """All outputs of one network; to_numpy() copies them from the host tensor, into which forward()
    copies them.
    """

    #: How often one inference copies each output.
    _copies = 2

    def __init__(self, network: Any, outputs: Sequence[DeclaredTensor]) -> None:
        self._tensors = [
            network.get_io_tensor(tensor.name, LiteTensorPhase.LITE_OUTPUT) for tensor in outputs
        ]
        self._arrays: List[Any] = []
        #: Bytes that one inference copies.
        self.copied_bytes = self._copies * sum(map(_size_bytes, outputs))

    def fetch(self) -> None:
        """Copy the outputs of an inference to the application."""
        self._arrays = [tensor.to_numpy() for tensor in self._tensors]

    def views(self) -> List[memoryview]:
        """Return the bytes of each output."""
        return [as_buffer(array) for array in self._arrays]

    def allocations(self) -> List[Allocation]:
        """Return the memory of the application that the network uses."""
        return []


class _SharedOutputs(MegEngineOutputTensors):
    """set_data_by_share, on a network with force_output_use_user_specified_memory: the last layer
    writes there.
    """

    _copies = 0

    def __init__(self, network: Any, outputs: Sequence[DeclaredTensor], arrays: Arrays) -> None:
        super().__init__(network, outputs)
        self._are_own = not any(tensor.name in arrays for tensor in outputs)
        for tensor in outputs:
            if tensor.name not in arrays:
                arrays[tensor.name] = noise(tensor.shape, tensor.type)
        self._arrays = [arrays[tensor.name] for tensor in outputs]
        for tensor, array in zip(self._tensors, self._arrays):
            tensor.set_data_by_share(array)

    def fetch(self) -> None:
        """The output is there already."""

    def allocations(self) -> List[Allocation]:
        return [Allocation("output", array.nbytes, 0) for array in self._arrays if self._are_own]


class _DeviceOutputs(MegEngineOutputTensors):
    """The outputs are left on the device; forward() still copies them once, from the graph's memory
    to the tensor's.
    """

    _copies = 1

    def fetch(self) -> None:
        """Nothing takes them during the measurement."""

    def views(self) -> List[memoryview]:
        return [as_buffer(tensor.to_numpy()) for tensor in self._tensors]


def open_inputs(
    network: Any,
    tensors: Sequence[DeclaredTensor],
    inputs: Inputs,
    way: str,
    device: LiteDeviceType,
    arrays: Arrays,
) -> MegEngineInputTensors:
    """Return what sends the inputs; way: "copy", "share" or "device". `arrays` are as in
    open_outputs.
    """
    fed = [
        inputs.get(tensor.name) or InputData(tensor.name, tensor.type, tensor.shape)
        for tensor in tensors
    ]
    if way == "device":
        return _DeviceInputs(network, fed, device)
    return (_SharedInputs if way == "share" else _CopiedInputs)(network, fed, arrays)


def open_outputs(
    network: Any, outputs: Sequence[DeclaredTensor], way: str, arrays: Arrays
) -> MegEngineOutputTensors:
    """Return what fetches the outputs; way as for open_inputs.

    `arrays` are those of other contexts that it shares, and get those that it makes.
    """
    if way == "share":
        return _SharedOutputs(network, outputs, arrays)
    return (_DeviceOutputs if way == "device" else MegEngineOutputTensors)(network, outputs)


def _size_bytes(tensor: DeclaredTensor) -> int:
    return int(np.prod(tensor.shape, dtype=np.int64)) * int(numpy_type(tensor.type).itemsize)
