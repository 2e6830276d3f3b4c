"""The terminal's line for a finished configuration: its memory, its saving and its speed.

A configuration that is equal to one that has been measured has no line of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from reusebench.measured.messages import Message
from reusebench.scenarios.titles import title_of
from reusebench.storage.formatting import (
    MIB,
    mib,
    milliseconds,
    milliseconds_range,
    per_second,
    percent,
)
from reusebench.storage.measured_figure import Figure
from reusebench.storage.result import PSS, Result
from reusebench.storage.result_figures import main_memory, memory, model_latencies, rate
from reusebench.storage.savings import MORE, NPU, SAME, saving_of

__all__ = ["equal_text", "is_equal", "result_text"]

#: Remarks that concern no memory whose pages count once each.
_ON_PSS_ALONE = ("sharers_changed",)


def result_text(result: Result, baseline: Result | None) -> str:
    """Return the text of a result; `baseline` is None if its baseline was not measured."""
    if result.failure:
        if result.failure.kind == "not_supported":
            return f"not supported: {result.failure.message}"
        return str(result.failure)
    if result.limit:
        fitting = f"{result.limit.contexts} contexts fit"
        return fitting if result.limit.failure else f"{fitting}, and none failed"
    if result.cycles:
        return f"{len(result.cycles.pss_bytes) - 1} cycles; the report says whether anything grows"
    parts = (
        _memory(result),
        _saving(result, baseline),
        _speed(result),
        _placement(result),
        _not_compared(result),
        _charge(result),
        _shortage(result),
    )
    remarks = (f"NOTE: {remark}" for remark in _remarks(result))
    return ", ".join(filter(None, (*parts, *remarks)))


def is_equal(result: Result) -> bool:
    """Whether its figures were shown under the name of another scenario."""
    return result.measured_as not in (None, result.scenario) and result.failure is None


def equal_text(results: Iterable[Result]) -> str:
    """Return a sentence with the results that are equal to others; empty if none is.

    It names the runtimes unless all have the equal result.
    """
    all_runtimes: set[str] = set()
    #: Key: the scenario and its equal.
    runtimes: dict[str, list[str]] = {}
    for result in results:
        all_runtimes.add(result.runtime)
        if result.measured_as and is_equal(result):
            name = f"{title_of(result.scenario)} (as {title_of(result.measured_as)})"
            runtimes.setdefault(name, []).append(result.runtime)
    if not runtimes:
        return ""
    names = []
    for name, having in runtimes.items():
        if set(having) == all_runtimes:
            names.append(name)
        else:
            names.append(f"{name} on {' and '.join(dict.fromkeys(having))}")
    return f"Equal to others, and measured once: {'; '.join(names)}"


def _memory(result: Result) -> str:
    name = main_memory(result)
    figure = memory(result, name)
    if figure is None:
        return "memory could not be read"
    if name == NPU:
        return f"{mib(figure, npu=True)} MiB NPU memory"
    return f"{mib(figure)} MiB"


def _saving(result: Result, baseline: Result | None) -> str:
    """Return the saving against the baseline; empty unless both have the same kind of memory."""
    main = main_memory(result)
    if baseline is None or main_memory(baseline) != main:
        return ""
    saving = saving_of(main, memory(baseline, main), memory(result, main))
    if saving is None or saving.percent is None:
        return ""
    # An equal of the baseline may have the line.
    name = title_of(baseline.measured_as or baseline.scenario)
    if saving.change == SAME:
        return f"as much as {name}, as far as can be measured"
    than = "more" if saving.change == MORE else "less"
    return f"{percent(abs(saving.percent))} % {than} than {name}"


def _speed(result: Result) -> str:
    if result.plan.conversation:
        return _speed_of_turns(result)
    schedule = result.plan.schedule
    if schedule:
        frames = rate(result)
        if frames is None:
            return ""
        due = f" of {schedule.count * schedule.fps:g}" if schedule.fps else ""
        return f"{per_second(frames)}{due} frames/s"
    latencies = model_latencies(result)
    if len(latencies) == 2:
        return ", ".join(f"{model} {milliseconds(latency)} ms" for model, latency in latencies)
    # More names would make the line longer than a terminal; the report has each model's latency.
    return f"{milliseconds_range([figure for _, figure in latencies])} ms" if latencies else ""


def _speed_of_turns(result: Result) -> str:
    """Return the time to the first token, and the speed of one conversation and of all."""
    first = Figure.of(result.speed.first_token_ns)
    one = Figure.of(result.speed.generated_tokens_per_s)
    everyone = Figure.of(result.speed.all_generated_tokens_per_s)
    parts = []
    if first:
        parts.append(f"first token {milliseconds(first)} ms")
    if one:
        parts.append(f"{per_second(one)} tokens/s")
    if everyone and len(result.plan.contexts) > 1:
        parts.append(f"of all {per_second(everyone)} with prompts")
    return ", ".join(parts)


def _placement(result: Result) -> str:
    """Return the models of which nothing runs on the NPU; empty if there is none."""
    names = []
    for model in result.plan.models:
        placement = result.placements.get(model.digest)
        if placement and not placement.npu:
            names.append(model.name)
    return f"NOTE: no operator of {' and '.join(names)} runs on the NPU" if names else ""


def _not_compared(result: Result) -> str:
    """Return the reasons why outputs are not compared; empty if all are."""
    if not result.not_compared:
        return ""
    reasons = "; ".join(dict.fromkeys(map(str, result.not_compared.values())))
    return f"outputs not compared: {reasons}"


def _remarks(result: Result) -> list[Message]:
    """Return the remarks on the memory that the line has; the report has all."""
    if main_memory(result) == NPU:
        return []
    remarks = result.memory_remarks
    if result.counted_by == PSS:
        return list(remarks)
    return [remark for remark in remarks if remark.code not in _ON_PSS_ALONE]


def _charge(result: Result) -> str:
    """Return the charge of a container with a limit; empty without a limit."""
    charges = [repeat.charge.most for repeat in result.repeats if repeat.charge]
    if not charges:
        return ""
    most = max(charges, key=lambda charge: charge.counted_bytes)
    counted = f"{most.counted_bytes / MIB:,.1f}"
    return f"docker will count {counted} of {most.limit_bytes / MIB:,.1f} MiB"


def _shortage(result: Result) -> str:
    if not result.shortage_signs:
        return ""
    signs = "; ".join(map(str, result.shortage_signs))
    if main_memory(result) == NPU:
        return f"memory of the process was short, NPU memory is exact: {signs}"
    return f"MEMORY WAS SHORT, its figures are too small: {signs}"
