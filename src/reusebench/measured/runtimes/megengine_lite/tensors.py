"""The inputs and outputs of a network: copied, in the application's arrays, or on the device."""

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
    data_for,
)

__all__ = [
    "MegEngineInputTensors",
    "MegEngineOutputTensors",
    "declared",
    "open_inputs",
    "open_outputs",
]


def declared(name: str, layout: Any) -> DeclaredTensor:
    """Return the tensor of a layout (megenginelite.LiteLayout); the file always gives its sizes."""
    kind = np.dtype(lite_dtype_2_numpy(LiteDataType(layout.data_type))).name
    return DeclaredTensor(name, kind, tuple(layout.shapes[: layout.ndim]))


class MegEngineInputTensors:
    """All inputs of one network, each with an array of the application."""

    def __init__(self, network: Any, inputs: Sequence[InputData], arrays: Arrays) -> None:
        self._tensors = [
            network.get_io_tensor(tensor.name, LiteTensorPhase.LITE_INPUT) for tensor in inputs
        ]
        #: Whether no other context made the arrays.
        self._are_own = not any(tensor.name in arrays for tensor in inputs)
        for tensor in inputs:
            if tensor.name not in arrays:
                arrays[tensor.name] = filled(tensor)
        self._arrays = [arrays[tensor.name] for tensor in inputs]

    def send(self) -> None:
        """Prepare the inputs for an inference; inputs that are read in place need nothing."""

    def copied_bytes(self) -> int:
        """Return the bytes that one inference copies."""
        return 0

    def image_input(self) -> ImageInput:
        """Return the array of the first input that is a picture."""
        return image_in(self._arrays)

    def allocations(self) -> List[Allocation]:
        """Return the application's memory that the network uses."""
        return []


class _CopiedInputs(MegEngineInputTensors):
    """Inputs that the network copies from the application's arrays (set_data_by_copy)."""

    def send(self) -> None:
        for tensor, array in zip(self._tensors, self._arrays):
            tensor.set_data_by_copy(array)

    def copied_bytes(self) -> int:
        return sum(array.nbytes for array in self._arrays)


class _SharedInputs(MegEngineInputTensors):
    """Inputs that the network reads in the application's arrays (set_data_by_share)."""

    def __init__(self, network: Any, inputs: Sequence[InputData], arrays: Arrays) -> None:
        super().__init__(network, inputs, arrays)
        for tensor, array in zip(self._tensors, self._arrays):
            tensor.set_data_by_share(array)

    def allocations(self) -> List[Allocation]:
        if not self._are_own:
            return []
        return [Allocation("input", array.nbytes, 0) for array in self._arrays]


class _DeviceInputs(MegEngineInputTensors):
    """Inputs that were sent to the device once, and are read there (share_memory_with)."""

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
    """All outputs of one network; forward() copies them to the host, and to_numpy() from there."""

    #: Number of times that one inference copies each output.
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
        """Return the application's memory that the network uses."""
        return []


class _SharedOutputs(MegEngineOutputTensors):
    """Outputs that the last layer writes into the application's arrays (set_data_by_share).

    The network has force_output_use_user_specified_memory.
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
        """Do nothing: the outputs are there already."""

    def allocations(self) -> List[Allocation]:
        if not self._are_own:
            return []
        return [Allocation("output", array.nbytes, 0) for array in self._arrays]


class _DeviceOutputs(MegEngineOutputTensors):
    """Outputs left on the device; forward() copies them once, from the graph's memory."""

    _copies = 1

    def fetch(self) -> None:
        """Do nothing: nobody fetches the outputs during the measurement."""

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
    """Return the inputs; `way` is "copy", "share" or "device", `arrays` is as in open_outputs."""
    data = [data_for(tensor, inputs) for tensor in tensors]
    if way == "device":
        return _DeviceInputs(network, data, device)
    if way == "share":
        return _SharedInputs(network, data, arrays)
    return _CopiedInputs(network, data, arrays)


def open_outputs(
    network: Any,
    outputs: Sequence[DeclaredTensor],
    way: str,
    arrays: Arrays,
) -> MegEngineOutputTensors:
    """Return the outputs; `way` is as in open_inputs.

    `arrays` may come from other contexts, and gets what is missing.
    """
    if way == "share":
        return _SharedOutputs(network, outputs, arrays)
    if way == "device":
        return _DeviceOutputs(network, outputs)
    return MegEngineOutputTensors(network, outputs)


def _size_bytes(tensor: DeclaredTensor) -> int:
    return int(np.prod(tensor.shape, dtype=np.int64)) * int(numpy_type(tensor.type).itemsize)
