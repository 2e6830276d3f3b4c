"""ONNX Runtime on the CPU, the embedded default.

One inference uses one core (intra-op threads 1), as one context on an NPU core does, so results are
bit-equal between runs and `Plan.cores` says how many cores are busy.

A dup is a further session whose weights are the same mapped file. Sessions cannot share weights that they
rewrite while they optimise, so the optimised model is saved beforehand, with its weights beside it, and loaded
with optimisation off: the same graph, equal results, and one page-cache copy of the weights.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidProtobuf

from runtimes.base import Context, Memory, ModelUnreadable, NotSupported, Runtime, input_pattern

__all__ = ["OnnxRuntime", "open_runtime"]

_MODEL_FILE = "model.onnx"
_WEIGHTS_FILE = "weights.bin"
#: Smaller tensors stay inside model.onnx, where sharing them would not repay a page.
_EXTERNAL_FROM_BYTES = 1024
#: ONNX Runtime's severity scale (OrtLoggingLevel): 3 is error.
_LOG_ERRORS_ONLY = 3

_DTYPES: Dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}


class OnnxContext(Context):
    """A session with an input of its own."""

    def __init__(self, session: Any, model: str, shared: bool) -> None:
        self.model = model
        #: Whether the session's weights are a mapped file that a dup can map again.
        self.shared = shared
        self._session: Optional[Any] = session
        self._feed = {each.name: _make_input(each, model) for each in session.get_inputs()}
        self._outputs: List[Any] = []

    @property
    def session(self) -> Any:
        """The live ONNX Runtime session."""
        return self._session

    def infer(self) -> None:
        """Run the session once; it allocates its outputs, as an application that calls run() sees it."""
        self._outputs = self._session.run(None, self._feed)  # type: ignore[union-attr]

    def outputs(self) -> Sequence[memoryview]:
        """Return the arrays of the last run."""
        return [_as_buffer(output) for output in self._outputs]

    def destroy(self) -> None:
        """Drop the session; ONNX Runtime frees it with its last holder."""
        self._session = None
        self._feed = {}
        self._outputs = []


class OnnxRuntime(Runtime):
    """ONNX Runtime's CPU provider."""

    version = ort.__version__

    def prepare(self, model: str, digest: str, folder: str) -> str:
        """Save the optimised model and its weights, good for this version of ONNX Runtime and this CPU."""
        target = os.path.join(folder, digest)
        os.makedirs(target)
        _save_optimised(model, target)
        _flush_to_disk(target)
        return os.path.join(target, _MODEL_FILE)

    def load(self, model: str, prepared: Optional[str], memory: Memory) -> OnnxContext:
        """Return a session of the model at full optimisation, or of the prepared model as it is."""
        _check_memory(memory)
        options = _options()
        if prepared is None:
            return OnnxContext(_open_session(model, options), model, shared=False)
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        return OnnxContext(_open_session(prepared, options), prepared, shared=True)

    def dup(self, source: Context, memory: Memory) -> OnnxContext:
        """Return a further session that maps the weights which source maps."""
        _check_memory(memory)
        assert isinstance(source, OnnxContext)
        if not source.shared:
            raise NotSupported("ONNX Runtime shares weights only between sessions of a prepared model")
        return self.load(source.model, source.model, memory)

    def shared_context(self, source: Context) -> OnnxContext:
        """Return a handle on the same session: run() may be called from several threads."""
        assert isinstance(source, OnnxContext)
        return OnnxContext(source.session, source.model, source.shared)


def open_runtime() -> Runtime:
    """Return the adapter."""
    return OnnxRuntime()


def _check_memory(memory: Memory) -> None:
    """Refuse what this adapter does not do; the core is the schedule's concern alone."""
    if memory.shared_internal or memory.outside or memory.zero_copy:
        raise NotSupported("reusebench measures no shared or outside memory and no zero-copy I/O on ONNX Runtime yet")


def _options() -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _LOG_ERRORS_ONLY
    return options


def _open_session(model: str, options: Any) -> Any:
    try:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except InvalidProtobuf:
        raise ModelUnreadable(model, "an ONNX model") from None


def _save_optimised(model: str, folder: str) -> None:
    options = _options()
    options.optimized_model_filepath = os.path.join(folder, _MODEL_FILE)
    prefix = "session.optimized_model_external_initializers"
    options.add_session_config_entry(f"{prefix}_file_name", _WEIGHTS_FILE)
    options.add_session_config_entry(f"{prefix}_min_size_in_bytes", str(_EXTERNAL_FROM_BYTES))
    _open_session(model, options)


def _flush_to_disk(folder: str) -> None:
    """Have the files on disk before anything is measured: writing them back later would show in system memory."""
    for name in os.listdir(folder):
        descriptor = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def _make_input(tensor: Any, model: str) -> Any:
    """Return the fixed noise pattern as an array of the input's shape and type: floats in 0..1, indices 0 or 1."""
    dtype = _DTYPES.get(tensor.type)
    if dtype is None:
        raise NotSupported(f"input {tensor.name!r} of {model} is a {tensor.type}; valid: {', '.join(_DTYPES)}")
    values = np.empty(_fixed_shape(tensor, model), dtype)
    # Filled piece by piece: a temporary array of the input's size would count in the process's memory.
    flat, pattern = values.reshape(-1), _pattern_as(dtype)
    for start in range(0, flat.size, pattern.size):
        piece = flat[start : start + pattern.size]
        piece[:] = pattern[: piece.size]
    return values


@functools.lru_cache(maxsize=None)  # noqa: UP033  functools.cache needs Python 3.9
def _pattern_as(dtype: Any) -> Any:
    noise = np.frombuffer(input_pattern(), dtype=np.uint8)
    if np.issubdtype(dtype, np.floating):
        return (noise / np.float32(255)).astype(dtype)
    if dtype in (np.uint8, np.int8):
        return noise.view(dtype)
    return (noise & 1).astype(dtype)


def _fixed_shape(tensor: Any, model: str) -> List[int]:
    """Return the input's shape with a free batch size set to 1; a free size elsewhere is the user's to fix."""
    shape = [1 if position == 0 and not isinstance(size, int) else size for position, size in enumerate(tensor.shape)]
    free = [str(size) for size in shape if not isinstance(size, int)]
    if free:
        raise NotSupported(
            f"input {tensor.name!r} of {model} has free sizes ({', '.join(free)}); "
            "fix them first: python -m onnxruntime.tools.make_dynamic_shape_fixed --help"
        )
    return shape


def _as_buffer(output: Any) -> memoryview:
    if isinstance(output, np.ndarray) and output.dtype != object:
        return np.ascontiguousarray(output).data
    return memoryview(repr(output).encode())
