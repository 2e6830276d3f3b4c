"""The list of scenarios and of the questions that they answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Optional

from reusebench.measured.plan import (
    ADAPTER,
    CONTEXTS,
    CREATE_MEM,
    CUDA,
    DMA_HEAP,
    DUP,
    DUPS,
    INFERENCES,
    INPUT,
    INTERNAL,
    IO_MEMORY,
    LOAD,
    MMZ,
    MODEL,
    NATIVE_OUTPUT,
    OUTPUT,
    PHYSICAL,
    REPLACED,
    RESTORED_PROMPT,
    SEQUENCE,
    SEQUENCES,
    SHARED_PROMPT,
    WEIGHTS,
    Context,
    Conversation,
    Cycles,
    InvalidPlan,
    Plan,
)
from reusebench.scenarios.layouts import (
    LEAN_INTERNAL_LAYOUTS,
    LEAN_LAYOUTS,
    LEAN_WEIGHTS_LAYOUTS,
    LayoutFunction,
    Parameters,
    TooFewModels,
    TooFewTokens,
    bound,
    combined,
    contexts_of,
    decode_only,
    exactly,
    external,
    full_dup,
    full_dup_internal_reuse,
    full_dup_per_core,
    in_turn,
    internal_reuse,
    internal_reuse_last_first,
    no_reuse,
    no_reuse_one_model,
    one_context_with,
    one_model_with,
    partial_dup,
    resolutions,
    sessions,
    sessions_with_adapters,
    sessions_with_merged_models,
    shared_context,
    shared_weights,
    shorter_session,
    weight_memory,
)

__all__ = [
    "ADAPTERS",
    "CYCLES",
    "DEFAULT_OPTIONS",
    "FRAMES_4K",
    "FRAMES_1080P",
    "IN_TURN",
    "LEAN",
    "LIMIT",
    "MERGED",
    "MODEL_SETS",
    "OPTIONS",
    "OTHER_QUESTION",
    "PLANS",
    "QUESTIONS",
    "RESOLUTIONS",
    "SCENARIOS",
    "SESSIONS",
    "STREAMS",
    "NoBaseline",
    "Parameters",
    "Scenario",
    "TooFewModels",
    "TooFewTokens",
    "find_scenario",
    "first_look",
    "name_of_plan",
    "name_without_reuse",
    "option_scenario",
    "question_of",
    "scenarios_of",
    "suits",
    "without_reuse",
]

#: The sets of models that scenarios are made from:
#: - one per stream;
#: - several that run one after the other, the largest first;
#: - one at several resolutions, the first of which has the weights;
#: - one that takes and returns a camera frame, at two sizes;
#: - one that is made and run many times;
#: - a language model; one, and adapters over it; one, and it merged with each adapter.
STREAMS = "streams"
IN_TURN = "in_turn"
RESOLUTIONS = "resolutions"
FRAMES_1080P = "frames_1080p"
FRAMES_4K = "frames_4k"
CYCLES = "cycles"
SESSIONS = "sessions"
ADAPTERS = "adapters"
MERGED = "merged"
MODEL_SETS = (
    STREAMS,
    IN_TURN,
    RESOLUTIONS,
    FRAMES_1080P,
    FRAMES_4K,
    CYCLES,
    SESSIONS,
    ADAPTERS,
    MERGED,
)

_OF_LANGUAGE_MODELS = (SESSIONS, ADAPTERS, MERGED)

#: The question of the runtimes' own options, and its baseline. Each option is a scenario that has
#: the option as its name.
OPTIONS = "options"
DEFAULT_OPTIONS = "default_options"

#: Room of a conversation in scenarios with cycles. llama.cpp rounds a context up to 256 tokens.
_CYCLE_TOKENS = 256


class NoBaseline(InvalidPlan):
    """A plan of the user's has no plan without reuse."""


