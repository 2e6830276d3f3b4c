"""What every runtime's adapter provides; runs in the measured process (standard library only,
Python 3.8).
"""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from reusebench.measured.messages import Message, Value

__all__ = [
    "BFLOAT16",
    "ELEMENT_TYPES",
    "NO_INPUTS",
    "TEXT",
    "AdapterError",
    "Allocation",
    "Copies",
    "DeclaredTensor",
    "ImageInput",
    "InputData",
    "Inputs",
    "Interface",
    "Memory",
    "NodeOrder",
    "NotSupported",
    "OutOfMemory",
    "Preparation",
    "Runtime",
    "RuntimeContext",
    "check_host_memory",
    "check_options",
    "input_pattern",
]

_PATTERN_BYTES = 65521
#: Of an output, and the formats of memoryviews that hold float32 and float64.
_SAMPLES = 32
_FLOATS = ("f", "d")

#: Types of elements that numpy has no name for (DeclaredTensor.type).
BFLOAT16 = "bfloat16"
TEXT = "str"
#: Those of tensors that arrays hold.
ELEMENT_TYPES = (
    "float32",
    "float64",
    "float16",
    BFLOAT16,
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    TEXT,
)


class AdapterError(Exception):
    """What an adapter, or a decoder, cannot do, and why: a code of `messages`, with the values of
    its text.
    """

    def __init__(self, code: str, /, **values: Value) -> None:
        super().__init__(code, values)
        self.message = Message(code, values)

    def __str__(self) -> str:
        return str(self.message)


class NotSupported(AdapterError):
    """The runtime has no such mechanism, or this model does not allow it."""


class OutOfMemory(AdapterError):
    """Memory that the runtime needs is not to be had."""


class DeclaredTensor(NamedTuple):
    """An input or output as the model's file declares it."""

    name: str
    #: Of its elements as numpy calls it, or "bfloat16", "str"; in the runtime's words what no array
    #: holds: "seq(...)".
    type: str
    #: A size that the file leaves free is a text: the name that it has there, or "" where it has
    #: none.
    dimensions: Tuple[Union[int, str], ...]
    #: "nhwc" where the runtime takes the channels last: an array in the order of ONNX, channels
    #: first, is turned.
    layout: str = ""
    #: Further types of elements that the runtime takes from the user's data.
    also: Tuple[str, ...] = ()

    @property
    def shape(self) -> Tuple[int, ...]:
        """The sizes that the file gives; raises NotSupported where it does not give them all."""
        sizes = tuple(size for size in self.dimensions if isinstance(size, int))
        if len(sizes) < len(self.dimensions):
            shape = "x".join(
                str(size) if isinstance(size, int) else "?" for size in self.dimensions
            )
            raise NotSupported("free_sizes", tensor=self.name, shape=shape)
        return sizes


class Interface(NamedTuple):
    """What a model takes and gives."""

    inputs: Tuple[DeclaredTensor, ...]
    outputs: Tuple[DeclaredTensor, ...]
    #: What the file's maker wrote into it.
    metadata: Dict[str, str]
    #: Of all inputs, in their order: the combinations of shapes that the file allows, the default
    #: first; empty: any.
    shapes: Tuple[Tuple[Tuple[int, ...], ...], ...] = ()


@dataclass(frozen=True)
class InputData:
    """What an input of a model is fed with, in every inference."""

    name: str
    #: As in DeclaredTensor.
    type: str
    shape: Tuple[int, ...]
    #: Of all elements; None: noise.
    value: Optional[int] = None
    #: A .npy file of its elements, in C order; None: they are `value` or noise.
    file: Optional[str] = None
    #: The dimensions whose sizes reusebench assumed: neither the file nor the user gives them.
    assumed: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Memory:
    """Who allocates a context's memory, how tensors get in and out, and where it runs."""

    #: The number of the internal memory that it shares with all contexts of this number; None: an
    #: own one.
    internal: Optional[int] = None
    #: What the application allocates for this context: "weights", "internal".
    outside: Tuple[str, ...] = ()
    #: That gives this memory: "create_mem", "dma_heap", "physical", "mmz".
    allocator: str = "create_mem"
    #: What is used in place and not copied: "input", "output", "native_output", "model"
    #: (scenarios.plan.ZERO_COPY).
    zero_copy: Tuple[str, ...] = ()
    #: The number of the memory of tensors that it shares with all contexts of this number; None: an
    #: own one.
    io: Optional[int] = None
    #: Whether input and output stay in the memory of the device that infers.
    device_io: bool = False
    #: "cuda"; None: the device that the runtime infers on by itself.
    device: Optional[str] = None
    #: The core that runs the context; None: the runtime chooses.
    core: Optional[int] = None
    #: The runtime's own options, NAME=VALUE each in its own words; one that it does not have is
    #: NotSupported.
    options: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Allocation:
    """Memory that the adapter allocated in the application's place."""

    #: "weights", "internal", "input" or "output".
    kind: str
    asked_bytes: int
    #: Inode of the backing dma-buf, which other sources name too; 0 if there is none.
    inode: int


