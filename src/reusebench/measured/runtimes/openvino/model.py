"""A compiled model with all contexts that infer with it: they share its weights, and the memory of
its streams.
"""

from __future__ import annotations

import mmap
import os
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import openvino as ov

from reusebench.measured.runtimes.base import AdapterError, InputData, NotSupported
from reusebench.measured.runtimes.openvino.tensors import OpenVinoTensors

__all__ = [
    "OPTIONS",
    "OpenVinoModel",
    "WeightsMemory",
    "read_model",
    "reshape",
    "same_weights",
    "weights_file",
]

_STREAMS = "NUM_STREAMS"
_THREADS = "INFERENCE_NUM_THREADS"
#: Arithmetic in float32, where newer CPUs would take bfloat16 or float16; and threads that the
#: system places, as those of the application: compiled models that know nothing of each other would
#: pin theirs to the same core.
_PROPERTIES: Dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False}
#: What an application may set of a compiled model, and the properties that change with it; None:
#: OpenVINO chooses.
OPTIONS: Dict[str, Dict[str, Any]] = {
    "INFERENCE_PRECISION_HINT=bf16": {"INFERENCE_PRECISION_HINT": "bf16"},
    "NUM_STREAMS=0": {_STREAMS: 0},
    "PERFORMANCE_HINT=THROUGHPUT": {
        "PERFORMANCE_HINT": "THROUGHPUT",
        _STREAMS: None,
        _THREADS: None,
    },
}
#: What OpenVINO says where it cannot read a model: the code of our sentence, whose fields are the
#: groups.
_REFUSALS = (
    (
        "openvino_operators_missing",
        re.compile(r"No conversion rule found for operations: (?P<operators>.+)"),
    ),
    ("openvino_conversion_failed", re.compile(r"Conversion is failed for: (?P<operators>.+)")),
    (
        "openvino_weights_missing",
        re.compile("(?:Empty weights data|Incorrect weights) in bin file"),
    ),
    (
        "openvino_model_unreadable",
        re.compile("Unable to read the model|can't be parsed|input_model.cpp"),
    ),
)
#: Where in the source an error was raised.
_PLACE = re.compile(r"Exception from |Check '.*' failed at |\w+ API failed with ")


class WeightsMemory:
    """The weights of a model in memory of the application, which OpenVINO uses in place and never
    writes.
    """

    def __init__(self, model: str, is_mapped: bool) -> None:
        """Map the file of the weights, or read it into memory."""
        path = weights_file(model)
        self._mapping: Optional[mmap.mmap] = None
        if is_mapped and os.path.getsize(path):
            with open(path, "rb") as file:
                # A tensor takes no memory that cannot be written; while nobody writes, the pages
                # are the file's.
                self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            self._array = np.frombuffer(self._mapping, np.uint8)
        else:
            self._array = np.fromfile(path, np.uint8)
        self.tensor = ov.Tensor(self._array, shared_memory=True)

    @property
    def own_bytes(self) -> int:
        """Size of what is not mapped."""
        return 0 if self._mapping else int(self._array.nbytes)

    def let_go(self) -> None:
        """Give back the pages of the mapping: compiled models have their own layout of nearly all
        weights.

        What is used again is read from the file again.
        """
        if self._mapping:
            self._mapping.madvise(mmap.MADV_DONTNEED)


