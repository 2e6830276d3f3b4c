"""The interface of every runtime's adapter: RuntimeContext and Runtime, and the data they exchange.

Runs in the measured process: standard library only, Python 3.8. An adapter is a module with a
function `open_runtime() -> Runtime`. tests/measured/runtimes/example/adapter.py is a complete one,
and tests/measured/runtimes/contract.py is what every adapter has to do.
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
    "Conversation",
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
    "Placement",
    "Preparation",
    "Runtime",
    "RuntimeContext",
    "Turn",
    "check_host_memory",
    "check_options",
    "data_for",
    "input_pattern",
]

#: Length of input_pattern(): a prime, so that rows and channels of no usual size repeat alike.
_PATTERN_BYTES = 65521
#: Number of values that RuntimeContext.samples() returns of an output.
_SAMPLES = 32
#: Formats of the memoryviews that hold float32 and float64.
_FLOATS = ("f", "d")

#: Types of elements that numpy has no name for (DeclaredTensor.type).
BFLOAT16 = "bfloat16"
TEXT = "str"
#: Types of elements that arrays hold.
ELEMENT_TYPES = (
    "float32",
    "float64",
    "float16",
    BFLOAT16,
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    TEXT,
)


class AdapterError(Exception):
    """A failure of an adapter or a decoder, as a code of `messages` with the values of its text.

    Example::

        raise AdapterError("ncnn_weights_missing", model="net.param", path="net.bin")

    The text of the code is in measured/messages/en.json and zh-CN.json, with a field per value.
    """

    def __init__(self, code: str, /, **values: Value) -> None:
        super().__init__(code, values)
        self.message = Message(code, values)

    def __str__(self) -> str:
        return str(self.message)


class NotSupported(AdapterError):
    """A mechanism that the runtime does not have, or that this model does not allow."""


class OutOfMemory(AdapterError):
    """A failed allocation: the runtime needs more memory than there is."""


class DeclaredTensor(NamedTuple):
    """An input or output as the model's file declares it."""

    name: str
    #: Type of its elements: one of ELEMENT_TYPES; the runtime's own name if no array can hold them,
    #: such as "seq(tensor(float))"; "" if the file does not tell.
    type: str
    #: Its sizes. A size that the file leaves free is a text: its name in the file, or "".
    dimensions: Tuple[Union[int, str], ...]
    #: "nhwc" if the runtime takes the channels last; arrays with the channels first are transposed.
    layout: str = ""
    #: Additional types of elements that the runtime accepts from the user's data.
    also: Tuple[str, ...] = ()

    @property
    def shape(self) -> Tuple[int, ...]:
        """All of its sizes; raises NotSupported if the file leaves one free."""
        sizes = tuple(size for size in self.dimensions if isinstance(size, int))
        if len(sizes) < len(self.dimensions):
            texts = ["?" if isinstance(size, str) else str(size) for size in self.dimensions]
            shape = "x".join(texts)
            raise NotSupported("free_sizes", tensor=self.name, shape=shape)
        return sizes


class Interface(NamedTuple):
    """The inputs and outputs of a model, in the model's order."""

    inputs: Tuple[DeclaredTensor, ...]
    outputs: Tuple[DeclaredTensor, ...]
    #: Notes of the file's author, by their names in the file.
    metadata: Dict[str, str]
    #: Allowed combinations of input shapes, the default first; each has a shape per input. Empty if
    #: the file allows any.
    shapes: Tuple[Tuple[Tuple[int, ...], ...], ...] = ()


@dataclass(frozen=True)
class InputData:
    """The data that one input of a model is fed with, in every inference."""

    name: str
    #: Type of its elements, as in DeclaredTensor.
    type: str
    shape: Tuple[int, ...]
    #: Value of all elements; None means noise.
    value: Optional[int] = None
    #: A .npy file of the elements, in C order; None if they are `value` or noise.
    file: Optional[str] = None
    #: Dimensions whose sizes reusebench assumed, because neither file nor user gives them.
    assumed: Tuple[int, ...] = ()
    #: Those of them whose meaning is a guess, too: no name in the file tells what they count.
    doubtful: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Conversation:
    """The conversation of each context of a language model: one inference is one turn of it.

    A turn begins with an empty context: it computes the prompt, then generates greedily.
    """

    #: Tokens that there is room for.
    tokens: int
    #: Tokens of the prompt.
    prompt: int
    #: Tokens that are generated after it.
    generated: int
    #: Tokens at the beginning of the prompt that mechanisms may share or restore.
    common: int = 0


