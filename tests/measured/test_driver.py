"""The driver on a scripted runtime: the calls that a plan makes, and which contexts meet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reusebench.measured.messages import Message
from reusebench.measured.plan import (
    ADAPTER,
    CUDA,
    DMA_HEAP,
    DUP,
    INPUT,
    INTERNAL,
    NATIVE_OUTPUT,
    OUTPUT,
    RESTORED_PROMPT,
    SEQUENCE,
    SHARED_CONTEXT,
    SHARED_PROMPT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
    WEIGHTS,
    Context,
    Conversation,
    Cycles,
    Model,
    Plan,
    Step,
)
from reusebench.measured.runtimes.base import Allocation
from reusebench.targets.barriers import StepData
from reusebench.targets.target import THIS_INTERPRETER
from tests.helpers.forks import SCRIPTED_FORKS
from tests.helpers.support import make_plan, walk

pytestmark = pytest.mark.process

_ROUNDS = 10
#: Inferences of each context before the rounds.
_WARM_UP = 2


class Walk:
    """A walk of given contexts, with the scripted runtime's notes."""

    def __init__(
        self,
        folder: Path,
        *contexts: Context,
        cores: int = 2,
        script: str = "",
        chains: tuple[tuple[int, ...], ...] = (),
        cycles: Cycles | None = None,
        conversation: Conversation | None = None,
    ) -> None:
        path = folder / "calls"
        models = tuple(
            Model(f"model-{index}", f"calls={path};{script};{index}", str(index))
            for index in range(2)
        )
        plan = Plan(
            "mine",
            None,
            "scripted",
            models,
            contexts,
            cores,
            _ROUNDS,
            chains=chains,
            cycles=cycles,
            conversation=conversation,
        )
        self.run = walk(plan, SCRIPTED_FORKS)
        assert self.run.failure is None, self.run.failure
        self._lines: list[dict[str, Any]] = [
            json.loads(line) for line in path.read_text().splitlines()
        ]

    def operations(self) -> list[dict[str, Any]]:
        """Return the contexts and internal memories that were made, in order."""
        return [line for line in self._lines if "operation" in line]

    def together(self) -> list[list[int]]:
        """Return the contexts of each inference of conversations, in order."""
        return [line["together"] for line in self._lines if "together" in line]

    def most_at_once(self) -> int:
        """Return the largest number of contexts in an inference at once."""
        return 1 + max(len(line["inside"]) for line in self._lines if "inside" in line)

    def at_once(self) -> set[tuple[int, int]]:
        """Return pairs of contexts, the second of which began during an inference of the first."""
        pairs = []
        for line in self._lines:
            for other in line.get("inside", ()):
                pairs.append((line["context"], other))
        return {(min(pair), max(pair)) for pair in pairs}

    def order(self, *contexts: int) -> list[int]:
        """Return the order in which these contexts inferred in the rounds."""
        inferred = [line["context"] for line in self._lines if line.get("context") in contexts]
        return inferred[_WARM_UP * len(contexts) :]

    def inferred(self) -> list[int]:
        """Return the context of each inference, in order."""
        return [line["context"] for line in self._lines if "inside" in line]

    def destroyed(self) -> list[int]:
        """Return the contexts in the order in which they were destroyed."""
        return [line["destroyed"] for line in self._lines if "destroyed" in line]

    def threads(self) -> dict[int, set[str]]:
        """Return the names of the threads that each context inferred on."""
        names: dict[int, set[str]] = {}
        for line in self._lines:
            if "inside" in line:
                names.setdefault(line["context"], set()).add(line["thread"])
        return names

    def data(self, phase: str) -> list[StepData]:
        """Return the results of the steps of a phase."""
        return [reading.data for reading in self.run.barriers if reading.phase == phase]


