"""The adapter of MegEngine Lite, on the CPU or, if its wheel finds a GPU, on CUDA.

Each network infers in the calling thread (cpu inplace mode), with one core, as one context on an
NPU core does.

The adapter keeps MegEngine Lite's rules of order. Runtime memory is shared before weights are
loaded or shared. Weights are shared only with a network that was loaded itself. A lender of either
outlives its borrowers: a context holds the networks that it borrows from, so contexts may be
destroyed in any order.
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
    DeclaredTensor,
    ImageInput,
    Inputs,
    Interface,
    Memory,
    NotSupported,
    Runtime,
    RuntimeContext,
    check_host_memory,
)
from reusebench.measured.runtimes.megengine_lite.tensors import (
    MegEngineInputTensors,
    MegEngineOutputTensors,
    declared,
    open_inputs,
    open_outputs,
)
from reusebench.measured.runtimes.option_words import (
    attribute_names,
    set_attribute,
    split,
    unknown,
)

__all__ = ["MegEngineContext", "MegEngineLite", "open_runtime"]

_TITLE = "MegEngine Lite"
#: Field of LiteOptions that follows from the plan.
_OF_ZERO_COPY = "force_output_use_user_specified_memory"
#: Phrases of the loader's errors for a file of another kind, and for one that is cut short.
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
        self._inputs = open_inputs(
            self._network,
            self.interface.inputs,
            self.inputs,
            _way("input", self._memory),
            _device(self._memory),
            arrays,
        )
        self._outputs = open_outputs(
            self._network,
            self.interface.outputs,
            _way("output", self._memory),
            arrays,
        )

    def copies(self) -> Copies:
        """Return the bytes that one inference copies."""
        assert self._inputs is not None
        assert self._outputs is not None
        return Copies(self._inputs.copied_bytes(), self._outputs.copied_bytes)

    def allocations(self) -> List[Allocation]:
        """Return the application's arrays that the network uses in place."""
        allocations = []
        for tensors in (self._inputs, self._outputs):
            if tensors:
                allocations += tensors.allocations()
        return allocations

    def destroy(self) -> None:
        """Drop the tensors, the network and the networks it borrowed from.

        LiteNetwork.load leaves a reference cycle (ctypes.cast) that keeps the model's bytes until
        the next collection.
        """
        self._inputs = self._outputs = None
        self._network = None
        self._lenders.clear()
        gc.collect()


class MegEngineLite(Runtime):
    """The imported MegEngine Lite."""

    version = lite.version

    def __init__(self) -> None:
        #: First network of each shared internal memory, by its number, as long as anybody holds it.
        self._first_users: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._shared_arrays = SharedArrays()

    def interface(self, model: str) -> Interface:
        """Return the tensors that the file declares."""
        return _interface_in(model)

    def load(
        self,
        model: str,
        prepared: Optional[str],
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> MegEngineContext:
        """Return a network of the model file."""
        on_device = _interface_in(model) if memory.device_io else None
        network, lenders = self._new_network(memory, on_device)
        try:
            network.load(model)
        except RuntimeError as error:
            if any(words in str(error) for words in _NO_MODEL):
                raise AdapterError("megengine_model_unreadable", model=model) from None
            # A backtrace follows the first line; it is on standard error as well.
            raise AdapterError(
                "megengine_load_failed", model=model, error=str(error).splitlines()[0]
            ) from None
        interface = Interface(
            _declared_in(network, network.get_all_input_name()),
            _declared_in(network, network.get_all_output_name()),
            metadata={},
        )
        arrays = self._shared_arrays.of(memory.io)
        return MegEngineContext(network, interface, memory, inputs, lenders, arrays)

    def dup(self, source: RuntimeContext, memory: Memory) -> MegEngineContext:
        """Return another network over the weights of source; its runtime memory may be shared."""
        assert isinstance(source, MegEngineContext)
        return self._over_weights(source, source.interface, memory, source.inputs)

    def share_weights(
        self,
        model: str,
        source: RuntimeContext,
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> MegEngineContext:
        """Return a network over the weights of source, with tensors of the model's sizes."""
        assert isinstance(source, MegEngineContext)
        return self._over_weights(source, _interface_in(model), memory, inputs)

    def shared_context(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Refuse: a network has one input, and one forward() at a time."""
        raise NotSupported("megengine_one_thread")

    def _over_weights(
        self,
        source: MegEngineContext,
        interface: Interface,
        memory: Memory,
        inputs: Inputs,
    ) -> MegEngineContext:
        on_device = interface if memory.device_io else None
        network, lenders = self._new_network(memory, on_device)
        network.share_weights_with(source.network)
        lenders.append(source.network)
        arrays = self._shared_arrays.of(memory.io)
        return MegEngineContext(network, interface, memory, inputs, lenders, arrays)

    def _new_network(self, memory: Memory, on_device: Optional[Interface]) -> Tuple[Any, List[Any]]:
        """Return a network without weights, and the networks whose runtime memory it uses.

        `on_device` has the tensors that stay on the device; the network must know them before its
        model.
        """
        _check_memory(memory)
        options = LiteOptions()
        _set_options(options, memory.options)
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
    """Return the adapter; only the measured process may call this."""
    return MegEngineLite()


def _check_memory(memory: Memory) -> None:
    """Raise NotSupported for requests that the runtime cannot serve; the schedule sees to cores."""
    check_host_memory(memory, _TITLE)
    if "internal" in memory.outside:
        raise NotSupported("megengine_no_allocator")
    if "weights" in memory.outside:
        raise NotSupported("megengine_keeps_weights")
    if memory.allocator != "create_mem":
        raise NotSupported("megengine_any_array", allocator=memory.allocator)
    if memory.device is not None and not LiteGlobal.get_device_count(LiteDeviceType.LITE_CUDA):
        raise NotSupported("megengine_no_gpu")


def _set_options(options: Any, chosen: Sequence[str]) -> None:
    """Set fields of LiteOptions; raise NotSupported for one that it does not have."""
    names = attribute_names(options)
    names.remove(_OF_ZERO_COPY)
    for option in chosen:
        if split(option)[0] not in names:
            raise unknown(_TITLE, option, names)
        set_attribute(options, option, _TITLE)


def _device(memory: Memory) -> LiteDeviceType:
    if memory.device is None:
        return LiteDeviceType.LITE_CPU
    return LiteDeviceType.LITE_CUDA


def _way(tensors: str, memory: Memory) -> str:
    """Return the way that inputs or outputs move: "copy", "share" or "device"."""
    if memory.device_io:
        return "device"
    return "share" if tensors in memory.zero_copy else "copy"


def _declared_in(network: Any, names: Sequence[str]) -> Tuple[DeclaredTensor, ...]:
    return tuple(declared(name, network.get_io_tensor(name).layout) for name in names)


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
