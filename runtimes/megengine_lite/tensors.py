"""How a network's input gets in and its output out: copied, in the application's arrays, or left on the device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import numpy as np
from megenginelite import LiteDeviceType, LiteLayout, LiteTensor, LiteTensorPhase, lite_dtype_2_numpy
from megenginelite.struct import LiteDataType

from runtimes.arrays import as_buffer, image_in, noise
from runtimes.base import Allocation, ImageInput, NotSupported

__all__ = ["Description", "Inputs", "Outputs", "describe", "open_inputs", "open_outputs"]


class Description(NamedTuple):
    """One input or output of a model."""

    name: str
    shape: Tuple[int, ...]
    dtype: Any

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor."""
        return int(np.prod(self.shape, dtype=np.int64)) * int(np.dtype(self.dtype).itemsize)


def describe(name: str, layout: Any) -> Description:
    """Return the description of a tensor of that layout (megenginelite.LiteLayout)."""
    return Description(name, tuple(layout.shapes[: layout.ndim]), lite_dtype_2_numpy(LiteDataType(layout.data_type)))


class Inputs(ABC):
    """All inputs of one network."""

    @abstractmethod
    def send(self) -> None:
        """Have the input ready for an inference."""

    @abstractmethod
    def copied_bytes(self) -> int:
        """Return how many bytes one inference copies."""

    @abstractmethod
    def image_input(self) -> ImageInput:
        """Return the application's array of the first input that is a picture."""

    def allocations(self) -> List[Allocation]:
        """Return the memory of the application that the network uses."""
        return []


class _CopiedInputs(Inputs):
    """set_data_by_copy: the network has a copy of the application's array."""

    def __init__(self, network: Any, inputs: List[Description]) -> None:
        self._pairs = [
            (_tensor(network, each, LiteTensorPhase.LITE_INPUT), noise(each.shape, each.dtype)) for each in inputs
        ]

    def send(self) -> None:
        for tensor, array in self._pairs:
            tensor.set_data_by_copy(array)

    def copied_bytes(self) -> int:
        return sum(array.nbytes for _, array in self._pairs)

    def image_input(self) -> ImageInput:
        return image_in(array for _, array in self._pairs)


class _SharedInputs(Inputs):
    """set_data_by_share: the network reads the application's array, which lives as long as this."""

    def __init__(self, network: Any, inputs: List[Description]) -> None:
        self._pairs = [
            (_tensor(network, each, LiteTensorPhase.LITE_INPUT), noise(each.shape, each.dtype)) for each in inputs
        ]
        for tensor, array in self._pairs:
            tensor.set_data_by_share(array)

    def send(self) -> None:
        """The input is there already."""

    def copied_bytes(self) -> int:
        return 0

    def image_input(self) -> ImageInput:
        return image_in(array for _, array in self._pairs)

    def allocations(self) -> List[Allocation]:
        return [Allocation("input", array.nbytes, 0) for _, array in self._pairs]


class _DeviceInputs(Inputs):
    """The input was sent to the device once; share_memory_with makes the network read it there."""

    def __init__(self, network: Any, inputs: List[Description], device: LiteDeviceType) -> None:
        self._tensors = []
        for each in inputs:
            data_type = LiteLayout(each.shape, each.dtype)
            on_device = LiteTensor(layout=data_type, device_type=device)
            on_device.set_data_by_copy(noise(each.shape, each.dtype))
            tensor = _tensor(network, each, LiteTensorPhase.LITE_INPUT)
            tensor.share_memory_with(on_device)
            self._tensors.append((tensor, on_device))

    def send(self) -> None:
        """The input is there already."""

    def copied_bytes(self) -> int:
        return 0

    def image_input(self) -> ImageInput:
        raise NotSupported("input_on_device")


class Outputs(ABC):
    """All outputs of one network."""

    #: Bytes that one inference copies.
    copied_bytes: int

    @abstractmethod
    def fetch(self) -> None:
        """Take the outputs of an inference to the application, where it wants them."""

    @abstractmethod
    def views(self) -> List[memoryview]:
        """Return the bytes of each output."""

    def allocations(self) -> List[Allocation]:
        """Return the memory of the application that the network uses."""
        return []


class _CopiedOutputs(Outputs):
    """to_numpy() copies out of the network's host tensor, into which forward() has copied the device's."""

    def __init__(self, network: Any, outputs: List[Description]) -> None:
        self._tensors = [_tensor(network, each, LiteTensorPhase.LITE_OUTPUT) for each in outputs]
        self._arrays: List[Any] = []
        self.copied_bytes = 2 * sum(each.size_bytes for each in outputs)

    def fetch(self) -> None:
        self._arrays = [tensor.to_numpy() for tensor in self._tensors]

    def views(self) -> List[memoryview]:
        return [as_buffer(array) for array in self._arrays]


class _SharedOutputs(Outputs):
    """set_data_by_share, on a network with force_output_use_user_specified_memory: the last layer writes there."""

    def __init__(self, network: Any, outputs: List[Description]) -> None:
        self._arrays = [noise(each.shape, each.dtype) for each in outputs]
        self._tensors = [_tensor(network, each, LiteTensorPhase.LITE_OUTPUT) for each in outputs]
        for tensor, array in zip(self._tensors, self._arrays):
            tensor.set_data_by_share(array)
        self.copied_bytes = 0

    def fetch(self) -> None:
        """The output is there already."""

    def views(self) -> List[memoryview]:
        return [as_buffer(array) for array in self._arrays]

    def allocations(self) -> List[Allocation]:
        return [Allocation("output", array.nbytes, 0) for array in self._arrays]


class _DeviceOutputs(Outputs):
    """The outputs are left on the device; forward() still copies them once, from the graph's memory to the tensor's."""

    def __init__(self, network: Any, outputs: List[Description]) -> None:
        self._network, self._outputs = network, outputs
        self.copied_bytes = sum(each.size_bytes for each in outputs)

    def fetch(self) -> None:
        """Nobody asks for them."""

    def views(self) -> List[memoryview]:
        tensors = [_tensor(self._network, each, LiteTensorPhase.LITE_OUTPUT) for each in self._outputs]
        return [as_buffer(tensor.to_numpy()) for tensor in tensors]


def open_inputs(network: Any, inputs: List[Description], way: str, device: LiteDeviceType) -> Inputs:
    """Return what sends the inputs; way: "copy", "share" or "device"."""
    if way == "device":
        return _DeviceInputs(network, inputs, device)
    return (_SharedInputs if way == "share" else _CopiedInputs)(network, inputs)


def open_outputs(network: Any, outputs: List[Description], way: str) -> Outputs:
    """Return what fetches the outputs; way as for open_inputs."""
    ways: Dict[str, Callable[[Any, List[Description]], Outputs]] = {
        "copy": _CopiedOutputs,
        "share": _SharedOutputs,
        "device": _DeviceOutputs,
    }
    return ways[way](network, outputs)


def _tensor(network: Any, description: Description, phase: LiteTensorPhase) -> Any:
    return network.get_io_tensor(description.name, phase)