class OpenVinoModel:
    """A compiled model, and the tensors of the contexts that infer with it."""

    def __init__(
        self,
        core: Any,
        path: str,
        fed: Sequence[InputData],
        options: Sequence[str],
        weights: Optional[WeightsMemory],
        streams: int,
    ) -> None:
        self.path = path
        self.weights = weights
        self._core = core
        self._options = options
        #: How many contexts can infer at once.
        self._streams = streams
        self._shapes = [list(tensor.shape) for tensor in fed]
        self._users: List[OpenVinoTensors] = []
        self._compiled: Any = None
        self._compile()

    @property
    def contexts(self) -> int:
        """How many contexts infer with it."""
        return len(self._users)

    def join(self, tensors: OpenVinoTensors) -> None:
        """Let a further context infer, with a request of its own."""
        tensors.open(self._compiled)
        self._users.append(tensors)

    def leave(self, tensors: OpenVinoTensors) -> None:
        """Drop a context's request; with the last one the compiled model, and then the memory of
        its weights.
        """
        self._users.remove(tensors)
        tensors.close()
        if not self._users:
            self._compiled = self.weights = None

    def run_at_once(self, count: int) -> None:
        """Have so many streams: each has internal memory of its own, and all have the weights of
        one.
        """
        if self._streams != count:
            self._streams = count
            self._compile()

    def allow(self, fed: Sequence[InputData], outputs: Sequence[Any]) -> None:
        """Take inputs of these shapes too, of which the outputs are to have those: sizes that
        differ become free.

        Raises NotSupported where the model does not make such outputs of them.
        """
        model = self._read()
        shapes = [list(tensor.shape) for tensor in fed]
        try:
            reshape(model, shapes, self.path)
        except AdapterError:
            raise NotSupported("openvino_weights_differ") from None
        if [port.get_partial_shape() for port in model.outputs] != list(outputs):
            raise NotSupported("openvino_weights_differ")
        free = []
        for known, shape in zip(self._shapes, shapes):
            free.append([size if size == other else -1 for size, other in zip(known, shape)])
        if free != self._shapes:
            self._shapes = free
            self._compile()

    def release_internal(self) -> None:
        """Give back internal tensors; the next inference allocates them again."""
        self._compiled.release_memory()

    def _read(self) -> Any:
        return read_model(self._core, self.path, self.weights)

    def _compile(self) -> None:
        """Compile the model, which is dropped then: a compiled model keeps what it needs of it."""
        model = self._read()
        for user in self._users:
            user.close()
        self._compiled = None
        reshape(model, self._shapes, self.path)
        try:
            self._compiled = self._core.compile_model(model, "CPU", self._properties())
        except RuntimeError as error:
            raise _refusal(error, self.path) from None
        for user in self._users:
            user.open(self._compiled)

    def _properties(self) -> Dict[str, Any]:
        properties = {**_PROPERTIES, _STREAMS: self._streams, _THREADS: self._streams}
        for option in self._options:
            properties.update(OPTIONS[option])
        return {name: value for name, value in properties.items() if value is not None}


def read_model(core: Any, path: str, weights: Optional[WeightsMemory] = None) -> Any:
    """Return a model as its file has it, whose weights are in the application's memory if that is
    given.
    """
    try:
        if weights is None:
            return core.read_model(path)
        with open(path, encoding="utf-8") as file:
            return core.read_model(file.read(), weights.tensor)
    except RuntimeError as error:
        raise _refusal(error, path) from None


def weights_file(model: str) -> str:
    """Return the path of the file with the weights of a model."""
    return f"{os.path.splitext(model)[0]}.bin"


def same_weights(*models: str) -> bool:
    """Whether two prepared models have one file of weights."""
    files = [weights_file(model) for model in models]
    return all(map(os.path.exists, files)) and os.path.samefile(*files)


def reshape(model: Any, shapes: Sequence[Sequence[int]], path: str) -> None:
    """Give the inputs of a model of this file these shapes, -1 being a free size; what it has
    already is left alone.
    """
    wanted: Dict[int, Tuple[Any, ...]] = {}
    for number, (port, shape) in enumerate(zip(model.inputs, shapes)):
        if port.get_partial_shape() != ov.PartialShape(shape):
            wanted[number] = ov.PartialShape(shape)
    try:
        if wanted:
            model.reshape(wanted)
    except RuntimeError as error:
        raise _refusal(error, path) from None


def _refusal(error: RuntimeError, model: str) -> Exception:
    """Return what to raise of an error of OpenVINO's: the first of our sentences that fits, or its
    own words.
    """
    text = str(error)
    for code, pattern in _REFUSALS:
        matched = pattern.search(text)
        if matched:
            return AdapterError(code, model=model, **matched.groupdict())
    words = [line.strip() for line in text.splitlines() if line.strip() and not _PLACE.match(line)]
    return AdapterError("openvino_load_failed", model=model, error=" ".join(words) or text)
