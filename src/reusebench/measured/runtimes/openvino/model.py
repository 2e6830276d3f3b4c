"""A compiled model with all contexts that infer with it; they share its weights and its streams."""

from __future__ import annotations

import mmap
import os
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import openvino as ov

from reusebench.measured.runtimes.base import AdapterError, InputData, NotSupported
from reusebench.measured.runtimes.openvino.tensors import OpenVinoTensors
from reusebench.measured.runtimes.option_words import refused, split, unknown

__all__ = [
    "OpenVinoModel",
    "WeightsMemory",
    "read_model",
    "reshape",
    "same_weights",
    "weights_file",
]

_STREAMS = "NUM_STREAMS"
_THREADS = "INFERENCE_NUM_THREADS"
#: Properties of every compiled model. float32, because newer CPUs would compute in bfloat16 or
#: float16. No pinned threads, because compiled models know nothing of each other and would pin
#: theirs to the same core.
_PROPERTIES: Dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False}
#: Properties that OpenVINO chooses by itself if the user gives a hint.
_HINT = "PERFORMANCE_HINT"
_HINTED = (_STREAMS, _THREADS)
#: Properties by which OpenVINO writes files.
_WRITES = ("CACHE_DIR",)
_TITLE = "OpenVINO"
#: OpenVINO's sentences about properties.
_NO_PROPERTY = re.compile(r"Unsupported property (?P<name>\S+) by")
_NO_VALUE = re.compile("(?:Wrong value|Could not|Invalid|Incorrect).*")
#: OpenVINO's sentences about models that it cannot read, with the code of our sentence; the groups
#: are its values.
_REFUSALS = (
    (
        "openvino_operators_missing",
        re.compile(r"No conversion rule found for operations: (?P<operators>.+)"),
    ),
    (
        "openvino_operators_missing",
        re.compile(r"Cannot create (?P<operators>\w+ layer .+ from unsupported opset: \S+)"),
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
#: Beginning of a line that names a place in OpenVINO's sources.
_PLACE = re.compile(r"Exception from |Check '.*' failed at |\w+ API failed with ")


class WeightsMemory:
    """The weights of a model in the application's memory; OpenVINO reads them in place."""

    def __init__(self, model: str, is_mapped: bool) -> None:
        """Map the file of the weights, or read it into memory."""
        path = weights_file(model)
        self._mapping: Optional[mmap.mmap] = None
        if is_mapped and os.path.getsize(path):
            with open(path, "rb") as file:
                # A tensor only takes writable memory; as long as nobody writes, the pages are the
                # file's.
                self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            self._array = np.frombuffer(self._mapping, np.uint8)
        else:
            self._array = np.fromfile(path, np.uint8)
        self.tensor = ov.Tensor(self._array, shared_memory=True)

    @property
    def own_bytes(self) -> int:
        """Size of the weights if they are not mapped; otherwise 0."""
        return 0 if self._mapping else int(self._array.nbytes)

    def let_go(self) -> None:
        """Release the pages of the mapping, because compiled models copy nearly all weights.

        Pages that are used again are read from the file again.
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
        #: Number of contexts that can infer at once.
        self._streams = streams
        self._shapes = [list(tensor.shape) for tensor in fed]
        self._users: List[OpenVinoTensors] = []
        self._compiled: Any = None
        self._compile()

    @property
    def contexts(self) -> int:
        """Number of contexts that infer with the model."""
        return len(self._users)

    def join(self, tensors: OpenVinoTensors) -> None:
        """Add a context, with a request of its own."""
        tensors.open(self._compiled)
        self._users.append(tensors)

    def leave(self, tensors: OpenVinoTensors) -> None:
        """Drop a context's request; the compiled model and its weights go with the last one."""
        self._users.remove(tensors)
        tensors.close()
        if not self._users:
            self._compiled = self.weights = None

    def run_at_once(self, count: int) -> None:
        """Have `count` streams: each has internal memory of its own, and they share the weights."""
        if self._streams != count:
            self._streams = count
            self._compile()

    def allow(self, fed: Sequence[InputData], outputs: Sequence[Any]) -> None:
        """Also accept inputs of these shapes, and leave the sizes free in which shapes differ.

        Raises NotSupported if the outputs would not have the shapes in `outputs`.
        """
        model = self._read()
        shapes = [list(tensor.shape) for tensor in fed]
        try:
            reshape(model, shapes, self.path)
        except AdapterError:
            raise NotSupported("openvino_weights_differ") from None
        if [port.get_partial_shape() for port in model.outputs] != list(outputs):
            raise NotSupported("openvino_weights_differ")
        accepted = [_common_sizes(*pair) for pair in zip(self._shapes, shapes)]
        if accepted != self._shapes:
            self._shapes = accepted
            self._compile()

    def release_internal(self) -> None:
        """Release internal tensors; the next inference allocates them again."""
        self._compiled.release_memory()

    def _read(self) -> Any:
        return read_model(self._core, self.path, self.weights)

    def _compile(self) -> None:
        """Compile the model and drop its source, which a compiled model does not need."""
        model = self._read()
        for user in self._users:
            user.close()
        self._compiled = None
        reshape(model, self._shapes, self.path)
        try:
            self._compiled = self._core.compile_model(model, "CPU", self._properties())
        except RuntimeError as error:
            raise self._option_refusal(error) or _refusal(error, self.path) from None
        for user in self._users:
            user.open(self._compiled)

    def _properties(self) -> Dict[str, Any]:
        """Return our properties with the user's, which OpenVINO reads from their words."""
        chosen = dict(split(option) for option in self._options)
        for option in self._options:
            if split(option)[0] in _WRITES:
                raise NotSupported("option_writes", runtime=_TITLE, option=option)
        properties = {**_PROPERTIES, _STREAMS: self._streams, _THREADS: self._streams}
        if _HINT in chosen:
            for name in _HINTED:
                del properties[name]
        return {**properties, **chosen}

    def _option_refusal(self, error: RuntimeError) -> Optional[NotSupported]:
        """Return the error for the option that OpenVINO's sentence names; None if it names none."""
        text = str(error)
        for option in self._options:
            name, value = split(option)
            missing = _NO_PROPERTY.search(text)
            if missing and missing["name"] == name:
                return unknown(_TITLE, option, self._writable())
            words = _NO_VALUE.search(text)
            # Some sentences have the first word of the value alone.
            if words and (name in text or value.partition(" ")[0] in words[0]):
                return refused(_TITLE, option, words[0])
        return None

    def _writable(self) -> List[str]:
        """Return the names of the properties that an application may set."""
        supported = self._core.get_property("CPU", "SUPPORTED_PROPERTIES")
        return sorted(str(name) for name, access in supported.items() if "W" in str(access))


def read_model(core: Any, path: str, weights: Optional[WeightsMemory] = None) -> Any:
    """Return a model as its file has it, over the weights in the application's memory, if given."""
    try:
        if weights is None:
            return core.read_model(path)
        with open(path, encoding="utf-8") as file:
            return core.read_model(file.read(), weights.tensor)
    except RuntimeError as error:
        raise _refusal(error, path) from None


def weights_file(model: str) -> str:
    """Return the path of a model's weights file."""
    return f"{os.path.splitext(model)[0]}.bin"


def same_weights(*models: str) -> bool:
    """Whether two prepared models have the same weights file."""
    files = [weights_file(model) for model in models]
    return all(map(os.path.exists, files)) and os.path.samefile(*files)


def reshape(model: Any, shapes: Sequence[Sequence[int]], path: str) -> None:
    """Give the inputs of a model these shapes, -1 for a free size, unless it has them already."""
    wanted: Dict[int, Tuple[Any, ...]] = {}
    for number, (port, shape) in enumerate(zip(model.inputs, shapes)):
        if port.get_partial_shape() != ov.PartialShape(shape):
            wanted[number] = ov.PartialShape(shape)
    try:
        if wanted:
            model.reshape(wanted)
    except RuntimeError as error:
        raise _refusal(error, path) from None


def _common_sizes(shape: Sequence[int], other: Sequence[int]) -> List[int]:
    """Return the sizes that two shapes have in common, and -1 for the others."""
    sizes = []
    for size, other_size in zip(shape, other):
        sizes.append(size if size == other_size else -1)
    return sizes


def _refusal(error: RuntimeError, model: str) -> Exception:
    """Return the exception for an error of OpenVINO's: one of our sentences, or its own words."""
    text = str(error)
    for code, pattern in _REFUSALS:
        matched = pattern.search(text)
        if matched:
            return AdapterError(code, model=model, **matched.groupdict())
    words = []
    for line in text.splitlines():
        if not _PLACE.match(line):
            words.append(line.strip())
    error_text = " ".join(filter(None, words)) or text
    return AdapterError("openvino_load_failed", model=model, error=error_text)
