"""Rockchip's runtime: librknnrt and, on RV1103 and RV1106, librknnmrt, the mini runtime."""

from __future__ import annotations

import ctypes
import os
from functools import partial
from typing import Dict, List, Optional, Sequence

from runtimes.base import (
    NO_INPUTS,
    AdapterError,
    Allocation,
    Context,
    Copies,
    ImageInput,
    Inputs,
    Interface,
    Memory,
    NotSupported,
    Runtime,
)
from runtimes.rknn.abi import FLAG_INTERNAL_ALLOC_OUTSIDE, FLAG_MEM_ALLOC_OUTSIDE, FLAG_SHARE_WEIGHT_MEM
from runtimes.rknn.attributes import Attributes, interface_of, name_of, set_shapes
from runtimes.rknn.binding import Binding
from runtimes.rknn.content import bound_input, copied_input
from runtimes.rknn.library import LIBRARY_VARIABLE, find_library, read_library
from runtimes.rknn.memory import Piece, allocate
from runtimes.rknn.tensors import (
    BoundInputs,
    BoundOutputs,
    CopiedInputs,
    CopiedOutputs,
    InputTensors,
    Tensors,
)

__all__ = ["Rknn", "RknnRuntimeContext", "open_runtime"]

_MINI_RUNTIME = "librknnmrt"

#: What the preload library of targets/preload reads, and the symbol by which it is known.
_PRELOAD_VARIABLES = ("REUSEBENCH_BOARD", "REUSEBENCH_LEDGER")
_PRELOAD_SYMBOL = "reusebench_preload"


class RknnRuntimeContext(Context):
    """One rknn_context with its tensors and what was allocated for it outside the library.

    Tensors are made at the first inference: the mini runtime needs them after the internal memory, which may be given
    when all contexts are made; and the library itself makes its own no sooner.
    """

    def __init__(self, binding: Binding, handle: int, memory: Memory, inputs: Inputs, mini: bool) -> None:
        self.binding = binding
        self.handle = handle
        self.inputs = inputs
        #: Whether the model has dynamic shapes, and its inputs' are set.
        self.is_dynamic = False
        self._memory, self._mini = memory, mini
        #: The internal memory that contexts share, as this one, the first of them, has it.
        self.shared_internal: Optional[Piece] = None
        self._pieces: List[Piece] = []
        self._allocations: List[Allocation] = []
        self._input: Optional[InputTensors] = None
        self._output: Optional[Tensors] = None

    def add_piece(self, piece: Piece, kind: Optional[str] = None) -> None:
        """Keep memory for as long as the context lives; `kind` where it is new, and not a further name of a piece."""
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

    def _open_inputs(self) -> InputTensors:
        copied = "input" not in self._memory.zero_copy
        is_bound = self._mini or not copied
        feed = bound_input if is_bound else copied_input
        attributes = self._attributes().inputs(native=self._mini)
        inputs = [feed(attribute, self.inputs.get(name_of(attribute))) for attribute in attributes]
        if is_bound:
            return BoundInputs(self.binding, self.handle, inputs, self._memory.allocator, staged=copied)
        return CopiedInputs(self.binding, self.handle, inputs)

    def _open_outputs(self) -> Tensors:
        copied, attributes = "output" not in self._memory.zero_copy, self._attributes().outputs(native=self._mini)
        if copied and not self._mini:
            return CopiedOutputs(self.binding, self.handle, attributes)
        return BoundOutputs(self.binding, self.handle, attributes, self._memory.allocator, staged=copied)

    def _attributes(self) -> Attributes:
        return Attributes(self.binding, self.handle, self.is_dynamic)

    def outputs(self) -> Sequence[memoryview]:
        """Return the application's output buffers."""
        return self._output.views() if self._output else []

    def image_input(self) -> ImageInput:
        """Return the application's buffer, or the bound memory; neither exists before the first inference."""
        assert self._input is not None
        return self._input.image_input()

    def copies(self) -> Copies:
        """Return what goes between the application's buffers and the library's, or ours for the mini runtime."""
        sides = (self._input, self._output)
        return Copies(*(tensors.copied_bytes() if tensors else 0 for tensors in sides))

    def account(self) -> Dict[str, int]:
        """Return the library's own sizes; they are not additive, and a dup's `dma_bytes` has the shared weights."""
        sizes = self.binding.mem_size(self.handle)
        return {
            "weights_bytes": sizes.total_weight_size,
            "internal_bytes": sizes.total_internal_size,
            "dma_bytes": sizes.total_dma_allocated_size,
        }

    def allocations(self) -> List[Allocation]:
        """Return the outside memory and the bound tensors."""
        allocations = list(self._allocations)
        for tensors in (self._input, self._output):
            allocations += tensors.allocations() if tensors else []
        return allocations

    def destroy(self) -> None:
        """Destroy the memory, then the context: rknn_destroy_mem after rknn_destroy crashes."""
        for tensors in (self._output, self._input):
            if tensors is not None:
                tensors.release()
        self._input = self._output = None
        while self._pieces:
            self._pieces.pop().release()
        self.binding.destroy(self.handle)


