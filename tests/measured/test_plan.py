"""Plans: JSON both ways, impossible plans, and the order of steps."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec
import pytest

from reusebench.measured.plan import (
    ADAPTER,
    CUDA,
    DMA_HEAP,
    DUP,
    INPUT,
    INTERNAL,
    LOAD,
    MODEL,
    NATIVE_OUTPUT,
    OF_LANGUAGE_MODELS,
    OUTPUT,
    RESTORED_PROMPT,
    SHARED_CONTEXT,
    SHARED_PROMPT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Conversation,
    Conversion,
    Cycles,
    InvalidPlan,
    Model,
    Plan,
    Step,
    Streams,
    Video,
)
from reusebench.measured.runtimes.base import InputData

_INPUT = InputData("x", "float32", (1, 3, 8, 8), file="/data/0.npy", assumed=(0, 2))
_MODELS = (
    Model("a", "/models/a.onnx", "aa", "/cache/a"),
    Model(
        "b",
        "/models/b.rknn",
        "bb",
        weightless="/models/b-weightless.rknn",
        inputs=(_INPUT,),
        conversion=Conversion("/models/b.onnx", "toolkit 1.0", "INT8", (_INPUT,)),
    ),
)
#: A context with internal memory 7, on core 0, whose contexts run in turn.
_IN_TURN = Context(0, 0, internal=7, core=0)


#: 25 frames per second, for two streams of a video.
_STREAMS = Streams(
    2,
    25.0,
    1,
    2.0,
    10.0,
    Video("clip", "/clip.mp4", "cc", "h264", 1920, 1080, 30.0, 0),
)


def _plan(
    *contexts: Context,
    cores: int = 2,
    rounds: int = 3,
    schedule: Streams | None = None,
    chains: tuple[tuple[int, ...], ...] = (),
) -> Plan:
    return Plan("mine", None, "onnxruntime", _MODELS, contexts, cores, rounds, schedule, chains)


def _in_json(plan: Plan) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(json.dumps(plan.to_json()))
    return data


def test_json_both_ways_gives_the_same_plan() -> None:
    """Another process reads an equal plan: all of its memory as tuples, and its schedule."""
    outside = Context(
        0,
        0,
        outside=(WEIGHTS, INTERNAL),
        allocator=DMA_HEAP,
        zero_copy=(INPUT, OUTPUT),
        core=1,
    )
    device = Context(0, 0, device_io=True, device=CUDA, core=0)
    plans = (
        _plan(),
        _plan(Context(0, 0), Context(0, 0, DUP, 0), Context(1, 1)),
        _plan(_IN_TURN, outside, Context(1, 1, SHARED_WEIGHTS, 0, internal=7, core=0), device),
        _plan(Context(None, 0), schedule=_STREAMS),
        _plan(Context(None, 0), schedule=dataclasses.replace(_STREAMS, video=None)),
        _plan(*[Context(0, 0)] * 5, chains=((0, 1), (4, 2))),
        dataclasses.replace(_plan(Context(0, 0)), fills=True),
    )
    for plan in plans:
        assert Plan.from_json(_in_json(plan)) == plan


def test_plans_that_were_stored_before_contexts_had_memory() -> None:
    """They are read as they ran: the runtime allocates everything, copies, and uses any core."""
    contexts = (Context(0, 0), Context(0, 0, DUP, 0), Context(1, 1))
    data = _in_json(_plan(*contexts))
    for context in data["contexts"]:
        for name in (
            "internal",
            "outside",
            "allocator",
            "zero_copy",
            "device_io",
            "device",
            "core",
        ):
            del context[name]
    for model in data["models"]:
        del model["weightless"], model["inputs"], model["conversion"]
    del data["schedule"], data["chains"], data["contexts"][0]["name"]
    read = msgspec.convert(data, Plan)
    assert (read.contexts, read.chains) == (contexts, ())
    assert [(model.weightless, model.inputs, model.conversion) for model in read.models] == [
        (None, (), None)
    ] * 2


@pytest.mark.parametrize(
    ("contexts", "words"),
    [
        (
            [Context(0, 0, "clone")],
            ["context 0", "'mine'", "'clone'", "valid: load, dup, ", "shared_weights"],
        ),
        ([Context(0, 2)], ["context 0", "model 2", "2 models"]),
        ([Context(0, -1)], ["context 0", "model -1"]),
        ([Context(0, 0), Context(0, 0, LOAD, 0)], ["context 1", "has no source", "make it a dup"]),
        ([Context(0, 0), Context(0, 0, DUP)], ["context 1", "made before it", "None"]),
        ([Context(0, 0, DUP, 0)], ["context 0", "made before it", "not 0"]),
        (
            [Context(0, 0), Context(0, 0, DUP, 2), Context(0, 0)],
            ["context 1", "made before it", "not 2"],
        ),
        ([Context(0, 0), Context(0, 0, DUP, -1)], ["context 1", "made before it", "not -1"]),
        ([Context(0, 0), Context(0, 1, DUP, 0)], ["context 1", "another model", "same model"]),
        (
            [Context(0, 0), Context(0, 0, DUP, 0), Context(0, 0, DUP, 1)],
            ["context 2", "a loaded context", "not a dup"],
        ),
        (
            [Context(0, 0), Context(0, 0, SHARED_CONTEXT, 0), Context(0, 0, SHARED_CONTEXT, 1)],
            ["context 2", "a loaded context", "not a shared_context"],
        ),
        (
            [Context(0, 0), Context(0, 1, SHARED_WEIGHTS, 0), Context(0, 0, SHARED_WEIGHTS, 1)],
            ["context 2", "a loaded context", "not a shared_weights"],
        ),
        ([Context(0, 0), Context(0, 1, SHARED_WEIGHTS)], ["context 1", "made before it", "None"]),
        (
            [Context(0, 0, outside=("registers",))],
            ["context 0", "outside: 'registers'", "valid: weights, internal"],
        ),
        (
            [Context(0, 0, zero_copy=("both",))],
            ["context 0", "zero_copy: 'both'", "valid: input, output, native_output, model"],
        ),
        (
            [Context(0, 0), Context(0, 0, allocator="malloc")],
            ["context 1", "allocator: 'malloc'", "valid: create_mem, dma_heap, physical, mmz"],
        ),
        (
            [Context(0, 0), Context(0, 0, DUP, 0, outside=(WEIGHTS,))],
            ["context 1", "weights are its source's", "only a loaded context's can be outside"],
        ),
        (
            [Context(0, 0), Context(0, 1, SHARED_WEIGHTS, 0, outside=(INTERNAL, WEIGHTS))],
            ["context 1", "weights are its source's"],
        ),
        (
            [dataclasses.replace(_IN_TURN, outside=(INTERNAL,))],
            ["context 0", "outside already", "leave 'internal' out of outside"],
        ),
        ([Context(0, 0, device="tpu")], ["context 0", "device: 'tpu'", "valid: cuda"]),
        (
            [Context(0, 0, device_io=True, zero_copy=(INPUT,))],
            ["context 0", "stay on the device", "leave out zero_copy"],
        ),
        (
            [Context(0, 0, zero_copy=(OUTPUT, NATIVE_OUTPUT))],
            ["context 0", "leave 'output' or 'native_output' out"],
        ),
        (
            [Context(0, 0), Context(0, 0, DUP, 0, zero_copy=(MODEL,))],
            ["context 1", "its source has it"],
        ),
        (
            [Context(0, 0), Context(0, 0, SHARED_WEIGHT_MEMORY, 0)],
            ["context 1", "must be outside: give that 'weights'"],
        ),
        (
            [Context(0, 0, io=0), Context(0, 0, io=0)],
            ["contexts 0 and 1", "none in place: add zero_copy"],
        ),
        (
            [
                Context(0, 0, io=0, core=0, zero_copy=(INPUT,)),
                Context(0, 1, io=0, core=0, zero_copy=(INPUT,)),
            ],
            ["contexts 0 and 1", "contexts of one model and one zero_copy"],
        ),
        (
            [
                Context(0, 0, io=0, core=0, zero_copy=(INPUT,)),
                Context(0, 0, io=0, core=1, zero_copy=(INPUT,)),
            ],
            ["contexts 0 and 1", "share memory for tensors", "one would overwrite the other"],
        ),
        ([Context(0, 0, core=2)], ["context 0", "core 2", "the plan's 2 cores"]),
        ([Context(0, 0, core=-1)], ["context 0", "core -1", "the plan's 2 cores"]),
        (
            [Context(0, 0, core=0), Context(0, 0)],
            ["'mine'", "either every context has a core or none has"],
        ),
        (
            [_IN_TURN, Context(0, 1, core=0), dataclasses.replace(_IN_TURN, core=1)],
            [
                "contexts 0 and 2",
                "'mine'",
                "one would overwrite the other",
                "give both the same core",
            ],
        ),
        (
            [Context(0, 0, internal=0), Context(0, 0, internal=0)],
            [
                "contexts 0 and 1",
                "may run at the same time",
                "in a chain, or give each its own memory",
            ],
        ),
    ],
)
def test_an_impossible_plan_is_refused(contexts: list[Context], words: list[str]) -> None:
    """The message names the contexts, and what would be valid or what to change."""
    with pytest.raises(InvalidPlan) as refusal:
        _plan(*contexts)
    assert [word for word in words if word not in str(refusal.value)] == []


@pytest.mark.parametrize(("cores", "rounds"), [(0, 3), (2, 0), (-1, 3)])
def test_a_plan_that_never_runs_is_refused(cores: int, rounds: int) -> None:
    """Without a core or a round nothing would be measured."""
    with pytest.raises(
        InvalidPlan, match=rf"cores \({cores}\) and rounds \({rounds}\) must be 1 or more"
    ):
        _plan(Context(0, 0), cores=cores, rounds=rounds)


@pytest.mark.parametrize(
    ("changes", "served", "words"),
    [
        ({"count": 0}, None, "a schedule needs a stream and a duration above 0 s"),
        ({"count": 2**40}, None, "1099511627776 streams are too many; valid: up to 1024"),
        ({"duration_s": 0.0}, None, "a schedule needs a stream and a duration above 0 s"),
        ({"fps": -1.0}, None, "must be 0 or more"),
        ({"queue": -1}, None, "must be 0 or more"),
        ({"warm_up_s": -1.0}, None, "must be 0 or more"),
        ({}, (0,), r"serve the streams \[0\]; valid: all of \[0, 1\], or None in every context"),
        ({}, (0, 1, None), r"serve the streams \[0, 1, None\]"),
    ],
)
def test_an_impossible_schedule_is_refused(
    changes: dict[str, Any], served: tuple[int | None, ...] | None, words: str
) -> None:
    """Contexts serve every stream: each context one of them, or each all."""
    contexts = [Context(stream, 0) for stream in served or ()]
    with pytest.raises(InvalidPlan, match=words):
        _plan(*contexts, schedule=dataclasses.replace(_STREAMS, **changes))


def test_frames_need_tensors_of_their_own() -> None:
    """A frame is written into a context's input while another context of its core infers."""
    contexts = [Context(stream, 0, io=0, core=0, zero_copy=(INPUT,)) for stream in (0, 1)]
    assert _plan(*contexts).io_memories() == {0: [0, 1]}
    with pytest.raises(
        InvalidPlan, match=r"contexts 0 and 1 .* a frame is prepared while another one is run"
    ):
        _plan(*contexts, schedule=_STREAMS)


