"""The adapter of LiteRT, on the CPU.

A context is a compiled model, which XNNPACK infers. One inference uses one core (num_threads 1), as
one context on an NPU core does. XNNPACK packs the weights for the CPU's vectors, in memory of each
context. Contexts that have a weight cache (prepared.py) map packed weights from it: dups, and other
resolutions of the network. The weights in the model's own file are then not read.

A file that compiled models do not run is run by the wheel's class Interpreter, if the context has
the option for it (interpreted.py).

Contexts that share internal memory share XNNPACK's delegate (delegates.py). A shared context is one
compiled model. LiteRT does not say that it may be used from several threads, and its tensors are
set before each run, so threads wait for each other.
"""

from __future__ import annotations

import os
import threading
from typing import Callable, List, Optional, Tuple

from reusebench.measured.runtimes.arrays import Arrays, ContextOfTensors, SharedArrays
from reusebench.measured.runtimes.base import (
    ELEMENT_TYPES,
    NO_INPUTS,
    AdapterError,
    Allocation,
    InputData,
    Inputs,
    Interface,
    Memory,
    NotSupported,
    Preparation,
    Runtime,
    RuntimeContext,
    check_host_memory,
    data_for,
)
from reusebench.measured.runtimes.litert.binding import (
    CPU,
    Handle,
    LiteRtLibrary,
    RankedType,
    SignatureTensor,
    version,
)
from reusebench.measured.runtimes.litert.delegates import SharedDelegates
from reusebench.measured.runtimes.litert.options import INTERPRETER, CpuOptions, options_of
from reusebench.measured.runtimes.litert.prepared import (
    WeightCache,
    WeightMemory,
    prepare,
    same_weights,
)
from reusebench.measured.runtimes.litert.tensors import LiteRtTensors, declared

__all__ = ["LiteRtContext", "LiteRtRuntime", "open_runtime"]

_TITLE = "LiteRT"


class _Compiled:
    """A compiled model, of one context or several threads, with the sizes of its tensors."""

    def __init__(
        self,
        library: LiteRtLibrary,
        model: Handle,
        compiled: Handle,
        inputs: Inputs,
        weights: Optional[WeightCache],
    ) -> None:
        self.model = model
        self.handle = compiled
        self.given = inputs
        #: Packed weights of a prepared model; None if the model packs its own.
        self.weights = weights
        #: Held during an inference, with the tensors of one thread.
        self.lock = threading.Lock()
        self.inputs: List[Tuple[RankedType, InputData]] = []
        for index, tensor in enumerate(library.tensors(model, "Input")):
            data = data_for(declared(tensor), inputs)
            if tensor.type.sizes != data.shape:
                library.resize(compiled, index, data.shape)
            self.inputs.append((tensor.type.resized(data.shape), data))

        self.outputs: List[SignatureTensor] = []
        outputs = library.tensors(model, "Output")
        sizes = library.output_sizes(compiled, len(outputs))
        for tensor, size in zip(outputs, sizes):
            self.outputs.append(tensor._replace(type=tensor.type.resized(size)))


