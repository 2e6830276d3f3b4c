"""What a trial of a mechanism comes to, by its result and that of its baseline."""

from __future__ import annotations

import statistics
from typing import Any

from scenarios.catalogue import find_scenario
from scenarios.plan import DUP
from storage.mechanisms import Trial
from targets.outcome import Failure

__all__ = ["judge"]

_MIB = 2**20
#: The figures that a saving is taken from, the first that both results have.
_FIGURES = {"npu": "npu_memory_bytes", "application": "application_memory_over_baseline_bytes"}


def judge(result: dict[str, Any], baseline: dict[str, Any]) -> Trial:
    """Return the trial that the scenario's result and its baseline's make."""
    scenario = str(result["scenario"])
    if result["outcome"] == "not_supported":
        return Trial(scenario, "not_supported", str(Failure.from_json(result["failure"]).message))
    if result["outcome"] != "ok":
        return Trial(scenario, "fails", str(Failure.from_json(result["failure"])))
    if baseline["outcome"] != "ok":
        return Trial(
            scenario, "fails", f"its baseline {baseline['scenario']}: {Failure.from_json(baseline['failure'])}"
        )
    return _judge_saving(scenario, result, baseline)


def _judge_saving(scenario: str, result: dict[str, Any], baseline: dict[str, Any]) -> Trial:
    memory = next(kind for kind in _FIGURES if _has(kind, result) and _has(kind, baseline))
    less, more = (each["memory"][_FIGURES[memory]] for each in (result, baseline))
    whole = statistics.median(more)
    saved = whole - statistics.median(less)
    # Either may lie at the end of its range.
    spread = sum((max(values) - min(values)) / 2 for values in (less, more))
    avoided = _copied(baseline) - _copied(result)
    works = saved > spread or avoided > 0
    return Trial(
        scenario,
        "works" if works else "saves_nothing",
        "" if works else _in_words(saved, spread),
        saved_bytes=round(saved),
        spread_bytes=round(spread),
        whole_bytes=round(whole),
        memory=memory,
        copies_avoided_bytes=avoided,
        combined=_combined(scenario, result["plan"]),
    )


def _has(kind: str, result: dict[str, Any]) -> bool:
    """Whether there is memory of that kind; a runtime on the CPU has no NPU memory."""
    return kind == "application" or all(result["memory"][_FIGURES[kind]])


def _copied(result: dict[str, Any]) -> int:
    """Return the bytes that an inference of one context copies; on average, where the contexts' models differ."""
    contexts: list[dict[str, int]] = result["copies"]
    return sum(each["input_bytes"] + each["output_bytes"] for each in contexts) // len(contexts)


def _in_words(saved: float, spread: float) -> str:
    if abs(saved) <= spread:
        return f"it takes as much as without, within the spread of the repeats ({spread / _MIB:.2f} MiB)"
    return f"it takes {-saved / _MIB:.2f} MiB more than without"


def _combined(scenario: str, plan: dict[str, Any]) -> tuple[str, ...]:
    """Return the mechanisms that were measured together, where the scenario has plans to choose from."""
    if len(find_scenario(scenario).lay_outs) == 1:
        return ()
    contexts = plan["contexts"]
    used = {
        "full_dup": any(each["mechanism"] == DUP for each in contexts),
        "internal_reuse": any(each["internal"] is not None for each in contexts),
        "zero_copy_io": any(each["zero_copy"] for each in contexts),
    }
    return tuple(name for name, is_used in used.items() if is_used)