class Turn(NamedTuple):
    """The timing of one turn of a conversation."""

    #: Tokens of the prompt that were computed; those shared or restored are not among them.
    prompt_tokens: int
    #: Time from the beginning of the turn until the first token was generated, in nanoseconds.
    first_token_ns: int
    #: Number of tokens that were generated, including the first.
    generated_tokens: int
    #: Time to generate the tokens after the first, in nanoseconds, without the wait for prompts of
    #: conversations that are computed together.
    generation_ns: int


@dataclass(frozen=True)
class Memory:
    """The memory of a context: who allocates it, how tensors move, and which device infers."""

    #: Number of the internal memory that the context shares with all others of this number; None if
    #: it has its own.
    internal: Optional[int] = None
    #: Memory that the application allocates for this context: "weights", "internal".
    outside: Tuple[str, ...] = ()
    #: Source of that memory: "create_mem", "dma_heap", "physical", "mmz".
    allocator: str = "create_mem"
    #: Data that is used in place and not copied: "input", "output", "native_output", "model"
    #: (measured.plan.ZERO_COPY).
    zero_copy: Tuple[str, ...] = ()
    #: Number of the memory for tensors that the context shares with all others of this number; None
    #: if it has its own.
    io: Optional[int] = None
    #: Whether input and output stay in the memory of the device that infers.
    device_io: bool = False
    #: "cuda"; None for the device that the runtime infers on by default.
    device: Optional[str] = None
    #: Number of the core that runs the context; None if the runtime chooses.
    core: Optional[int] = None
    #: The runtime's own options, NAME=VALUE each; an unknown one is NotSupported.
    options: Tuple[str, ...] = ()
    #: Language models only.
    conversation: Optional[Conversation] = None
    #: Number of conversations that the context holds: its own, and those of sequences over it.
    sequences: int = 1
    #: Whether they share one cache, of which each takes the tokens that it needs; False: each has a
    #: part of its own.
    unified_cache: bool = False
    #: Number of those sequences that share the common tokens of its prompt.
    shared_prompts: int = 0


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


@dataclass(frozen=True)
class Placement:
    """The operators of a model that an accelerator runs, and those that stay on the CPU."""

    #: Number of operators on the accelerator, by the operator's name.
    npu: Dict[str, int]
    #: Number of operators on the CPU, by the operator's name.
    cpu: Dict[str, int]
    #: Number of connected parts of the model that the accelerator runs as one.
    partitions: int
    #: Size of the tensors between these parts and operators on the CPU; the model's own inputs and
    #: outputs do not count.
    crossing_bytes: int


class ImageInput(NamedTuple):
    """The application's memory of an input that is a picture, writable between inferences."""

    #: Writable bytes of the picture; of the first one if the input is a batch.
    memory: memoryview
    #: Width in pixels.
    width: int
    #: Height in pixels.
    height: int
    #: 1 or 3.
    channels: int
    #: "nchw" if one plane follows the other, "nhwc" if the channels of a pixel are side by side.
    layout: str
    #: Type of the elements, as numpy calls it: "float32", "uint8".
    type: str
    #: Distance from one row to the next in a plane or picture; more than a row if the device needs
    #: padding.
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


#: Data of a model's inputs, by the name of the input; an input that is missing gets noise.
Inputs = Mapping[str, InputData]
NO_INPUTS: Inputs = {}


