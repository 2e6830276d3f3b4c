"""The adapter of a small but complete runtime: a network of two matrices, multiplied by numpy.

Copy this file to src/reusebench/measured/runtimes/NAME/adapter.py, and put the calls of your
runtime in place of numpy's. It passes all that tests/measured/runtimes/contract.py asks of an
adapter. The mechanisms that it lacks are refused by the methods that it does not override.

A model is a .npz file of float32 `weights` (hidden x 3) and `head` (classes x hidden), and the
`size` of its picture: height and width in pixels. Each pixel is classified on its own, so files of
several sizes can have the same weights.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np

from reusebench.measured.runtimes.arrays import Arrays, SharedArrays, as_buffer, filled, image_in
from reusebench.measured.runtimes.base import (
    NO_INPUTS,
    AdapterError,
    Allocation,
    Copies,
    DeclaredTensor,
    ImageInput,
    Inputs,
    Interface,
    Memory,
    NotSupported,
    Runtime,
    RuntimeContext,
    check_host_memory,
    check_options,
    data_for,
)

__all__ = ["Example", "ExampleContext", "open_runtime"]


class _Network(NamedTuple):
    """The content of a file; contexts that share weights have the same two arrays."""

    weights: Any
    head: Any
    size: int

    def interface(self) -> Interface:
        """Return the tensors: one picture, and the scores of each of its pixels."""
        picture = DeclaredTensor("picture", "float32", (1, 3, self.size, self.size))
        scores = DeclaredTensor("scores", "float32", (1, len(self.head), self.size, self.size))
        return Interface((picture,), (scores,), metadata={})


class ExampleContext(RuntimeContext):
    """A network with an input, an output and internal memory."""

    def __init__(self, network: _Network, inputs: Inputs, memory: Memory, arrays: Arrays) -> None:
        self.network = network
        self.inputs = inputs
        #: The values between both layers. They are allocated in the first inference, so that
        #: share_internal() can give several contexts the same memory before.
        self.internal: Optional[Any] = None
        self._in_place = memory.zero_copy
        self._allocations: List[Allocation] = []
        self._open_tensors(arrays)

    def _open_tensors(self, arrays: Arrays) -> None:
        """Use these arrays; the first context that has them makes them, and lists them."""
        self._arrays = arrays
        self._allocations = []
        if arrays:
            return
        (picture,), (scores,), *_ = self.network.interface()
        arrays["input"] = filled(data_for(picture, self.inputs))
        arrays["output"] = np.zeros(scores.shape, scores.type)
        for kind in self._in_place:
            self._allocations.append(Allocation(kind, arrays[kind].nbytes, inode=0))

    def internal_size(self) -> int:
        """Return the number of values between both layers."""
        return len(self.network.weights) * self.network.size**2

    def infer(self) -> None:
        """Multiply by both matrices."""
        if self.internal is None:
            self.internal = np.empty(self.internal_size(), np.float32)
        pixels = self.network.size**2
        hidden = self.internal[: self.internal_size()].reshape(-1, pixels)
        np.matmul(self.network.weights, self._arrays["input"].reshape(-1, pixels), out=hidden)
        np.maximum(hidden, 0, out=hidden)
        np.matmul(self.network.head, hidden, out=self._arrays["output"].reshape(-1, pixels))

    def outputs(self) -> Sequence[memoryview]:
        """Return the scores."""
        return [as_buffer(self._arrays["output"])] if self._arrays else []

    def copies(self) -> Copies:
        """Return zeros: numpy reads and writes the application's arrays in place."""
        return Copies(input_bytes=0, output_bytes=0)

    def image_input(self) -> ImageInput:
        """Return the picture."""
        return image_in([self._arrays["input"]])

    def renew_io(self) -> None:
        """Drop the arrays, and make new ones."""
        self._open_tensors({})

    def allocations(self) -> List[Allocation]:
        """Return the arrays that are in place."""
        return self._allocations

    def destroy(self) -> None:
        """Drop the arrays; the weights go with the last context that has them."""
        self._arrays = {}
        self._allocations = []
        self.internal = None


class Example(Runtime):
    """The runtime."""

    version = np.__version__

    def __init__(self) -> None:
        self._shared_arrays = SharedArrays()

    def interface(self, model: str) -> Interface:
        """Return the picture and the scores."""
        return _read(model).interface()

    def load(
        self,
        model: str,
        prepared: Optional[str],
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> ExampleContext:
        """Return a context with weights of its own."""
        return self._context(_read(model), memory, inputs)

    def dup(self, source: RuntimeContext, memory: Memory) -> ExampleContext:
        """Return a context with the arrays of weights that source has."""
        assert isinstance(source, ExampleContext)
        return self._context(source.network, memory, source.inputs)

    def share_weights(
        self,
        model: str,
        source: RuntimeContext,
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> ExampleContext:
        """Return a context of another size, if the file has the same weights."""
        assert isinstance(source, ExampleContext)
        network = _read(model)
        if not all(map(np.array_equal, network[:2], source.network[:2])):
            raise NotSupported("text", text=f"{model} has other weights than the first model")
        return self._context(source.network._replace(size=network.size), memory, inputs)

    def share_internal(self, contexts: Sequence[RuntimeContext]) -> None:
        """Allocate the largest internal memory for all contexts."""
        members = [context for context in contexts if isinstance(context, ExampleContext)]
        internal = np.empty(max(member.internal_size() for member in members), np.float32)
        for member in members:
            member.internal = internal

    def join_internal(self, context: RuntimeContext, member: RuntimeContext) -> None:
        """Use the internal memory of member."""
        assert isinstance(context, ExampleContext)
        assert isinstance(member, ExampleContext)
        context.internal = member.internal

    def _context(self, network: _Network, memory: Memory, inputs: Inputs) -> ExampleContext:
        _check_memory(memory)
        return ExampleContext(network, inputs, memory, self._shared_arrays.of(memory.io))


def open_runtime() -> Runtime:
    """Return the adapter."""
    return Example()


def _read(model: str) -> _Network:
    try:
        with np.load(model, allow_pickle=False) as file:
            return _Network(file["weights"], file["head"], int(file["size"]))
    except Exception as error:
        # An adapter of the product raises a code of its own, whose texts are in measured/messages.
        raise AdapterError("text", text=f"{model} is no model of the example: {error}") from None


def _check_memory(memory: Memory) -> None:
    """Raise NotSupported for requests that this runtime would ignore."""
    check_host_memory(memory, "the example")
    check_options(memory, "the example", valid=())
    if memory.outside or memory.allocator != "create_mem" or memory.device_io or memory.device:
        raise NotSupported("text", text="numpy allocates its arrays itself, on the CPU")
