"""An answer in the form that is stored and shown."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator

import msgspec

from reusebench.fit.layouts import ContextGroup, Demand
from reusebench.fit.search import Answer, Candidate, Wish
from reusebench.fit.study import Study
from reusebench.measured.messages import Message
from reusebench.measured.plan import (
    DUP,
    INPUT,
    LOAD,
    NATIVE_OUTPUT,
    OUTPUT,
    SHARED_CONTEXT,
    SHARED_WEIGHT_MEMORY,
    SHARED_WEIGHTS,
)
from reusebench.storage.fit_answer import FitAnswer, FitGroup, FitPoint, FitShortage
from reusebench.storage.measured_figure import Figure
from reusebench.storage.result import Result

__all__ = ["stored_answer", "with_measured"]

#: The codes of who has the weights, and of what is in place.
_WEIGHTS = {LOAD: "fit_load", DUP: "fit_dup", SHARED_WEIGHT_MEMORY: "fit_shared_weight_memory"}
_TENSORS = {INPUT: "input", OUTPUT: "output", NATIVE_OUTPUT: "fit_native_output"}


def stored_answer(study: Study, wish: Wish, answer: Answer) -> FitAnswer:
    """Return the answer as it is stored."""
    sample = next(iter(study.results.values()))
    demand = study.demand
    best = answer.recommended
    prediction = best.prediction if best else None
    frames = prediction.frames_per_s if prediction else None
    return FitAnswer(
        recorded_at=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        runtime=demand.runtime,
        runtime_version=sample.runtime_version,
        target=sample.target,
        chip=sample.chip,
        models=tuple(model.name for model in demand.models),
        streams=demand.streams,
        contexts=demand.contexts,
        cores=demand.cores,
        fps=wish.fps,
        limit_of="application_memory" if answer.today.prediction.npu is None else "npu_memory",
        limit_bytes=wish.limit_bytes,
        fits=best is not None and best.fits(wish.limit_bytes),
        recommended=study.plan(best.layout, "fit-recommended") if best else None,
        predicted_npu_memory_bytes=prediction.npu_bytes if prediction else None,
        predicted_npu_peak_bytes=prediction.npu_peak_bytes if prediction else None,
        predicted_npu_components_bytes=dict(prediction.npu)
        if prediction and prediction.npu
        else None,
        predicted_application_memory_bytes=_bytes(prediction.application if prediction else None),
        predicted_application_memory_plus_minus_bytes=round(prediction.application.spread or 0)
        if prediction
        else None,
        predicted_application_memory_over_baseline_bytes=_bytes(
            prediction.over_baseline if prediction else None
        ),
        predicted_application_memory_trimmed_over_baseline_bytes=_bytes(
            prediction.trimmed if prediction else None
        ),
        predicted_frames_per_s=frames.median if frames else None,
        predicted_frames_per_s_plus_minus=frames.spread if frames else None,
        least_bytes=answer.least_bytes,
        today=_point(answer.today, demand),
        best=_point(best, demand) if best else None,
        frontier=tuple(_point(point, demand) for point in answer.frontier),
        points=tuple(_distinct(answer.points)),
        layouts=len(answer.points),
        short=study.short,
        busy_percent=max(
            max(result.speed.idle_cpu_percent, default=0.0) for result in study.results.values()
        ),
    )


def with_measured(answer: FitAnswer, result: Result) -> FitAnswer:
    """Return the answer with what its recommended layout took when it was measured."""
    memory = result.memory
    account = result.repeats[0].npu
    components: dict[str, int] = {}
    for context in account.contexts if account else ():
        for component in answer.predicted_npu_components_bytes or ():
            components[component] = components.get(component, 0) + (
                context.size_bytes(component) or 0
            )
    signs = result.shortage_signs
    trimmed = Figure.of(memory.application_memory_trimmed_bytes)
    baseline = Figure.of(memory.baseline_memory_bytes)
    frames = Figure.of(result.speed.throughput_per_s)
    over_baseline = Figure.of(memory.application_memory_over_baseline_bytes)
    return msgspec.structs.replace(
        answer,
        measured_npu_memory_bytes=_bytes(Figure.of(memory.npu_memory_bytes)),
        measured_npu_peak_bytes=_bytes(Figure.of(memory.npu_peak_bytes)),
        measured_npu_components_bytes=components or None,
        measured_application_memory_bytes=_bytes(Figure.of(memory.application_memory_bytes)),
        measured_application_memory_over_baseline_bytes=_bytes(over_baseline),
        measured_application_memory_trimmed_over_baseline_bytes=(
            round(trimmed.median - baseline.median) if trimmed and baseline else None
        ),
        measured_frames_per_s=frames.median if frames else None,
        short=(*answer.short, *([FitShortage(result.scenario, signs)] if signs else [])),
    )


def _bytes(figure: Figure | None) -> int | None:
    return round(figure.median) if figure else None


def _point(point: Candidate, demand: Demand) -> FitPoint:
    frames = point.prediction.frames_per_s
    limited = point.prediction.limited
    return FitPoint(
        layout=tuple(
            FitGroup(demand.models[group.model].name, tuple(_words(group, demand)))
            for group in point.layout.groups
        ),
        contexts=point.layout.contexts,
        lanes=point.layout.lanes,
        bytes=point.bytes,
        plus_minus_bytes=point.prediction.steady.spread or 0.0,
        limited_bytes=limited.median + (limited.spread or 0.0),
        frames_per_s=frames.median if frames else None,
        frames_per_s_plus_minus=frames.spread if frames else None,
    )


def _distinct(points: Iterable[Candidate]) -> Iterator[FitPoint]:
    """Yield points that differ, without their layouts."""
    known = {(round(point.bytes), *point.able): point for point in points}
    for key in sorted(known):
        point = known[key]
        frames = point.prediction.frames_per_s
        contexts = point.layout.contexts
        lanes = point.layout.lanes
        yield FitPoint(
            contexts=contexts,
            lanes=lanes,
            bytes=point.bytes,
            limited_bytes=point.prediction.limited.median,
            frames_per_s=frames.median if frames else None,
        )


def _words(group: ContextGroup, demand: Demand) -> Iterator[Message]:
    """Yield what the group's contexts are, in parts of a sentence."""
    form = group.form
    if group.count == 1:
        yield Message("fit_context")
    elif form.mechanism == SHARED_CONTEXT:
        yield Message("fit_threads", {"count": group.count})
    elif group.cores == 1:
        yield Message("fit_contexts_in_turn", {"count": group.count})
    else:
        yield Message("fit_contexts", {"count": group.count, "cores": group.cores})
    if group.count == 1 and form.has_weights_outside:
        yield Message("fit_weights_outside")
    elif form.mechanism == SHARED_WEIGHTS:
        yield Message("fit_shared_weights", {"model": demand.models[0].name})
    elif group.count > 1 and form.mechanism in _WEIGHTS:
        yield Message("fit_dup_outside" if form.outside else _WEIGHTS[form.mechanism])
    if form.shares_internal:
        yield Message("fit_internal")
    if form.zero_copy:
        one, *others = (Message(_TENSORS[tensor]) for tensor in form.zero_copy)
        tensors = Message("fit_both", {"one": one, "other": others[0]}) if others else one
        yield Message("fit_io" if form.shares_io else "fit_in_place", {"tensors": tensors})
