"""Rockchip's runtime: librknnrt and, on RV1103 and RV1106, the mini runtime librknnmrt."""

from __future__ import annotations

import ctypes
import os
import zlib
from functools import partial
from typing import Dict, List, NamedTuple, Optional, Sequence

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
    check_options,
)
from reusebench.measured.runtimes.rknn.abi import (
    FLAG_INTERNAL_ALLOC_OUTSIDE,
    FLAG_MEM_ALLOC_OUTSIDE,
    FLAG_SHARE_WEIGHT_MEM,
)
from reusebench.measured.runtimes.rknn.application_memory import (
    BoundMemory,
    Piece,
    allocate,
    name_again,
)
from reusebench.measured.runtimes.rknn.attributes import (
    Attributes,
    interface_of,
    name_of,
    set_shapes,
)
from reusebench.measured.runtimes.rknn.binding import Binding
from reusebench.measured.runtimes.rknn.content import bound_input, copied_input
from reusebench.measured.runtimes.rknn.library_file import (
    LIBRARY_VARIABLE,
    find_library,
    read_library,
)
from reusebench.measured.runtimes.rknn.tensors import (
    BoundInputs,
    BoundOutputs,
    CopiedInputs,
    CopiedOutputs,
    NativeOutputs,
    RknnInputTensors,
    RknnTensors,
)

__all__ = ["Rknn", "RknnRuntimeContext", "open_runtime"]

_MINI_RUNTIME = "librknnmrt"

#: Variables that the preload library of targets/preload reads, and the symbol by which it is known.
_PRELOAD_VARIABLES = ("REUSEBENCH_BOARD", "REUSEBENCH_LEDGER")
_PRELOAD_SYMBOL = "reusebench_preload"


class BoundMemories(NamedTuple):
    """The memory of bound tensors: of one context, or of all contexts that share it."""

    inputs: BoundMemory
    outputs: BoundMemory