class Rknn(Runtime):
    """One loaded library."""

    def __init__(self, path: str) -> None:
        library = read_library(path)
        self.version = library.full_version
        self._mini = library.kind == _MINI_RUNTIME
        try:
            self._binding = Binding(path)
        except OSError as error:
            raise AdapterError("rknn_library_not_loaded", path=path, error=str(error)) from None

    def interface(self, model: str) -> Interface:
        """Return what the library says of the model, for which it makes a context."""
        handle = self._binding.init(_read(model), 0, master=None)
        try:
            return interface_of(self._binding, handle)
        finally:
            self._binding.destroy(handle)

    def load(
        self, model: str, prepared: Optional[str], memory: Memory, inputs: Inputs = NO_INPUTS
    ) -> RknnRuntimeContext:
        """Return a context of the model file, read into memory and dropped again as soon as the library allows."""
        _check_memory(memory)
        content = _read(model)
        handle = self._binding.init(content, self._flags(memory), master=None)
        # With weights outside the library reads them from the content only in rknn_set_weight_mem.
        return self._furnish(handle, memory, inputs, loaded=True, may_be_dynamic=bool(inputs))

    def dup(self, source: Context, memory: Memory) -> RknnRuntimeContext:
        """Return rknn_dup_context's: it shares the weights, and nothing else."""
        assert isinstance(source, RknnRuntimeContext)
        try:
            handle = self._binding.dup(source.handle)
        except AdapterError as error:
            if self._mini or source.is_dynamic:
                raise NotSupported(error.message.code, **error.message.values) from None
            raise
        return self._furnish(handle, memory, source.inputs, loaded=False, may_be_dynamic=source.is_dynamic)

    def share_weights(
        self, model: str, source: Context, memory: Memory, inputs: Inputs = NO_INPUTS
    ) -> RknnRuntimeContext:
        """Return a context of the model over the weights of source, which must outlive it."""
        assert isinstance(source, RknnRuntimeContext)
        content = _read(model)
        handle = self._binding.init(content, self._flags(memory) | FLAG_SHARE_WEIGHT_MEM, master=source.handle)
        return self._furnish(handle, memory, inputs, loaded=False, may_be_dynamic=bool(inputs))

    def shared_context(self, source: Context, memory: Memory) -> Context:
        """Refuse: rknn_run of one context from two threads is not in Rockchip's API."""
        raise NotSupported("rknn_one_thread")

    def share_internal(self, contexts: Sequence[Context]) -> None:
        """Allocate the largest internal memory once, for the first context, and set it on all."""
        members = [context for context in contexts if isinstance(context, RknnRuntimeContext)]
        sizes = [self._binding.mem_size(context.handle).total_internal_size for context in members]
        whole = allocate("create_mem", self._binding, members[0].handle, max(sizes))
        members[0].add_piece(whole, "internal")
        members[0].shared_internal = whole
        for context, size in zip(members, sizes):
            self._use_internal(context, whole, size)

    def join_internal(self, context: Context, member: Context) -> None:
        """Set the memory that is there on the further context, which needs as much as member."""
        assert isinstance(context, RknnRuntimeContext)
        assert isinstance(member, RknnRuntimeContext)
        assert member.shared_internal is not None
        size = self._binding.mem_size(context.handle).total_internal_size
        self._use_internal(context, member.shared_internal, size)

    def _use_internal(self, context: RknnRuntimeContext, whole: Piece, size: int) -> None:
        memory = self._binding.create_mem_from_fd(context.handle, whole.fd, whole.address, size)
        context.add_piece(Piece(memory, partial(self._binding.destroy_mem, context.handle, memory)))
        self._binding.set_internal_mem(context.handle, memory)

    def _flags(self, memory: Memory) -> int:
        """Return the flags of allocation; the mini runtime ignores 0x200, overwrites other memory and so needs 0x10."""
        internal_outside = memory.internal is not None or "internal" in memory.outside
        if "weights" in memory.outside or (self._mini and internal_outside):
            return FLAG_MEM_ALLOC_OUTSIDE
        return FLAG_INTERNAL_ALLOC_OUTSIDE if internal_outside else 0

    def _furnish(
        self, handle: int, memory: Memory, inputs: Inputs, *, loaded: bool, may_be_dynamic: bool
    ) -> RknnRuntimeContext:
        """Return the new context with its core, its shapes, and the memory that the application gives it."""
        context = RknnRuntimeContext(self._binding, handle, memory, inputs, self._mini)
        try:
            if self.driver_version is None:
                self.driver_version = self._binding.sdk_version(handle).drv_version.decode(errors="replace")
            if memory.core is not None:
                self._binding.set_core_mask(handle, 1 << memory.core)
            context.is_dynamic = may_be_dynamic and set_shapes(self._binding, handle, inputs)
            self._give_memory(context, memory, loaded)
        except AdapterError:
            context.destroy()
            raise
        return context

    def _give_memory(self, context: RknnRuntimeContext, memory: Memory, loaded: bool) -> None:
        sizes = self._binding.mem_size(context.handle)
        if loaded and self._flags(memory) == FLAG_MEM_ALLOC_OUTSIDE:
            piece = allocate(memory.allocator, self._binding, context.handle, sizes.total_weight_size)
            context.add_piece(piece, "weights")
            self._binding.set_weight_mem(context.handle, piece.memory)
        if "internal" in memory.outside:
            piece = allocate(memory.allocator, self._binding, context.handle, sizes.total_internal_size)
            context.add_piece(piece, "internal")
            self._binding.set_internal_mem(context.handle, piece.memory)


def open_runtime() -> Runtime:
    """Load the library of the option, of the environment or of the usual folders: for the measured process only."""
    path = find_library()
    if path is None:
        raise AdapterError("rknn_no_library", variable=LIBRARY_VARIABLE)
    needs_preload = any(variable in os.environ for variable in _PRELOAD_VARIABLES)
    if needs_preload and not hasattr(ctypes.CDLL(None), _PRELOAD_SYMBOL):
        raise AdapterError("rknn_preload_missing")
    return Rknn(path)


def _check_memory(memory: Memory) -> None:
    """Raise NotSupported for what the library cannot do, and for what would run in memory that nobody allocated."""
    if memory.device is not None:
        raise NotSupported("rknn_npu_only", device=memory.device)
    if memory.device_io:
        raise NotSupported("rknn_already_on_device")
    if memory.outside == ("weights",):
        # Seen: 1.6.0 then fails in rknn_inputs_set; the mini runtime runs at return code 0 without internal memory.
        raise NotSupported("rknn_weights_alone_outside")


def _read(model: str) -> bytearray:
    content = bytearray(os.path.getsize(model))
    with open(model, "rb") as file:
        file.readinto(content)
    return content
