"""Plans written as plan files, from which users start pipelines of their own."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from reusebench.harness.conversations import DEFAULT_CONVERSATION
from reusebench.harness.errors import UserError
from reusebench.harness.plans.document import nearest
from reusebench.harness.plans.plan_file import AnyRecipe, PlanFile, PlanModel
from reusebench.harness.settings import StreamPace, has_conversations
from reusebench.measured.plan import (
    ADAPTER,
    CREATE_MEM,
    SHARED_WEIGHTS,
    Context,
    Conversation,
    Model,
    Plan,
    Streams,
)
from reusebench.measured.runtimes import find_runtime
from reusebench.models import Recipe
from reusebench.models.language import LanguageRecipe
from reusebench.samplers.host import LOCAL_HOST
from reusebench.scenarios.catalogue import (
    SCENARIOS,
    Parameters,
    Scenario,
    find_scenario,
    suits,
)
from reusebench.targets.chips import CHIPS, chip_of

__all__ = [
    "built_in_scenario",
    "file_plan",
    "machine_cores",
    "plan_text",
    "scenario_plans",
    "scenario_text",
    "writable_scenario",
]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def built_in_scenario(name: str) -> Scenario:
    """Return the built-in scenario of this name; raise UserError if there is none."""
    names = [scenario.name for scenario in SCENARIOS]
    if name not in names:
        raise UserError(f"there is no scenario {name!r}{nearest(name, names)}")
    return find_scenario(name)


def writable_scenario(name: str, runtime: str) -> Scenario:
    """Return the built-in scenario of this name.

    Raises UserError if there is none, if it is for other models than the runtime's, or if a plan
    file cannot express it.
    """
    scenario = built_in_scenario(name)
    if not suits(name, has_conversations(runtime)):
        raise UserError(f"{name} is no scenario of the models that {runtime} runs")
    if scenario.fills:
        raise UserError(
            f"{name} makes contexts until one fails, and a plan file names each of its contexts."
            " Print the scenario with the same mechanism, or measure this one:"
            " reusebench bench test_limit.py"
        )
    if scenario.cycles:
        raise UserError(
            f"{name} does the same again and again, which a plan file cannot say: measure it by"
            " `reusebench bench test_leaks.py`, with --model FILE and --cycles N, or name another"
            " scenario"
        )
    return scenario


def machine_cores(runtime: str) -> int:
    """Return the number of contexts that infer at once on this machine.

    1 on an unknown NPU, and for language models.
    """
    if has_conversations(runtime):
        return 1
    if find_runtime(runtime).device == "cpu":
        return len(os.sched_getaffinity(0))
    chip = chip_of(LOCAL_HOST)
    return CHIPS[chip].npu_cores if chip else 1


def scenario_text(
    scenario: Scenario,
    runtime: str,
    recipes: Sequence[AnyRecipe],
    streams: int,
    contexts: int,
    cores: int,
) -> str:
    """Return a built-in scenario as a plan file; `recipes` are those of its set of models.

    If the scenario has several plans, it is the first, whatever mechanisms the runtime has.
    """
    plan, *_ = scenario_plans(scenario, runtime, recipes, streams, contexts, cores)
    own = replace(plan, scenario=f"my_{scenario.name}")
    return plan_text(own, recipes, f"The scenario {scenario.name} as a plan.")


def scenario_plans(
    scenario: Scenario,
    runtime: str,
    recipes: Sequence[AnyRecipe],
    streams: int,
    contexts: int,
    cores: int,
) -> list[Plan]:
    """Return the plans of a built-in scenario, the best first; `recipes` are those of its set of
    models.
    """
    models = tuple(map(_model, recipes))
    binds = find_runtime(runtime).binds_cores
    schedule = Streams(streams, video=None, **asdict(StreamPace()))
    parameters = Parameters(
        runtime, models, streams, contexts, cores, rounds=1, binds=binds, schedule=schedule
    )
    if has_conversations(runtime):
        parameters = replace(parameters, streams=1, conversation=DEFAULT_CONVERSATION)
    return scenario.plans(parameters)


def file_plan(file: PlanFile, runtime: str, cores: int) -> Plan:
    """Return the plan of a file for a program: no model is read, so it cannot be measured."""
    schedule = (
        Streams(file.streams.count, video=None, **asdict(StreamPace())) if file.streams else None
    )
    return file.plan(
        runtime,
        [_named_model(model) for model in file.models],
        file.checked_cores(cores, is_known=False),
        file.rounds or 1,
        schedule,
        file.checked_conversation(DEFAULT_CONVERSATION) if has_conversations(runtime) else None,
    )


def _named_model(model: PlanModel) -> Model:
    if isinstance(model.source, Model):
        return model.source
    if isinstance(model.source, (Recipe, LanguageRecipe)):
        return _model(model.source)
    weightless = str(model.weightless) if model.weightless else None
    return Model(model.name, str(model.source), model.name, weightless=weightless)


def plan_text(plan: Plan, recipes: Sequence[AnyRecipe], title: str) -> str:
    """Return the plan as TOML that gives an equal plan on the same machine.

    `recipes` has those of all its models.
    """
    sources = {_model(recipe): recipe for recipe in recipes}
    lines = [
        f"# {title}",
        (
            "# Change what you like, then: reusebench bench --plan FILE. docs/reference/plans.md"
            " explains every key."
        ),
        "",
        f"name = {_text(plan.scenario)}  # of results and reports",
        (
            f"cores = {plan.cores}  # contexts that infer at once, at most; without it, one for"
            " each core of the machine"
        ),
        "",
        (
            '# NAME = { network, size, seed }: a built-in network. NAME = "FILE": a model of yours,'
            " with a path relative to this file."
        ),
        "[models]",
    ]
    for model in plan.models:
        lines.append(f"{_key(model.name)} = {_inline(_network(sources[model]))}")
    if plan.conversation:
        lines += _conversation(plan.conversation)
    if plan.schedule:
        lines += _streams(plan.schedule)
    if plan.contexts:
        lines += [
            "",
            "# In the order in which they are made; streams and cores count from 0.",
            "[contexts]",
        ]
        lines += _contexts(plan)
    return "\n".join(lines) + "\n"


def _network(recipe: AnyRecipe) -> dict[str, object]:
    """Return the keys and values of a built-in model."""
    if isinstance(recipe, Recipe):
        return {"network": recipe.name, "size": recipe.size, "seed": recipe.seed}
    values: dict[str, object] = {"network": recipe.name, "seed": recipe.seed}
    if recipe.number:
        values.update(part=recipe.part, number=recipe.number)
    return values


def _conversation(conversation: Conversation) -> list[str]:
    return [
        "",
        "# Each context holds one; without a key, as the option of the same name says.",
        "[conversation]",
        f"tokens = {conversation.tokens}  # that there is room for",
        f"prompt = {conversation.prompt}  # tokens of the prompt",
        f"generated = {conversation.generated}  # tokens that follow it",
        f"common = {conversation.common}  # tokens at the beginning that all prompts have",
    ]


def _streams(schedule: Streams) -> list[str]:
    return [
        "",
        "# Frames of video; without this table every context infers again and again.",
        "[streams]",
        f"count = {schedule.count}",
        f"fps = {schedule.fps:g}  # of each stream; 0: as fast as possible",
        f"queue = {schedule.queue}  # frames of a stream that may wait",
        f'duration = "{schedule.duration_s:g}s"',
    ]


def _model(recipe: AnyRecipe) -> Model:
    """Return a built-in network as the model of a plan that is not measured."""
    name = recipe.file_name.rpartition(".")[0] if isinstance(recipe, Recipe) else recipe.label
    return Model(name, path="", digest=name)


def _contexts(plan: Plan) -> Iterator[str]:
    names = [context.name or f"context-{index + 1}" for index, context in enumerate(plan.contexts)]
    for index, context in enumerate(plan.contexts):
        values = _values(context, plan.models, names)
        chain = plan.chain_of(index)
        if index != chain[0]:
            values["after"] = names[chain[chain.index(index) - 1]]
        yield f"{_key(names[index])} = {_inline(values)}"


def _values(context: Context, models: Sequence[Model], names: Sequence[str]) -> dict[str, object]:
    """Return the keys and values of a context, without those that have their default."""
    reuse: dict[str, object] = {}
    if context.source is None or context.mechanism in (SHARED_WEIGHTS, ADAPTER):
        reuse["model"] = models[context.model].name
    if context.source is not None:
        reuse[context.mechanism] = names[context.source]
    values = {
        **reuse,
        "stream": context.stream,
        "internal": _shared_memory("memory", context.internal),
        "outside": list(context.outside) or None,
        "allocator": context.allocator,
        "zero_copy": list(context.zero_copy) or None,
        "io": _shared_memory("tensors", context.io),
        "device_io": context.device_io or None,
        "device": context.device,
        "core": context.core,
        "options": list(context.options) or None,
        "unified_cache": context.unified_cache or None,
    }
    if context.allocator == CREATE_MEM:
        del values["allocator"]
    return {key: value for key, value in values.items() if value is not None}


def _shared_memory(name: str, number: int | None) -> str | None:
    """Return the word that contexts have in common if they share a memory."""
    if number is None:
        return None
    return f"{name}-{number}"


def _inline(values: Mapping[str, object]) -> str:
    """Return an inline table; JSON writes texts, numbers, lists and booleans as TOML does."""
    pairs = [f"{key} = {_text(value)}" for key, value in values.items()]
    return f"{{ {', '.join(pairs)} }}"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _text(name)
