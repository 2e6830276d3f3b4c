"""The stored and shown form of an answer."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from reusebench.fit.layouts import ContextGroup, Demand, Layout
from reusebench.fit.npu_costs import NpuCosts
from reusebench.fit.prediction import Prediction
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
from reusebench.storage.fit_answer import FitAnswer, FitGroup, FitPatch, FitPoint, FitShortage
from reusebench.storage.measured_figure import Figure
from reusebench.storage.result import Result

__all__ = ["patches_of", "stored_answer", "with_measured"]

#: Codes of messages for weights and for tensors in place.
_WEIGHTS = {LOAD: "fit_load", DUP: "fit_dup", SHARED_WEIGHT_MEMORY: "fit_shared_weight_memory"}
_TENSORS = {INPUT: "input", OUTPUT: "output", NATIVE_OUTPUT: "fit_native_output"}
#: Fields of FitAnswer with the prediction for the recommended layout.
_PREDICTED = tuple(name for name in FitAnswer.__struct_fields__ if name.startswith("predicted_"))


def stored_answer(
    study: Study, wish: Wish, answer: Answer, patches: tuple[FitPatch, ...] = ()
) -> FitAnswer:
    """Return the stored form of the answer."""
    sample = next(iter(study.results.values()))
    demand = study.demand
    best = answer.recommended
    applied = answer.applied
    if applied and applied.bytes >= answer.today.bytes:
        applied = None
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
        limit_source=wish.limit_source,
        fits=best is not None and best.fits(wish.limit_bytes),
        recommended=study.plan(best.layout, "fit-recommended") if best else None,
        **_predicted_figures(best.prediction if best else None),
        least_bytes=answer.least_bytes,
        today=_point(answer.today, demand),
        best=_point(best, demand) if best else None,
        frontier=tuple(_point(candidate, demand) for candidate in answer.frontier),
        points=tuple(_distinct_points(answer.candidates)),
        layouts=len(answer.candidates),
        short=study.short,
        busy_percent=study.busy_percent,
        applied=_point(applied, demand) if applied else None,
        applied_plan=study.plan(applied.layout, "fit-applied") if applied else None,
        patches=patches,
    )


def patches_of(costs: NpuCosts, layout: Layout, driver: str) -> tuple[FitPatch, ...]:
    """Return FitAnswer.patches of the recommended layout."""
    today = costs.predict(layout).npu_bytes
    patches = []
    for open_files in sorted({layout.lanes, 1}, reverse=True):
        npu = costs.with_shared_weights(layout, open_files)
        size_bytes = sum(npu.values())
        if size_bytes != today:
            patches.append(FitPatch(driver, open_files, size_bytes, npu))
    return tuple(patches)


def _predicted_figures(prediction: Prediction | None) -> dict[str, Any]:
    """Return the fields _PREDICTED; all None without a prediction."""
    if prediction is None:
        return dict.fromkeys(_PREDICTED)

    application = prediction.application
    frames = prediction.frames_per_s
    return {
        "predicted_npu_memory_bytes": prediction.npu_bytes,
        "predicted_npu_peak_bytes": prediction.npu_peak_bytes,
        "predicted_npu_components_bytes": dict(prediction.npu) if prediction.npu else None,
        "predicted_application_memory_bytes": _bytes(application),
        "predicted_application_memory_plus_minus_bytes": _rounded(application.spread),
        "predicted_application_memory_over_baseline_bytes": _bytes(prediction.over_baseline),
        "predicted_application_memory_trimmed_over_baseline_bytes": _bytes(prediction.trimmed),
        "predicted_frames_per_s": _median(frames),
        "predicted_frames_per_s_plus_minus": _spread(frames),
    }


def with_measured(answer: FitAnswer, result: Result) -> FitAnswer:
    """Return the answer with the measured figures of its recommended layout."""
    memory = result.memory
    account = result.repeats[0].npu
    components: Counter[str] = Counter()
    if account and answer.predicted_npu_components_bytes:
        for context in account.contexts:
            for component in answer.predicted_npu_components_bytes:
                components[component] += context.size_bytes(component) or 0

    trimmed = Figure.of(memory.application_memory_trimmed_bytes)
    baseline = Figure.of(memory.baseline_memory_bytes)
    over_baseline = Figure.of(memory.application_memory_over_baseline_bytes)
    short = answer.short
    if result.is_short:
        short += (FitShortage(result.scenario, result.shortage_signs),)
    limited = memory.application_memory_bytes
    if answer.limit_of == "npu_memory":
        limited = memory.npu_peak_bytes
    limited_bytes = _bytes(Figure.of(limited)) or 0
    is_within = answer.limit_bytes is None or limited_bytes <= answer.limit_bytes
    return msgspec.structs.replace(
        answer,
        fits=answer.fits and is_within,
        measured_npu_memory_bytes=_bytes(Figure.of(memory.npu_memory_bytes)),
        measured_npu_peak_bytes=_bytes(Figure.of(memory.npu_peak_bytes)),
        measured_npu_components_bytes=dict(components) or None,
        measured_application_memory_bytes=_bytes(Figure.of(memory.application_memory_bytes)),
        measured_application_memory_over_baseline_bytes=_bytes(over_baseline),
        measured_application_memory_trimmed_over_baseline_bytes=(
            round(trimmed.median - baseline.median) if trimmed and baseline else None
        ),
        measured_frames_per_s=_median(Figure.of(result.speed.throughput_per_s)),
        charge=result.repeats[0].charge,
        short=short,
    )


def _bytes(figure: Figure | None) -> int | None:
    return _rounded(figure.median) if figure else None


def _rounded(size: float | None) -> int | None:
    return None if size is None else round(size)


def _median(figure: Figure | None) -> float | None:
    return figure.median if figure else None


def _spread(figure: Figure | None) -> float | None:
    return figure.spread if figure else None


def _point(candidate: Candidate, demand: Demand) -> FitPoint:
    prediction = candidate.prediction
    layout = candidate.layout
    groups = []
    for group in layout.groups:
        words = tuple(_description(group, demand))
        groups.append(FitGroup(demand.models[group.model].name, words))
    return FitPoint(
        layout=tuple(groups),
        contexts=layout.contexts,
        lanes=layout.lanes,
        bytes=candidate.bytes,
        plus_minus_bytes=prediction.steady.spread or 0.0,
        limited_bytes=prediction.limited.median + (prediction.limited.spread or 0.0),
        frames_per_s=_median(prediction.frames_per_s),
        frames_per_s_plus_minus=_spread(prediction.frames_per_s),
    )


def _distinct_points(candidates: Iterable[Candidate]) -> Iterator[FitPoint]:
    """Yield a point for each pair of memory and performance, without its layout."""
    distinct = {(round(candidate.bytes), *candidate.able): candidate for candidate in candidates}
    for key in sorted(distinct):
        candidate = distinct[key]
        yield FitPoint(
            contexts=candidate.layout.contexts,
            lanes=candidate.layout.lanes,
            bytes=candidate.bytes,
            limited_bytes=candidate.prediction.limited.median,
            frames_per_s=_median(candidate.prediction.frames_per_s),
        )


def _description(group: ContextGroup, demand: Demand) -> Iterator[Message]:
    """Yield the description of the group's contexts, in parts of a sentence."""
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
        tensors, *others = (Message(_TENSORS[tensor]) for tensor in form.zero_copy)
        if others:
            tensors = Message("fit_both", {"one": tensors, "other": others[0]})
        yield Message("fit_io" if form.shares_io else "fit_in_place", {"tensors": tensors})
