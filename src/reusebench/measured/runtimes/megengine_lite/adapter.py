"""The adapter of MegEngine Lite, on the CPU or, where its wheel finds a GPU, on CUDA.

Each network infers in the thread that calls it (cpu inplace mode), with one core, as one context on
an NPU core does.

MegEngine Lite's rules of order are kept here: runtime memory is shared before weights are loaded or
shared, weights only with a network that was loaded itself, and a lender of either outlives its
borrowers: a context holds the networks that it borrows from, so that contexts may be destroyed in
any order.
"""

from __future__ import annotations

import gc
from typing import Any, List, Optional, Sequence, Tuple
from weakref import WeakValueDictionary

import megenginelite as lite
from megenginelite import (
    LiteConfig,
    LiteDeviceType,
    LiteGlobal,
    LiteIO,
    LiteNetwork,
    LiteNetworkIO,
    LiteOptions,
)

from reusebench.measured.runtimes.arrays import Arrays, SharedArrays
from reusebench.measured.runtimes.base import (
    NO_INPUTS,
    AdapterError,
    Allocation,
    Copies,
    ImageInput,
    Inputs,
    Interface,
    Memory,
    NotSupported,
    Runtime,
    RuntimeContext,
    check_host_memory,
    check_options,
)
from reusebench.measured.runtimes.megengine_lite.tensors import (
    MegEngineInputTensors,
    MegEngineOutputTensors,
    declared,
    open_inputs,
    open_outputs,
)

__all__ = ["MegEngineContext", "MegEngineLite", "open_runtime"]

#: In the loader's error for a file of another kind, and for one that is cut short.
_NO_MODEL = ("invalid model format", "m_offset + size <= m_size")


class MegEngineContext(RuntimeContext):
    """A network with its tensors, and the networks that it borrows from."""

    def __init__(
        self,
        network: Any,
        interface: Interface,
        memory: Memory,
        inputs: Inputs,
        lenders: Sequence[Any],
        arrays: Arrays,
    ) -> None:
        self.interface = interface
        self.inputs = inputs
        self._network: Optional[Any] = network
        self._lenders = list(lenders)
        self._memory = memory
        self._inputs: Optional[MegEngineInputTensors] = None
        self._outputs: Optional[MegEngineOutputTensors] = None
        self._open_tensors(arrays)

    @property
    def network(self) -> Any:
        """The live network; None once destroyed."""
        return self._network

    def infer(self) -> None:
        """Send the input, run, fetch the output."""
        assert self._network is not None
        assert self._inputs is not None
        assert self._outputs is not None
        self._inputs.send()
        self._network.forward()
        self._network.wait()
        self._outputs.fetch()

    def outputs(self) -> Sequence[memoryview]:
        """Return the outputs of the last inference."""
        return self._outputs.views() if self._outputs else []

    def image_input(self) -> ImageInput:
        """Return the application's array, which every inference copies or reads in place."""
        assert self._inputs is not None
        return self._inputs.image_input()

    def renew_io(self) -> None:
        """Give the network new arrays."""
        self._open_tensors({})

    def _open_tensors(self, arrays: Arrays) -> None:
        network = self._network
        way = _way("input", self._memory)
        device = _device(self._memory)
        self._inputs = open_inputs(network, self.interface.inputs, self.inputs, way, device, arrays)
        self._outputs = open_outputs(
            network, self.interface.outputs, _way("output", self._memory), arrays
        )

    def copies(self) -> Copies:
        """Return what one inference copies."""
        assert self._inputs is not None
        assert self._outputs is not None
        return Copies(self._inputs.copied_bytes(), self._outputs.copied_bytes)

    def allocations(self) -> List[Allocation]:
        """Return the application's arrays that the network uses."""
        allocations = self._inputs.allocations() if self._inputs else []
        return allocations + (self._outputs.allocations() if self._outputs else [])

    def destroy(self) -> None:
        """Drop the tensors, the network and what it borrowed; the network goes with its last
        holder.

        LiteNetwork.load leaves a reference cycle (ctypes.cast) that keeps the model's bytes until
        the next collection.
        """
        self._inputs = self._outputs = None
        self._network = None
        self._lenders.clear()
        gc.collect()


