"""The terminal's line for a finished configuration: its memory, its saving and its speed.

A configuration that is equal to one that has been measured has no line of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from reusebench.storage.measured_figure import Figure
from reusebench.storage.result import Result

__all__ = ["equal_text", "is_equal", "result_text"]

_MIB = 2**20


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
        _not_compared(result),
        _charge(result),
        _shortage(result),
    )
    remarks = (f"NOTE: {remark}" for remark in result.memory_remarks)
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
        if is_equal(result):
            name = f"{result.scenario} (as {result.measured_as})"
            runtimes.setdefault(name, []).append(result.runtime)
    if not runtimes:
        return ""
    names = []
    for name, having in runtimes.items():
        if set(having) == all_runtimes:
            names.append(name)
        else:
            names.append(f"{name} on {' and '.join(dict.fromkeys(having))}")
    return f"Equal to others, and measured once: {', '.join(names)}"


def _memory(result: Result) -> str:
    figure = _main_memory(result)
    if figure is None:
        return "memory could not be read"
    mib = figure.scaled(1 / _MIB)
    if _has_npu(result):
        return f"{_number(mib, 2)} MiB NPU memory"
    return f"{_number(mib, 1)} MiB memory"


def _saving(result: Result, baseline: Result | None) -> str:
    """Return the saving against the baseline; empty unless both have the same kind of memory."""
    if baseline is None or _has_npu(result) != _has_npu(baseline):
        return ""
    own = _main_memory(result)
    whole = _main_memory(baseline)
    if own is None or whole is None:
        return ""
    # An equal of the baseline may have the line.
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
        if rate is None:
            return ""
        due = f" of {schedule.count * schedule.fps:g}" if schedule.fps else ""
        return f"{_number(rate, 1)}{due} frames/s"
    latency = Figure.of(result.speed.latency_median_ns)
    if latency is None:
        return ""
    return f"{_number(latency.scaled(1e-6), 1)} ms"


def _not_compared(result: Result) -> str:
    """Return the reasons why outputs are not compared; empty if all are."""
    if not result.not_compared:
        return ""
    reasons = "; ".join(dict.fromkeys(map(str, result.not_compared.values())))
    return f"outputs not compared: {reasons}"


def _charge(result: Result) -> str:
    """Return the charge of a container with a limit; empty without a limit."""
    charges = [repeat.charge.most for repeat in result.repeats if repeat.charge]
    if not charges:
        return ""
    most = max(charges, key=lambda charge: charge.counted_bytes)
    counted = f"{most.counted_bytes / _MIB:,.1f}"
    return f"docker will count {counted} of {most.limit_bytes / _MIB:,.1f} MiB"


def _shortage(result: Result) -> str:
    if not result.shortage_signs:
        return ""
    signs = "; ".join(map(str, result.shortage_signs))
    if _has_npu(result):
        return f"memory of the process was short, NPU memory is exact: {signs}"
    return f"MEMORY WAS SHORT, its figures are too small: {signs}"


def _has_npu(result: Result) -> bool:
    return Figure.of(result.memory.npu_memory_bytes) is not None


def _main_memory(result: Result) -> Figure | None:
    """Return the NPU's memory; without an NPU, the application's."""
    memory = result.memory
    return Figure.of(memory.npu_memory_bytes) or Figure.of(memory.application_memory_bytes)


def _number(figure: Figure, decimals: int) -> str:
    spread = "" if figure.spread is None else f" ±{figure.spread:,.{decimals}f}"
    return f"{figure.median:,.{decimals}f}{spread}"
