"""The Plan: plain data of the contexts to make, what they reuse of each other, and how they run.

A Plan crosses the process boundary as JSON, so this module runs in the harness and in the measured
process: standard library only, Python 3.8.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from runtimes.base import Input

__all__ = [
    "ALLOCATORS",
    "CREATE_MEM",
    "CUDA",
    "DEVICES",
    "DMA_HEAP",
    "DUP",
    "INPUT",
    "INTERNAL",
    "LOAD",
    "MMZ",
    "OUTPUT",
    "PHYSICAL",
    "SHARED_CONTEXT",
    "SHARED_WEIGHTS",
    "WEIGHTS",
    "Context",
    "Conversion",
    "InvalidPlan",
    "Model",
    "Plan",
    "Step",
    "Streams",
    "Video",
    "inputs_from_json",
]

#: The context is made from the model, and reuses nothing.
LOAD = "load"
#: A further context over the weights of its source, with internal memory of its own (rknn_dup_context).
DUP = "dup"
#: No further context: the source itself is run from one more thread.
SHARED_CONTEXT = "shared_context"
#: A context of another resolution of the source's network, over the source's weights (RKNN_FLAG_SHARE_WEIGHT_MEM).
SHARED_WEIGHTS = "shared_weights"

_MECHANISMS = (LOAD, DUP, SHARED_CONTEXT, SHARED_WEIGHTS)

#: What the application may allocate instead of the runtime (Context.outside).
WEIGHTS, INTERNAL = "weights", "internal"
#: What may be used in place and not copied (Context.zero_copy).
INPUT, OUTPUT = "input", "output"

#: The source of memory that the application allocates: the runtime's own call, a dma-heap's file descriptor, a
#: physical address, Rockchip's media memory zone.
CREATE_MEM, DMA_HEAP, PHYSICAL, MMZ = "create_mem", "dma_heap", "physical", "mmz"
ALLOCATORS = (CREATE_MEM, DMA_HEAP, PHYSICAL, MMZ)

#: A device that a runtime may use besides the one that it infers on by itself (Context.device).
CUDA = "cuda"
DEVICES = (CUDA,)


class InvalidPlan(ValueError):
    """The plan contradicts itself; the message names the contexts and what would be valid."""

    def __init__(self, problem: str, where: str = "", contexts: Tuple[int, ...] = ()) -> None:
        """Take what is wrong, and where: in words, and as indices into Plan.contexts where it is of some of them."""
        super().__init__(f"{where}: {problem}" if where else problem)
        self.problem, self.contexts = problem, contexts


@dataclass(frozen=True)
class Conversion:
    """How a model file was made of one that the runtime does not read."""

    #: Absolute path of that file.
    source: str
    #: The converter and its version.
    by: str
    #: What the NPU computes with: INT8 or FP16.
    precision: str
    #: What the source takes.
    inputs: Tuple[Input, ...]
    #: Whether their data, or noise, have calibrated INT8; else the source has scales of its own, or there are none.
    is_calibrated: bool = True


@dataclass(frozen=True)
class Model:
    """A model file that contexts are made from."""

    #: What tables call it.
    name: str
    #: Absolute path of the file.
    path: str
    #: SHA-256 of the file and of the external data it names, and of its inputs where the file does not give their
    #: shapes or the user gives them: equal digests are equal models with equal inputs.
    digest: str
    #: What the runtime made from the file beforehand so that weights can be shared, or given, if it needs that.
    prepared: Optional[str] = None
    #: The same model without its weights, for a context that shares those of another one; None: there is none.
    weightless: Optional[str] = None
    #: What it is fed with, one for each of its inputs; empty: what the file declares, and noise.
    inputs: Tuple[Input, ...] = ()
    #: None: the file is as the user gave it, or built in.
    conversion: Optional[Conversion] = None


@dataclass(frozen=True)
class Context:
    """One context of a plan."""

    #: The stream whose frames it serves, counted from 0; None: the frames of every stream.
    stream: Optional[int]
    #: Index into Plan.models.
    model: int
    #: LOAD, DUP, SHARED_CONTEXT or SHARED_WEIGHTS.
    mechanism: str = LOAD
    #: Index into Plan.contexts of the context that it reuses; None for LOAD.
    source: Optional[int] = None
    #: Contexts with the same number share one internal memory of the application; None: an own one.
    internal: Optional[int] = None
    #: What the application allocates for this context: WEIGHTS, INTERNAL.
    outside: Tuple[str, ...] = ()
    #: The source of memory that the application allocates.
    allocator: str = CREATE_MEM
    #: Which tensors are not copied: INPUT, OUTPUT.
    zero_copy: Tuple[str, ...] = ()
    #: Input and output stay in the memory of the device that infers; the application neither sends nor fetches them.
    device_io: bool = False
    #: CUDA; None: the device that the runtime infers on by itself.
    device: Optional[str] = None
    #: The core that runs it, whose contexts run in turn; None: any free one.
    core: Optional[int] = None
    #: What the user calls it, which changes nothing of what is measured; None: it has no name.
    name: Optional[str] = field(default=None, compare=False)


@dataclass(frozen=True)
class Video:
    """A file of frames, as its decoder describes it."""

    #: What tables call it.
    name: str
    #: Absolute path of the file.
    path: str
    #: SHA-256 of the file.
    digest: str
    codec: str
    width: int
    height: int
    #: Frames per second that the file was made for; a schedule has its own.
    fps: float
    #: 0: the file does not say.
    frames: int


@dataclass(frozen=True)
class Streams:
    """A schedule: streams of camera frames, each at its pace, whose frames the contexts take in turn.

    A frame is decoded when it is due, then scaled into the inputs of the chain of contexts that takes it. Frames are
    due at equal intervals, those of different streams evenly between each other.
    """

    count: int
    #: Frames per second of each stream; 0: as fast as contexts take them. A frame is then due when its stream begins
    #: with it, and none is dropped.
    fps: float
    #: So many frames of a stream may wait where no context is free; a further one is dropped. 0: none waits.
    queue: int
    #: Frames that are due before this time are not counted.
    warm_up_s: float
    #: The steady state, which frames are counted in.
    duration_s: float
    #: Every stream plays it, again from the start at its end; None: nothing is decoded, inputs stay as they are.
    video: Optional[Video]


class Step(NamedTuple):
    """One step of a walk; the process stops at a barrier after it."""

    #: "imported", "decoders", "context", "internal_memory", "first_inference", "steady", "decoders_closed", "destroy".
    phase: str
    #: Index into Plan.contexts where the step is of one context; of an internal memory, its first context.
    context: Optional[int] = None


@dataclass(frozen=True)
class Plan:
    """What one measured process does: make the contexts in order, run them, destroy them in reverse order."""

    scenario: str
    #: The scenario with the same models and no reuse, which a saving is taken against; None for a baseline.
    baseline: Optional[str]
    runtime: str
    models: Tuple[Model, ...]
    contexts: Tuple[Context, ...]
    #: At most so many contexts infer at once; each chain runs on a thread of its own. In a schedule of streams only
    #: contexts that share an internal memory wait for each other: the rest is left to the system, as in an application.
    cores: int
    #: Timed inferences of each context in the steady phase of a plan without a schedule.
    rounds: int
    #: None: every context infers `rounds` times.
    schedule: Optional[Streams] = None
    #: Indices into contexts: one thread runs those of a chain one after the other, in this order, for each round or for
    #: each frame. A context that is in none is a chain of its own.
    chains: Tuple[Tuple[int, ...], ...] = ()
    #: Each context is made, given its internal memory and run before the next one is made, until one fails: the
    #: contexts are the most that are tried.
    fills: bool = False

    def __post_init__(self) -> None:
        """Refuse a plan that no runtime could walk, or that would compute nonsense."""
        if self.cores < 1 or self.rounds < 1:
            raise InvalidPlan(f"cores ({self.cores}) and rounds ({self.rounds}) must be 1 or more")
        for index, context in enumerate(self.contexts):
            self._check_context(index, context)
            self._check_memory(index, context)
        if len({context.core is None for context in self.contexts}) > 1:
            raise self._refusal("either every context has a core or none has")
        self._check_chains()
        if self.schedule is not None:
            self._check_schedule(self.schedule)
        for members in self.internal_memories().values():
            self._check_turns(members)

    def _check_schedule(self, schedule: Streams) -> None:
        if schedule.count < 1 or schedule.duration_s <= 0:
            raise self._refusal("a schedule needs a stream and a duration above 0 s")
        if min(schedule.fps, schedule.queue, schedule.warm_up_s) < 0:
            raise self._refusal("fps, queue and warm_up_s of a schedule must be 0 or more")
        served = {context.stream for context in self.contexts}
        wanted = set(range(schedule.count))
        if served not in (set(), {None}, wanted):
            raise self._refusal(
                f"its contexts serve the streams {sorted(served, key=str)}; valid: all of {sorted(wanted)}, "
                "or None in every context, which then serves all streams"
            )

    def _check_context(self, index: int, context: Context) -> None:
        if context.mechanism not in _MECHANISMS:
            valid = ", ".join(_MECHANISMS)
            raise self._refusal(f"unknown mechanism {context.mechanism!r}; valid: {valid}", index)
        if not 0 <= context.model < len(self.models):
            raise self._refusal(f"model {context.model} is not among the plan's {len(self.models)} models", index)
        if context.mechanism == LOAD:
            if context.source is not None:
                raise self._refusal("a loaded context has no source; leave source out or make it a dup", index)
            return
        if context.source is None or not 0 <= context.source < index:
            raise self._refusal(f"its source must be a context made before it, not {context.source}", index)
        source = self.contexts[context.source]
        if source.model != context.model and context.mechanism != SHARED_WEIGHTS:
            raise self._refusal("its source uses another model; reuse needs the same model", index)
        if source.mechanism != LOAD:
            raise self._refusal(f"its source must be a loaded context, not a {source.mechanism}", index)

    def _check_memory(self, index: int, context: Context) -> None:
        self._check_words(index, "outside", context.outside, (WEIGHTS, INTERNAL))
        self._check_words(index, "zero_copy", context.zero_copy, (INPUT, OUTPUT))
        self._check_words(index, "allocator", (context.allocator,), ALLOCATORS)
        if context.device is not None:
            self._check_words(index, "device", (context.device,), DEVICES)
        if context.device_io and context.zero_copy:
            raise self._refusal("tensors that stay on the device are not the application's; leave out zero_copy", index)
        if context.source is not None and WEIGHTS in context.outside:
            raise self._refusal("its weights are its source's; only a loaded context's can be outside", index)
        if context.internal is not None and INTERNAL in context.outside:
            raise self._refusal(f"shared internal memory is outside already; leave {INTERNAL!r} out of outside", index)
        if context.core is not None and not 0 <= context.core < self.cores:
            raise self._refusal(f"core {context.core} is not among the plan's {self.cores} cores", index)

    def _check_words(self, index: int, key: str, words: Tuple[str, ...], valid: Tuple[str, ...]) -> None:
        unknown = [word for word in words if word not in valid]
        if unknown:
            raise self._refusal(f"{key}: {unknown[0]!r} is unknown; valid: {', '.join(valid)}", index)

    def _check_chains(self) -> None:
        indices = [index for chain in self.chains for index in chain]
        if not all(self.chains) or sorted(set(indices)) != sorted(indices):
            raise self._refusal("a chain has contexts, and no context is in two chains or twice in one")
        if not set(indices) <= set(range(len(self.contexts))):
            raise self._refusal(f"a chain names a context that is not among the plan's {len(self.contexts)} contexts")
        for chain in self.chains:
            if len({self.contexts[index].stream for index in chain}) > 1:
                raise self._refusal("contexts that run one after the other serve the same stream", *chain)

    def _check_turns(self, members: List[int]) -> None:
        for one, other in combinations(members, 2):
            if self.may_run_at_once(one, other):
                raise self._refusal(
                    "they share an internal memory and may run at the same time, so one would overwrite the other; "
                    "give both the same core, run one after the other in a chain, or give each its own memory",
                    one,
                    other,
                )

    def _refusal(self, problem: str, *contexts: int) -> InvalidPlan:
        """Return the error of the scenario, or of these contexts of it."""
        where = f"scenario {self.scenario!r}"
        if contexts:
            where = f"context{'s' * (len(contexts) > 1)} {' and '.join(map(str, contexts))} of {where}"
        return InvalidPlan(problem, where, contexts)

    def all_chains(self) -> List[Tuple[int, ...]]:
        """Return every chain, those of a single context too, in the order of their first made contexts."""
        chained = {index for chain in self.chains for index in chain}
        alone = [(index,) for index in range(len(self.contexts)) if index not in chained]
        return sorted([*self.chains, *alone], key=min)

    def chain_of(self, index: int) -> Tuple[int, ...]:
        """Return the contexts that run in turn with this one, and itself, in their order."""
        return next((chain for chain in self.chains if index in chain), (index,))

    def may_run_at_once(self, one: int, other: int) -> bool:
        """Whether the schedule lets these two contexts infer at the same time."""
        if other in self.chain_of(one):
            return False
        cores = self.contexts[one].core, self.contexts[other].core
        return self.cores > 1 and (None in cores or cores[0] != cores[1])

    def internal_memories(self) -> Dict[int, List[int]]:
        """Return, for each shared internal memory, the contexts that use it, in order."""
        members: Dict[int, List[int]] = {}
        for index, context in enumerate(self.contexts):
            if context.internal is not None:
                members.setdefault(context.internal, []).append(index)
        return members

    def shares_weights(self, index: int) -> bool:
        """Whether the weights of this context are also those of another one."""
        mechanisms = (DUP, SHARED_WEIGHTS)
        if self.contexts[index].mechanism in mechanisms:
            return True
        return any(other.mechanism in mechanisms and other.source == index for other in self.contexts)

    def needs_prepared(self, index: int) -> bool:
        """Whether this context is made from what the runtime prepared: its weights are shared, or the application's."""
        return self.shares_weights(index) or WEIGHTS in self.contexts[index].outside

    def models_to_prepare(self) -> List[Model]:
        """Return the models, each once, that some context needs prepared."""
        indices = {context.model for index, context in enumerate(self.contexts) if self.needs_prepared(index)}
        return list({self.models[index].digest: self.models[index] for index in sorted(indices)}.values())

    def with_prepared(self, paths: Mapping[str, Optional[str]]) -> Plan:
        """Return the plan with the path of what was made of each model, by the model's digest."""
        return replace(self, models=tuple(replace(model, prepared=paths.get(model.digest)) for model in self.models))

    def steps(self) -> Iterator[Step]:
        """Yield the steps of a walk in order; contexts are destroyed last made first, so a dup before its source."""
        indices = range(len(self.contexts))
        if self.fills:
            yield Step("imported")
            for index in indices:
                yield Step("context", index)
                if self.contexts[index].internal is not None:
                    yield Step("internal_memory", index)
                yield Step("first_inference", index)
            yield from self.steps_when_full(len(indices), len(indices))
            return
        decodes = self.schedule is not None and self.schedule.video is not None
        yield Step("imported")
        if decodes:
            yield Step("decoders")
        yield from (Step("context", index) for index in indices)
        yield from (Step("internal_memory", members[0]) for members in self.internal_memories().values())
        yield from (Step("first_inference", index) for index in indices)
        if self.contexts or self.schedule:
            yield Step("steady")
        if decodes:
            yield Step("decoders_closed")
        yield from (Step("destroy", index) for index in reversed(indices))

    def steps_when_full(self, made: int, ran: int) -> Iterator[Step]:
        """Yield the steps of a plan that fills when no further context is made: those that ran do so once more.

        A context that was made and failed then is destroyed first.
        """
        yield from (Step("destroy", index) for index in range(ran, made))
        yield Step("steady")
        yield from (Step("destroy", index) for index in reversed(range(ran)))

    def may_be_full_at(self, step: Step) -> bool:
        """Whether a failure of this step is the answer to how many contexts fit; the first must always fit."""
        return self.fills and bool(step.context) and step.phase in ("context", "internal_memory", "first_inference")

    def limited_to(self, contexts: int) -> Plan:
        """Return the plan with its first contexts alone, which are those that fitted."""
        return replace(self, contexts=self.contexts[:contexts])

    def to_json(self) -> Dict[str, Any]:
        """Return the plan as what the json module writes."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Dict[str, Any]) -> Plan:
        """Return the plan that to_json gave."""
        fields = dict(data)
        fields["models"] = tuple(map(_model_from_json, data["models"]))
        fields["contexts"] = tuple(_context_from_json(context) for context in data["contexts"])
        fields["chains"] = tuple(map(tuple, data["chains"]))
        if data["schedule"] is not None:
            video = data["schedule"]["video"]
            fields["schedule"] = Streams(**{**data["schedule"], "video": video and Video(**video)})
        return cls(**fields)


def inputs_from_json(data: List[Dict[str, Any]]) -> Tuple[Input, ...]:
    """Return the inputs of a model, as they stand in Plan.to_json()."""
    inputs = []
    for tensor in data:
        inputs.append(Input(**{**tensor, "shape": tuple(tensor["shape"]), "assumed": tuple(tensor["assumed"])}))
    return tuple(inputs)


def _model_from_json(data: Dict[str, Any]) -> Model:
    conversion = data["conversion"]
    if conversion is not None:
        conversion = Conversion(**{**conversion, "inputs": inputs_from_json(conversion["inputs"])})
    return Model(**{**data, "inputs": inputs_from_json(data["inputs"]), "conversion": conversion})


def _context_from_json(data: Dict[str, Any]) -> Context:
    lists = {name: tuple(data[name]) for name in ("outside", "zero_copy")}
    return Context(**{**data, **lists})