def test_a_plan_from_json_is_checked_too() -> None:
    """The measured process refuses what the harness would refuse."""
    data = _in_json(_plan(Context(0, 0)))
    data["contexts"][0]["model"] = 7
    with pytest.raises(InvalidPlan, match="model 7"):
        Plan.from_json(data)


def test_the_steps_of_a_walk() -> None:
    """All contexts are made, infer alone, then together, and go, the last made first."""
    plan = _plan(Context(0, 0), Context(0, 0, DUP, 0))
    assert list(plan.steps()) == [
        Step("imported"),
        Step("context", 0),
        Step("context", 1),
        Step("first_inference", 0),
        Step("first_inference", 1),
        Step("steady"),
        Step("destroy", 1),
        Step("destroy", 0),
    ]
    assert list(_plan().steps()) == [Step("imported")]
    phases = [
        "imported",
        "decoders",
        "context",
        "first_inference",
        "steady",
        "decoders_closed",
        "destroy",
    ]
    assert [step.phase for step in _plan(Context(None, 0), schedule=_STREAMS).steps()] == phases


@pytest.mark.parametrize(
    ("kind", "contexts", "living"),
    [
        ("inferences", 1, 1),
        ("contexts", 1, 0),
        ("dups", 2, 1),
        ("sequences", 2, 1),
        ("io_memory", 1, 1),
        ("replaced", 2, 2),
    ],
)
def test_the_steps_of_cycles(kind: str, contexts: int, living: int) -> None:
    """Contexts that stay alive are made before the first cycle and destroyed after the last."""
    plan = dataclasses.replace(_plan(*[Context(0, 0)] * contexts), cycles=Cycles(kind, 3))
    phases = (
        ["context"] * living + ["first_inference"] * living + ["cycle"] * 3 + ["destroy"] * living
    )
    assert [step.phase for step in plan.steps()] == ["imported", *phases]
    assert Plan.from_json(_in_json(plan)) == plan