def test_each_context_is_made_with_its_memory(tmp_path: Path) -> None:
    """The plan's memory reaches the runtime for every mechanism; options are the source's."""
    contexts = Walk(
        tmp_path,
        Context(
            0,
            0,
            outside=(WEIGHTS, INTERNAL),
            allocator=DMA_HEAP,
            zero_copy=(INPUT,),
            core=0,
            options=("a=1",),
        ),
        Context(0, 0, DUP, 0, internal=4, zero_copy=(INPUT, OUTPUT), core=1),
        Context(0, 1, SHARED_WEIGHTS, 0, internal=4, device_io=True, device=CUDA, core=1),
        Context(
            0,
            0,
            SHARED_WEIGHT_MEMORY,
            0,
            outside=(INTERNAL,),
            zero_copy=(NATIVE_OUTPUT,),
            io=2,
            core=1,
        ),
    ).operations()[:4]
    nothing: dict[str, Any] = {
        "internal": None,
        "outside": [],
        "allocator": "create_mem",
        "zero_copy": [],
    }
    nothing.update(io=None, device_io=False, device=None, core=None, options=["a=1"])
    nothing.update(conversation=None, sequences=1, unified_cache=False, shared_prompts=0)
    outside = {
        "outside": ["weights", "internal"],
        "allocator": "dma_heap",
        "zero_copy": ["input"],
        "core": 0,
    }
    assert [context["memory"] for context in contexts] == [
        {**nothing, **outside},
        {**nothing, "internal": 4, "zero_copy": ["input", "output"], "core": 1},
        {**nothing, "internal": 4, "device_io": True, "device": "cuda", "core": 1},
        {**nothing, "outside": ["internal"], "zero_copy": ["native_output"], "io": 2, "core": 1},
    ]
    assert [(context["operation"], context["source"]) for context in contexts] == [
        ("load", None),
        ("dup", 0),
        ("share_weights", 0),
        ("share_weight_memory", 0),
    ]


@pytest.mark.parametrize(
    ("kind", "contexts", "inferred"),
    [
        ("inferences", (Context(0, 0),), [0] * 2 + [0] * 20),
        ("contexts", (Context(0, 0),), [0, 0, 1, 1]),
        ("dups", (Context(0, 0), Context(0, 0, DUP, 0)), [0, 0, 1, 1, 2, 2]),
        ("replaced", (Context(0, 0), Context(0, 0)), [0, 0, 1, 1, 2, 2, 3, 3]),
    ],
)
def test_what_cycles_do(
    tmp_path: Path,
    kind: str,
    contexts: tuple[Context, ...],
    inferred: list[int],
) -> None:
    """Each makes a new context and infers twice, or only infers; one thread does it all."""
    cycled = Walk(tmp_path, *contexts, cycles=Cycles(kind, 2))
    assert cycled.inferred() == inferred
    assert set().union(*cycled.threads().values()) == {"cycles"}
    usages = [reading.data.usage for reading in cycled.run.barriers]
    assert [usage is not None and usage.fds > 2 for usage in usages] == [True] * len(usages)


def test_contexts_are_replaced_oldest_first(tmp_path: Path) -> None:
    """The older of two goes once the new one has inferred; at the end the last made goes first."""
    assert Walk(
        tmp_path,
        Context(0, 0),
        Context(0, 0),
        cycles=Cycles("replaced", 2),
    ).destroyed() == [0, 1, 3, 2]


def test_a_plan_without_memory_leaves_it_to_the_runtime(tmp_path: Path) -> None:
    """Then the runtime allocates everything, copies tensors and chooses the core."""
    load, shared = Walk(tmp_path, Context(0, 0), Context(0, 0, SHARED_CONTEXT, 0)).operations()
    assert {key: value for key, value in load["memory"].items() if value} == {
        "allocator": "create_mem",
        "sequences": 1,
    }
    assert (shared["operation"], shared["source"]) == ("shared_context", 0)


_LANGUAGE_CONTEXTS = (
    Context(0, 0, unified_cache=True),
    Context(0, 0, SEQUENCE, 0),
    Context(0, 0, RESTORED_PROMPT, 0),
    Context(0, 0, SHARED_PROMPT, 0),
    Context(0, 1, ADAPTER, 0),
)
_CONVERSATION = Conversation(tokens=8, prompt=4, generated=2, common=2)


def test_each_conversation_is_made_by_its_mechanism(tmp_path: Path) -> None:
    """A context knows its conversation, and how many it holds; an adapter is the file of one."""
    made = Walk(tmp_path, *_LANGUAGE_CONTEXTS, conversation=_CONVERSATION).operations()
    assert [(context["operation"], context["source"]) for context in made] == [
        ("load", None),
        ("sequence", 0),
        ("restored_prompt", 0),
        ("shared_prompt", 0),
        ("adapter", 0),
    ]
    assert [context["model"].rpartition(";")[2] for context in made] == [*"00001"]
    memories = [context["memory"] for context in made]
    assert [memory["sequences"] for memory in memories] == [3, 1, 1, 1, 1]
    assert [memory["unified_cache"] for memory in memories] == [True, *[False] * 4]
    wanted = {"tokens": 8, "prompt": 4, "generated": 2, "common": 2}
    assert [memory["conversation"] for memory in memories] == [wanted] * 5


