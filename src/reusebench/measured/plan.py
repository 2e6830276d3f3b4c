"""The Plan: plain data of the contexts to make, what they reuse of each other, and how they run.

A Plan crosses the process boundary as JSON, so this module runs in the harness and in the measured
process: standard library only, Python 3.8.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from reusebench.measured.runtimes.base import InputData

__all__ = [
    "ALLOCATORS",
    "CONTEXTS",
    "CREATE_MEM",
    "CUDA",
    "CYCLE_KINDS",
    "DEVICES",
    "DMA_HEAP",
    "DUP",
    "DUPS",
    "INFERENCES",
    "INFERENCES_PER_CYCLE",
    "INPUT",
    "INTERNAL",
    "IO_MEMORY",
    "LOAD",
    "MECHANISMS",
    "MMZ",
    "MODEL",
    "MOST_STREAMS",
    "NATIVE_OUTPUT",
    "OUTPUT",
    "PHYSICAL",
    "REPLACED",
    "SHARED_CONTEXT",
    "SHARED_WEIGHTS",
    "SHARED_WEIGHT_MEMORY",
    "WEIGHTS",
    "ZERO_COPY",
    "Context",
    "Conversion",
    "Cycles",
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
#: A further context over the weights of its source, with internal memory of its own
#: (rknn_dup_context).
DUP = "dup"
#: No further context: the source itself is run from one more thread.
SHARED_CONTEXT = "shared_context"
#: A context of another resolution of the source's network, over the source's weights
#: (RKNN_FLAG_SHARE_WEIGHT_MEM).
SHARED_WEIGHTS = "shared_weights"
#: A further context of the model, whose weights are the memory that the application gave its source
#: (rknn_set_weight_mem of one memory for several contexts).
SHARED_WEIGHT_MEMORY = "shared_weight_memory"

MECHANISMS = (LOAD, DUP, SHARED_CONTEXT, SHARED_WEIGHTS, SHARED_WEIGHT_MEMORY)

#: What the application may allocate instead of the runtime (Context.outside).
WEIGHTS = "weights"
INTERNAL = "internal"
#: What may be used in place and not copied (Context.zero_copy): tensors as the application has
#: them; an output as the device leaves it, in an order of its own; the model's file, in memory that
#: the device reads.
INPUT = "input"
OUTPUT = "output"
NATIVE_OUTPUT = "native_output"
MODEL = "model"
ZERO_COPY = (INPUT, OUTPUT, NATIVE_OUTPUT, MODEL)

#: The source of memory that the application allocates: the runtime's own call, a dma-heap's file
#: descriptor, a physical address, Rockchip's media memory zone.
CREATE_MEM = "create_mem"
DMA_HEAP = "dma_heap"
PHYSICAL = "physical"
MMZ = "mmz"
ALLOCATORS = (CREATE_MEM, DMA_HEAP, PHYSICAL, MMZ)

#: A device that a runtime may use besides the one that it infers on by itself (Context.device).
CUDA = "cuda"
DEVICES = (CUDA,)

#: What a cycle does: infers often; makes a context, infers and destroys it; makes a dup of a
#: context that lives on, infers and destroys it; gives back the memory of input and output and
#: infers with new; makes a context, infers and destroys the oldest of those that live.
INFERENCES = "inferences"
CONTEXTS = "contexts"
DUPS = "dups"
IO_MEMORY = "io_memory"
REPLACED = "replaced"
#: With how many contexts live from cycle to cycle, the first of the plan; the last of the plan is
#: the one that is made.
CYCLE_KINDS = {INFERENCES: 1, CONTEXTS: 0, DUPS: 1, IO_MEMORY: 1, REPLACED: 2}
#: Of a cycle of inferences: what one of them leaks counts as often, so that little is seen in a few
#: cycles.
INFERENCES_PER_CYCLE = 10

#: No board serves as many; a plan that is stored may come from anywhere.
MOST_STREAMS = 1024


class InvalidPlan(ValueError):
    """The plan contradicts itself; the message names the contexts and what would be valid."""

    def __init__(self, problem: str, where: str = "", contexts: Tuple[int, ...] = ()) -> None:
        """Take what is wrong, and where: in words, and as indices into Plan.contexts where it is of
        some of them.
        """
        super().__init__(f"{where}: {problem}" if where else problem)
        self.problem = problem
        self.contexts = contexts


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
    inputs: Tuple[InputData, ...]
    #: Whether their data, or noise, have calibrated INT8; else the source has scales of its own, or
    #: there are none.
    is_calibrated: bool = True


@dataclass(frozen=True)
class Model:
    """A model file that contexts are made from."""

    #: What tables call it.
    name: str
    #: Absolute path of the file.
    path: str
    #: SHA-256 of the file and of the external data it names, and of its inputs where the file does
    #: not give their shapes or the user gives them: equal digests are equal models with equal
    #: inputs.
    digest: str
    #: What the runtime made from the file beforehand so that weights can be shared, or given, if it
    #: needs that.
    prepared: Optional[str] = None
    #: The same model without its weights, for a context that shares those of another one; None:
    #: there is none.
    weightless: Optional[str] = None
    #: What it is fed with, one for each of its inputs; empty: what the file declares, and noise.
    inputs: Tuple[InputData, ...] = ()
    #: None: the file is as the user gave it, or built in.
    conversion: Optional[Conversion] = None
    #: What the files of every runtime are made of, with equal inputs: the name of a built-in
    #: network, or the digest of the user's file; None: the file itself.
    origin: Optional[str] = field(default=None, compare=False)


@dataclass(frozen=True)
class Context:
    """One context of a plan."""

    #: The stream whose frames it serves, counted from 0; None: the frames of every stream.
    stream: Optional[int]
    #: Index into Plan.models.
    model: int
    #: One of MECHANISMS.
    mechanism: str = LOAD
    #: Index into Plan.contexts of the context that it reuses; None for LOAD.
    source: Optional[int] = None
    #: Contexts with the same number share one internal memory of the application; None: an own one.
    internal: Optional[int] = None
    #: What the application allocates for this context: WEIGHTS, INTERNAL.
    outside: Tuple[str, ...] = ()
    #: The source of memory that the application allocates.
    allocator: str = CREATE_MEM
    #: What is not copied: some of ZERO_COPY.
    zero_copy: Tuple[str, ...] = ()
    #: Contexts of one model with the same number have the tensors of zero_copy in one memory of the
    #: application.
    io: Optional[int] = None
    #: Input and output stay in the memory of the device that infers; the application neither sends
    #: nor fetches them.
    device_io: bool = False
    #: CUDA; None: the device that the runtime infers on by itself.
    device: Optional[str] = None
    #: The core that runs it, whose contexts run in turn; None: any free one.
    core: Optional[int] = None
    #: The runtime's own options, NAME=VALUE each in its own words; those of a context that reuses
    #: another are its.
    options: Tuple[str, ...] = ()
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
    """A schedule: streams of camera frames, each at its pace, whose frames the contexts take in
    turn.

    A frame is decoded when it is due, then scaled into the inputs of the chain of contexts that
    takes it. Frames are due at equal intervals, those of different streams evenly between each
    other.
    """

    count: int
    #: Frames per second of each stream; 0: as fast as contexts take them. A frame is then due when
    #: its stream begins with it, and none is dropped.
    fps: float
    #: So many frames of a stream may wait where no context is free; a further one is dropped. 0:
    #: none waits.
    queue: int
    #: Frames that are due before this time are not counted.
    warm_up_s: float
    #: The steady state, which frames are counted in.
    duration_s: float
    #: Every stream plays it, again from the start at its end; None: nothing is decoded, inputs stay
    #: as they are.
    video: Optional[Video]


@dataclass(frozen=True)
class Cycles:
    """The same again and again: whatever is read after each cycle should be what it was after the
    one before.
    """

    #: A key of CYCLE_KINDS.
    kind: str
    count: int


class Step(NamedTuple):
    """One step of a walk; the process stops at a barrier after it."""

    #: "imported", "decoders", "context", "internal_memory", "first_inference", "steady", "cycle",
    #: "decoders_closed", "destroy".
    phase: str
    #: Index into Plan.contexts where the step is of one context; of an internal memory, its first
    #: context.
    context: Optional[int] = None


@dataclass(frozen=True)
class Plan:
    """What one measured process does: make the contexts in order, run them, destroy them in reverse
    order.
    """

    scenario: str
    #: The scenario with the same models and no reuse, which a saving is taken against; None for a
    #: baseline.
    baseline: Optional[str]
    runtime: str
    models: Tuple[Model, ...]
    contexts: Tuple[Context, ...]
    #: At most so many contexts infer at once; each chain runs on a thread of its own. In a schedule
    #: of streams only contexts that share an internal memory wait for each other: the rest is left
    #: to the system, as in an application.
    cores: int
    #: Timed inferences of each context in the steady phase of a plan without a schedule.
    rounds: int
    #: None: every context infers `rounds` times.
    schedule: Optional[Streams] = None
    #: Indices into contexts: one thread runs those of a chain one after the other, in this order,
    #: for each round or for each frame. A context that is in none is a chain of its own.
    chains: Tuple[Tuple[int, ...], ...] = ()
    #: None: there is a steady phase.
    cycles: Optional[Cycles] = None
    #: Each context is made, given its internal memory and run before the next one is made, until
    #: one fails: the contexts are the most that are tried.
    fills: bool = False

    def __post_init__(self) -> None:
        """Refuse a plan that no runtime could walk, or that would compute nonsense."""
        if self.cores < 1 or self.rounds < 1:
            raise InvalidPlan(f"cores ({self.cores}) and rounds ({self.rounds}) must be 1 or more")
        for index, context in enumerate(self.contexts):
            self._check_context(index, context)
            self._check_memory(index, context)
            self._check_options(index, context)
        if len({context.core is None for context in self.contexts}) > 1:
            raise self._refusal("either every context has a core or none has")
        self._check_chains()
        if self.schedule is not None:
            self._check_schedule(self.schedule)
        if self.cycles is not None:
            self._check_cycles(self.cycles)
        for members in self.internal_memories().values():
            self._check_turns(members, "an internal memory")
        for members in self.io_memories().values():
            self._check_io(members)
            self._check_turns(members, "memory for tensors")

    def _check_schedule(self, schedule: Streams) -> None:
        if schedule.count < 1 or schedule.duration_s <= 0:
            raise self._refusal("a schedule needs a stream and a duration above 0 s")
        if min(schedule.fps, schedule.queue, schedule.warm_up_s) < 0:
            raise self._refusal("fps, queue and warm_up_s of a schedule must be 0 or more")
        if schedule.count > MOST_STREAMS:
            raise self._refusal(
                f"{schedule.count} streams are too many; valid: up to {MOST_STREAMS}"
            )
        served = {context.stream for context in self.contexts}
        wanted = set(range(schedule.count))
        if served not in (set(), {None}, wanted):
            raise self._refusal(
                f"its contexts serve the streams {sorted(served, key=str)}; valid: all of"
                f" {sorted(wanted)}, or None in every context, which then serves all streams"
            )

    def _check_cycles(self, cycles: Cycles) -> None:
        if cycles.kind not in CYCLE_KINDS:
            raise self._refusal(
                f"unknown kind of cycles {cycles.kind!r}; valid: {', '.join(CYCLE_KINDS)}"
            )
        if cycles.count < 1 or self.schedule is not None:
            raise self._refusal("cycles are 1 or more, and in no schedule of streams")
        wanted = CYCLE_KINDS[cycles.kind] + (cycles.kind in (CONTEXTS, DUPS))
        if len(self.contexts) != wanted:
            raise self._refusal(
                f"cycles of {cycles.kind} have {wanted} contexts, not {len(self.contexts)}"
            )

    def _check_context(self, index: int, context: Context) -> None:
        if context.mechanism not in MECHANISMS:
            valid = ", ".join(MECHANISMS)
            raise self._refusal(f"unknown mechanism {context.mechanism!r}; valid: {valid}", index)
        if not 0 <= context.model < len(self.models):
            raise self._refusal(
                f"model {context.model} is not among the plan's {len(self.models)} models", index
            )
        if context.mechanism == LOAD:
            if context.source is not None:
                raise self._refusal(
                    "a loaded context has no source; leave source out or make it a dup", index
                )
            return
        if context.source is None or not 0 <= context.source < index:
            raise self._refusal(
                f"its source must be a context made before it, not {context.source}", index
            )
        source = self.contexts[context.source]
        if source.model != context.model and context.mechanism != SHARED_WEIGHTS:
            raise self._refusal("its source uses another model; reuse needs the same model", index)
        if source.mechanism != LOAD:
            raise self._refusal(
                f"its source must be a loaded context, not a {source.mechanism}", index
            )
        if context.mechanism == SHARED_WEIGHT_MEMORY and WEIGHTS not in source.outside:
            raise self._refusal(
                f"the weights of its source must be outside: give that {WEIGHTS!r} in outside",
                index,
            )

    def _check_memory(self, index: int, context: Context) -> None:
        self._check_words(index, "outside", context.outside, (WEIGHTS, INTERNAL))
        self._check_words(index, "zero_copy", context.zero_copy, ZERO_COPY)
        self._check_words(index, "allocator", (context.allocator,), ALLOCATORS)
        if context.device is not None:
            self._check_words(index, "device", (context.device,), DEVICES)
        if context.device_io and context.zero_copy:
            raise self._refusal(
                "tensors that stay on the device are not the application's; leave out zero_copy",
                index,
            )
        if OUTPUT in context.zero_copy and NATIVE_OUTPUT in context.zero_copy:
            raise self._refusal(
                f"an output has one form: leave {OUTPUT!r} or {NATIVE_OUTPUT!r} out", index
            )
        if context.source is not None and MODEL in context.zero_copy:
            raise self._refusal(
                "only a loaded context's model can be used in place; its source has it", index
            )
        if context.source is not None and WEIGHTS in context.outside:
            raise self._refusal(
                "its weights are its source's; only a loaded context's can be outside", index
            )
        if context.internal is not None and INTERNAL in context.outside:
            raise self._refusal(
                f"shared internal memory is outside already; leave {INTERNAL!r} out of outside",
                index,
            )
        if context.core is not None and not 0 <= context.core < self.cores:
            raise self._refusal(
                f"core {context.core} is not among the plan's {self.cores} cores", index
            )

    def _check_options(self, index: int, context: Context) -> None:
        if context.source is not None and context.options:
            raise self._refusal("its options are its source's; leave them out", index)
        for option in context.options:
            if not all(option.partition("=")):
                raise self._refusal(
                    f"{option!r} is no option; valid: NAME=VALUE, in the runtime's words", index
                )

    def _check_words(
        self, index: int, key: str, words: Tuple[str, ...], valid: Tuple[str, ...]
    ) -> None:
        unknown = [word for word in words if word not in valid]
        if unknown:
            raise self._refusal(
                f"{key}: {unknown[0]!r} is unknown; valid: {', '.join(valid)}", index
            )

    def _check_chains(self) -> None:
        indices = [index for chain in self.chains for index in chain]
        if not all(self.chains) or sorted(set(indices)) != sorted(indices):
            raise self._refusal(
                "a chain has contexts, and no context is in two chains or twice in one"
            )
        if not set(indices) <= set(range(len(self.contexts))):
            raise self._refusal(
                f"a chain names a context that is not among the plan's {len(self.contexts)}"
                " contexts"
            )
        for chain in self.chains:
            if len({self.contexts[index].stream for index in chain}) > 1:
                raise self._refusal(
                    "contexts that run one after the other serve the same stream", *chain
                )

    def _check_io(self, members: List[int]) -> None:
        first, *others = (self.contexts[index] for index in members)
        if not {INPUT, OUTPUT, NATIVE_OUTPUT} & set(first.zero_copy):
            raise self._refusal(
                "they share memory for tensors, and have none in place: add zero_copy", *members
            )
        if any(
            (other.model, other.zero_copy) != (first.model, first.zero_copy) for other in others
        ):
            raise self._refusal(
                "memory for tensors is shared by contexts of one model and one zero_copy", *members
            )
        if self.schedule is not None:
            raise self._refusal(
                "in streams a frame is prepared while another one is run: leave io out", *members
            )

    def _check_turns(self, members: List[int], shared: str) -> None:
        for one, other in combinations(members, 2):
            if self.may_run_at_once(one, other):
                raise self._refusal(
                    f"they share {shared} and may run at the same time, so one would overwrite the"
                    " other; give both the same core, run one after the other in a chain, or give"
                    " each its own memory",
                    one,
                    other,
                )

    def _refusal(self, problem: str, *contexts: int) -> InvalidPlan:
        """Return the error of the scenario, or of these contexts of it."""
        where = f"scenario {self.scenario!r}"
        if contexts:
            where = (
                f"context{'s' * (len(contexts) > 1)} {' and '.join(map(str, contexts))} of {where}"
            )
        return InvalidPlan(problem, where, contexts)

    def all_chains(self) -> List[Tuple[int, ...]]:
        """Return every chain, those of a single context too, in the order of their first made
        contexts.
        """
        chained = {index for chain in self.chains for index in chain}
        alone = [(index,) for index in range(len(self.contexts)) if index not in chained]
        return sorted([*self.chains, *alone], key=min)

    def chain_of(self, index: int) -> Tuple[int, ...]:
        """Return the contexts that run in turn with this one, and itself, in their order."""
        return next((chain for chain in self.chains if index in chain), (index,))

    def is_first_of_model(self, index: int) -> bool:
        """Whether no context of the plan that is made before has the same model; those of cycles
        come after them.
        """
        models = [context.model for context in self.contexts]
        return index < len(models) and models[index] not in models[:index]

    def options_of(self, index: int) -> Tuple[str, ...]:
        """Return the runtime's own options of a context: those of its source, where it reuses
        one.
        """
        context = self.contexts[index]
        return context.options if context.source is None else self.contexts[context.source].options

    def may_run_at_once(self, one: int, other: int) -> bool:
        """Whether the schedule lets these two contexts infer at the same time."""
        if other in self.chain_of(one):
            return False
        cores = self.contexts[one].core, self.contexts[other].core
        return self.cores > 1 and (None in cores or cores[0] != cores[1])

    def internal_memories(self) -> Dict[int, List[int]]:
        """Return, for each shared internal memory, the contexts that use it, in order."""
        return _members([context.internal for context in self.contexts])

    def io_memories(self) -> Dict[int, List[int]]:
        """Return, for each shared memory of tensors, the contexts that use it, in order."""
        return _members([context.io for context in self.contexts])

    def shares_weights(self, index: int) -> bool:
        """Whether the weights of this context are also those of another one."""
        mechanisms = (DUP, SHARED_WEIGHTS, SHARED_WEIGHT_MEMORY)
        if self.contexts[index].mechanism in mechanisms:
            return True
        return any(
            other.mechanism in mechanisms and other.source == index for other in self.contexts
        )

    def needs_prepared(self, index: int) -> bool:
        """Whether this context is made from what the runtime prepared.

        Its weights are shared, or the application's, or used where their file is.
        """
        context = self.contexts[index]
        return (
            self.shares_weights(index) or WEIGHTS in context.outside or MODEL in context.zero_copy
        )

    def models_to_prepare(self) -> List[Model]:
        """Return the models, each once, that some context needs prepared."""
        indices = {
            context.model
            for index, context in enumerate(self.contexts)
            if self.needs_prepared(index)
        }
        return list(
            {self.models[index].digest: self.models[index] for index in sorted(indices)}.values()
        )

    def with_prepared(self, paths: Mapping[str, Optional[str]]) -> Plan:
        """Return the plan with the path of what was made of each model, by the model's digest."""
        return replace(
            self,
            models=tuple(replace(model, prepared=paths.get(model.digest)) for model in self.models),
        )

    def steps(self) -> Iterator[Step]:
        """Yield the steps of a walk in order; contexts are destroyed last made first, so a dup
        before its source.
        """
        if self.fills:
            yield from self._filling_steps()
            return
        indices = range(CYCLE_KINDS[self.cycles.kind] if self.cycles else len(self.contexts))
        decodes = self.schedule is not None and self.schedule.video is not None
        yield Step("imported")
        if decodes:
            yield Step("decoders")
        yield from (Step("context", index) for index in indices)
        yield from (
            Step("internal_memory", members[0]) for members in self.internal_memories().values()
        )
        yield from (Step("first_inference", index) for index in indices)
        if self.cycles:
            yield from (Step("cycle") for _ in range(self.cycles.count))
        elif self.contexts or self.schedule:
            yield Step("steady")
        if decodes:
            yield Step("decoders_closed")
        yield from (Step("destroy", index) for index in reversed(indices))

    def _filling_steps(self) -> Iterator[Step]:
        count = len(self.contexts)
        yield Step("imported")
        for index in range(count):
            yield Step("context", index)
            if self.contexts[index].internal is not None:
                yield Step("internal_memory", index)
            yield Step("first_inference", index)
        yield from self.steps_when_full(count, count)

    def steps_when_full(self, made: int, ran: int) -> Iterator[Step]:
        """Yield the steps of a plan that fills when no further context is made: those that ran do
        so once more.

        A context that was made and failed then is destroyed first.
        """
        yield from (Step("destroy", index) for index in range(ran, made))
        yield Step("steady")
        yield from (Step("destroy", index) for index in reversed(range(ran)))

    def may_be_full_at(self, step: Step) -> bool:
        """Whether a failure of this step is the answer to how many contexts fit; the first must
        always fit.
        """
        return (
            self.fills
            and bool(step.context)
            and step.phase in ("context", "internal_memory", "first_inference")
        )

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
        if data["cycles"] is not None:
            fields["cycles"] = Cycles(**data["cycles"])
        return cls(**fields)


def _members(numbers: List[Optional[int]]) -> Dict[int, List[int]]:
    """Return, by number, the indices of the contexts that have it."""
    members: Dict[int, List[int]] = {}
    for index, number in enumerate(numbers):
        if number is not None:
            members.setdefault(number, []).append(index)
    return members


def inputs_from_json(data: List[Dict[str, Any]]) -> Tuple[InputData, ...]:
    """Return the inputs of a model, as they stand in Plan.to_json()."""
    inputs = []
    for tensor in data:
        inputs.append(
            InputData(
                **{**tensor, "shape": tuple(tensor["shape"]), "assumed": tuple(tensor["assumed"])}
            )
        )
    return tuple(inputs)


def _model_from_json(data: Dict[str, Any]) -> Model:
    conversion = data["conversion"]
    if conversion is not None:
        conversion = Conversion(**{**conversion, "inputs": inputs_from_json(conversion["inputs"])})
    return Model(**{**data, "inputs": inputs_from_json(data["inputs"]), "conversion": conversion})


def _context_from_json(data: Dict[str, Any]) -> Context:
    lists = {name: tuple(data[name]) for name in ("outside", "zero_copy", "options")}
    return Context(**{**data, **lists})
