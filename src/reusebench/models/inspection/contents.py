"""The contents of a model file of any format, as plain data; None stands for unknown values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Union

from reusebench.measured.runtimes.base import DeclaredTensor, Interface

__all__ = [
    "ExternalFile",
    "Function",
    "GgufAdapter",
    "GgufFacts",
    "GgufPart",
    "Inspection",
    "KvCache",
    "OnnxFacts",
    "Operator",
    "OtherFacts",
    "RknnFacts",
    "Tensor",
    "Weights",
]


@dataclass(frozen=True)
class Tensor:
    """An input or output as the file declares it."""

    name: str
    #: Type of the elements, as in runtimes.base.DeclaredTensor; None: unknown.
    type: Optional[str]
    #: Sizes; a free size is its name in the file, or "". None: even their number is unknown.
    dimensions: Optional[tuple[Union[int, str], ...]]
    #: Layout in the runtime's memory, if the file says so: "NHWC".
    layout: Optional[str] = None
    #: All shapes of a .rknn file with dynamic shapes; otherwise empty.
    shapes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Weights:
    """The constants of one type."""

    #: Type of the elements; None: unknown.
    type: Optional[str]
    tensors: int
    size_bytes: int


@dataclass(frozen=True)
class Operator:
    """A kind of operator."""

    #: Domain of the operator; "" for the format's own ones.
    domain: str
    name: str
    #: Number of uses in the graph and all its subgraphs.
    count: int


@dataclass(frozen=True)
class ExternalFile:
    """A weight file beside a model."""

    #: Path relative to the model's folder, as the model gives it.
    name: str
    #: None if the file is missing.
    size_bytes: Optional[int]
    #: End of the model's last weights in the file.
    needed_bytes: int


@dataclass(frozen=True)
class Function:
    """An operator that the file itself defines."""

    domain: str
    name: str
    #: Number of operators in the definition.
    operators: int


@dataclass(frozen=True)
class OnnxFacts:
    """Facts that only .onnx files have."""

    ir_version: int
    #: Version by domain; "" is ONNX's own.
    opsets: dict[str, int]
    #: Program and version that wrote the file; "" if the file does not say.
    producer: str
    metadata: dict[str, str]
    #: Number of graphs inside If, Loop and Scan, by operator.
    subgraphs: dict[str, int]
    #: Kinds of quantisation, judged by the operators: "QDQ", "QOperator", "dynamic", "weights"
    #: (only the weights).
    quantised: tuple[str, ...]
    functions: tuple[Function, ...]
    external_files: tuple[ExternalFile, ...]


@dataclass(frozen=True)
class RknnFacts:
    """Facts that only .rknn files have."""

    #: Supported chips, as the toolkit names them.
    platforms: tuple[str, ...]
    toolkit_version: str
    compiler_version: Optional[str]
    #: Format that the file was converted from: "ONNX".
    source: Optional[str]
    #: Whether the file is for the mini runtime, librknnmrt: it shows neither operators nor weights.
    is_mini: bool
    #: None: unknown, as in old files.
    has_dynamic_shapes: Optional[bool]
    #: Whether remove_weight was used, so that the file can only be the slave of weight sharing;
    #: None: unknown.
    lacks_weights: Optional[bool]


@dataclass(frozen=True)
class KvCache:
    """The keys and values of one token in a cache of one type."""

    #: Name in llama.cpp: "f16", "q8_0".
    type: str
    #: In all layers.
    bytes_per_token: int
    #: Part of it in layers that keep no more tokens than the window.
    window_bytes_per_token: int


@dataclass(frozen=True)
class GgufAdapter:
    """An adapter of a language model."""

    #: "lora"; "" if the file does not say.
    type: str
    #: Largest rank of its pairs of matrices.
    rank: Optional[int]
    alpha: Optional[float]
    #: Matrices of the model that it changes.
    pairs: int


@dataclass(frozen=True)
class GgufPart:
    """A file of a model that is split."""

    name: str
    #: None if the file is missing.
    size_bytes: Optional[int]


@dataclass(frozen=True)
class GgufFacts:
    """Facts that only .gguf files have."""

    version: int
    #: "model", "adapter", "vocabulary", or another value of general.type.
    kind: str
    #: As llama.cpp names it: "llama", "gemma3". An adapter has that of its model.
    architecture: str
    name: str
    #: Type of most tensors: "Q4_K_M".
    file_type: Optional[str]
    layers: Optional[int]
    #: Numbers of heads of the layers, the most frequent first.
    heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    #: Values of a head's keys, and of its values.
    key_size: Optional[int]
    value_size: Optional[int]
    embedding: Optional[int]
    experts: Optional[int]
    #: Number of tokens.
    vocabulary: Optional[int]
    #: As llama.cpp names it: "gpt2", "llama".
    tokenizer: Optional[str]
    #: Tokens that the model was trained for.
    context: Optional[int]
    #: Tokens that layers with a sliding window keep; None if there is none.
    window: Optional[int]
    window_layers: int
    #: By type of the cache; empty if the model keeps no keys and values.
    kv_cache: tuple[KvCache, ...]
    adapter: Optional[GgufAdapter]
    #: Empty if the model is one file.
    parts: tuple[GgufPart, ...]


@dataclass(frozen=True)
class OtherFacts:
    """Facts of files of other formats."""

    #: Names and texts to show; "format" comes first.
    lines: dict[str, str]
    #: Mechanisms that this file does not allow: the scenario that measures each, and the code of
    #: the reason.
    lacks: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Inspection:
    """The contents of a model file."""

    file: str
    size_bytes: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    #: The largest type first.
    weights: Optional[tuple[Weights, ...]]
    #: The most frequent first.
    operators: Optional[tuple[Operator, ...]]
    #: Facts that depend on the format.
    facts: Union[OnnxFacts, RknnFacts, GgufFacts, OtherFacts]
    #: Operators and other things that make outputs differ from inference to inference, though
    #: inputs are equal: random numbers, and state that the model keeps.
    varying: tuple[str, ...] = ()
    #: Weight files that are missing or cut short, and operators that the format does not have.
    hindrances: tuple[str, ...] = ()

    @property
    def interface(self) -> Interface:
        """Inputs, outputs and metadata, from which the harness chooses free sizes."""
        metadata = self.facts.metadata if isinstance(self.facts, OnnxFacts) else {}
        return Interface(_declared(self.inputs), _declared(self.outputs), metadata)

    @property
    def weight_bytes(self) -> Optional[int]:
        """Size of all weights; None: unknown."""
        if self.weights is None:
            return None
        return sum(weights.size_bytes for weights in self.weights)


def _declared(tensors: tuple[Tensor, ...]) -> tuple[DeclaredTensor, ...]:
    return tuple(
        DeclaredTensor(tensor.name, tensor.type or "", tensor.dimensions or ())
        for tensor in tensors
    )