def test_a_context_infers_with_the_sequences_over_it(tmp_path: Path) -> None:
    """They are one inference, contexts take turns on one thread, and each round has a turn."""
    held = Walk(tmp_path, *_LANGUAGE_CONTEXTS, conversation=_CONVERSATION)
    assert held.together() == [[0, 1, 3], [2], [4]] * _ROUNDS
    assert held.most_at_once() == 1
    (steady,) = held.data("steady")
    assert [len(turns) for turns in steady.turns] == [_ROUNDS] * 5
    assert {turn.generated_tokens for turns in steady.turns for turn in turns} == {2}
    assert steady.latencies_ns[0] == steady.latencies_ns[1] == steady.latencies_ns[3]
    assert [len(first.turns) for first in held.data("first_inference")] == [1] * 5


def test_the_turn_of_a_first_inference_is_the_one_that_was_timed(tmp_path: Path) -> None:
    """It is the only one before the rounds: a turn is many inferences."""
    held = Walk(tmp_path, *_LANGUAGE_CONTEXTS, conversation=_CONVERSATION)
    for first in held.data("first_inference"):
        ((turn,),) = first.turns
        assert turn.first_token_ns + turn.generation_ns <= first.latency_ns


def test_where_there_is_one_core_none_is_chosen(tmp_path: Path) -> None:
    """A chip with one core has no mask to set, and nothing runs at once there."""
    for folder, core in (("bound", 0), ("free", None)):
        (tmp_path / folder).mkdir()
        walked = Walk(tmp_path / folder, *[Context(0, 0, core=core)] * 3, cores=1)
        assert [context["memory"]["core"] for context in walked.operations()] == [None] * 3
        assert walked.at_once() == set()


def test_a_context_over_foreign_weights_is_made_from_the_weightless_model(tmp_path: Path) -> None:
    """It is made from the weightless model, or the prepared one, or the model itself."""
    path = tmp_path / "calls"
    script = f"calls={path}"
    first = Model("a", script, "a", weightless=f"{script};never")
    contexts = (Context(0, 0), Context(0, 1, SHARED_WEIGHTS, 0))
    for second in (
        Model("b", script, "b", weightless=f"{script};weightless"),
        Model("c", f"{script};whole", "c"),
        Model("d", f"{script};never", "d", prepared=f"{script};prepared"),
    ):
        assert walk(Plan("mine", None, "scripted", (first, second), contexts, 1, 1)).failure is None
    calls = [json.loads(line) for line in path.read_text().splitlines()]
    names = [
        (call["operation"], call["model"].rpartition(";")[2])
        for call in calls
        if call.get("operation") in ("load", "share_weights")
    ]
    made = [("share_weights", name) for name in ("weightless", "whole", "prepared")]
    assert names == [pair for slave in made for pair in (("load", script), slave)]


def test_internal_memory_is_shared_by_its_group(tmp_path: Path) -> None:
    """Each memory is made once, after all contexts, with its contexts in order and no others."""
    walked = Walk(
        tmp_path,
        Context(0, 0, internal=5, core=0),
        Context(0, 0, internal=2, core=1),
        Context(0, 0, DUP, 0, internal=5, core=0),
        Context(0, 0, core=1),
    )
    operations = walked.operations()
    assert [call["operation"] for call in operations] == [
        "load",
        "load",
        "dup",
        "load",
        *["share_internal"] * 2,
    ]
    assert [call["contexts"] for call in operations[4:]] == [[0, 2], [1]]
    steps = [Step(reading.phase, reading.context) for reading in walked.run.barriers]
    assert steps[5:7] == [Step("internal_memory", 0), Step("internal_memory", 1)]


def test_contexts_of_one_core_run_in_turn(tmp_path: Path) -> None:
    """They do so however many threads there are; two cores do not wait for each other."""
    cores = (0, 1, 0, 1, 0)
    contexts = [Context(0, 0, internal=core, core=core) for core in cores]
    at_once = Walk(tmp_path, *contexts, script="meet@infer3;meet@infer4").at_once()
    assert (3, 4) in at_once
    assert [pair for pair in at_once if cores[pair[0]] == cores[pair[1]]] == []