class RknnRuntimeContext(RuntimeContext):
    """One rknn_context with its tensors and its memory outside the library.

    Tensors are made at the first inference. The mini runtime needs them after the internal memory,
    which may be given when all contexts are made, and the library itself makes its own no sooner.
    """

    def __init__(
        self,
        binding: Binding,
        handle: int,
        memory: Memory,
        inputs: Inputs,
        mini: bool,
        tensors: BoundMemories,
    ) -> None:
        self.binding = binding
        self.handle = handle
        self.inputs = inputs
        #: Whether the model has dynamic shapes, and those of its inputs are set.
        self.is_dynamic = False
        #: Memory that the application gave the context for its weights.
        self.weights: Optional[Piece] = None
        #: Internal memory that contexts share, kept by the first of them.
        self.shared_internal: Optional[Piece] = None
        self._memory = memory
        self._mini = mini
        self._memory_of_tensors = tensors
        self._pieces: List[Piece] = []
        self._allocations: List[Allocation] = []
        self._input: Optional[RknnInputTensors] = None
        self._output: Optional[RknnTensors] = None

    @property
    def internal_is_outside(self) -> bool:
        """Whether the library leaves its internal memory to the application."""
        return _internal_is_outside(self._memory)

    def add_piece(self, piece: Piece, kind: Optional[str] = None) -> None:
        """Keep memory as long as the context lives; `kind` is only for new memory."""
        self._pieces.append(piece)
        if kind is not None:
            self._allocations.append(piece.allocation(kind))

    def infer(self) -> None:
        """Take the input in, run, take the output out."""
        if self._input is None or self._output is None:
            self._input = self._open_inputs()
            self._output = self._open_outputs()
        self._input.move()
        self.binding.run(self.handle)
        self._output.move()

    def _open_inputs(self) -> RknnInputTensors:
        copied = "input" not in self._memory.zero_copy
        is_bound = self._mini or not copied
        feed = bound_input if is_bound else copied_input
        inputs = []
        for attribute in self._attributes().inputs(native=self._mini):
            data = self.inputs.get(name_of(attribute))
            inputs.append(feed(attribute, data))

        if not is_bound:
            return CopiedInputs(self.binding, self.handle, inputs)
        memory = self._memory_of_tensors.inputs
        return BoundInputs(self.binding, self.handle, inputs, memory, staged=copied)

    def _open_outputs(self) -> RknnTensors:
        attributes = self._attributes()
        memory = self._memory_of_tensors.outputs
        native = attributes.outputs(native=True)
        if self._mini:
            in_place = {"output", "native_output"} & set(self._memory.zero_copy)
            return BoundOutputs(self.binding, self.handle, native, memory, staged=not in_place)
        plain = attributes.outputs()
        if "native_output" in self._memory.zero_copy:
            return NativeOutputs(self.binding, self.handle, native, plain, memory)
        if "output" in self._memory.zero_copy:
            return BoundOutputs(self.binding, self.handle, plain, memory, staged=False)
        return CopiedOutputs(self.binding, self.handle, plain)

    def _attributes(self) -> Attributes:
        return Attributes(self.binding, self.handle, self.is_dynamic)

    def outputs(self) -> Sequence[memoryview]:
        """Return the application's output buffers."""
        return self._output.views() if self._output else []

    def checksum(self) -> int:
        """Return the CRC-32 of all outputs, in the element order of copied outputs."""
        value = 0
        for piece in self._output.in_order() if self._output else ():
            value = zlib.crc32(piece, value)
        return value

    def image_input(self) -> ImageInput:
        """Return the application's buffer or the bound memory, which the first inference makes."""
        assert self._input is not None
        return self._input.image_input()

    def copies(self) -> Copies:
        """Return the bytes copied between the application's buffers and the library's."""
        return Copies(
            input_bytes=self._input.copied_bytes() if self._input else 0,
            output_bytes=self._output.copied_bytes() if self._output else 0,
        )

    def account(self) -> Dict[str, int]:
        """Return the library's own sizes.

        They are not additive: a dup's `dma_bytes` has the shared weights. A model in place has none
        before the first inference: librknnrt 1.6.0 and 2.3.2 crash in rknn_dup_context once
        RKNN_QUERY_MEM_SIZE was asked of such a context.
        """
        if "model" in self._memory.zero_copy and self._output is None:
            return {}
        sizes = self.binding.mem_size(self.handle)
        return {
            "weights_bytes": sizes.total_weight_size,
            "internal_bytes": sizes.total_internal_size,
            "dma_bytes": sizes.total_dma_allocated_size,
        }

    def allocations(self) -> List[Allocation]:
        """Return the memory outside the library and the bound tensors."""
        allocations = list(self._allocations)
        for tensors in (self._input, self._output):
            if tensors is not None:
                allocations += tensors.allocations()
        return allocations

    def renew_io(self) -> None:
        """Destroy the tensors' memory; the next inference makes new.

        The mini runtime 2.3.2 cannot: once an input was bound in a type that is converted, binding
        it again fails in rknn_run ("not support input dtype=UINT8, output dtype=UINT8").
        """
        if self._mini:
            raise NotSupported("rknn_bound_once")
        self._release_io()
        for memory in self._memory_of_tensors:
            memory.forget()

    def _release_io(self) -> None:
        for tensors in (self._output, self._input):
            if tensors is not None:
                tensors.release()
        self._input = self._output = None

    def destroy(self) -> None:
        """Destroy the memory, then the context: rknn_destroy_mem after rknn_destroy crashes."""
        self._release_io()
        while self._pieces:
            self._pieces.pop().release()
        self._allocations = []
        self.binding.destroy(self.handle)