@dataclass(frozen=True)
class Copies:
    """Bytes that one inference copies between the application's tensors and the runtime's."""

    input_bytes: int
    output_bytes: int


class ImageInput(NamedTuple):
    """The application's own memory of an input that is a picture, which it may write between
    inferences.
    """

    #: Writable, of single bytes; of the first picture where the input has several.
    memory: memoryview
    #: In pixels.
    width: int
    height: int
    #: 1 or 3.
    channels: int
    #: "nchw": one plane after the other; "nhwc": the channels of a pixel side by side.
    layout: str
    #: As numpy calls it: "float32", "uint8".
    type: str
    #: From one row to the next, of a plane or of the picture; larger than a row where the device
    #: needs it so.
    pitch_bytes: int


@dataclass(frozen=True)
class NodeOrder:
    """The order in which the nodes of a prepared model run, and the memory that inferences add."""

    #: Number of orders that were tried.
    tried: int = 0
    #: Memory that one context's inferences add in the order in which the runtime saved the nodes.
    saved_bytes: Optional[int] = None
    #: The same in the order that was chosen.
    chosen_bytes: Optional[int] = None
    #: Reason that no order was chosen; None if one was.
    reason: Optional[Message] = None


@dataclass(frozen=True)
class Preparation:
    """The file that a runtime prepared from a model, so that its weights can be shared or given."""

    path: str
    #: None if the runtime has no orders to choose from.
    node_order: Optional[NodeOrder] = None


#: By the name of the input.
Inputs = Mapping[str, InputData]
NO_INPUTS: Inputs = {}