@dataclass(frozen=True)
class Scenario:
    """One way to lay out contexts, and the baseline that it is compared with."""

    name: str
    #: Layouts, the best first. If the runtime lacks a mechanism of one, the next is measured.
    layouts: tuple[LayoutFunction, ...]
    baseline: Optional[str] = None
    #: One of MODEL_SETS.
    model_set: str = STREAMS
    #: Whether it only shows the mechanism of another scenario at another size, or with frames.
    is_variant: bool = False
    #: Whether its contexts take the frames of streams (Parameters.schedule).
    has_streams: bool = False
    #: The kind of its cycles, a key of plan.CYCLE_KINDS; None: its contexts have a steady phase.
    cycles: Optional[str] = None
    #: Whether contexts of one model are added until one fails (Plan.fills).
    fills: bool = False

    @property
    def runs_once(self) -> bool:
        """Whether one process answers it: cycles are the repeats, or contexts are counted."""
        return self.cycles is not None or self.fills

    def plans(self, parameters: Parameters) -> list[Plan]:
        """Return a plan for each way to lay the scenario out.

        Raises TooFewModels if another scenario measures the same with these models.
        """
        if self.fills:
            parameters = replace(parameters, streams=1, contexts=parameters.most_contexts, rounds=1)
        plans = []
        for layout_of in self.layouts:
            layout = layout_of(parameters)
            plan = Plan(
                scenario=self.name,
                baseline=self.baseline,
                runtime=parameters.runtime,
                models=layout.models,
                contexts=layout.contexts,
                cores=parameters.cores,
                rounds=parameters.rounds,
                schedule=parameters.schedule if self.has_streams else None,
                cycles=_cycles(self.cycles, parameters) if self.cycles else None,
                fills=self.fills,
                conversation=self._conversation(layout.conversation or parameters.conversation),
            )
            plans.append(plan)
        return plans

    def _conversation(self, conversation: Optional[Conversation]) -> Optional[Conversation]:
        """Return the conversation; in cycles each turn fills its context, so that a leak of tokens
        shows.
        """
        if conversation is None or self.cycles is None:
            return conversation
        tokens = min(conversation.tokens, _CYCLE_TOKENS)
        generated = min(conversation.generated, tokens // 2)
        prompt = tokens - generated
        return Conversation(tokens, prompt, generated, min(conversation.common, prompt - 1))


def _cycles(kind: str, parameters: Parameters) -> Cycles:
    return Cycles(kind, parameters.cycles, parameters.cycle_inferences)


def _of_cycles(kind: str, *contexts: Context) -> Scenario:
    return Scenario(
        f"cycles_{kind}", (exactly(*contexts),), model_set=CYCLES, is_variant=True, cycles=kind
    )


def _of_streams(name: str, layout_of: LayoutFunction, baseline: Optional[str] = None) -> Scenario:
    return Scenario(name, (bound(layout_of),), baseline, is_variant=True, has_streams=True)


def _of_limit(
    name: str, *layouts: LayoutFunction, baseline: Optional[str] = "limit_no_reuse"
) -> Scenario:
    return Scenario(name, layouts, baseline, is_variant=True, fills=True)


def _io(suffix: str, model_set: str, make: Callable[..., LayoutFunction]) -> tuple[Scenario, ...]:
    """Return every way to move input and output, of models of one set."""
    baseline = f"copied_io{suffix}"
    ways: dict[str, dict[str, Any]] = {
        "zero_copy_input": {"zero_copy": (INPUT,)},
        "zero_copy_output": {"zero_copy": (OUTPUT,)},
        "zero_copy_io": {"zero_copy": (INPUT, OUTPUT)},
        "native_io": {"zero_copy": (INPUT, NATIVE_OUTPUT)},
        "device_io": {"device_io": True},
    }
    others = [
        Scenario(
            f"{name}{suffix}", (make(**changes),), baseline, model_set, is_variant=bool(suffix)
        )
        for name, changes in ways.items()
    ]
    return (Scenario(baseline, (make(),), model_set=model_set, is_variant=bool(suffix)), *others)


#: All scenarios in the order in which they run: a baseline stands before its scenarios.
SCENARIOS: tuple[Scenario, ...] = (
    Scenario("no_reuse", (no_reuse,)),
    Scenario("partial_dup", (partial_dup,), baseline="no_reuse"),
    Scenario("no_reuse_one_model", (no_reuse_one_model,)),
    Scenario("full_dup", (full_dup,), baseline="no_reuse_one_model"),
    Scenario("shared_context", (shared_context,), baseline="no_reuse_one_model"),
    Scenario("full_dup_internal_reuse", (full_dup_internal_reuse,), baseline="no_reuse_one_model"),
    Scenario("in_turn", (in_turn,), model_set=IN_TURN),
    Scenario("internal_reuse", (internal_reuse,), baseline="in_turn", model_set=IN_TURN),
    Scenario(
        "internal_reuse_last_first",
        (internal_reuse_last_first,),
        baseline="in_turn",
        model_set=IN_TURN,
    ),
    Scenario("resolutions_2", (resolutions(2),), model_set=RESOLUTIONS, is_variant=True),
    Scenario(
        "shared_weights_2", (shared_weights(2),), "resolutions_2", RESOLUTIONS, is_variant=True
    ),
    Scenario("resolutions_3", (resolutions(3),), model_set=RESOLUTIONS, is_variant=True),
    Scenario(
        "shared_weights_3", (shared_weights(3),), "resolutions_3", RESOLUTIONS, is_variant=True
    ),
    Scenario("resolutions", (resolutions(),), model_set=RESOLUTIONS),
    Scenario("shared_weights", (shared_weights(),), baseline="resolutions", model_set=RESOLUTIONS),
    Scenario("runtime_memory", (no_reuse_one_model,)),
    Scenario("external_weights", (one_model_with(outside=(WEIGHTS,)),), baseline="runtime_memory"),
    Scenario(
        "external_internal", (one_model_with(outside=(INTERNAL,)),), baseline="runtime_memory"
    ),
    Scenario(
        "external_io", (one_model_with(zero_copy=(INPUT, OUTPUT)),), baseline="runtime_memory"
    ),
    Scenario("external_memory", (external(CREATE_MEM),), baseline="runtime_memory"),
    Scenario("external_dma_heap", (external(DMA_HEAP),), baseline="runtime_memory"),
    Scenario("external_physical", (external(PHYSICAL),), baseline="runtime_memory"),
    Scenario("external_mmz", (external(MMZ),), baseline="runtime_memory"),
    Scenario("weight_memory", (weight_memory,), baseline="runtime_memory"),
    Scenario("model_in_place", (one_model_with(zero_copy=(MODEL,)),), baseline="runtime_memory"),
    *_io("", STREAMS, one_model_with),
    *_io("_1080p", FRAMES_1080P, one_context_with),
    *_io("_4k", FRAMES_4K, one_context_with),
    Scenario("cuda_copied_io", (one_model_with(device=CUDA),)),
    Scenario(
        "cuda_device_io", (one_model_with(device=CUDA, device_io=True),), baseline="cuda_copied_io"
    ),
    Scenario("plain", (no_reuse_one_model,)),
    Scenario("lean_weights", LEAN_WEIGHTS_LAYOUTS, baseline="plain", is_variant=True),
    Scenario("lean_internal", LEAN_INTERNAL_LAYOUTS, baseline="plain", is_variant=True),
    Scenario("lean", LEAN_LAYOUTS, baseline="plain"),
    Scenario("sessions_loaded", (sessions(LOAD),), model_set=SESSIONS),
    Scenario("sessions_contexts", (sessions(DUP),), "sessions_loaded", SESSIONS),
    Scenario("sessions_sequences", (sessions(SEQUENCE),), "sessions_loaded", SESSIONS),
    Scenario(
        "sessions_unified", (sessions(SEQUENCE, unified_cache=True),), "sessions_loaded", SESSIONS
    ),
    Scenario(
        "sessions_shared_prompt",
        (sessions(SHARED_PROMPT, unified_cache=True),),
        "sessions_loaded",
        SESSIONS,
    ),
    Scenario("sessions_restored_prompt", (sessions(RESTORED_PROMPT),), "sessions_loaded", SESSIONS),
    Scenario("session", (one_context_with(),), model_set=SESSIONS),
    Scenario("session_shorter", (shorter_session,), model_set=SESSIONS, is_variant=True),
    Scenario("sessions_merged", (sessions_with_merged_models,), model_set=MERGED),
    Scenario("sessions_adapters", (sessions_with_adapters,), "sessions_merged", ADAPTERS),
    Scenario(DEFAULT_OPTIONS, (one_context_with(),)),
    _of_streams("streams_decode_only", decode_only),
    _of_streams("streams_no_reuse", no_reuse),
    _of_streams("streams_partial_dup", partial_dup, baseline="streams_no_reuse"),
    _of_streams("streams_no_reuse_one_model", no_reuse_one_model),
    _of_streams("streams_full_dup", full_dup, baseline="streams_no_reuse_one_model"),
    _of_streams(
        "streams_full_dup_per_core", full_dup_per_core, baseline="streams_no_reuse_one_model"
    ),
    _of_cycles(INFERENCES, Context(stream=0, model=0)),
    _of_cycles(CONTEXTS, Context(stream=0, model=0)),
    _of_cycles(DUPS, *contexts_of(0, [0, 0], 0, DUP)),
    _of_cycles(SEQUENCES, *contexts_of(0, [0, 0], 0, SEQUENCE)),
    _of_cycles(IO_MEMORY, Context(stream=0, model=0, zero_copy=(INPUT, OUTPUT))),
    _of_cycles(REPLACED, *contexts_of(0, [0, 0], 0, LOAD)),
    _of_limit("limit_no_reuse", no_reuse_one_model, baseline=None),
    _of_limit("limit_zero_copy_io", one_model_with(zero_copy=(INPUT, OUTPUT))),
    _of_limit("limit_internal_reuse", combined(no_reuse_one_model, True)),
    _of_limit("limit_full_dup", full_dup),
    _of_limit("limit_full_dup_internal_reuse", full_dup_internal_reuse),
    _of_limit("limit_lean", *LEAN_LAYOUTS),
)


#: The scenarios of --quick: no reuse, dup, internal reuse and all mechanisms together. If the
#: runtime has dup, the steps of LEAN equal scenarios of dup and are measured once; without dup they
#: are the answer. All have the first model alone.
_FIRST_LOOK = (
    "no_reuse_one_model",
    "full_dup",
    "full_dup_internal_reuse",
    "plain",
    "lean_weights",
    "lean_internal",
    "lean",
)
#: What --quick measures of language models: the ways with most to save.
_FIRST_LOOK_OF_SESSIONS = (
    "sessions_loaded",
    "sessions_contexts",
    "sessions_sequences",
    "sessions_shared_prompt",
)
#: What --quick measures besides, with frames: of one model, and of several in turn.
_FIRST_LOOK_OF_ONE = ("streams_no_reuse_one_model", "streams_full_dup")
_FIRST_LOOK_OF_SEVERAL = ("no_reuse", "partial_dup", "streams_no_reuse", "streams_partial_dup")

#: The question of users' plans; each is compared with itself without reuse.
PLANS = "plans"
#: The question of the scenarios that fill; they have no figures to compare.
LIMIT = "limit"
#: The question whose scenarios are steps, each with the mechanisms of the previous one.
LEAN = "lean"
#: Suffix of the name of a plan without reuse; no plan's name has a dot.
_WITHOUT_REUSE = ".no_reuse"
#: The questions with the baselines of their scenarios. Each is a file of bench/ and a part of the
#: report.
QUESTIONS: dict[str, tuple[str, ...]] = {
    PLANS: (),
    "dup": ("no_reuse", "no_reuse_one_model"),
    "internal_reuse": ("in_turn",),
    "shared_weights": ("resolutions_2", "resolutions_3", "resolutions"),
    "external_memory": ("runtime_memory",),
    "io_copies": ("copied_io", "copied_io_1080p", "copied_io_4k", "cuda_copied_io"),
    LEAN: ("plain",),
    SESSIONS: ("sessions_loaded", "session", "session_shorter", "sessions_merged"),
    OPTIONS: (DEFAULT_OPTIONS,),
    "streams": ("streams_decode_only", "streams_no_reuse", "streams_no_reuse_one_model"),
    "leaks": tuple(scenario.name for scenario in SCENARIOS if scenario.cycles),
    LIMIT: ("limit_no_reuse",),
}
#: The question of stored scenarios that this version does not know.
OTHER_QUESTION = "other"


def question_of(scenario: str, baseline: Optional[str]) -> str:
    """Return the question that a scenario answers; scenarios of one baseline answer the same."""
    name = baseline or scenario
    for question, baselines in QUESTIONS.items():
        if name in baselines:
            return question
    return PLANS if name_of_plan(name) else OTHER_QUESTION


def scenarios_of(question: str) -> list[str]:
    """Return the names of a question's scenarios, in the order in which they run."""
    names = []
    for scenario in SCENARIOS:
        if question_of(scenario.name, scenario.baseline) == question:
            names.append(scenario.name)
    return names


def suits(name: str, has_conversations: bool) -> bool:
    """Whether a scenario is one for language models, or for other models; some are for both."""
    scenario = find_scenario(name)
    if scenario.model_set in _OF_LANGUAGE_MODELS or scenario.cycles == SEQUENCES:
        return has_conversations
    if not has_conversations:
        return True
    if scenario.cycles:
        return scenario.cycles != IO_MEMORY
    return DEFAULT_OPTIONS in (scenario.name, scenario.baseline)


def first_look(model_files: int) -> tuple[str, ...]:
    """Return the scenarios of --quick for this number of --model."""
    others = _FIRST_LOOK_OF_SEVERAL if model_files > 1 else _FIRST_LOOK_OF_ONE
    return (*_FIRST_LOOK, *_FIRST_LOOK_OF_SESSIONS, *others)


def option_scenario(option: str) -> Scenario:
    """Return the scenario of a runtime's own option, NAME=VALUE."""
    return Scenario(
        option, (one_context_with(options=(option,)),), DEFAULT_OPTIONS, is_variant=True
    )


def find_scenario(name: str) -> Scenario:
    """Return the scenario of this name, or of this option (NAME=VALUE); raise KeyError."""
    if "=" in name:
        return option_scenario(name)
    for scenario in SCENARIOS:
        if scenario.name == name:
            return scenario
    raise KeyError(
        f"unknown scenario {name!r}; valid: {', '.join(scenario.name for scenario in SCENARIOS)}"
    )


def name_without_reuse(plan: str) -> str:
    """Return the scenario name of a user's plan without reuse."""
    return f"{plan}{_WITHOUT_REUSE}"


def name_of_plan(scenario: str) -> Optional[str]:
    """Return the name of the user's plan whose baseline this is; None if it is no such baseline."""
    if not scenario.endswith(_WITHOUT_REUSE):
        return None
    return scenario[: -len(_WITHOUT_REUSE)]


def without_reuse(plan: Plan) -> Plan:
    """Return the baseline of a user's plan: every context is loaded, and the runtime allocates all
    memory.

    Models, streams, conversation, the order of running, cores, devices and the runtime's own
    options stay. Raises NoBaseline if a context has an adapter.
    """
    contexts = []
    for index, context in enumerate(plan.contexts):
        if context.mechanism == ADAPTER:
            raise NoBaseline(
                "without reuse an adapter is merged into a model of its own, which a plan does not"
                " name. The scenario sessions_adapters is compared with such models: --adapter"
                " FILE,MERGED"
            )
        baseline_context = Context(
            context.stream,
            context.model,
            device=context.device,
            core=context.core,
            options=plan.options_of(index),
            name=context.name,
        )
        contexts.append(baseline_context)
    name = name_without_reuse(plan.scenario)
    return replace(plan, scenario=name, baseline=None, contexts=tuple(contexts))