@pytest.mark.parametrize(
    ("cycles", "contexts", "words"),
    [
        (Cycles("round", 3), 1, "unknown kind of cycles 'round'; valid: inferences, contexts"),
        (Cycles("inferences", 0), 1, "cycles are 1 or more"),
        (Cycles("dups", 3), 1, "cycles of dups have 2 contexts, not 1"),
    ],
)
def test_impossible_cycles_are_refused(cycles: Cycles, contexts: int, words: str) -> None:
    """An unknown kind, no cycle, and too few contexts for the kind."""
    with pytest.raises(InvalidPlan, match=words):
        dataclasses.replace(_plan(*[Context(0, 0)] * contexts), cycles=cycles)


def test_the_steps_of_a_plan_that_fills() -> None:
    """Each context is ready before the next is made; at the end those that ran do so once more."""
    contexts = (Context(0, 0), *(Context(0, 0, DUP, 0, internal=1, core=0) for _ in range(2)))
    plan = dataclasses.replace(
        _plan(*(dataclasses.replace(context, core=0) for context in contexts)), fills=True
    )
    making = [Step("imported"), Step("context", 0), Step("first_inference", 0)]
    for index in (1, 2):
        making += [
            Step("context", index),
            Step("internal_memory", index),
            Step("first_inference", index),
        ]
    full = [Step("steady"), *(Step("destroy", index) for index in (2, 1, 0))]
    assert list(plan.steps()) == making + full
    assert list(plan.steps_when_full(3, 3)) == full
    assert list(plan.steps_when_full(2, 1)) == [
        Step("destroy", 1),
        Step("steady"),
        Step("destroy", 0),
    ]
    assert plan.limited_to(1).contexts == plan.contexts[:1]


