"""Plan files that are plans as results store them, in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Optional

import msgspec

from reusebench.harness.conversations import MOST_TOKENS, ConversationRequest
from reusebench.harness.plans.document import Document
from reusebench.harness.plans.plan_file import PlanFile, PlanModel, PlanPace, PlanStreams
from reusebench.harness.plans.plan_name import checked_name, is_built_in
from reusebench.harness.settings import MOST_CONTEXTS, MOST_FPS, MOST_INFERENCES
from reusebench.measured.plan import MOST_CYCLES, Context, Model, Plan
from reusebench.scenarios.catalogue import name_of_plan
from reusebench.system.user_files import UserFileError, check_file

__all__ = ["is_stored_plan", "read_stored_plan"]


class _BoundsOfStreams(msgspec.Struct):
    count: Annotated[int, msgspec.Meta(le=MOST_CONTEXTS)]
    fps: Annotated[float, msgspec.Meta(le=MOST_FPS)]


class _BoundsOfConversation(msgspec.Struct):
    tokens: Annotated[int, msgspec.Meta(le=MOST_TOKENS)]


class _BoundsOfCycles(msgspec.Struct):
    count: Annotated[int, msgspec.Meta(le=MOST_CYCLES)]
    inferences: Annotated[int, msgspec.Meta(le=MOST_INFERENCES)] = 1


class _Bounds(msgspec.Struct):
    """The numbers that decide how long a complete check takes; they are checked first."""

    contexts: Annotated[list[Any], msgspec.Meta(max_length=MOST_CONTEXTS)]
    chains: Annotated[list[Any], msgspec.Meta(max_length=MOST_CONTEXTS)] = []
    conversation: Optional[_BoundsOfConversation] = None
    schedule: Optional[_BoundsOfStreams] = None
    cycles: Optional[_BoundsOfCycles] = None


def is_stored_plan(document: Document) -> bool:
    """Whether it is a stored plan: plan files of users have a `name` instead of a `scenario`."""
    return "scenario" in document.values


def read_stored_plan(document: Document) -> PlanFile:
    """Return the stored plan; raise PlanFileError if it is wrong.

    It keeps its name. A built-in scenario, or a plan without reuse, gets the name of its file.
    """
    plan = _decoded(document)
    if plan.cycles is not None:
        raise document.error(
            ("cycles",),
            "this plan does the same again and again, which bench/test_leaks.py measures",
        )
    for model in plan.models:
        _check_files(document, model)
    is_users = not is_built_in(plan.scenario) and name_of_plan(plan.scenario) is None
    return PlanFile(
        document=document,
        name=checked_name(document, plan.scenario if is_users else document.path.stem),
        models=tuple(PlanModel(model.name, model) for model in plan.models),
        contexts=_named(plan.contexts),
        chains=plan.chains,
        streams=_streams(plan),
        conversation=_conversation(plan),
        cores=plan.cores,
        rounds=plan.rounds,
        runtime=plan.runtime,
    )


def _decoded(document: Document) -> Plan:
    try:
        msgspec.convert(document.values, _Bounds)
        return msgspec.convert(document.values, Plan)
    except msgspec.ValidationError as error:
        raise document.error(
            (), f"this has a `scenario`, as stored plans have, and is none: {error}"
        ) from None


def _check_files(document: Document, model: Model) -> None:
    arrays = [tensor.file for tensor in model.inputs]
    for file in (model.path, model.weightless, *arrays):
        if not file:
            continue
        try:
            check_file(Path(file))
        except UserFileError as error:
            raise document.error(
                ("models",), f"{error}; it was there when the plan was stored"
            ) from None


def _named(contexts: Sequence[Context]) -> tuple[Context, ...]:
    named = []
    for number, context in enumerate(contexts, start=1):
        named.append(replace(context, name=context.name or f"context-{number}"))
    return tuple(named)


def _conversation(plan: Plan) -> ConversationRequest | None:
    return ConversationRequest(**asdict(plan.conversation)) if plan.conversation else None


def _streams(plan: Plan) -> PlanStreams | None:
    schedule = plan.schedule
    if schedule is None:
        return None
    pace = PlanPace(schedule.fps, schedule.queue, schedule.duration_s, schedule.warm_up_s)
    return PlanStreams(schedule.count, pace, schedule.video.digest if schedule.video else None)
