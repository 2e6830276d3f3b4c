"""What a model's file shows of itself, whichever format it has; plain data. What it does not show
is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Union

from reusebench.measured.runtimes.base import DeclaredTensor, Interface

__all__ = [
    "ExternalFile",
    "Function",
    "Inspection",
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
    #: Of its elements, as in runtimes.base.DeclaredTensor; None: unknown.
    type: Optional[str]
    #: A size that the file leaves free is a text: the name that it has there, or "" where it has
    #: none; None: the file does not even give their number.
    dimensions: Optional[tuple[Union[int, str], ...]]
    #: How the runtime has it in memory, where the file says: "NHWC".
    layout: Optional[str] = None
    #: Of a .rknn file with dynamic shapes: all of them; empty if there is one shape alone.
    shapes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Weights:
    """The constants of one type."""

    #: Of their elements; None: unknown.
    type: Optional[str]
    tensors: int
    size_bytes: int


@dataclass(frozen=True)
class Operator:
    """A kind of operator."""

    #: "" where it is one of the format's own.
    domain: str
    name: str
    #: How often it stands in the graph and all graphs in it.
    count: int


@dataclass(frozen=True)
class ExternalFile:
    """A file of weights beside a model."""

    #: As the model names it, from the folder that the model is in.
    name: str
    #: None: it is missing.
    size_bytes: Optional[int]
    #: Where the last of the model's weights in it ends.
    needed_bytes: int


@dataclass(frozen=True)
class Function:
    """An operator that the file itself defines."""

    domain: str
    name: str
    #: How many operators it consists of.
    operators: int


@dataclass(frozen=True)
class OnnxFacts:
    """What .onnx files alone have."""

    ir_version: int
    #: Version by domain; "" is ONNX's own.
    opsets: dict[str, int]
    #: With its version; "" where the file does not say.
    producer: str
    metadata: dict[str, str]
    #: Graphs inside If, Loop and Scan, by the operator.
    subgraphs: dict[str, int]
    #: How it is quantised, by its operators: "QDQ", "QOperator", "dynamic", "weights" (those
    #: alone).
    quantised: tuple[str, ...]
    functions: tuple[Function, ...]
    external_files: tuple[ExternalFile, ...]


@dataclass(frozen=True)
class RknnFacts:
    """What .rknn files alone have."""

    #: The chips that it is for, in the toolkit's words.
    platforms: tuple[str, ...]
    toolkit_version: str
    compiler_version: Optional[str]
    #: The format that it was converted from: "ONNX".
    source: Optional[str]
    #: Whether it is in the form of the mini runtime, librknnmrt, which shows neither operators nor
    #: weights.
    is_mini: bool
    #: None: unknown, as in old files.
    has_dynamic_shapes: Optional[bool]
    #: Whether remove_weight left them out, so that it can only be the slave of weight sharing;
    #: None: unknown.
    lacks_weights: Optional[bool]


@dataclass(frozen=True)
class OtherFacts:
    """What files of other formats have of their own."""

    #: The name of each and its text, as they are shown: "format" first.
    lines: dict[str, str]
    #: The mechanisms that this file does not allow, by the scenario that measures each, with the
    #: code of the reason.
    lacks: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Inspection:
    """What a model's file shows."""

    file: str
    size_bytes: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    #: The largest type first.
    weights: Optional[tuple[Weights, ...]]
    #: The most frequent first.
    operators: Optional[tuple[Operator, ...]]
    #: Of its format.
    facts: Union[OnnxFacts, RknnFacts, OtherFacts]

    @property
    def interface(self) -> Interface:
        """What the harness's assumptions are made from."""
        metadata = self.facts.metadata if isinstance(self.facts, OnnxFacts) else {}
        return Interface(_declared(self.inputs), _declared(self.outputs), metadata)

    @property
    def weight_bytes(self) -> Optional[int]:
        """Size of all weights."""
        return None if self.weights is None else sum(weights.size_bytes for weights in self.weights)


def _declared(tensors: tuple[Tensor, ...]) -> tuple[DeclaredTensor, ...]:
    return tuple(
        DeclaredTensor(tensor.name, tensor.type or "", tensor.dimensions or ())
        for tensor in tensors
    )
