"""The adapter of ONNX Runtime, on the CPU or, if the wheel has that provider, on CUDA.

One inference uses one core (intra-op threads 1), as one context on an NPU core does. Results are
bit-equal between runs, and `Plan.cores` is the number of busy cores.

A dup is another session over the same mapped weights, and so is a session of another resolution
(prepared.py). Sessions that share internal memory allocate from one arena of the process, whatever
their number is. If several run at once, it grows by the needs of each.
"""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, List, Optional

import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidProtobuf

from reusebench.measured.runtimes.arrays import Arrays, ContextOfTensors, SharedArrays
from reusebench.measured.runtimes.base import (
    NO_INPUTS,
    AdapterError,
    Allocation,
    Inputs,
    Interface,
    Memory,
    NotSupported,
    Preparation,
    Runtime,
    RuntimeContext,
    check_host_memory,
)
from reusebench.measured.runtimes.onnxruntime.option_names import LEVEL
from reusebench.measured.runtimes.onnxruntime.options import (
    OnnxOptions,
    as_prepared,
    options_of,
    plain_options,
)
from reusebench.measured.runtimes.onnxruntime.prepared import GivenWeights, same_weights
from reusebench.measured.runtimes.onnxruntime.tensors import (
    OnnxTensors,
    declared,
    is_fed,
    open_tensors,
)

__all__ = ["OnnxContext", "OnnxRuntime", "open_runtime"]

#: Settings of the arena of contexts that share internal memory, unless their options say otherwise:
#: it grows by the requested size, not to the next power of two.
_ARENA = {"arena_extend_strategy": 1}
#: ONNX Runtime's sentences about models that it cannot load, with the code of our sentence; the
#: groups are its values.
_REFUSALS = (
    (
        "onnx_operator_too_old",
        re.compile(
            r"Could not find an implementation for (?P<operator>\w+)\((?P<given>[1-6])\) node"
        ),
    ),
    (
        "onnx_operator_missing",
        re.compile(r"error: (?P<operator>[\w.]+:\w+)\(-?\d+\) is not a registered function"),
    ),
    (
        "onnx_operator_missing",
        re.compile(r"(?:No Op registered|Could not find an implementation) for (?P<operator>\w+)"),
    ),
    ("onnx_weights_missing", re.compile(r"External data path does not exist: \"?(?P<path>[^\"]+)")),
    (
        "onnx_weights_missing",
        re.compile(r"cannot get file size: No such file or directory \[(?P<path>[^\]]+)"),
    ),
    (
        "onnx_too_new",
        re.compile(
            r"Unsupported model (?P<what>IR version): (?P<given>\d+), max .*: (?P<newest>\d+)"
        ),
    ),
    (
        "onnx_too_new",
        re.compile(
            r"(?P<what>Opset) (?P<given>\d+) is under development .* till opset (?P<newest>\d+)"
        ),
    ),
)
_CPU = "CPUExecutionProvider"
_CUDA = "CUDAExecutionProvider"


class OnnxContext(ContextOfTensors[OnnxTensors]):
    """A session with an input of its own."""

    def __init__(
        self,
        session: Any,
        model: str,
        memory: Memory,
        inputs: Inputs,
        shared: bool,
        weights: Optional[GivenWeights] = None,
        arrays: Optional[Arrays] = None,
    ) -> None:
        self.model = model
        self.inputs = inputs
        #: Whether the session's weights are a mapped file that a dup can map again.
        self.shared = shared
        self._memory = memory
        if arrays is None:
            arrays = {}
        self._tensors: Optional[OnnxTensors] = open_tensors(session, memory, inputs, arrays)
        #: Weights in the application's memory; they must live as long as the session.
        self._weights = weights

    @property
    def session(self) -> Any:
        """ONNX Runtime's session; None once destroyed."""
        return self._tensors.session if self._tensors else None

    def infer(self) -> None:
        """Run the session once."""
        assert self._tensors is not None
        self._tensors.run()

    def renew_io(self) -> None:
        """Bind new arrays."""
        self._tensors = open_tensors(self.session, self._memory, self.inputs, {})

    def allocations(self) -> List[Allocation]:
        """Return the weights and tensors that are in the application's memory."""
        allocations = super().allocations()
        if self._weights is None:
            return allocations
        return [Allocation("weights", self._weights.size_bytes, 0), *allocations]

    def destroy(self) -> None:
        """Drop the session, which ends with its last holder, and then the weights."""
        self._tensors = None
        self._weights = None