def test_which_failures_are_a_limit() -> None:
    """A failure of an additional context is a limit, in a plan that adds them until one fails."""
    plan = dataclasses.replace(_plan(Context(0, 0), Context(0, 0)), fills=True)
    is_limit = {step: plan.may_be_full_at(step) for step in plan.steps()}
    assert [step for step, answer in is_limit.items() if answer] == [
        Step("context", 1),
        Step("first_inference", 1),
    ]
    assert not dataclasses.replace(plan, fills=False).may_be_full_at(Step("context", 1))


def test_internal_memory_is_given_between_making_and_running() -> None:
    """Sizes are known when all contexts are made, and none can run without; each memory once."""
    other = Context(1, 1, internal=3, core=1)
    plan = _plan(Context(0, 0, core=0), _IN_TURN, other, Context(0, 0, DUP, 1, internal=7, core=0))
    assert plan.internal_memories() == {7: [1, 3], 3: [2]}
    steps = list(plan.steps())
    assert steps[4:8] == [
        Step("context", 3),
        Step("internal_memory", 1),
        Step("internal_memory", 2),
        Step("first_inference", 0),
    ]


@pytest.mark.parametrize(
    ("cores", "of_contexts", "at_once"),
    [
        (1, (None, None), False),
        (2, (None, None), True),
        (2, (0, 0), False),
        (2, (0, 1), True),
        (1, (0, 0), False),
    ],
)
def test_which_contexts_may_run_at_once(
    cores: int, of_contexts: tuple[int | None, int | None], at_once: bool
) -> None:
    """Contexts of one core run in turn, and all contexts do if there is one core."""
    plan = _plan(*(Context(0, 0, core=core) for core in of_contexts), cores=cores)
    assert plan.may_run_at_once(0, 1) is at_once
    assert plan.may_run_at_once(1, 0) is at_once


def test_on_one_core_internal_memory_needs_no_binding() -> None:
    """With one core everything runs in turn, so no context needs to be bound to it."""
    plan = _plan(Context(0, 0, internal=0), Context(0, 1, internal=0), cores=1)
    assert plan.internal_memories() == {0: [0, 1]}


def test_which_contexts_share_weights() -> None:
    """A dup or another resolution shares weights with its source; a load and a handle do not."""
    plan = _plan(
        Context(0, 0),
        Context(0, 0, DUP, 0),
        Context(1, 1),
        Context(1, 1, SHARED_CONTEXT, 2),
        Context(1, 0),
        Context(1, 1),
        Context(1, 0, SHARED_WEIGHTS, 5),
    )
    assert [plan.shares_weights(index) for index in range(7)] == [
        True,
        True,
        False,
        False,
        False,
        True,
        True,
    ]


def test_which_contexts_need_the_prepared_model() -> None:
    """Those whose weights are shared, given by the application, or used in their file."""
    plan = _plan(
        Context(0, 0),
        Context(0, 0, DUP, 0),
        Context(0, 1, outside=(WEIGHTS,)),
        Context(0, 1, outside=(INTERNAL,)),
        Context(0, 1, zero_copy=(MODEL,)),
    )
    assert [plan.needs_prepared(index) for index in range(5)] == [True, True, True, False, True]