def test_contexts_of_no_core_take_any(tmp_path: Path) -> None:
    """As many run at once as there are cores, and never one more."""
    walked = Walk(tmp_path, *[Context(0, 0)] * 4, cores=2, script="meet@infer0;meet@infer3")
    assert (0, 3) in walked.at_once()
    assert walked.most_at_once() == 2


def test_contexts_of_a_chain_run_one_after_the_other(tmp_path: Path) -> None:
    """They run in the chain's order, beside another chain, and each inference is timed."""
    contexts = [Context(0, index % 2) for index in range(4)]
    walked = Walk(
        tmp_path,
        *contexts,
        cores=2,
        script="meet@infer2;meet@infer3",
        chains=((2, 0), (3, 1)),
    )
    assert walked.order(0, 2) == [2, 0] * _ROUNDS
    assert walked.order(1, 3) == [3, 1] * _ROUNDS
    assert (2, 3) in walked.at_once()
    assert walked.at_once() & {(0, 2), (1, 3)} == set()
    (steady,) = walked.data("steady")
    assert [len(latencies) for latencies in steady.latencies_ns] == [_ROUNDS] * 4


def test_a_chain_has_one_thread(tmp_path: Path) -> None:
    """It has it from the first inferences on, and the thread ends with the chain's last context."""
    chain = [Context(0, 0)] * 3
    threads = Walk(tmp_path, *chain, Context(0, 0), chains=((2, 0, 1),)).threads()
    assert [threads[index] for index in range(3)] == [{"context-0"}] * 3
    assert threads[3] == {"context-3"}


def test_allocations_of_the_adapter_are_reported(tmp_path: Path) -> None:
    """The allocations arrive with kind, size and inode, step by step."""
    script = (
        "create-1-5000-weights@load0;create-2-900-internal@share_internal0;create-3-70-input@infer1"
    )
    walked = Walk(tmp_path, *[Context(0, 0, internal=0, core=0)] * 2, script=script)
    weights = Allocation("weights", 5000, 1001)
    internal = Allocation("internal", 900, 1002)
    assert [data.allocations for data in walked.data("context")] == [(weights,), ()]
    assert walked.data("internal_memory") == [StepData(allocations=(weights, internal))]
    assert [data.allocations for data in walked.data("first_inference")] == [
        (weights, internal),
        (),
    ]


@pytest.mark.parametrize("script", ["driver=0.9.8", ""])
def test_versions_are_reported_as_soon_as_they_are_known(tmp_path: Path, script: str) -> None:
    """The library knows the kernel driver only when there is a context."""
    walked = Walk(tmp_path, Context(0, 0), script=script)
    (imported,), (made,) = walked.data("imported"), walked.data("context")
    assert (imported.runtime_version, imported.driver_version) == ("1.2.3", None)
    assert (made.runtime_version, made.driver_version) == ("1.2.3", "0.9.8" if script else None)


@pytest.mark.parametrize(
    ("scenario", "script", "kind", "step"),
    [
        ("full_dup_internal_reuse", "raise@share_internal0", "failed", Step("internal_memory", 0)),
        (
            "full_dup_internal_reuse",
            "not_supported@share_internal0",
            "not_supported",
            Step("internal_memory", 0),
        ),
        ("shared_weights", "not_supported@share_weights0", "not_supported", Step("context", 1)),
    ],
)
def test_a_mechanism_that_fails_has_its_step(
    scenario: str,
    script: str,
    kind: str,
    step: Step,
) -> None:
    """A failure of internal memory names its first context; missing is not the same as failed."""
    failure = walk(make_plan(scenario, script, script)).failure
    assert failure is not None
    assert (failure.kind, failure.phase, failure.context) == (kind, *step)


def test_a_long_text_of_the_runtime_is_cut() -> None:
    """An error that is no adapter's has its type and its text, up to a limit."""
    failure = walk(
        make_plan("no_reuse", "absent" * 1000, runtime="onnxruntime"), THIS_INTERPRETER
    ).failure
    assert failure is not None
    assert isinstance(failure.message, Message)
    assert (failure.message.code, set(failure.message.values)) == ("exception", {"type", "text"})
    assert len(str(failure.message.values["text"])) == 2000