class RuntimeContext(ABC):
    """One context of a runtime: a model that is ready to infer, with an input of its own.

    The driver uses a context from one thread at a time. Example::

        context = runtime.load("model.onnx", None, Memory())
        context.infer()
        (logits,) = context.outputs()  # 100 floats: logits.nbytes == 400, logits.format == "f"
        context.destroy()
    """

    @abstractmethod
    def infer(self) -> None:
        """Run one inference on the context's input; the measurement times this call.

        Raises OutOfMemory if an allocation fails, and AdapterError, or the runtime's own exception,
        if the inference does. Nothing but the inference belongs here: what is made once is made by
        load(), or in the first call if the runtime cannot do it sooner.
        """

    @abstractmethod
    def outputs(self) -> Sequence[memoryview]:
        """Return the outputs of the last inference, in the model's order.

        Each is C-contiguous, in the elements' own format if memoryview has one ("f" for float32),
        and is no copy. They stay valid until the next inference. Called after an inference; empty
        after destroy().
        """

    def checksum(self) -> int:
        """Return the CRC-32 of all outputs of the last inference.

        CRC-32 comes from zlib; hashlib would load OpenSSL into the measured process.
        """
        value = 0
        for output in self.outputs():
            value = zlib.crc32(output, value)
        return value

    def samples(self) -> List[List[Optional[float]]]:
        """Return up to 32 values of each output, at even distances, to compare runtimes by.

        None stands for a value that is not finite. An output whose elements are no floats has no
        values, because their scale is unknown here.
        """
        return [_samples_of(output) for output in self.outputs()]

    @abstractmethod
    def destroy(self) -> None:
        """Release everything that this context alone holds.

        Contexts may be destroyed in any order. Those that remain must keep working, also if they
        reuse the weights or the internal memory of this one.
        """

    @abstractmethod
    def copies(self) -> Copies:
        """Return the bytes that the last inference copied between application and runtime.

        Each tensor counts its size once per copy: 0 if the runtime used it in place. Take the
        figures from what the runtime's calls are known to do; if that depends on its version, look
        at what came back.
        """

    def placement(self) -> Optional[Placement]:
        """Return the devices of the operators; called after the first inference.

        None if one device runs the whole model, or if the runtime does not tell.
        """
        return None

    def image_input(self) -> ImageInput:
        """Return the memory of the first input that is a picture; the next inference reads it.

        Called after the first inference, because some runtimes make their tensors only then. Valid
        until destroy() or renew_io(). Raises NotSupported if no input is a picture, 1x3xHxW or
        1xHxWx3 with 1 or 3 channels.
        """
        raise NotSupported("no_image_access", runtime=type(self).__name__)

    def turn(self) -> Optional[Turn]:
        """Return the timing of the last inference of a language model; None of any other."""
        return None

    def renew_io(self) -> None:
        """Release the application's memory of inputs and outputs; the next inference uses new."""
        raise NotSupported("no_io_memory", runtime=type(self).__name__)

    def account(self) -> Dict[str, int]:
        """Return the runtime's own account of this context's memory, in bytes by component.

        Empty if the runtime gives none.
        """
        return {}

    def allocations(self) -> List[Allocation]:
        """Return the memory that the adapter allocated for this context in the application's place.

        That is what Memory asks for: weights and internal memory `outside`, and tensors in place.
        Memory that contexts share is listed by the first of them alone. Example, for a context with
        an input of 1x3x64x64 floats in place::

            [Allocation("input", 49152, 0)]
        """
        return []


