"""The stored form of an answer about conversations."""

from __future__ import annotations

import datetime

import msgspec

from reusebench.fit.sessions.layouts import (
    CONTEXTS,
    SEQUENCES,
    SHARED,
    UNIFIED,
    SessionDemand,
    plan_of,
)
from reusebench.fit.sessions.sample import KV_CACHE, sample_of, total
from reusebench.fit.sessions.search import SessionCandidate, SessionChoice, SessionWish
from reusebench.fit.sessions.study import SessionStudy
from reusebench.measured.messages import Message, Value
from reusebench.measured.plan import Plan
from reusebench.storage.fit_answer import FitShortage
from reusebench.storage.fit_sessions import SessionPoint, SessionsAnswer
from reusebench.storage.result import Result
from reusebench.storage.trace import Trace

__all__ = ["recommended_plan", "stored_answer", "with_measured"]

#: Words of a layout of several conversations, by its kind.
_CODES = {
    CONTEXTS: "fit_sessions_contexts",
    SEQUENCES: "fit_sessions_sequences",
    UNIFIED: "fit_sessions_unified",
    SHARED: "fit_sessions_shared_prompt",
}


def recommended_plan(candidate: SessionCandidate, demand: SessionDemand) -> Plan:
    """Return the plan of a layout with all conversations, as they are wished."""
    layout = candidate.layout
    return plan_of(layout, demand, demand.sessions, demand.conversation, "fit-recommended")


def stored_answer(
    study: SessionStudy,
    wish: SessionWish,
    choice: SessionChoice,
    limit_source: str | None,
    refused: tuple[Message, ...],
) -> SessionsAnswer:
    """Return the stored form of a choice; `refused` are reasons for layouts that are missing."""
    sample = next(iter(study.results.values()))
    demand = study.demand
    best = choice.recommended
    return SessionsAnswer(
        recorded_at=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        runtime=demand.runtime,
        runtime_version=sample.runtime_version,
        target=sample.target,
        model=demand.model.name,
        sessions=demand.sessions,
        conversation=demand.conversation,
        tokens_per_s=wish.tokens_per_s,
        limit_bytes=wish.limit_bytes,
        limit_source=limit_source,
        fits=best is not None and best.fits(wish.limit_bytes),
        recommended=recommended_plan(best, demand) if best else None,
        predicted_kv_bytes=best.prediction.kv_bytes if best else None,
        predicted_application_memory_bytes=(
            round(best.prediction.application_bytes) if best else None
        ),
        predicted_peak_bytes=round(best.prediction.peak_bytes) if best else None,
        predicted_peak_plus_minus_bytes=round(best.plus_minus_bytes) if best else None,
        predicted_tokens_per_s=best.prediction.tokens_per_s if best else None,
        today=_point(choice.today, demand),
        best=_point(best, demand) if best else None,
        candidates=tuple(_point(candidate, demand) for candidate in choice.candidates),
        refused=refused,
        short=study.short,
        busy_percent=study.busy_percent,
    )


def with_measured(answer: SessionsAnswer, result: Result, trace: Trace) -> SessionsAnswer:
    """Return the answer with the measured figures of its recommended layout."""
    sample = sample_of(trace.barriers)
    application_bytes = sample.base_bytes + sample.steady_bytes
    peak_bytes = sample.base_bytes + max(
        sample.steady_bytes + sample.run_transient_bytes,
        sample.loaded_bytes + sample.load_transient_bytes,
    )
    at_once = 1
    if answer.best is not None and answer.best.kind == "contexts":
        at_once = answer.sessions
    short = answer.short
    if result.is_short:
        short += (FitShortage(result.scenario, result.shortage_signs),)
    is_within = answer.limit_bytes is None or peak_bytes <= answer.limit_bytes
    return msgspec.structs.replace(
        answer,
        fits=answer.fits and is_within,
        measured_kv_bytes=total(sample.accounts, KV_CACHE),
        measured_application_memory_bytes=application_bytes,
        measured_peak_bytes=peak_bytes,
        measured_tokens_per_s=1e9 / sample.token_ns / at_once,
        charge=result.repeats[0].charge,
        short=short,
    )


def _point(candidate: SessionCandidate, demand: SessionDemand) -> SessionPoint:
    prediction = candidate.prediction
    layout = candidate.layout
    values: dict[str, Value] = {"count": demand.sessions, "common": demand.conversation.common}
    code = "fit_session" if demand.sessions == 1 else _CODES[layout.kind]
    return SessionPoint(
        kind=layout.kind,
        options=layout.options,
        words=Message(code, values),
        kv_bytes=prediction.kv_bytes,
        bytes=prediction.application_bytes,
        peak_bytes=prediction.peak_bytes,
        limited_bytes=candidate.limited_bytes,
        further_bytes=prediction.further_bytes,
        tokens_per_s=prediction.tokens_per_s,
        alone_tokens_per_s=prediction.alone_tokens_per_s,
        prompts_s=prediction.prompts_s,
        has_equal_tokens=prediction.has_equal_tokens,
    )
