"""The adapter of OpenVINO, on the CPU.

A context is an infer request with its tensors. Each loaded context has a compiled model of its own,
with one stream: it infers in the calling thread, on one core, as one context on an NPU core does. A
dup is another request of the same compiled model, which then has a stream for each CPU of the
process. A stream has the internal memory, a request only the tensors of inputs and outputs, and the
weights are in the compiled model once.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import openvino as ov

from reusebench.measured.runtimes.arrays import Arrays, ContextOfTensors, SharedArrays
from reusebench.measured.runtimes.base import (
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
)
from reusebench.measured.runtimes.openvino.model import (
    OpenVinoModel,
    WeightsMemory,
    read_model,
    reshape,
    same_weights,
    weights_file,
)
from reusebench.measured.runtimes.openvino.tensors import (
    TYPES,
    OpenVinoTensors,
    declared,
    fed_inputs,
)
from reusebench.measured.runtimes.prepared_files import flush_to_disk, share_equal_file

__all__ = ["OpenVino", "OpenVinoContext", "open_runtime"]

_TITLE = "OpenVINO"
_MODEL_FILE = "model.xml"
#: Parameter of mallopt (glibc, malloc.h): blocks from this size on get mappings of their own.
_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 1 << 20


class Turn:
    """Compiled models that run in turn, of which only one has its internal tensors allocated.

    A model keeps them if one of its contexts is outside this turn: that context may be inferring.
    """

    def __init__(self) -> None:
        #: The model of each context.
        self._models: List[OpenVinoModel] = []
        self._last: Optional[OpenVinoModel] = None

    def join(self, compiled: OpenVinoModel) -> None:
        """Add a context of a model."""
        self._models.append(compiled)
        if len(set(self._models)) > 1:
            _unmap_large_blocks()

    def take(self, compiled: OpenVinoModel) -> None:
        """Release the internal tensors of the model that ran last, unless it is used elsewhere."""
        last = self._last
        self._last = compiled
        if last is None or last is compiled:
            return
        if self._models.count(last) == last.contexts:
            last.release_internal()

    def leave(self, compiled: OpenVinoModel) -> None:
        """Forget a context that is destroyed."""
        self._models.remove(compiled)
        if compiled not in self._models and self._last is compiled:
            self._last = None


class OpenVinoContext(ContextOfTensors[OpenVinoTensors]):
    """An infer request with its tensors."""

    def __init__(
        self,
        compiled: OpenVinoModel,
        fed: Sequence[InputData],
        memory: Memory,
        arrays: Arrays,
        turn: Optional[Turn],
    ) -> None:
        self.compiled: Optional[OpenVinoModel] = compiled
        self.fed = fed
        self._turn = turn
        #: Size of the weights that the application gave for this context.
        self.given_bytes = 0
        self._has_run = False
        self._tensors: Optional[OpenVinoTensors] = OpenVinoTensors(fed, memory.zero_copy, arrays)
        compiled.join(self._tensors)
        if turn is not None:
            turn.join(compiled)

    def infer(self) -> None:
        """Run once; after the first run, release the pages of a mapped weights file."""
        assert self.compiled is not None
        assert self._tensors is not None
        if self._turn is not None:
            self._turn.take(self.compiled)
        self._tensors.infer()
        if not self._has_run:
            self._has_run = True
            if self.compiled.weights is not None:
                self.compiled.weights.let_go()

    def renew_io(self) -> None:
        """Give the request new arrays."""
        assert self._tensors is not None
        self._tensors.renew()

    def allocations(self) -> List[Allocation]:
        """Return the weights that the application gave, and the arrays in place."""
        allocations = super().allocations()
        if not self.given_bytes:
            return allocations
        return [Allocation("weights", self.given_bytes, 0), *allocations]

    def destroy(self) -> None:
        """Drop the request; the compiled model goes with its last context."""
        if self.compiled is None or self._tensors is None:
            return
        self.compiled.leave(self._tensors)
        self._tensors = None
        if self._turn is not None:
            self._turn.leave(self.compiled)
        self.compiled = None


class OpenVino(Runtime):
    """The imported OpenVINO."""

    version = ov.__version__.split("-")[0]

    def __init__(self) -> None:
        self._core = ov.Core()
        self._shared_arrays = SharedArrays()
        #: Turns, by the number of a shared internal memory.
        self._turns: Dict[int, Turn] = {}

    def interface(self, model: str) -> Interface:
        """Return the tensors that the file declares; nothing is compiled."""
        read = read_model(self._core, model)
        sizes, metadata = _read_by_onnx(model)
        inputs = tuple(declared(port, sizes) for port in read.inputs)
        outputs = tuple(declared(port, sizes) for port in read.outputs)
        for tensor in inputs:
            if tensor.type not in TYPES.values():
                raise AdapterError("openvino_input_type", tensor=tensor.name, type=tensor.type)
        return Interface(inputs, outputs, metadata)

    def prepare(
        self,
        model: str,
        digest: str,
        folder: str,
        alive: Callable[[], None],
        inputs: Inputs = NO_INPUTS,
    ) -> Preparation:
        """Write the model as OpenVINO's own files, whose weights can be mapped.

        Equal weights of several models are one file.
        """
        own = os.path.join(folder, digest)
        shutil.rmtree(own, ignore_errors=True)  # a failed preparation may have left it
        os.makedirs(own)
        path = os.path.join(own, _MODEL_FILE)
        ov.save_model(read_model(self._core, model), path, compress_to_fp16=False)
        share_equal_file(own, os.path.basename(weights_file(path)))
        flush_to_disk(own)
        return Preparation(path)

    def load(
        self,
        model: str,
        prepared: Optional[str],
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> OpenVinoContext:
        """Return a request of a new compiled model; a prepared one may use its weights in place."""
        _check_memory(memory)
        gives_weights = "weights" in memory.outside
        is_alone = gives_weights or "model" in memory.zero_copy
        if prepared is None:
            if is_alone:
                raise NotSupported("openvino_not_prepared")
            return self._loaded(model, None, memory, inputs)
        weights = WeightsMemory(prepared, is_mapped=not gives_weights)
        # A model is prepared either for this context alone, or so that others can share its
        # weights.
        streams = 1 if is_alone else _cpus()
        context = self._loaded(prepared, weights, memory, inputs, streams)
        context.given_bytes = weights.own_bytes
        return context

    def dup(self, source: RuntimeContext, memory: Memory) -> OpenVinoContext:
        """Return another request of the compiled model of source, which has a stream for each CPU.

        If it has only one stream it is compiled again, which is when the number of streams is set.
        """
        assert isinstance(source, OpenVinoContext)
        assert source.compiled is not None
        _check_memory(memory)
        source.compiled.run_at_once(_cpus())
        return self._context(source.compiled, source.fed, memory)

    def shared_context(self, source: RuntimeContext, memory: Memory) -> OpenVinoContext:
        """Return another request of source's compiled model; with one stream they infer in turn."""
        assert isinstance(source, OpenVinoContext)
        assert source.compiled is not None
        _check_memory(memory)
        return self._context(source.compiled, source.fed, memory)

    def share_weights(
        self,
        model: str,
        source: RuntimeContext,
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> OpenVinoContext:
        """Return a request of the compiled model of source, which then takes inputs of both shapes.

        If it did not take them before it is compiled again, which is when sizes become free.
        """
        assert isinstance(source, OpenVinoContext)
        assert source.compiled is not None
        _check_memory(memory)
        if not same_weights(model, source.compiled.path):
            raise NotSupported("openvino_weights_differ")
        other = read_model(self._core, model)
        fed = fed_inputs(other, inputs)
        reshape(other, [tensor.shape for tensor in fed], model)
        source.compiled.allow(fed, [port.get_partial_shape() for port in other.outputs])
        source.compiled.run_at_once(_cpus())
        return self._context(source.compiled, fed, memory)

    def share_weight_memory(
        self,
        model: str,
        source: RuntimeContext,
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> OpenVinoContext:
        """Return a request of another compiled model, over the weights in source's memory."""
        assert isinstance(source, OpenVinoContext)
        assert source.compiled is not None
        _check_memory(memory)
        return self._loaded(source.compiled.path, source.compiled.weights, memory, inputs)

    def _loaded(
        self,
        path: str,
        weights: Optional[WeightsMemory],
        memory: Memory,
        inputs: Inputs,
        streams: int = 1,
    ) -> OpenVinoContext:
        fed = fed_inputs(read_model(self._core, path, weights), inputs)
        compiled = OpenVinoModel(self._core, path, fed, memory.options, weights, streams)
        return self._context(compiled, fed, memory)

    def _context(
        self,
        compiled: OpenVinoModel,
        fed: Sequence[InputData],
        memory: Memory,
    ) -> OpenVinoContext:
        turn = None
        if memory.internal is not None:
            turn = self._turns.setdefault(memory.internal, Turn())
        return OpenVinoContext(compiled, fed, memory, self._shared_arrays.of(memory.io), turn)


def open_runtime() -> Runtime:
    """Return the adapter; only the measured process may call this."""
    return OpenVino()


def _cpus() -> int:
    """Return the number of contexts of this process that can infer at once."""
    return len(os.sched_getaffinity(0))


def _unmap_large_blocks() -> None:
    """Have the C library return large blocks as soon as they are free, if it is glibc (mallopt).

    Otherwise it learns which sizes are freed often, and keeps those blocks in a heap of each
    thread. Internal tensors that one model released would then not be there for the next one.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def _check_memory(memory: Memory) -> None:
    """Raise NotSupported for requests that the runtime cannot serve; the schedule sees to cores."""
    if "native_output" in memory.zero_copy:
        raise NotSupported("no_native_output", runtime=_TITLE)
    if "internal" in memory.outside:
        raise NotSupported("openvino_no_allocator")
    if memory.allocator != "create_mem":
        raise NotSupported("openvino_any_memory", allocator=memory.allocator)
    if memory.device is not None:
        raise NotSupported("openvino_cpu_only", device=memory.device)
    if memory.device_io:
        raise NotSupported("openvino_cpu_device_io")


def _read_by_onnx(model: str) -> Tuple[Dict[Tuple[str, int], str], Dict[str, str]]:
    """Return the names of an ONNX file's sizes, by tensor and index, and its author's notes.

    OpenVINO keeps neither. Both are empty without the package onnx.
    """
    if not model.endswith(".onnx"):
        return {}, {}
    try:
        import onnx  # no model is measured in this process
    except ImportError:
        return {}, {}
    proto = onnx.load(model, load_external_data=False)
    names = {}
    for value in (*proto.graph.input, *proto.graph.output):
        for index, size in enumerate(value.type.tensor_type.shape.dim):
            names[value.name, index] = size.dim_param
    return names, {entry.key: entry.value for entry in proto.metadata_props}