class Runtime(ABC):
    """An imported runtime, which makes contexts.

    An adapter implements interface() and load(), and each mechanism that the runtime has. The
    others keep the implementation here, which raises NotSupported. Every method that makes a
    context has to refuse what it cannot do of `memory`, also with NotSupported: a figure of a
    context that was made otherwise than asked for would be wrong.
    """

    #: Version, as the runtime itself reports it.
    version: str
    #: Version of the kernel driver under the runtime; None if there is none, or as long as it is
    #: unknown.
    driver_version: Optional[str] = None

    @abstractmethod
    def interface(self, model: str) -> Interface:
        """Return the inputs and outputs that the model file declares; nothing is inferred.

        Raises AdapterError, with the file's name, if it is no model of this runtime.
        """

    def prepare(
        self,
        model: str,
        digest: str,
        folder: str,
        alive: Callable[[], None],
        inputs: Inputs = NO_INPUTS,
    ) -> Optional[Preparation]:
        """Write the form of a model whose weights can be shared or given; runs in its own process.

        It goes into a folder of its own, named by the model's digest, in `folder`. If preparing
        takes many inferences, call `alive` before each few of them. Returns None if the runtime can
        use the model as it is.
        """
        return None

    @abstractmethod
    def load(
        self,
        model: str,
        prepared: Optional[str],
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> RuntimeContext:
        """Return a context of a model file.

        `prepared` is the file that prepare() wrote, or None if this context's weights are neither
        shared nor given. An input that `inputs` does not name has the shape that the file declares,
        filled with the noise of input_pattern(). Raises AdapterError, with the file's name, if the
        file is no model of this runtime.
        """

    def dup(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Return another context over the weights of source, with equal inputs.

        Its internal memory is its own, unless `memory` says otherwise.
        """
        raise NotSupported("no_dup", runtime=type(self).__name__)

    def share_weights(
        self,
        model: str,
        source: RuntimeContext,
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> RuntimeContext:
        """Return a context of `model`, over the weights of source.

        `model` is the network of source at another resolution: its prepared file, or its file
        without weights, if there is one. Raises NotSupported if it is another network.
        """
        raise NotSupported("no_shared_weights", runtime=type(self).__name__)

    def share_weight_memory(
        self,
        model: str,
        source: RuntimeContext,
        memory: Memory,
        inputs: Inputs = NO_INPUTS,
    ) -> RuntimeContext:
        """Return another context of the model of source, over the same weight memory.

        The application allocated that memory for source (Memory.outside has "weights").
        """
        raise NotSupported("no_weight_memory", runtime=type(self).__name__)

    def share_internal(self, contexts: Sequence[RuntimeContext]) -> None:
        """Give these contexts one internal memory, as large as the largest one needs.

        They never infer at the same time. Nothing is left to do here for a runtime whose contexts
        share it from the moment they are made, by Memory.internal.
        """
        return

    def join_internal(self, context: RuntimeContext, member: RuntimeContext) -> None:
        """Give one more context the internal memory that share_internal() gave to `member`.

        Both are contexts of the same model.
        """
        return

    def shared_context(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Return a handle that runs source itself from another thread, with an input of its own."""
        raise NotSupported("no_shared_context", runtime=type(self).__name__)

    # Language models

    def sequence(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Return another conversation in the context of source (Memory.sequences)."""
        raise NotSupported("no_sequences", runtime=type(self).__name__)

    def shared_prompt(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Return another conversation in the context of source, whose prompt begins with the same
        Conversation.common tokens: they are computed and kept once.
        """
        raise NotSupported("no_shared_prompt", runtime=type(self).__name__)

    def restored_prompt(self, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Return another context over the weights of source, which begins each turn with the saved
        state of the first Conversation.common tokens, computed by source.
        """
        raise NotSupported("no_restored_prompt", runtime=type(self).__name__)

    def adapter(self, model: str, source: RuntimeContext, memory: Memory) -> RuntimeContext:
        """Return another context over the weights of source, with the adapter (LoRA) of the file
        `model`.
        """
        raise NotSupported("no_adapters", runtime=type(self).__name__)

    def infer_together(self, contexts: Sequence[RuntimeContext]) -> None:
        """Run one inference of each, as one where the runtime can.

        They are a context and the sequences over it. Each gets a timing of its own
        (RuntimeContext.turn).
        """
        for context in contexts:
            context.infer()

    def estimate(self, model: str, memory: Memory) -> Dict[str, int]:
        """Return the account() of a context of this model without allocating its memory."""
        raise NotSupported("no_estimate", runtime=type(self).__name__)


def _samples_of(output: memoryview) -> List[Optional[float]]:
    """Return the samples of one output, rounded to the seven digits of a float32."""
    if output.format not in _FLOATS or not output.nbytes:
        return []
    elements = output.cast("B").cast("d" if output.format == "d" else "f")
    last = len(elements) - 1
    count = min(len(elements), _SAMPLES)
    samples: List[Optional[float]] = []
    for number in range(count):
        value = elements[number * last // max(1, count - 1)]
        samples.append(float(f"{value:.7g}") if math.isfinite(value) else None)
    return samples


def data_for(tensor: DeclaredTensor, inputs: Inputs) -> InputData:
    """Return the data of an input: those in `inputs`, or noise of the declared shape.

    Raises NotSupported if there are none and the file leaves a size free.
    """
    data = inputs.get(tensor.name)
    return data or InputData(tensor.name, tensor.type, tensor.shape)


def check_options(memory: Memory, runtime: str, valid: Sequence[str]) -> None:
    """Raise NotSupported for an option that is not in `valid`."""
    for option in memory.options:
        if option not in valid:
            raise NotSupported(
                "unknown_option",
                runtime=runtime,
                option=option,
                valid=", ".join(valid) or "none",
            )


def check_host_memory(memory: Memory, runtime: str) -> None:
    """Raise NotSupported for features that a runtime on the CPU does not have."""
    if "native_output" in memory.zero_copy:
        raise NotSupported("no_native_output", runtime=runtime)
    if "model" in memory.zero_copy:
        raise NotSupported("no_model_in_place", runtime=runtime)


def input_pattern() -> bytes:
    """Return noise that is the same on every machine and Python; adapters repeat it in an input.

    The generator is linear congruential, with the constants of Numerical Recipes. `random` would
    import hashlib, and with it OpenSSL, into the measured process.
    """
    state = 1
    pattern = bytearray(_PATTERN_BYTES)
    for position in range(_PATTERN_BYTES):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        pattern[position] = state >> 24
    return bytes(pattern)