class MegEngineLite(Runtime):
    """An imported MegEngine Lite."""

    version = lite.version

    def __init__(self) -> None:
        #: By the number of a shared internal memory: the first network that uses it, for as long as
        #: anybody holds it.
        self._first_users: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._shared_arrays = SharedArrays()

    def interface(self, model: str) -> Interface:
        """Return what the file declares."""
        return _interface_in(model)

    def load(
        self, model: str, prepared: Optional[str], memory: Memory, inputs: Inputs = NO_INPUTS
    ) -> MegEngineContext:
        """Return a network of the model file."""
        network, lenders = self._new_network(
            memory, _interface_in(model) if memory.device_io else None
        )
        try:
            network.load(model)
        except RuntimeError as error:
            if any(words in str(error) for words in _NO_MODEL):
                raise AdapterError("megengine_model_unreadable", model=model) from None
            # After the first line comes a backtrace, which is on standard error as well.
            raise AdapterError(
                "megengine_load_failed", model=model, error=str(error).splitlines()[0]
            ) from None
        interface = Interface(
            tuple(
                declared(name, network.get_io_tensor(name).layout)
                for name in network.get_all_input_name()
            ),
            tuple(
                declared(name, network.get_io_tensor(name).layout)
                for name in network.get_all_output_name()
            ),
            {},
        )
        return MegEngineContext(
            network, interface, memory, inputs, lenders, self._shared_arrays.of(memory.io)
        )

    def dup(self, source: RuntimeContext, memory: Memory) -> MegEngineContext:
        """Return a further network over the weights of source, with runtime memory of its own or of
        its group.
        """
        assert isinstance(source, MegEngineContext)
        return self._over_weights(source, source.interface, memory, source.inputs)

    def share_weights(
        self, model: str, source: RuntimeContext, memory: Memory, inputs: Inputs = NO_INPUTS
    ) -> MegEngineContext:
        """Return a network over the weights of source, with inputs and outputs of the sizes that
        the model has.
        """
        assert isinstance(source, MegEngineContext)
        return self._over_weights(source, _interface_in(model), memory, inputs)

    def shared_context(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Refuse: a network has one input, and one forward() at a time."""
        raise NotSupported("megengine_one_thread")

    def _over_weights(
        self, source: MegEngineContext, interface: Interface, memory: Memory, inputs: Inputs
    ) -> MegEngineContext:
        network, lenders = self._new_network(memory, interface if memory.device_io else None)
        network.share_weights_with(source.network)
        lenders.append(source.network)
        return MegEngineContext(
            network, interface, memory, inputs, lenders, self._shared_arrays.of(memory.io)
        )

    def _new_network(self, memory: Memory, on_device: Optional[Interface]) -> Tuple[Any, List[Any]]:
        """Return a network without weights, and those whose runtime memory it uses.

        `on_device` are the tensors that stay there, which the network must know before it has a
        model.
        """
        _check_memory(memory)
        options = LiteOptions()
        options.force_output_use_user_specified_memory = _way("output", memory) == "share"
        network_io = None
        if on_device:
            inputs = [LiteIO(tensor.name, is_host=False) for tensor in on_device.inputs]
            outputs = [LiteIO(tensor.name, is_host=False) for tensor in on_device.outputs]
            network_io = LiteNetworkIO(inputs, outputs)
        network = LiteNetwork(LiteConfig(_device(memory), options), network_io)
        if memory.device is None:
            network.enable_cpu_inplace_mode()
        if memory.internal is None:
            return network, []
        first = self._first_users.setdefault(memory.internal, network)
        if first is network:
            return network, []
        network.share_runtime_memroy(first)
        return network, [first]


def open_runtime() -> Runtime:
    """Return the adapter: for the measured process only."""
    return MegEngineLite()


def _check_memory(memory: Memory) -> None:
    """Raise NotSupported for what the runtime cannot do; the core is the schedule's concern
    alone.
    """
    check_host_memory(memory, "MegEngine Lite")
    check_options(memory, "MegEngine Lite", ())
    if "internal" in memory.outside:
        raise NotSupported("megengine_no_allocator")
    if "weights" in memory.outside:
        raise NotSupported("megengine_keeps_weights")
    if memory.allocator != "create_mem":
        raise NotSupported("megengine_any_array", allocator=memory.allocator)
    if memory.device is not None and not LiteGlobal.get_device_count(LiteDeviceType.LITE_CUDA):
        raise NotSupported("megengine_no_gpu")


def _device(memory: Memory) -> LiteDeviceType:
    return LiteDeviceType.LITE_CPU if memory.device is None else LiteDeviceType.LITE_CUDA


def _way(tensors: str, memory: Memory) -> str:
    """Return how the inputs, or the outputs, move: "copy", "share" or "device"."""
    if memory.device_io:
        return "device"
    return "share" if tensors in memory.zero_copy else "copy"


def _interface_in(model: str) -> Interface:
    """Return the tensors of a model file."""
    try:
        model_io = lite.get_model_io_info(model)
    except RuntimeError:
        raise AdapterError("megengine_model_unreadable", model=model) from None
    return Interface(
        tuple(declared(tensor.name, tensor.config_layout) for tensor in model_io.inputs),
        tuple(declared(tensor.name, tensor.config_layout) for tensor in model_io.outputs),
        {},
    )
