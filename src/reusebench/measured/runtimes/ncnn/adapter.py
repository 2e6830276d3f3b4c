"""The adapter of ncnn, on the CPU, through its Python wheel.

A context is an extractor over a net; ncnn makes one for each inference. A dup, and another
resolution, are extractors over the net of their source: the net's weights, and its pools for
internal memory, serve all of them. Contexts that share internal memory, or are given theirs, have
an arena of the application (arena.py).

If contexts infer at once on several threads, the pools of their net keep internal memory for each.
"""

from __future__ import annotations

import filecmp
import os
from typing import List, Optional, Sequence, Tuple
from weakref import WeakValueDictionary

import ncnn

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
    OutOfMemory,
    Runtime,
    RuntimeContext,
    check_host_memory,
)
from reusebench.measured.runtimes.ncnn.arena import Allocator, Arena
from reusebench.measured.runtimes.ncnn.graph import Graph, read_graph, weights_of
from reusebench.measured.runtimes.ncnn.options import set_options
from reusebench.measured.runtimes.ncnn.tensors import (
    ArrayOutputs,
    NcnnInputTensors,
    NcnnOutputTensors,
)

__all__ = ["Ncnn", "NcnnContext", "open_runtime"]

#: Return value of extract() if a tensor could not be made (ncnn's layers).
_NO_MEMORY = -100


class _Net:
    """A loaded net, which goes with the last context that infers over it."""

    def __init__(self, model: str, options: Sequence[str]) -> None:
        self.model = model
        _checked_graph(model)
        weights = weights_of(model)
        self.net = ncnn.Net()
        set_options(self.net.opt, options)
        if self.net.load_param(model) != 0:
            raise AdapterError("ncnn_param_unreadable", model=model)
        if self.net.load_model(weights) != 0:
            raise AdapterError("ncnn_weights_unreadable", path=weights)
        #: Arena of the contexts that have outputs in place and no other arena: ncnn's pools cannot
        #: place any.
        self.arena: Optional[Arena] = None


class NcnnContext(RuntimeContext):
    """The inputs, outputs and internal memory of inferences over a net."""

    def __init__(
        self,
        net: _Net,
        graph: Graph,
        memory: Memory,
        inputs: Inputs,
        arena: Optional[Arena],
        shares_arena: bool,
        arrays: Arrays,
    ) -> None:
        self.inputs = inputs
        self.graph = graph
        self._output_names = graph.outputs
        self._net: Optional[_Net] = net
        self._memory = memory
        self._arena = arena
        #: Whether another context lists the arena.
        self._shares_arena = shares_arena
        self._allocator: Optional[Allocator] = None
        self._inputs: Optional[NcnnInputTensors] = None
        self._outputs: Optional[NcnnOutputTensors] = None
        self._open_tensors(arrays)

    @property
    def net(self) -> _Net:
        """The net that the context infers over."""
        assert self._net is not None
        return self._net

    def _open_tensors(self, arrays: Arrays) -> None:
        self._inputs = NcnnInputTensors(
            self.graph,
            self.inputs,
            arrays,
            "input" in self._memory.zero_copy,
        )
        self._outputs = NcnnOutputTensors()
        if self._arena is not None:
            in_place = "output" in self._memory.zero_copy
            self._allocator = Allocator(self._arena)
            self._outputs = ArrayOutputs(self._allocator, arrays if in_place else {}, in_place)

    def infer(self) -> None:
        """Run an extractor, which serves one inference."""
        assert self._inputs is not None
        assert self._outputs is not None
        self._outputs.drop()
        extractor = self.net.net.create_extractor()
        if self._allocator is not None:
            self._allocator.begin()
            extractor.set_blob_allocator(self._allocator)
            extractor.set_workspace_allocator(self._allocator)

        # If contexts share internal memory, one place in it serves the copies of all; otherwise
        # copies are in the heap.
        shares_internal = self._memory.internal is not None
        self._inputs.give_to(extractor, self._allocator if shares_internal else None)

        mats = {}
        for name in self._output_names:
            # Given a Mat, extract() does not copy.
            mats[name] = ncnn.Mat()
            code = extractor.extract(name, mats[name])
            if code == _NO_MEMORY:
                raise OutOfMemory("ncnn_out_of_memory", output=name)
            if code != 0:
                raise AdapterError("ncnn_extract_failed", output=name, code=code)
        self._outputs.keep(mats)

    def outputs(self) -> Sequence[memoryview]:
        """Return the outputs of the last inference."""
        return self._outputs.views() if self._outputs else []

    def image_input(self) -> ImageInput:
        """Return the application's array, which every inference copies or reads in place."""
        assert self._inputs is not None
        return self._inputs.image_input()

    def renew_io(self) -> None:
        """Use new arrays."""
        self._open_tensors({})

    def copies(self) -> Copies:
        """Return the bytes that the last inference copied."""
        if self._inputs is None or self._outputs is None:
            return Copies(0, 0)
        return Copies(self._inputs.copied_bytes, self._outputs.copied_bytes)

    def allocations(self) -> List[Allocation]:
        """Return the arena, if this context was the first to have it, and the tensors in place."""
        allocations = []
        if self._arena is not None and not self._shares_arena:
            allocations.append(Allocation("internal", self._arena.used_bytes, 0))
        for tensors in (self._inputs, self._outputs):
            if tensors:
                allocations += tensors.allocations()
        return allocations

    def destroy(self) -> None:
        """Drop the tensors, then the memory that they are in, then the net."""
        self._inputs = self._outputs = None
        self._allocator = None
        self._arena = None
        self._net = None