class LiteRtContext(ContextOfTensors[LiteRtTensors]):
    """A compiled model with tensors of its own."""

    def __init__(
        self,
        library: LiteRtLibrary,
        environment: Handle,
        compiled: _Compiled,
        memory: Memory,
        arrays: Arrays,
    ) -> None:
        self._library = library
        self._environment = environment
        self._compiled: Optional[_Compiled] = compiled
        self._memory = memory
        self._tensors: Optional[LiteRtTensors] = None
        self._open_tensors(arrays)

    @property
    def compiled(self) -> _Compiled:
        """The live compiled model."""
        assert self._compiled is not None
        return self._compiled

    def _open_tensors(self, arrays: Arrays) -> None:
        outputs = [(tensor.type, declared(tensor)) for tensor in self.compiled.outputs]
        inputs = self.compiled.inputs
        zero_copy = self._memory.zero_copy
        self._tensors = LiteRtTensors(
            self._library,
            self._environment,
            inputs,
            outputs,
            zero_copy,
            arrays,
        )

    def infer(self) -> None:
        """Send the inputs, infer, fetch the outputs."""
        assert self._tensors is not None
        with self.compiled.lock:
            self._tensors.run(self.compiled.handle)

    def renew_io(self) -> None:
        """Make new arrays and buffers."""
        self._tensors = None
        self._open_tensors({})

    def allocations(self) -> List[Allocation]:
        """Return the application's weights and tensors."""
        allocations = super().allocations()
        if self._compiled is None or "weights" not in self._memory.outside:
            return allocations
        weights = self._compiled.weights
        return weights.allocations() + allocations if weights else allocations

    def destroy(self) -> None:
        """Drop the tensors and the compiled model, which goes with its last holder."""
        self._tensors = None
        self._compiled = None