class RuntimeContext(ABC):
    """One context of a runtime, with its own input; not for use from two threads at once."""

    @abstractmethod
    def infer(self) -> None:
        """Run one inference; the measurement times this call."""

    @abstractmethod
    def outputs(self) -> Sequence[memoryview]:
        """Return each output of the last inference, in the model's order, C-contiguous and without
        a copy.
        """

    def checksum(self) -> int:
        """Return the CRC-32 of all outputs, which zlib gives without OpenSSL in the measured
        process.
        """
        value = 0
        for output in self.outputs():
            value = zlib.crc32(output, value)
        return value

    def samples(self) -> List[List[Optional[float]]]:
        """Return some values of each output of floats, at even distances, by which runtimes are
        compared.

        None stands for one that is no finite number. Outputs of other elements have none: their
        scale is unknown here.
        """
        samples = []
        for output in self.outputs():
            values: List[Optional[float]] = []
            if output.format in _FLOATS and output.nbytes:
                elements = output.cast("B").cast("d" if output.format == "d" else "f")
                last = len(elements) - 1
                count = min(len(elements), _SAMPLES)
                for number in range(count):
                    value = elements[number * last // max(1, count - 1)]
                    values.append(float(f"{value:.7g}") if math.isfinite(value) else None)
            samples.append(values)
        return samples

    @abstractmethod
    def destroy(self) -> None:
        """Release everything that this context alone holds."""

    @abstractmethod
    def copies(self) -> Copies:
        """Return what the last inference copied: the size of each tensor, as often as it was
        copied.

        Known from what the runtime's calls do and, where that depends on its version, from what
        came back.
        """

    def image_input(self) -> ImageInput:
        """Return the memory of the first input that is a picture, from which the next inference
        reads.

        To be called after the first inference, since some runtimes make their tensors no sooner.
        Valid until destroy().
        """
        raise NotSupported("no_image_access", runtime=type(self).__name__)

    def renew_io(self) -> None:
        """Give back the memory of input and output that the application holds, and use new at the
        next inference.
        """
        raise NotSupported("no_io_memory", runtime=type(self).__name__)

    def account(self) -> Dict[str, int]:
        """Return the runtime's own account of this context's memory in bytes, by component; empty
        without one.
        """
        return {}

    def allocations(self) -> List[Allocation]:
        """Return what the adapter has allocated for this context as the application would."""
        return []


class Runtime(ABC):
    """An imported runtime."""

    #: As the runtime itself reports it.
    version: str
    #: Of the kernel driver under it, as far as it is known by now; None if there is none.
    driver_version: Optional[str] = None

    @abstractmethod
    def interface(self, model: str) -> Interface:
        """Return what the model file declares; nothing is run."""

    def prepare(
        self,
        model: str,
        digest: str,
        folder: str,
        alive: Callable[[], None],
        inputs: Inputs = NO_INPUTS,
    ) -> Optional[Preparation]:
        """Make what sharing or giving weights needs of a model beforehand, in a process of its own.

        It goes into the folder, which nobody else uses, under the model's digest. Where it takes
        many inferences, `alive` is called before each few of them. None when the runtime needs
        nothing.
        """
        return None

    @abstractmethod
    def load(
        self, model: str, prepared: Optional[str], memory: Memory, inputs: Inputs = NO_INPUTS
    ) -> RuntimeContext:
        """Return a context of the model file; of the prepared file where its weights are to be
        shared or given.

        It is fed with these inputs; one that is not named there has the shape that the file
        declares, and noise.
        """

    def dup(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Return a further context over the weights of source, with internal memory of its own and
        equal inputs.
        """
        raise NotSupported("no_dup", runtime=type(self).__name__)

    def share_weights(
        self, model: str, source: RuntimeContext, memory: Memory, inputs: Inputs = NO_INPUTS
    ) -> RuntimeContext:
        """Return a context of the model, another resolution of that of source, over the weights of
        source.

        `model` is the prepared file, or the one without weights, if there is one.
        """
        raise NotSupported("no_shared_weights", runtime=type(self).__name__)

    def share_weight_memory(
        self, model: str, source: RuntimeContext, memory: Memory, inputs: Inputs = NO_INPUTS
    ) -> RuntimeContext:
        """Return a further context of the model, with the memory that the application gave source
        for its weights.
        """
        raise NotSupported("no_weight_memory", runtime=type(self).__name__)

    def share_internal(self, contexts: Sequence[RuntimeContext]) -> None:
        """Give these contexts, which never run at the same time, one internal memory as large as
        the largest needs.

        A runtime whose contexts share it from the time when they are made has nothing to do here.
        """
        return

    def join_internal(self, context: RuntimeContext, member: RuntimeContext) -> None:
        """Let a further context, of the same model, use the internal memory that member was given
        by share_internal.
        """
        return

    def shared_context(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Return a handle that runs source itself from another thread, with an input of its own."""
        raise NotSupported("no_shared_context", runtime=type(self).__name__)


def check_options(memory: Memory, runtime: str, valid: Sequence[str]) -> None:
    """Raise NotSupported for an option that is none of these."""
    for option in memory.options:
        if option not in valid:
            raise NotSupported(
                "unknown_option", runtime=runtime, option=option, valid=", ".join(valid) or "none"
            )


def check_host_memory(memory: Memory, runtime: str) -> None:
    """Raise NotSupported for what a runtime on the CPU has nothing of."""
    if "native_output" in memory.zero_copy:
        raise NotSupported("no_native_output", runtime=runtime)
    if "model" in memory.zero_copy:
        raise NotSupported("no_model_in_place", runtime=runtime)


def input_pattern() -> bytes:
    """Return a fixed noise pattern, the same on every machine and Python; adapters repeat it to
    fill an input.

    Its length is a prime, so that rows and channels of no usual image size repeat alike. Made here
    by a linear congruential generator (constants of Numerical Recipes), since `random` would import
    hashlib and with it OpenSSL into the measured process.
    """
    state = 1
    pattern = bytearray(_PATTERN_BYTES)
    for position in range(_PATTERN_BYTES):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        pattern[position] = state >> 24
    return bytes(pattern)
