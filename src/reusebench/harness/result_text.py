"""What the terminal says of a finished configuration: its memory, what it saved, and its speed.

What is equal to a configuration that has been measured has no text of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from reusebench.storage.measured_figure import Figure
from reusebench.storage.result import Result

__all__ = ["equal_text", "is_equal", "result_text"]

_MIB = 2**20


def result_text(result: Result, baseline: Result | None) -> str:
    """Return it; `baseline` is the result that this one is compared with, where it has been
    measured.
    """
    if result.failure:
        is_missing = result.failure.kind == "not_supported"
        return f"not supported: {result.failure.message}" if is_missing else str(result.failure)
    if result.limit:
        return f"{result.limit.contexts} contexts fit" + (
            "" if result.limit.failure else ", and none failed"
        )
    if result.cycles:
        return f"{len(result.cycles.pss_bytes) - 1} cycles; the report says whether anything grows"
    parts = (_memory(result), _saving(result, baseline), _speed(result), _shortage(result))
    return ", ".join(filter(None, parts))


def is_equal(result: Result) -> bool:
    """Whether its figures have been shown as those of another scenario."""
    return result.measured_as not in (None, result.scenario) and result.failure is None


def equal_text(results: Iterable[Result]) -> str:
    """Return which of these results are equal to others, on which runtimes if not on all; empty if
    none is.
    """
    shown = list(results)
    runtimes: dict[str, list[str]] = {}
    for result in filter(is_equal, shown):
        runtimes.setdefault(f"{result.scenario} (as {result.measured_as})", []).append(
            result.runtime
        )
    names = []
    for name, having in runtimes.items():
        is_everywhere = {result.runtime for result in shown} == set(having)
        names.append(name if is_everywhere else f"{name} on {' and '.join(dict.fromkeys(having))}")
    return f"Equal to others, and measured once: {', '.join(names)}" if names else ""


def _memory(result: Result) -> str:
    figure = _main_memory(result)
    if figure is None:
        return "memory could not be read"
    decimals, kind = (2, "NPU memory") if _has_npu(result) else (1, "memory")
    return f"{_number(figure.scaled(1 / _MIB), decimals)} MiB {kind}"


def _saving(result: Result, baseline: Result | None) -> str:
    """Return what is saved of the baseline's memory; the two are of the same models, and of the
    same kind of memory.
    """
    own = _main_memory(result)
    whole = _main_memory(baseline) if baseline else None
    if own is None or whole is None or baseline is None or _has_npu(result) != _has_npu(baseline):
        return ""
    # The name that has a line.
    name = baseline.measured_as or baseline.scenario
    saved = whole - own
    percent = saved.percent_of(whole)
    if percent is None or not saved.exceeds_spread or round(percent.median, 1) == 0:
        return f"as much as {name}, as far as can be measured"
    if percent.median > 0:
        return f"{percent.median:.1f} % less than {name}"
    return f"{-percent.median:.1f} % more than {name}"


def _speed(result: Result) -> str:
    schedule = result.plan.schedule
    if schedule:
        rate = Figure.of(result.speed.throughput_per_s)
        due = f" of {schedule.count * schedule.fps:g}" if schedule.fps else ""
        return f"{_number(rate, 1)}{due} frames/s" if rate else ""
    latency = Figure.of(result.speed.latency_median_ns)
    return f"{_number(latency.scaled(1e-6), 1)} ms" if latency else ""


def _shortage(result: Result) -> str:
    signs = "; ".join(map(str, result.shortage_signs))
    return f"MEMORY WAS SHORT, its figures are too small: {signs}" if signs else ""


def _has_npu(result: Result) -> bool:
    return Figure.of(result.memory.npu_memory_bytes) is not None


def _main_memory(result: Result) -> Figure | None:
    """Return the NPU's memory; if there is none, the application's."""
    memory = result.memory
    return Figure.of(memory.npu_memory_bytes) or Figure.of(memory.application_memory_bytes)


def _number(figure: Figure, decimals: int) -> str:
    spread = "" if figure.spread is None else f" ±{figure.spread:,.{decimals}f}"
    return f"{figure.median:,.{decimals}f}{spread}"