class LiteRtRuntime(Runtime):
    """The loaded library, with an environment for all contexts."""

    version = version

    def __init__(self) -> None:
        self._library = LiteRtLibrary()
        self._environment = self._library.environment(CPU)
        #: Delegates of contexts that share internal memory; None as long as there are none.
        self._delegates: Optional[SharedDelegates] = None
        self._shared_arrays = SharedArrays()

    def interface(self, model: str) -> Interface:
        """Return the tensors of the file's first signature."""
        try:
            loaded = self._library.model(self._environment, model)
        except AdapterError as error:
            if error.message.code != "needs_option":
                raise
            from reusebench.measured.runtimes.litert.interpreted import interface_of

            interface = interface_of(model)
        else:
            inputs = tuple(map(declared, self._library.tensors(loaded, "Input")))
            outputs = tuple(map(declared, self._library.tensors(loaded, "Output")))
            interface = Interface(inputs, outputs, {})
        for tensor in interface.inputs + interface.outputs:
            if tensor.type not in ELEMENT_TYPES:
                raise AdapterError("litert_tensor_type", tensor=tensor.name, type=tensor.type)
        return interface

    def prepare(
        self,
        model: str,
        digest: str,
        folder: str,
        alive: Callable[[], None],
        inputs: Inputs = NO_INPUTS,
    ) -> Preparation:
        """Write the weight caches."""

        def run(path: str, options: CpuOptions) -> None:
            loaded = self._library.model(self._environment, path)
            weights = WeightCache(path)
            compiled = self._compile(loaded, weights, Memory(), options, inputs)
            LiteRtContext(self._library, self._environment, compiled, Memory(), {}).infer()

        try:
            return Preparation(prepare(model, os.path.join(folder, digest), run))
        except AdapterError as error:
            if error.message.code != "needs_option":
                raise
            raise NotSupported("litert_interpreter_alone") from None

    def load(
        self,
        model: str,
        prepared: Optional[str],
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> RuntimeContext:
        """Return a compiled model of the file, which is mapped, or of a prepared one; an
        interpreter of the file if the options say so.
        """
        if INTERPRETER in memory.options:
            # Imported only here: it adds nothing to processes that measure compiled models.
            from reusebench.measured.runtimes.litert.interpreted import InterpreterContext

            _check_memory(memory)
            if prepared is not None:
                raise NotSupported("litert_interpreter_alone")
            return InterpreterContext(model, memory, inputs)
        loaded = self._library.model(self._environment, prepared or model)
        weights = None
        if prepared is not None:
            is_given = "weights" in memory.outside
            weights = WeightMemory(prepared) if is_given else WeightCache(prepared)
        return self._context(loaded, weights, memory, inputs)

    def dup(self, source: RuntimeContext, memory: Memory) -> LiteRtContext:
        """Return another compiled model of the same file, over the packed weights of source."""
        compiled = _compiled_of(source)
        return self._context(compiled.model, _weights_of(compiled), memory, compiled.given)

    def share_weights(
        self,
        model: str,
        source: RuntimeContext,
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> LiteRtContext:
        """Return a compiled model of the prepared file, if its weights are those of source."""
        weights = _weights_of(_compiled_of(source))
        if not same_weights(model, weights.prepared):
            raise NotSupported("litert_weights_differ")
        loaded = self._library.model(self._environment, model)
        return self._context(loaded, weights, memory, inputs)

    def share_weight_memory(
        self,
        model: str,
        source: RuntimeContext,
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> LiteRtContext:
        """Return another compiled model over the weight memory that the application gave source."""
        return self.dup(source, memory)

    def shared_context(self, source: RuntimeContext, memory: Memory) -> LiteRtContext:
        """Return a handle on the same compiled model, with tensors of its own."""
        compiled = _compiled_of(source)
        _check_memory(memory)
        arrays = self._shared_arrays.of(memory.io)
        return LiteRtContext(self._library, self._environment, compiled, memory, arrays)

    def _context(
        self,
        model: Handle,
        weights: Optional[WeightCache],
        memory: Memory,
        inputs: Inputs,
    ) -> LiteRtContext:
        _check_memory(memory)
        options = options_of(memory.options, shares_internal=memory.internal is not None)
        compiled = self._compile(model, weights, memory, options, inputs)
        arrays = self._shared_arrays.of(memory.io)
        return LiteRtContext(self._library, self._environment, compiled, memory, arrays)

    def _compile(
        self,
        model: Handle,
        weights: Optional[WeightCache],
        memory: Memory,
        options: CpuOptions,
        inputs: Inputs,
    ) -> _Compiled:
        """Return a compiled model; if it shares internal memory, with the delegate of its number.

        A delegate has one weight cache: contexts of other weights under the same number have
        another delegate.
        """
        is_xnnpack = options.kernel_mode == CpuOptions().kernel_mode
        cache = weights if is_xnnpack else None
        if memory.internal is None:
            settings = options.as_toml(cache.setting(options) if cache else "")
            handle = self._library.compiled(self._environment, model, settings)
            return _Compiled(self._library, model, handle, inputs, weights)

        # XNNPACK unpacks weights into memory of its delegate, and replaces them there when the
        # delegate gets another model (2.3, seen with MediaPipe's palm detection: other outputs, and
        # no error).
        if self._library.unpacks_weights(model):
            raise NotSupported("litert_unpacked_weights")
        self._delegates = self._delegates or SharedDelegates(self._library, self._environment)
        group = memory.internal, options, cache and cache.key(options)
        # A delegate that exists has its cache, and would not take a descriptor.
        needs_cache = cache and group not in self._delegates
        settings = options.as_toml(cache.setting(options) if cache and needs_cache else "")
        handle = self._delegates.compiled(group, model, settings)
        return _Compiled(self._library, model, handle, inputs, weights)


def open_runtime() -> Runtime:
    """Return the adapter; only the measured process may call this."""
    return LiteRtRuntime()


def _compiled_of(source: RuntimeContext) -> _Compiled:
    """Return the compiled model of a context; raise NotSupported if it is an interpreter."""
    if not isinstance(source, LiteRtContext):
        raise NotSupported("litert_interpreter_alone")
    return source.compiled


def _weights_of(compiled: _Compiled) -> WeightCache:
    if compiled.weights is None:
        raise NotSupported("litert_source_not_prepared")
    return compiled.weights


def _check_memory(memory: Memory) -> None:
    """Raise NotSupported for requests that the runtime cannot serve; the schedule sees to cores."""
    check_host_memory(memory, _TITLE)
    if "internal" in memory.outside:
        raise NotSupported("litert_no_allocator")
    if memory.allocator != "create_mem":
        raise NotSupported("litert_any_memory", allocator=memory.allocator)
    if memory.device is not None or memory.device_io:
        raise NotSupported("litert_cpu_only")