@pytest.mark.parametrize(
    ("chains", "words"),
    [
        (((0, 1), (2, 1)), "no context is in two chains or twice in one"),
        (((0, 0),), "or twice in one"),
        (((0,), ()), "a chain has contexts"),
        (((0, 3),), "not among the plan's 3 contexts"),
        (((0, -1),), "not among the plan's 3 contexts"),
        (
            ((0, 2),),
            (
                "contexts 0 and 2 of scenario 'mine': contexts that run one after the other serve"
                " the same stream"
            ),
        ),
    ],
)
def test_an_impossible_chain_is_refused(chains: tuple[tuple[int, ...], ...], words: str) -> None:
    """A context runs once in a round, and a frame stays in its stream."""
    with pytest.raises(InvalidPlan, match=words):
        _plan(Context(0, 0), Context(0, 1), Context(1, 0), chains=chains)


def test_every_context_is_in_a_chain() -> None:
    """Unchained contexts are alone; chains are in the order of their first made contexts."""
    plan = _plan(*[Context(0, 0)] * 5, chains=((4, 1), (2, 3)))
    assert plan.all_chains() == [(0,), (4, 1), (2, 3)]
    assert [plan.chain_of(index) for index in range(5)] == [(0,), (4, 1), (2, 3), (2, 3), (4, 1)]


def test_contexts_of_a_chain_share_internal_memory_without_a_core() -> None:
    """They never run at once; contexts of two chains do, unless both have the same core."""
    memory = Context(0, 0, internal=0)
    plan = _plan(memory, memory, chains=((1, 0),))
    assert plan.internal_memories() == {0: [0, 1]}
    assert not plan.may_run_at_once(0, 1)
    with pytest.raises(InvalidPlan, match=r"contexts 0 and 2 of .* may run at the same time"):
        _plan(memory, memory, memory, chains=((0, 1),))
    bound = dataclasses.replace(memory, core=1)
    assert _plan(bound, bound, bound, chains=((0, 1),)).may_run_at_once(0, 2) is False


def test_a_name_changes_nothing_of_a_plan() -> None:
    """Plans whose contexts have other names, or none, are equal; a name is kept for tables."""
    named = _plan(Context(0, 0, name="detector"))
    assert named == _plan(Context(0, 0))
    assert hash(named) == hash(_plan(Context(0, 0)))
    assert Plan.from_json(_in_json(named)).contexts[0].name == "detector"


# Language models


def _talk(*contexts: Context, conversation: Conversation | None, **changes: Any) -> Plan:
    return Plan(
        "talk", None, "llama_cpp", _MODELS, contexts, 1, 3, conversation=conversation, **changes
    )


def test_a_plan_of_conversations_in_json() -> None:
    """The conversation and the shared cache come back as they were."""
    plan = _talk(
        Context(0, 0, unified_cache=True),
        Context(0, 0, SHARED_PROMPT, 0),
        Context(0, 1, ADAPTER, 0),
        conversation=Conversation(512, 60, 8, 32),
    )
    assert Plan.from_json(_in_json(plan)) == plan
    assert plan.sequences_over(0) == [1]


@pytest.mark.parametrize(
    ("conversation", "words"),
    [
        (Conversation(64, 0, 8), "have 1 token or more"),
        (Conversation(64, 60, 8), "has room for 64 tokens and needs 68"),
        (Conversation(64, 8, 8, 8), "8 tokens of the prompt are common; valid: from 0 to 7"),
    ],
)
def test_impossible_conversations(conversation: Conversation, words: str) -> None:
    """The sentence has the numbers and what is valid."""
    with pytest.raises(InvalidPlan, match=words):
        _talk(Context(0, 0), conversation=conversation)


@pytest.mark.parametrize("mechanism", OF_LANGUAGE_MODELS)
def test_mechanisms_of_language_models_need_a_conversation(mechanism: str) -> None:
    """Without one they are refused; shared and restored prompts also need common tokens."""
    contexts = (Context(0, 0), Context(0, 0, mechanism, 0))
    with pytest.raises(InvalidPlan, match="is for language models, and the plan has no"):
        _talk(*contexts, conversation=None)
    without_common = Conversation(64, 8, 2)
    if mechanism in (SHARED_PROMPT, RESTORED_PROMPT):
        with pytest.raises(InvalidPlan, match="needs tokens that the prompts have in common"):
            _talk(*contexts, conversation=without_common)
    else:
        assert _talk(*contexts, conversation=without_common).contexts == contexts