class Rknn(Runtime):
    """One loaded library."""

    def __init__(self, path: str) -> None:
        library = read_library(path)
        self.version = library.full_version
        self._mini = library.kind == _MINI_RUNTIME
        #: Memory of tensors, by the number of Memory.io.
        self._shared_tensors: Dict[int, BoundMemories] = {}
        try:
            self._binding = Binding(path)
        except OSError as error:
            raise AdapterError("rknn_library_not_loaded", path=path, error=str(error)) from None

    def interface(self, model: str) -> Interface:
        """Return the tensors of the model; the library makes a context to tell them."""
        handle = self._binding.init(_read(model), 0, master=None)
        try:
            return interface_of(self._binding, handle)
        finally:
            self._binding.destroy(handle)

    def load(
        self,
        model: str,
        prepared: Optional[str],
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> RknnRuntimeContext:
        """Return a context of the model file, which is dropped from memory as soon as possible."""
        _check_memory(memory)
        if "model" in memory.zero_copy:
            return self._load_in_place(model, memory, inputs)
        content = _read(model)
        handle = self._binding.init(content, self._flags(memory), master=None)
        # Weights outside are read from the content only in rknn_set_weight_mem.
        return self._furnish(handle, memory, inputs, loaded=True, may_be_dynamic=bool(inputs))

    def _load_in_place(self, model: str, memory: Memory, inputs: Inputs) -> RknnRuntimeContext:
        """Return a context of the model file, which is read into NPU memory and stays there."""
        size = os.path.getsize(model)
        whole = self._binding.create_model_mem(size)
        with open(model, "rb") as file:
            file.readinto((ctypes.c_char * size).from_address(whole.contents.virt_addr))
        handle = self._binding.init_in_place(whole, size, self._flags(memory))
        # This memory is given back last, with the context: rknn_destroy_mem refuses without one.
        piece = Piece(whole, partial(self._binding.destroy_mem, handle, whole))
        return self._furnish(
            handle,
            memory,
            inputs,
            loaded=True,
            may_be_dynamic=bool(inputs),
            model=piece,
        )

    def dup(self, source: RuntimeContext, memory: Memory) -> RknnRuntimeContext:
        """Return a context of rknn_dup_context, which shares the weights and nothing else."""
        assert isinstance(source, RknnRuntimeContext)
        if source.internal_is_outside and not _internal_is_outside(memory):
            # Seen (2.3.2): the dup has the flag of its source, so it has no internal memory, and
            # runs at return code 0.
            raise NotSupported("rknn_dup_without_internal")
        try:
            handle = self._binding.dup(source.handle)
        except AdapterError as error:
            if self._mini or source.is_dynamic:
                raise NotSupported(error.message.code, **error.message.values) from None
            raise
        return self._furnish(
            handle,
            memory,
            source.inputs,
            loaded=False,
            may_be_dynamic=source.is_dynamic,
        )

    def share_weights(
        self,
        model: str,
        source: RuntimeContext,
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> RknnRuntimeContext:
        """Return a context of the model over the weights of source, which must outlive it."""
        assert isinstance(source, RknnRuntimeContext)
        content = _read(model)
        handle = self._binding.init(
            content, self._flags(memory) | FLAG_SHARE_WEIGHT_MEM, master=source.handle
        )
        return self._furnish(handle, memory, inputs, loaded=False, may_be_dynamic=bool(inputs))

    def share_weight_memory(
        self,
        model: str,
        source: RuntimeContext,
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> RknnRuntimeContext:
        """Return another context of the model; the library writes its weights once more.

        It writes them into the weight memory of source. Raises AdapterError if that changed the
        memory: the library does not compare.
        """
        assert isinstance(source, RknnRuntimeContext)
        assert source.weights is not None
        _check_memory(memory, shares_weights=True)
        content = _read(model)
        handle = self._binding.init(content, FLAG_MEM_ALLOC_OUTSIDE, master=None)
        context = self._furnish(handle, memory, inputs, loaded=False, may_be_dynamic=bool(inputs))
        size = self._binding.mem_size(handle).total_weight_size
        before = source.weights.checksum()
        piece = name_again(self._binding, handle, source.weights, size)
        context.add_piece(piece)
        self._binding.set_weight_mem(handle, piece.memory)
        if source.weights.checksum() != before:
            context.destroy()
            raise AdapterError("rknn_weights_overwritten")
        return context

    def shared_context(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Refuse: rknn_run of one context from two threads is not in Rockchip's API."""
        raise NotSupported("rknn_one_thread")

    def share_internal(self, contexts: Sequence[RuntimeContext]) -> None:
        """Allocate the largest internal memory once, for the first context, and set it on all."""
        members = [context for context in contexts if isinstance(context, RknnRuntimeContext)]
        sizes = [self._binding.mem_size(context.handle).total_internal_size for context in members]
        whole = allocate("create_mem", self._binding, members[0].handle, max(sizes))
        members[0].add_piece(whole, "internal")
        members[0].shared_internal = whole
        for context, size in zip(members, sizes):
            self._use_internal(context, whole, size)

    def join_internal(self, context: RuntimeContext, member: RuntimeContext) -> None:
        """Set the internal memory of member on the context, which needs as much."""
        assert isinstance(context, RknnRuntimeContext)
        assert isinstance(member, RknnRuntimeContext)
        assert member.shared_internal is not None
        size = self._binding.mem_size(context.handle).total_internal_size
        self._use_internal(context, member.shared_internal, size)

    def _use_internal(self, context: RknnRuntimeContext, whole: Piece, size: int) -> None:
        piece = name_again(self._binding, context.handle, whole, size)
        context.add_piece(piece)
        self._binding.set_internal_mem(context.handle, piece.memory)

    def _flags(self, memory: Memory) -> int:
        """Return the flags of allocation.

        The mini runtime ignores 0x200 and overwrites other memory, so it needs 0x10.
        """
        if "weights" in memory.outside or (self._mini and _internal_is_outside(memory)):
            return FLAG_MEM_ALLOC_OUTSIDE
        if _internal_is_outside(memory):
            return FLAG_INTERNAL_ALLOC_OUTSIDE
        return 0

    def _furnish(
        self,
        handle: int,
        memory: Memory,
        inputs: Inputs,
        *,
        loaded: bool,
        may_be_dynamic: bool,
        model: Optional[Piece] = None,
    ) -> RknnRuntimeContext:
        """Return the new context with its core, its shapes and the application's memory."""
        context = RknnRuntimeContext(
            self._binding,
            handle,
            memory,
            inputs,
            self._mini,
            self._memory_of_tensors(memory),
        )
        if model is not None:
            context.add_piece(model)
        try:
            if self.driver_version is None:
                versions = self._binding.sdk_version(handle)
                self.driver_version = versions.drv_version.decode(errors="replace")
            if memory.core is not None:
                self._binding.set_core_mask(handle, 1 << memory.core)
            context.is_dynamic = may_be_dynamic and set_shapes(self._binding, handle, inputs)
            self._give_memory(context, memory, loaded)
        except AdapterError:
            context.destroy()
            raise
        return context

    def _memory_of_tensors(self, memory: Memory) -> BoundMemories:
        """Return the context's own memory of tensors, or the one of its number."""
        own = BoundMemories(BoundMemory(memory.allocator), BoundMemory(memory.allocator))
        if memory.io is None:
            return own
        return self._shared_tensors.setdefault(memory.io, own)

    def _give_memory(self, context: RknnRuntimeContext, memory: Memory, loaded: bool) -> None:
        weights_outside = loaded and self._flags(memory) == FLAG_MEM_ALLOC_OUTSIDE
        if not weights_outside and "internal" not in memory.outside:
            return
        handle = context.handle
        sizes = self._binding.mem_size(handle)
        if weights_outside:
            size = sizes.total_weight_size
            piece = allocate(memory.allocator, self._binding, handle, size)
            context.add_piece(piece, "weights")
            context.weights = piece
            self._binding.set_weight_mem(context.handle, piece.memory)
        if "internal" in memory.outside:
            size = sizes.total_internal_size
            piece = allocate(memory.allocator, self._binding, handle, size)
            context.add_piece(piece, "internal")
            self._binding.set_internal_mem(context.handle, piece.memory)


def open_runtime() -> Runtime:
    """Load the library of the option, the environment or the usual folders.

    Only the measured process may call this.
    """
    path = find_library()
    if path is None:
        raise AdapterError("rknn_no_library", variable=LIBRARY_VARIABLE)
    needs_preload = any(variable in os.environ for variable in _PRELOAD_VARIABLES)
    if needs_preload and not hasattr(ctypes.CDLL(None), _PRELOAD_SYMBOL):
        raise AdapterError("rknn_preload_missing")
    return Rknn(path)


def _internal_is_outside(memory: Memory) -> bool:
    return memory.internal is not None or "internal" in memory.outside


def _check_memory(memory: Memory, *, shares_weights: bool = False) -> None:
    """Raise NotSupported for requests that the library cannot serve, or would without memory."""
    check_options(memory, "RKNN", ())
    if memory.device is not None:
        raise NotSupported("rknn_npu_only", device=memory.device)
    if memory.device_io:
        raise NotSupported("rknn_already_on_device")
    has_weights = shares_weights or "weights" in memory.outside
    if has_weights and not _internal_is_outside(memory):
        # Seen: 1.6.0 then fails in rknn_inputs_set; the mini runtime runs at return code 0 without
        # internal memory.
        raise NotSupported("rknn_weights_alone_outside")
    if has_weights and "model" in memory.zero_copy:
        # Seen (2.3.2): the library then has the weights twice.
        raise NotSupported("rknn_weights_twice")


def _read(model: str) -> bytearray:
    content = bytearray(os.path.getsize(model))
    with open(model, "rb") as file:
        file.readinto(content)
    return content