class OnnxRuntime(Runtime):
    """The imported ONNX Runtime."""

    version = ort.__version__

    def __init__(self) -> None:
        #: Settings of the process's arena; None as long as there is none.
        self._arena: Optional[Dict[str, int]] = None
        self._shared_arrays = SharedArrays()

    def prepare(
        self,
        model: str,
        digest: str,
        folder: str,
        alive: Callable[[], None],
        inputs: Inputs = NO_INPUTS,
    ) -> Preparation:
        """Save the optimised model and its weights."""
        # Imported only now: it adds nothing to processes that measure.
        from reusebench.measured.runtimes.onnxruntime.preparing import Runner, prepare

        def context_of(session: Any) -> OnnxContext:
            return OnnxContext(session, model, Memory(), inputs, shared=False)

        runner = Runner(_open_session, context_of, alive)
        return prepare(model, os.path.join(folder, digest), runner)

    def interface(self, model: str) -> Interface:
        """Return the tensors that the file declares, without optimising the graph, which takes
        time.
        """
        options = plain_options()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = _open_session(model, options)
        inputs = tuple(map(declared, session.get_inputs()))
        outputs = tuple(map(declared, session.get_outputs()))
        for tensor in inputs:
            if not is_fed(tensor):
                raise AdapterError("onnx_input_type", tensor=tensor.name, type=tensor.type)
        return Interface(inputs, outputs, dict(session.get_modelmeta().custom_metadata_map))

    def load(
        self,
        model: str,
        prepared: Optional[str],
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> OnnxContext:
        """Return a session of the model at full optimisation, or of the prepared model as it is."""
        _check_memory(memory)
        chosen = options_of(memory.options)
        options = self._session_options(chosen, memory)
        arrays = self._shared_arrays.of(memory.io)
        if prepared is None:
            session = _open_session(model, options, memory.device)
            return OnnxContext(session, model, memory, inputs, shared=False, arrays=arrays)

        for option in chosen.attributes:
            if option.startswith(f"{LEVEL}="):
                raise NotSupported("onnx_level_of_prepared", option=option)
        as_prepared(options)
        weights = None
        if "weights" in memory.outside:
            weights = GivenWeights(prepared)
            weights.give_to(options)
        session = _open_session(prepared, options, memory.device)
        return OnnxContext(session, prepared, memory, inputs, weights is None, weights, arrays)

    def dup(self, source: RuntimeContext, memory: Memory) -> OnnxContext:
        """Return another session that maps the weights of source."""
        assert isinstance(source, OnnxContext)
        if not source.shared:
            raise NotSupported("onnx_source_not_prepared")
        return self.load(source.model, source.model, memory, source.inputs)

    def share_weights(
        self,
        model: str,
        source: RuntimeContext,
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> OnnxContext:
        """Return a session of the prepared model, which maps the weights of source."""
        assert isinstance(source, OnnxContext)
        if not (source.shared and same_weights(model, source.model)):
            raise NotSupported("onnx_weights_differ")
        return self.load(model, model, memory, inputs)

    def shared_context(self, source: RuntimeContext, memory: Memory) -> OnnxContext:
        """Return a handle on the same session: run() may be called from several threads."""
        assert isinstance(source, OnnxContext)
        arrays = self._shared_arrays.of(memory.io)
        return OnnxContext(
            source.session,
            source.model,
            memory,
            source.inputs,
            source.shared,
            arrays=arrays,
        )

    def _session_options(self, chosen: OnnxOptions, memory: Memory) -> Any:
        """Return the options of a session.

        It has the process's arena if it shares internal memory, or has options of an arena.
        """
        options = plain_options()
        chosen.give_to(options)
        if memory.internal is None and not chosen.arena:
            return options
        arena = dict(chosen.arena)
        if memory.internal is not None:
            arena = {**_ARENA, **arena}
        if self._arena is None:
            cpu = ort.OrtMemoryInfo(
                "Cpu",
                ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR,
                0,
                ort.OrtMemType.DEFAULT,
            )
            ort.create_and_register_allocator(cpu, ort.OrtArenaCfg(arena))
            self._arena = arena
        elif arena != self._arena:
            raise NotSupported(
                "onnx_one_arena", given=_as_words(arena), others=_as_words(self._arena)
            )
        options.add_session_config_entry("session.use_env_allocators", "1")
        return options


def open_runtime() -> Runtime:
    """Return the adapter; only the measured process may call this."""
    return OnnxRuntime()


def _as_words(arena: Dict[str, int]) -> str:
    """Return settings of an arena as options."""
    return ", ".join(f"{name}={value}" for name, value in sorted(arena.items())) or "-"


def _check_memory(memory: Memory) -> None:
    """Raise NotSupported for requests that the runtime cannot serve; the schedule sees to cores."""
    check_host_memory(memory, "ONNX Runtime")
    if "internal" in memory.outside:
        raise NotSupported("onnx_no_allocator")
    if memory.allocator != "create_mem":
        raise NotSupported("onnx_any_memory", allocator=memory.allocator)
    if memory.device is not None and _CUDA not in ort.get_available_providers():
        raise NotSupported("onnx_no_cuda_provider")


def _open_session(model: str, options: Any, device: Optional[str] = None) -> Any:
    providers = [_CPU] if device is None else [_CUDA, _CPU]
    try:
        session = ort.InferenceSession(model, options, providers=providers)
    except InvalidProtobuf:
        raise AdapterError("onnx_model_unreadable", model=model) from None
    except Exception as error:
        for code, pattern in _REFUSALS:
            matched = pattern.search(str(error))
            if matched:
                values = matched.groupdict()
                raise AdapterError(code, model=model, version=ort.__version__, **values) from None
        raise
    if session.get_providers()[0] != providers[0]:
        raise NotSupported("onnx_cuda_does_not_start")
    return session
