"""Plans made in Python, with the keys of a plan file, which the same code checks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Optional, Union

from reusebench.harness.plans.document import Document
from reusebench.harness.plans.plan_file import PlanFile
from reusebench.harness.plans.reading import plan_of_document

__all__ = ["Context", "Conversation", "Model", "Plan", "Streams", "plan_file_of"]

_Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Model:
    """A model of a plan: a file, or a built-in network.

    A relative path is relative to the working folder. docs/reference/plans.md explains each
    field under the same name.

        >>> Model("detector.onnx", shape="1x3x320x320").file
        'detector.onnx'
        >>> Model(network="yolov5s", size=320).network
        'yolov5s'
    """

    #: Path of the model's file; None: `network` is given.
    file: Optional[_Path] = None
    #: Sizes of the only input, such as "1x3x640x640", or of several inputs by name.
    shape: Union[str, Mapping[str, str], None] = None
    #: Path of an .npz file with an array for each input.
    inputs: Optional[_Path] = None
    #: Path of the same model without its weights (RKNN).
    weightless: Optional[_Path] = None
    #: Name of a built-in network (`reusebench models list`).
    network: Optional[str] = None
    #: Height of its input, in pixels.
    size: Optional[int] = None
    #: Another seed gives other weights.
    seed: Optional[int] = None
    #: Built-in language model only: "model", "adapter" or "merged".
    part: Optional[str] = None
    #: The number of the adapter, from 1.
    number: Optional[int] = None


@dataclass(frozen=True)
class Context:
    """A context of a plan, with its reuse of others. docs/reference/plans.md explains each field.

    >>> Context(dup="detect-0").dup
    'detect-0'
    """

    #: Name of its model; by default that of the context that it reuses.
    model: Optional[str] = None
    #: The stream whose frames it takes, from 0; None in all contexts: each serves all streams.
    stream: Optional[int] = None
    #: Name of the context that runs before it for each frame.
    after: Optional[str] = None
    #: Name of the context that it duplicates.
    dup: Optional[str] = None
    #: Name of the context that it is another thread of.
    shared_context: Optional[str] = None
    #: Name of the context whose weights it has at another resolution.
    shared_weights: Optional[str] = None
    #: Name of the context over whose weight memory it is loaded.
    shared_weight_memory: Optional[str] = None
    #: Language models: name of the context that this is another sequence of.
    sequence: Optional[str] = None
    #: The same, over the common tokens of their prompts.
    shared_prompt: Optional[str] = None
    #: Name of the context whose weights it has, and whose saved state of the common tokens it
    #: begins each turn with.
    restored_prompt: Optional[str] = None
    #: Name of the context whose weights it has, under the adapter that is its model.
    adapter: Optional[str] = None
    #: Whether the sequences over it share one cache.
    unified_cache: Optional[bool] = None
    #: Contexts with the same word share one internal memory.
    internal: Optional[str] = None
    #: Kinds of memory that the application allocates: "weights", "internal".
    outside: tuple[str, ...] = ()
    #: Allocator of that memory: "create_mem", "dma_heap", "physical", "mmz".
    allocator: Optional[str] = None
    #: Data that is used in place: "input", "output", "native_output", "model".
    zero_copy: tuple[str, ...] = ()
    #: Contexts with the same word share the memory of the tensors in `zero_copy`.
    io: Optional[str] = None
    #: Whether input and output stay on the device that infers.
    device_io: Optional[bool] = None
    #: "cuda"; None: the device on which the runtime infers by itself.
    device: Optional[str] = None
    #: The core that runs it, from 0.
    core: Optional[int] = None
    #: The runtime's own options, NAME=VALUE each.
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Streams:
    """Frames of video for the contexts of a plan; without streams the contexts run in rounds."""

    #: Number of streams.
    count: int
    #: Frames per second of each; 0: as fast as possible.
    fps: Optional[float] = None
    #: Frames of a stream that may wait before new ones are dropped.
    queue: Optional[int] = None
    #: Length of the measurement, such as "10s" or "2m".
    duration: Optional[str] = None


@dataclass(frozen=True)
class Conversation:
    """The conversation that each context of a language model holds; None: as the options say."""

    #: Tokens that there is room for.
    tokens: Optional[int] = None
    #: Tokens of the prompt.
    prompt: Optional[int] = None
    #: Tokens that are generated after it.
    generated: Optional[int] = None
    #: Tokens at the beginning that all prompts have in common.
    common: Optional[int] = None


@dataclass(frozen=True)
class Plan:
    """A pipeline: its models, and its contexts in the order in which they are made.

    It has the keys of a plan file (docs/reference/plans.md). Mistakes are found when it is
    measured.

        >>> plan = Plan(
        ...     "gate",
        ...     models={"detector": "detector.onnx"},
        ...     contexts={"first": Context("detector"), "second": Context(dup="first")},
        ... )
        >>> plan.without_reuse().name
        'gate'
    """

    #: The name in results and reports: letters, digits, "-" and "_"; not the name of a built-in
    #: scenario.
    name: str
    #: A path or a Model, by name.
    models: Mapping[str, Union[_Path, Model]]
    #: Contexts by name, in the order in which they are made.
    contexts: Mapping[str, Context]
    streams: Optional[Streams] = None
    #: Language models only; None: as the options say.
    conversation: Optional[Conversation] = None
    #: The number of contexts that may infer at once; None: all cores of the machine that infers.
    cores: Optional[int] = None
    #: False: every context is loaded from its file, and the runtime allocates all of its memory.
    reuse: bool = True

    def without_reuse(self) -> Plan:
        """Return the plan with which this one is compared: the same contexts, without reuse."""
        return replace(self, reuse=False)


def plan_file_of(plan: Plan) -> PlanFile:
    """Return the plan as a checked plan file; raise PlanFileError if it cannot be measured."""
    values = {
        "name": plan.name,
        "cores": plan.cores,
        "models": {name: _model(model) for name, model in plan.models.items()},
        "contexts": {name: _table(context) for name, context in plan.contexts.items()},
        "streams": _table(plan.streams) if plan.streams else None,
        "conversation": _table(plan.conversation) if plan.conversation else None,
    }
    title = f"reusebench.Plan({plan.name!r})"
    return plan_of_document(Document(Path.cwd() / "plan.py", values, {}, title))


def _model(model: Union[_Path, Model]) -> object:
    return _table(model) if isinstance(model, Model) else os.fspath(model)


def _table(part: Union[Model, Context, Conversation, Streams]) -> dict[str, object]:
    """Return the keys and values that a plan file would have, without those that are not given."""
    table: dict[str, object] = {}
    for key, value in asdict(part).items():
        if isinstance(value, os.PathLike):
            table[key] = os.fspath(value)
        elif isinstance(value, tuple):
            table[key] = list(value)
        elif value is not None:
            table[key] = value
    return table
