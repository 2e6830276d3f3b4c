"""The Plan: the contexts to make, what they reuse of each other, and how they run, as plain data.

A Plan crosses the process boundary as JSON, so this module runs in the harness and in the measured
process: standard library only, Python 3.8.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from reusebench.measured.runtimes.base import Conversation, InputData

__all__ = [
    "ADAPTER",
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
    "MOST_CYCLES",
    "MOST_STREAMS",
    "NATIVE_OUTPUT",
    "OF_COMMON_TOKENS",
    "OF_LANGUAGE_MODELS",
    "OUTPUT",
    "PHYSICAL",
    "REPLACED",
    "RESTORED_PROMPT",
    "SEQUENCE",
    "SEQUENCES",
    "SHARED_CONTEXT",
    "SHARED_PROMPT",
    "SHARED_WEIGHTS",
    "SHARED_WEIGHT_MEMORY",
    "WEIGHTS",
    "ZERO_COPY",
    "Context",
    "Conversation",
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

#: A context made from the model, which reuses nothing.
LOAD = "load"
#: Another context over the weights of its source, with internal memory of its own
#: (rknn_dup_context).
DUP = "dup"
#: The source itself, run from one more thread.
SHARED_CONTEXT = "shared_context"
#: A context of the source's network at another resolution, over the source's weights
#: (RKNN_FLAG_SHARE_WEIGHT_MEM).
SHARED_WEIGHTS = "shared_weights"
#: Another context of the model, whose weights are the memory that the application gave its source
#: (one memory in rknn_set_weight_mem of several contexts).
SHARED_WEIGHT_MEMORY = "shared_weight_memory"

#: Language models only. Another conversation in the context of its source.
SEQUENCE = "sequence"
#: The same, over the tokens of the prompt that it has in common with its source.
SHARED_PROMPT = "shared_prompt"
#: Another context over the weights of its source, with the saved state of the common tokens.
RESTORED_PROMPT = "restored_prompt"
#: Another context over the weights of its source, with the adapter (LoRA) that is its model.
ADAPTER = "adapter"

#: Mechanisms of language models.
OF_LANGUAGE_MODELS = (SEQUENCE, SHARED_PROMPT, RESTORED_PROMPT, ADAPTER)
#: Those that compute the common tokens of prompts once.
OF_COMMON_TOKENS = (SHARED_PROMPT, RESTORED_PROMPT)
MECHANISMS = (
    LOAD,
    DUP,
    SHARED_CONTEXT,
    SHARED_WEIGHTS,
    SHARED_WEIGHT_MEMORY,
    *OF_LANGUAGE_MODELS,
)

#: Memory that the application may allocate instead of the runtime (Context.outside).
WEIGHTS = "weights"
INTERNAL = "internal"
#: Data that may be used in place and not copied (Context.zero_copy): tensors as the application has
#: them; an output in the device's own order; the model's file, in memory that the device reads.
INPUT = "input"
OUTPUT = "output"
NATIVE_OUTPUT = "native_output"
MODEL = "model"
ZERO_COPY = (INPUT, OUTPUT, NATIVE_OUTPUT, MODEL)

#: Sources of memory that the application allocates: the runtime's own call, a dma-heap's file
#: descriptor, a physical address, Rockchip's media memory zone.
CREATE_MEM = "create_mem"
DMA_HEAP = "dma_heap"
PHYSICAL = "physical"
MMZ = "mmz"
ALLOCATORS = (CREATE_MEM, DMA_HEAP, PHYSICAL, MMZ)

#: Device that a runtime may use instead of its default (Context.device).
CUDA = "cuda"
DEVICES = (CUDA,)

#: Kinds of cycles. A cycle infers several times; makes a context, infers and destroys it; does so
#: with a dup of a context that stays, or with another conversation in it; replaces the memory of
#: input and output and infers; or makes a context, infers and destroys the oldest one.
INFERENCES = "inferences"
CONTEXTS = "contexts"
DUPS = "dups"
SEQUENCES = "sequences"
IO_MEMORY = "io_memory"
REPLACED = "replaced"
#: Number of contexts, the first ones of the plan, that stay alive between cycles. Cycles that make
#: contexts make the plan's last.
CYCLE_KINDS = {INFERENCES: 1, CONTEXTS: 0, DUPS: 1, SEQUENCES: 1, IO_MEMORY: 1, REPLACED: 2}
#: Inferences in a cycle of them, in plans that do not say it.
INFERENCES_PER_CYCLE = 10

#: More than any board serves; a stored plan may come from anywhere.
MOST_STREAMS = 1024
#: Cycles per process. The harness keeps about 5 KB of readings per cycle.
MOST_CYCLES = 10_000


class InvalidPlan(ValueError):
    """A plan that contradicts itself; the message names the contexts and what would be valid."""

    def __init__(self, problem: str, where: str = "", contexts: Tuple[int, ...] = ()) -> None:
        """`where` is for the message; `contexts` are the indices concerned, if any."""
        super().__init__(f"{where}: {problem}" if where else problem)
        self.problem = problem
        self.contexts = contexts


@dataclass(frozen=True)
class Conversion:
    """The conversion that made a model file from one that the runtime does not read."""

    #: Absolute path of the file that was converted.
    source: str
    #: The converter and its version.
    by: str
    #: Type that the NPU computes with: INT8 or FP16.
    precision: str
    #: Inputs of the source.
    inputs: Tuple[InputData, ...]
    #: Whether data of the inputs, or noise, calibrated INT8. Otherwise the source has its own
    #: scales, or none.
    is_calibrated: bool = True


@dataclass(frozen=True)
class Model:
    """A model file that contexts are made from."""

    #: Name in tables.
    name: str
    #: Absolute path of the file.
    path: str
    #: SHA-256 of the file, of the external data that it names, and of its inputs if the file does
    #: not give their shapes or the user gives them. Equal digests are equal models with equal
    #: inputs.
    digest: str
    #: File that the runtime made beforehand so that weights can be shared or given; None if it
    #: needs none.
    prepared: Optional[str] = None
    #: The same model without weights, for a context that shares another one's; None if there is
    #: none.
    weightless: Optional[str] = None
    #: Data of each input; empty means noise of the shapes that the file declares.
    inputs: Tuple[InputData, ...] = ()
    #: None if the file is built in, or as the user gave it.
    conversion: Optional[Conversion] = None
    #: The runtime's own options without which it does not run the file, NAME=VALUE each.
    options: Tuple[str, ...] = ()
    #: Source of the files of every runtime, with equal inputs: the name of a built-in network, or
    #: the digest of the user's file. None means the file itself.
    origin: Optional[str] = field(default=None, compare=False)


@dataclass(frozen=True)
class Context:
    """One context of a plan."""

    #: Stream whose frames the context serves, counted from 0; None means every stream.
    stream: Optional[int]
    #: Index into Plan.models.
    model: int
    #: One of MECHANISMS.
    mechanism: str = LOAD
    #: Index into Plan.contexts of the context that is reused; None for LOAD.
    source: Optional[int] = None
    #: Contexts with the same number share one internal memory of the application; None means its
    #: own.
    internal: Optional[int] = None
    #: Memory that the application allocates for this context: WEIGHTS, INTERNAL.
    outside: Tuple[str, ...] = ()
    #: Source of that memory: one of ALLOCATORS.
    allocator: str = CREATE_MEM
    #: Data that is used in place: some of ZERO_COPY.
    zero_copy: Tuple[str, ...] = ()
    #: Contexts of one model with the same number have the tensors of zero_copy in one memory of the
    #: application; None means its own.
    io: Optional[int] = None
    #: Whether input and output stay in the memory of the device that infers; the application
    #: neither sends nor fetches them.
    device_io: bool = False
    #: CUDA; None means the runtime's default device.
    device: Optional[str] = None
    #: Core that runs the context; contexts of one core run in turn. None means any free one.
    core: Optional[int] = None
    #: The runtime's own options, NAME=VALUE each. A context that reuses another one has its
    #: options.
    options: Tuple[str, ...] = ()
    #: Whether the sequences over this context share one cache; False: each has a part of its own.
    unified_cache: bool = False
    #: The user's name for the context, which changes nothing that is measured; None if there is
    #: none.
    name: Optional[str] = field(default=None, compare=False)


@dataclass(frozen=True)
class Video:
    """A video file, as its decoder describes it."""

    #: Name in tables.
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
    #: Number of frames; 0 if the file does not say.
    frames: int


@dataclass(frozen=True)
class Streams:
    """A schedule of streams of camera frames, each at its pace, which the contexts take in turn.

    A frame is decoded when it is due, then scaled into the inputs of the chain of contexts that
    takes it. Frames of a stream are due at equal intervals, and streams are evenly apart within an
    interval.
    """

    count: int
    #: Frames per second of each stream; 0 means as fast as contexts take them: a frame is due when
    #: its stream begins with it, and none is dropped.
    fps: float
    #: Frames per stream that may wait for a free context before new ones are dropped.
    queue: int
    #: Warm-up: frames that are due within it are not counted.
    warm_up_s: float
    #: Steady state, in which frames are counted.
    duration_s: float
    #: Video that every stream plays in a loop; None if nothing is decoded and inputs stay as they
    #: are.
    video: Optional[Video]


@dataclass(frozen=True)
class Cycles:
    """Repetitions of the same work, after each of which the same resources should be in use."""

    #: A key of CYCLE_KINDS.
    kind: str
    count: int
    #: Inferences in a cycle of INFERENCES: a leak of each counts as often, so that few cycles show
    #: it.
    inferences: int = INFERENCES_PER_CYCLE


class Step(NamedTuple):
    """One step of a walk; the process stops at a barrier after it."""

    #: "imported", "decoders", "context", "internal_memory", "first_inference", "steady", "cycle",
    #: "decoders_closed", "destroy".
    phase: str
    #: Index into Plan.contexts of the context concerned, or the first one of an internal memory;
    #: None if the step is of none.
    context: Optional[int] = None


@dataclass(frozen=True)
class Plan:
    """The work of one measured process: make contexts in order, run them, destroy them."""

    scenario: str
    #: Scenario with the same models and no reuse, which savings are relative to; None for a
    #: baseline.
    baseline: Optional[str]
    runtime: str
    models: Tuple[Model, ...]
    contexts: Tuple[Context, ...]
    #: Number of contexts that may infer at once; each chain runs on its own thread. In a schedule
    #: of streams only contexts that share an internal memory wait for each other: the system
    #: schedules the others, as in an application.
    cores: int
    #: Timed inferences of each context in the steady phase of a plan without a schedule.
    rounds: int
    #: Schedule of streams; None if every context infers `rounds` times.
    schedule: Optional[Streams] = None
    #: Indices into contexts. One thread runs the contexts of a chain in this order, in each round
    #: or for each frame. A context in no chain is a chain of its own.
    chains: Tuple[Tuple[int, ...], ...] = ()
    #: Cycles instead of a steady phase; None if there is one.
    cycles: Optional[Cycles] = None
    #: Whether contexts are added until one fails: each is made, given its internal memory and run
    #: before the next. `contexts` are the most that are tried.
    fills: bool = False
    #: The conversation of each context; None unless the models are language models.
    conversation: Optional[Conversation] = None

    def __post_init__(self) -> None:
        """Refuse a plan that no runtime could walk, or whose figures would mean nothing."""
        if self.cores < 1 or self.rounds < 1:
            raise InvalidPlan(f"cores ({self.cores}) and rounds ({self.rounds}) must be 1 or more")
        for index, context in enumerate(self.contexts):
            self._check_context(index, context)
            self._check_memory(index, context)
            self._check_options(index, context)
        if len({context.core is None for context in self.contexts}) > 1:
            raise self._refusal("either every context has a core or none has")
        self._check_chains()
        if self.conversation is not None:
            self._check_conversation(self.conversation)
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

    def _check_conversation(self, conversation: Conversation) -> None:
        if min(conversation.prompt, conversation.generated) < 1:
            raise self._refusal("the prompt and the answer of a conversation have 1 token or more")
        if not 0 <= conversation.common < conversation.prompt:
            raise self._refusal(
                f"{conversation.common} tokens of the prompt are common; valid: from 0 to"
                f" {conversation.prompt - 1}, one less than the prompt has"
            )
        needed = conversation.prompt + conversation.generated
        if conversation.tokens < needed:
            raise self._refusal(
                f"a conversation has room for {conversation.tokens} tokens and needs {needed}, for"
                f" a prompt of {conversation.prompt} and an answer of {conversation.generated}"
            )
        if self.schedule is not None:
            raise self._refusal("a conversation has no streams of frames: leave one of them out")

    def _check_cycles(self, cycles: Cycles) -> None:
        if cycles.kind not in CYCLE_KINDS:
            raise self._refusal(
                f"unknown kind of cycles {cycles.kind!r}; valid: {', '.join(CYCLE_KINDS)}"
            )
        if min(cycles.count, cycles.inferences) < 1 or self.schedule is not None:
            raise self._refusal(
                "cycles are 1 or more, of 1 inference or more, and in no schedule of streams"
            )
        makes_one_more = cycles.kind in (CONTEXTS, DUPS, SEQUENCES)
        wanted = CYCLE_KINDS[cycles.kind] + makes_one_more
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
        if context.mechanism in OF_LANGUAGE_MODELS:
            self._check_language_mechanism(index, context)
        if source.model != context.model and context.mechanism not in (SHARED_WEIGHTS, ADAPTER):
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

    def _check_language_mechanism(self, index: int, context: Context) -> None:
        if self.conversation is None:
            raise self._refusal(
                f"{context.mechanism} is for language models, and the plan has no conversation",
                index,
            )
        if context.mechanism in OF_COMMON_TOKENS and not self.conversation.common:
            raise self._refusal(
                f"{context.mechanism} needs tokens that the prompts have in common: give their"
                " number in common",
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
        self,
        index: int,
        key: str,
        words: Tuple[str, ...],
        valid: Tuple[str, ...],
    ) -> None:
        unknown = [word for word in words if word not in valid]
        if unknown:
            raise self._refusal(
                f"{key}: {unknown[0]!r} is unknown; valid: {', '.join(valid)}", index
            )

    def _check_chains(self) -> None:
        indices = self._chained()
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
        for other in others:
            if (other.model, other.zero_copy) != (first.model, first.zero_copy):
                raise self._refusal(
                    "memory for tensors is shared by contexts of one model and one zero_copy",
                    *members,
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
        """Return an error about the scenario, or about these contexts."""
        where = f"scenario {self.scenario!r}"
        if contexts:
            noun = "contexts" if len(contexts) > 1 else "context"
            where = f"{noun} {' and '.join(map(str, contexts))} of {where}"
        return InvalidPlan(problem, where, contexts)

    def all_chains(self) -> List[Tuple[int, ...]]:
        """Return every chain, also of single contexts, ordered by their first made contexts."""
        chained = set(self._chained())
        alone = [(index,) for index in range(len(self.contexts)) if index not in chained]
        return sorted([*self.chains, *alone], key=min)

    def _chained(self) -> List[int]:
        indices: List[int] = []
        for chain in self.chains:
            indices += chain
        return indices

    def chain_of(self, index: int) -> Tuple[int, ...]:
        """Return the contexts that run in turn with this one, in their order and including it."""
        return next((chain for chain in self.chains if index in chain), (index,))

    def is_first_of_model(self, index: int) -> bool:
        """Whether it is the first context of its model; contexts made by cycles come after all
        others.
        """
        models = [context.model for context in self.contexts]
        return index < len(models) and models[index] not in models[:index]

    def options_of(self, index: int) -> Tuple[str, ...]:
        """Return the options of a context and those that its model needs.

        The context's are its source's if it reuses one.
        """
        context = self.contexts[index]
        options = context.options
        if context.source is not None:
            options = self.contexts[context.source].options
        return tuple(dict.fromkeys((*self.models[context.model].options, *options)))

    def may_run_at_once(self, one: int, other: int) -> bool:
        """Whether the schedule lets these two contexts infer at the same time."""
        if other in self.chain_of(one):
            return False
        if self.cores == 1:
            return False
        core = self.contexts[one].core
        other_core = self.contexts[other].core
        return core is None or other_core is None or core != other_core

    def internal_memories(self) -> Dict[int, List[int]]:
        """Return the contexts of each shared internal memory, by its number."""
        return _members([context.internal for context in self.contexts])

    def io_memories(self) -> Dict[int, List[int]]:
        """Return the contexts of each shared memory for tensors, by its number."""
        return _members([context.io for context in self.contexts])

    def sequences_over(self, index: int) -> List[int]:
        """Return the contexts that are sequences over this one, in order."""
        found = []
        for other, context in enumerate(self.contexts):
            if context.source == index and context.mechanism in (SEQUENCE, SHARED_PROMPT):
                found.append(other)
        return found

    def shares_weights(self, index: int) -> bool:
        """Whether this context and another one have the same weights."""
        mechanisms = (DUP, SHARED_WEIGHTS, SHARED_WEIGHT_MEMORY, RESTORED_PROMPT)
        if self.contexts[index].mechanism in mechanisms:
            return True
        for other in self.contexts:
            if other.mechanism in mechanisms and other.source == index:
                return True
        return False

    def needs_prepared(self, index: int) -> bool:
        """Whether this context is made from the file that the runtime prepared.

        It is if its weights are shared, given by the application, or used where their file is.
        """
        context = self.contexts[index]
        uses_file = WEIGHTS in context.outside or MODEL in context.zero_copy
        return uses_file or self.shares_weights(index)

    def models_to_prepare(self) -> List[Model]:
        """Return the models that some context needs prepared, each once."""
        indices = set()
        for index, context in enumerate(self.contexts):
            if self.needs_prepared(index):
                indices.add(context.model)
        by_digest = {self.models[index].digest: self.models[index] for index in sorted(indices)}
        return list(by_digest.values())

    def with_prepared(self, paths: Mapping[str, Optional[str]]) -> Plan:
        """Return the plan with the paths of prepared files, by the digests of their models."""
        models = [replace(model, prepared=paths.get(model.digest)) for model in self.models]
        return replace(self, models=tuple(models))

    def steps(self) -> Iterator[Step]:
        """Yield the steps of a walk in order; the context made last is destroyed first."""
        if self.fills:
            yield from self._filling_steps()
            return
        count = CYCLE_KINDS[self.cycles.kind] if self.cycles else len(self.contexts)
        indices = range(count)
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
        """Yield the steps after the last context was added: the first `ran` contexts run once more.

        A context that was made but failed is destroyed first.
        """
        yield from (Step("destroy", index) for index in range(ran, made))
        yield Step("steady")
        yield from (Step("destroy", index) for index in reversed(range(ran)))

    def may_be_full_at(self, step: Step) -> bool:
        """Whether a failure of this step tells how many contexts fit; the first one always must."""
        return (
            self.fills
            and bool(step.context)
            and step.phase in ("context", "internal_memory", "first_inference")
        )

    def limited_to(self, contexts: int) -> Plan:
        """Return the plan with its first `contexts` contexts, those that fitted."""
        return replace(self, contexts=self.contexts[:contexts])

    def to_json(self) -> Dict[str, Any]:
        """Return the plan as data for the json module."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Dict[str, Any]) -> Plan:
        """Return the plan from the data of to_json()."""
        fields = dict(data)
        fields["models"] = tuple(map(_model_from_json, data["models"]))
        fields["contexts"] = tuple(_context_from_json(context) for context in data["contexts"])
        fields["chains"] = tuple(map(tuple, data["chains"]))
        if data["schedule"] is not None:
            video = data["schedule"]["video"]
            schedule = {**data["schedule"], "video": video and Video(**video)}
            fields["schedule"] = Streams(**schedule)
        if data["cycles"] is not None:
            fields["cycles"] = Cycles(**data["cycles"])
        if data.get("conversation") is not None:
            fields["conversation"] = Conversation(**data["conversation"])
        return cls(**fields)


