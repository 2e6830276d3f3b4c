"""The figures of one repeat, by the names that storage.result gives them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from reusebench.harness.measuring.repeat import Repeat
from reusebench.measured.plan import Plan
from reusebench.measured.runtimes.base import Turn
from reusebench.storage.result import PAGES
from reusebench.targets.barriers import BarrierReading, StepData

__all__ = [
    "SPEED_FIGURES",
    "STREAM_SPEED_FIGURES",
    "TURN_FIGURES",
    "application_memory",
    "counted_by",
    "memory_figures",
    "model_latencies",
    "npu_memory",
]

#: Reads a figure off a repeat; None if the repeat does not have it.
RepeatFigure = Callable[[Repeat], Any]

#: Phases whose steps belong to one context and add memory to it.
_CONTEXT_PHASES = ("context", "internal_memory", "first_inference")


# Memory


def application_memory(barrier: BarrierReading, counted_by: str) -> int:
    """Return the memory of the process and its children as Result.counted_by says."""
    process = barrier.process
    if counted_by == PAGES and process.distinct_bytes is not None:
        return process.distinct_bytes
    return process.pss_bytes


def counted_by(barriers: Iterable[BarrierReading]) -> Literal["pages", "pss"]:
    """Return "pages", or "pss" if a reading has no count of pages: all figures are of one kind."""
    is_counted = all(barrier.process.distinct_bytes is not None for barrier in barriers)
    return "pages" if is_counted else "pss"


def _at_end_of(phase: str, figure_of: Callable[[BarrierReading], int | None]) -> RepeatFigure:
    """Return the figure that is read at the end of a phase; None if the phase was not reached."""

    def figure(repeat: Repeat) -> int | None:
        barrier = repeat.last(phase)
        if barrier is None:
            return None
        return figure_of(barrier)

    return figure


def _peak_rss(repeat: Repeat) -> int | None:
    """Return the highest RSS from the start of the process to the end of the steady phase."""
    if repeat.last("steady") is None:
        return None
    highest = 0
    for barrier in repeat.barriers:
        if barrier.phase == "destroy":
            continue
        peak_bytes = barrier.process.peak_rss_bytes
        if peak_bytes is None:
            return None
        highest = max(highest, peak_bytes)
    return highest


class _ApplicationFigures:
    """The figures of application memory, which is counted in one way."""

    def __init__(self, counted_by: str) -> None:
        self._counted_by = counted_by

    def memory(self, barrier: BarrierReading) -> int:
        """Return the memory at a barrier."""
        return application_memory(barrier, self._counted_by)

    def trimmed(self, barrier: BarrierReading) -> int | None:
        """Return the memory at a barrier at which the heap was trimmed, otherwise None."""
        return self.memory(barrier) if barrier.malloc_trimmed else None

    def over_baseline(self, phase: str) -> RepeatFigure:
        """Return the figure of memory at the end of a phase minus that after the import."""

        def figure(repeat: Repeat) -> int | None:
            barrier = repeat.last(phase)
            baseline = repeat.last("imported")
            if barrier is None or baseline is None:
                return None
            return self.memory(barrier) - self.memory(baseline)

        return figure

    def residue(self, repeat: Repeat) -> Any:
        """Return the memory over the baseline after all contexts were destroyed.

        None after a failure.
        """
        if repeat.failure:
            return None
        return self.over_baseline("destroy")(repeat)

    def of_contexts(self, repeat: Repeat) -> tuple[int, ...] | None:
        """Return the memory that each context added until its first inference had ended.

        None if contexts come and go.
        """
        created = repeat.of_contexts("context")
        inferred = repeat.of_contexts("first_inference")
        if not created or repeat.last("cycle") or len(created) != len(inferred):
            return None
        added_bytes = [0] * len(created)
        for before, after in zip(repeat.barriers, repeat.barriers[1:]):
            if after.phase in _CONTEXT_PHASES:
                added_bytes[after.context or 0] += self.memory(after) - self.memory(before)
        return tuple(added_bytes)


def npu_memory(repeat: Repeat) -> int | None:
    """Return the NPU's memory by its most exact source: ledger, kernel, the runtime's account."""
    if repeat.npu is not None and repeat.npu.source == "ledger":
        return repeat.npu.total_bytes
    steady = repeat.last("steady")
    if steady and steady.npu and steady.npu.process_bytes is not None:
        return steady.npu.process_bytes
    return repeat.npu.total_bytes if repeat.npu else None


def _accounted(component: str) -> RepeatFigure:
    """Return the figure of a component in the runtime's own account of all contexts.

    None if no context has it, or contexts come and go.
    """

    def figure(repeat: Repeat) -> int | None:
        if repeat.last("cycle"):
            return None
        inferred = repeat.of_contexts("first_inference")
        sizes = [barrier.data.account.get(component) for barrier in inferred]
        known = [size for size in sizes if size is not None]
        return sum(known) if known else None

    return figure


#: Key: field of storage.result.MemoryFigures; the figures that do not depend on how application
#: memory is counted.
_OTHER_FIGURES: Mapping[str, RepeatFigure] = {
    "application_pss_bytes": _at_end_of("steady", lambda barrier: barrier.process.pss_bytes),
    "application_rss_bytes": _at_end_of("steady", lambda barrier: barrier.process.rss_bytes),
    "application_uss_bytes": _at_end_of("steady", lambda barrier: barrier.process.uss_bytes),
    "application_peak_rss_bytes": _peak_rss,
    "hugetlb_memory_bytes": _at_end_of("steady", lambda barrier: barrier.process.hugetlb_bytes),
    "held_memory_bytes": _at_end_of("steady", lambda barrier: barrier.process.held_file_bytes),
    "dmabuf_memory_bytes": _at_end_of("steady", lambda barrier: barrier.process.dmabuf_bytes),
    "system_memory_bytes": _at_end_of("steady", lambda barrier: barrier.system.used_bytes),
    "system_memory_noise_bytes": lambda repeat: repeat.system_memory_noise_bytes,
    "npu_memory_bytes": npu_memory,
    "npu_peak_bytes": lambda repeat: repeat.npu.peak_bytes if repeat.npu else None,
    "npu_left_bytes": lambda repeat: repeat.npu.left_bytes if repeat.npu else None,
    "kv_cache_bytes": _accounted("kv_cache_bytes"),
    "scratch_bytes": _accounted("scratch_bytes"),
}


def memory_figures(counted_by: str) -> Mapping[str, RepeatFigure]:
    """Return the figures of storage.result.MemoryFigures, by field."""
    application = _ApplicationFigures(counted_by)
    return {
        "application_memory_bytes": _at_end_of("steady", application.memory),
        "application_memory_trimmed_bytes": _at_end_of("trimmed", application.trimmed),
        "application_memory_over_baseline_bytes": application.over_baseline("steady"),
        "baseline_memory_bytes": _at_end_of("imported", application.memory),
        "residue_memory_bytes": application.residue,
        "context_memory_bytes": application.of_contexts,
        "decoder_memory_bytes": application.over_baseline("decoders"),
        **_OTHER_FIGURES,
    }


# Speed


def model_latencies(plan: Plan, repeat: Repeat) -> tuple[int | None, ...] | None:
    """Return the median of all inferences of each model; None before the steady state.

    A model without a context has no latency.
    """
    steady = repeat.last("steady")
    if steady is None:
        return None
    by_model: list[list[int]] = [[] for _ in plan.models]
    for context, latencies_ns in zip(plan.contexts, steady.data.latencies_ns):
        by_model[context.model] += latencies_ns
    return tuple(round(statistics.median(values)) if values else None for values in by_model)


def _throughput(repeat: Repeat) -> float | None:
    steady = repeat.last("steady")
    if steady is None:
        return None
    inferences = sum(map(len, steady.data.latencies_ns))
    return inferences / (steady.data.elapsed_ns / 1e9)


def _of_each_context(
    phase: str, duration_of: Callable[[StepData], int | None]
) -> Callable[[Repeat], tuple[int | None, ...]]:
    """Return the durations of a phase that has one barrier per context."""
    return lambda repeat: tuple(duration_of(barrier.data) for barrier in repeat.of_contexts(phase))


def _frame_latency(percentile: str) -> RepeatFigure:
    """Return the figure of the latency of all frames: from when a frame is due to when its output
    has been read.
    """

    def figure(repeat: Repeat) -> int | None:
        frames = repeat.all_frames
        if frames is None or frames.latency_ns is None:
            return None
        latency_ns: int = getattr(frames.latency_ns, percentile)
        return latency_ns

    return figure


def _frames_lost_percent(repeat: Repeat) -> float | None:
    frames = repeat.all_frames
    if frames is None or not frames.due:
        return None
    return 100 * (frames.dropped + frames.missed) / frames.due


def _of_turns(figure_of: Callable[[Turn], float | None]) -> RepeatFigure:
    """Return the median of a figure over all turns of the steady state; None without any."""

    def figure(repeat: Repeat) -> float | None:
        steady = repeat.last("steady")
        if steady is None:
            return None
        values = []
        for turns in steady.data.turns:
            values += [value for value in map(figure_of, turns) if value is not None]
        return statistics.median(values) if values else None

    return figure


def _first_token_ns(repeat: Repeat) -> int | None:
    median_ns = _of_turns(lambda turn: turn.first_token_ns)(repeat)
    return None if median_ns is None else round(median_ns)


def _prompt_tokens_per_s(turn: Turn) -> float | None:
    return _per_s(turn.prompt_tokens, turn.first_token_ns)


def _generated_tokens_per_s(turn: Turn) -> float | None:
    """Return the speed after the first token, which belongs to the prompt."""
    return _per_s(turn.generated_tokens - 1, turn.generation_ns)


def _per_s(count: int, duration_ns: int) -> float | None:
    return count / (duration_ns / 1e9) if count and duration_ns else None


def _all_generated_tokens_per_s(repeat: Repeat) -> float | None:
    """Return the tokens that all conversations generated in the steady state, per second of it."""
    steady = repeat.last("steady")
    if steady is None:
        return None
    generated = sum(turn.generated_tokens for turns in steady.data.turns for turn in turns)
    return _per_s(generated, steady.data.elapsed_ns)


#: Key: field of storage.result.Speed; language models only.
TURN_FIGURES: Mapping[str, RepeatFigure] = {
    "first_token_ns": _first_token_ns,
    "prompt_tokens_per_s": _of_turns(_prompt_tokens_per_s),
    "generated_tokens_per_s": _of_turns(_generated_tokens_per_s),
    "all_generated_tokens_per_s": _all_generated_tokens_per_s,
}
#: Key: field of storage.result.Speed. Latencies depend on the plan: see model_latencies.
SPEED_FIGURES: Mapping[str, RepeatFigure] = {
    "throughput_per_s": _throughput,
    "context_load_ns": _of_each_context("context", lambda data: data.load_ns),
    "first_inference_ns": _of_each_context("first_inference", lambda data: data.latency_ns),
    "idle_cpu_percent": lambda repeat: repeat.idle_cpu_percent,
}
#: The same for streams, whose speed is that of frames.
STREAM_SPEED_FIGURES: Mapping[str, RepeatFigure] = {
    **SPEED_FIGURES,
    "latency_median_ns": _frame_latency("p50"),
    "latency_p99_ns": _frame_latency("p99"),
    "throughput_per_s": lambda repeat: repeat.all_frames.per_s if repeat.all_frames else None,
    "frames_lost_percent": _frames_lost_percent,
}