class Ncnn(Runtime):
    """The imported ncnn."""

    version = ncnn.__version__

    def __init__(self) -> None:
        #: Arenas by the number of a shared internal memory, as long as a context has one.
        self._arenas: WeakValueDictionary[int, Arena] = WeakValueDictionary()
        self._shared_arrays = SharedArrays()

    def interface(self, model: str) -> Interface:
        """Return the tensors that the file declares."""
        return _checked_graph(model).interface

    def load(
        self,
        model: str,
        prepared: Optional[str],
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> NcnnContext:
        """Return a context over a net of the file."""
        _check_memory(memory)
        return self._over(_Net(model, memory.options), read_graph(model), memory, inputs)

    def dup(self, source: RuntimeContext, memory: Memory) -> NcnnContext:
        """Return a context over the net of source."""
        assert isinstance(source, NcnnContext)
        _check_memory(memory)
        return self._over(source.net, source.graph, memory, source.inputs)

    def shared_context(self, source: RuntimeContext, memory: Memory) -> NcnnContext:
        """Return a dup: threads share the net, and each inference has its own extractor."""
        return self.dup(source, memory)

    def share_weights(
        self,
        model: str,
        source: RuntimeContext,
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> NcnnContext:
        """Return a context over the net of source, with inputs of the model's sizes."""
        assert isinstance(source, NcnnContext)
        _check_memory(memory)
        graph = read_graph(model)
        has_same_layers = graph.without_sizes() == source.graph.without_sizes()
        if not has_same_layers or not _have_same_weights(model, source.net.model):
            raise NotSupported("ncnn_networks_differ", model=model)
        return self._over(source.net, graph, memory, inputs)

    def _over(self, net: _Net, graph: Graph, memory: Memory, inputs: Inputs) -> NcnnContext:
        arena, shares_arena = self._arena_for(net, memory)
        arrays = self._shared_arrays.of(memory.io)
        return NcnnContext(net, graph, memory, inputs, arena, shares_arena, arrays)

    def _arena_for(self, net: _Net, memory: Memory) -> Tuple[Optional[Arena], bool]:
        """Return the arena of a context, if it has one, and whether another context has it too."""
        number = memory.internal
        if number is not None:
            arena = self._arenas.get(number)
            if arena is not None:
                return arena, True
            arena = self._arenas[number] = Arena()
            return arena, False

        if "internal" in memory.outside:
            return Arena(), False
        if "output" not in memory.zero_copy:
            return None, False
        if net.arena is not None:
            return net.arena, True
        net.arena = Arena()
        return net.arena, False


def open_runtime() -> Runtime:
    """Return the adapter; only the measured process may call this."""
    return Ncnn()


def _checked_graph(model: str) -> Graph:
    """Return the network of a file; raise AdapterError if ncnn cannot load it."""
    graph = read_graph(model)
    for layer in graph.layers:
        if ncnn.layer_to_index(layer.type) < 0:
            raise AdapterError(
                "ncnn_layer_missing",
                model=model,
                layer=layer.type,
                version=ncnn.__version__,
            )
    weights = weights_of(model)
    if not os.path.isfile(weights):
        raise AdapterError("ncnn_weights_missing", model=model, path=weights)
    return graph


def _have_same_weights(model: str, other: str) -> bool:
    return filecmp.cmp(weights_of(model), weights_of(other), shallow=False)


def _check_memory(memory: Memory) -> None:
    """Raise NotSupported for requests that the runtime cannot serve; the schedule sees to cores."""
    if "model" in memory.zero_copy or "weights" in memory.outside:
        raise NotSupported("ncnn_lays_weights_out")
    check_host_memory(memory, "ncnn")
    if memory.allocator != "create_mem":
        raise NotSupported("ncnn_any_memory", allocator=memory.allocator)
    if memory.device is not None or memory.device_io:
        raise NotSupported("ncnn_cpu_only")