def _members(numbers: List[Optional[int]]) -> Dict[int, List[int]]:
    """Return the indices of the contexts that have each number."""
    members: Dict[int, List[int]] = {}
    for index, number in enumerate(numbers):
        if number is not None:
            members.setdefault(number, []).append(index)
    return members


def inputs_from_json(data: List[Dict[str, Any]]) -> Tuple[InputData, ...]:
    """Return the inputs of a model from their data in Plan.to_json()."""
    inputs = []
    for tensor in data:
        names = ("shape", "assumed", "doubtful")
        lists = {name: tuple(tensor.get(name, ())) for name in names}
        inputs.append(InputData(**{**tensor, **lists}))
    return tuple(inputs)


def _model_from_json(data: Dict[str, Any]) -> Model:
    conversion = data["conversion"]
    if conversion is not None:
        conversion = Conversion(**{**conversion, "inputs": inputs_from_json(conversion["inputs"])})
    changed = {
        "inputs": inputs_from_json(data["inputs"]),
        "conversion": conversion,
        "options": tuple(data.get("options", ())),
    }
    return Model(**{**data, **changed})


def _context_from_json(data: Dict[str, Any]) -> Context:
    lists = {name: tuple(data[name]) for name in ("outside", "zero_copy", "options")}
    return Context(**{**data, **lists})
