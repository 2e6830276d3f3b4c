"""Stored runs of streams made from chosen figures, in the form that the harness writes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.files import check_result

from scenarios.plan import Plan
from tests.reports.stored import MIB, STREAMS, dup, even, result, write_run

FPS, SECONDS = 30, 6.0
DECODERS, DECODING = 40 * MIB, 64 * MIB
VIDEO = {
    "name": "noise-1080p30.mp4",
    "path": "/videos/noise-1080p30.mp4",
    "digest": "e" * 64,
    "codec": "h264",
    "width": 1920,
    "height": 1080,
    "fps": 30.0,
    "frames": 300,
}
SCHEDULE: dict[str, Any] = {
    "count": STREAMS,
    "fps": float(FPS),
    "queue": 0,
    "warm_up_s": 2.0,
    "duration_s": SECONDS,
    "video": VIDEO,
}
_MS = 1_000_000
_NO_STAGES = ("resize", "inference", "output")
#: Of each scenario: the one of single inferences with its contexts, its baseline, and what its contexts add.
_LIKE: dict[str, tuple[str, str | None, list[list[int]]]] = {
    "streams_decode_only": ("no_reuse_one_model", None, even(0)),
    "streams_no_reuse": ("no_reuse", None, even(40, spread=0.5)),
    "streams_partial_dup": ("partial_dup", "streams_no_reuse", even(20, spread=0.4)),
    "streams_no_reuse_one_model": ("no_reuse_one_model", None, even(40, spread=0.5)),
    "streams_full_dup": ("full_dup", "streams_no_reuse_one_model", dup(40, 10)),
    "streams_full_dup_per_core": ("full_dup", "streams_no_reuse_one_model", dup(40, 10)),
}
NAMES = tuple(_LIKE)
#: A machine that says nothing of throttling and the NPU.
SILENT = {
    "temperatures": [],
    "frequencies": [{"name": "cpu0", "lowest_hz": 2.4e9, "mean_hz": 2.4e9, "highest_hz": 2.4e9}],
    "npu_load_percent": None,
    "throttled": None,
}
#: A board that was too hot.
HOT = {
    "temperatures": [
        {"name": "soc-thermal", "first_celsius": 61.0, "highest_celsius": 86.5, "last_celsius": 85.1},
        {"name": "npu-thermal", "first_celsius": 60.0, "highest_celsius": 84.0, "last_celsius": 83.0},
    ],
    "frequencies": [{"name": "policy4", "lowest_hz": 1.2e9, "mean_hz": 1.7e9, "highest_hz": 2.4e9}],
    "npu_load_percent": [{"core": core, "mean": 71.0 + core, "highest": 100.0} for core in range(3)],
    "throttled": [{"name": "thermal-cpufreq-0", "kind": "cooling_device", "share_percent": 35.0}],
}


@dataclass(frozen=True)
class Frames:
    """What the streams of one process did; those that were due and not done were dropped."""

    #: Frames per second, of all streams together.
    per_s: float = 44.0
    #: Of all frames, in ms; the others follow from it.
    latency_ms: float = 60.0
    fps: float = FPS
    seconds: float = SECONDS
    missed: int = 0
    interrupted: bool = False
    trend: dict[str, Any] | None = None
    #: Of the heap in use.
    heap: dict[str, Any] | None = None
    machine: dict[str, Any] | None = None
    decode_only: bool = False
    computes: bool = True


def quantiles(p50_ms: float) -> dict[str, int]:
    factors = {"p50": 1.0, "p90": 1.4, "p99": 1.9, "max": 2.6}
    return {name: round(p50_ms * factor * _MS) for name, factor in factors.items()}


def trend(verdict: str = "level", mib_per_min: float = 0.01, **changes: Any) -> dict[str, Any]:
    """Return a trend of that slope, 0.1 MiB a minute uncertain; 0.9 MiB would have been seen."""
    slope, margin = mib_per_min * MIB / 60, 0.1 * MIB / 60
    return {
        "slope_bytes_per_s": slope,
        "low_bytes_per_s": slope - margin,
        "high_bytes_per_s": slope + margin,
        "growing_confidence_percent": 99.9 if verdict == "growing" else 60.0,
        "verdict": verdict,
        "level_after_s": 2.0 if verdict == "grew_then_level" else None,
        "last_slope_bytes_per_s": slope,
        "last_low_bytes_per_s": slope - margin,
        "last_high_bytes_per_s": slope + margin,
        "resolution_bytes_per_s": 0.9 * MIB / 60,
        **changes,
    }


def frames_entry(given: Frames, level_bytes: int) -> dict[str, Any]:
    """Return a repeat's entry of `frames`; every sum in it is right."""
    streams = [_figures(given, given.per_s / STREAMS, stream) for stream in range(STREAMS)]
    sums = {key: sum(each[key] for each in streams) for key in ("due", "done", "dropped", "missed")}
    latency = quantiles(given.latency_ms) if sums["done"] else None
    whole = {**sums, "per_s": sums["done"] / given.seconds, "latency_ns": latency}
    known = given.computes
    return {
        "seconds": given.seconds,
        "interrupted": given.interrupted,
        "all": whole if known else None,
        "streams": streams if known else None,
        "stages_ns": _stages(given) if known else None,
        "cpu": {"cores_percent": [97.1, 95.0], "process_percent": 190.2, "harness_percent": 1.3} if known else None,
        "machine": given.machine or SILENT,
        "memory": given.trend or trend(),
        "heap": given.heap or trend(),
        "series": _series(given, level_bytes),
    }


def streams_result(
    storage: Path,
    scenario: str,
    frames: Sequence[Frames] = (Frames(),) * 3,
    *,
    schedule: dict[str, Any] = SCHEDULE,
    npu: Callable[[Plan], dict[str, Any]] | None = None,
    costs: list[list[int]] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Return a schema-valid result of streams with one repeat for each of `frames`."""
    like, baseline, own = _LIKE[scenario]
    repeats = (costs or own)[: len(frames)]
    computes = all(each.computes for each in frames)
    decode_only = scenario == "streams_decode_only"
    info = copy.deepcopy(result(storage, like, repeats, npu=npu, computes=computes))
    contexts = info["plan"]["contexts"][: {"streams_full_dup_per_core": info["cores"]}.get(scenario)]
    plan = {"scenario": scenario, "baseline": baseline, "schedule": schedule}
    info["plan"].update(plan, contexts=[] if decode_only else contexts)
    info.update(scenario=scenario, baseline=baseline)
    if scenario == "streams_full_dup_per_core":
        _take_away(info, [sum(each[info["cores"] :]) for each in repeats])
        _with_accounts_of(info, info["cores"])
    if decode_only:
        info["memory"]["context_memory_bytes"] = [None for _ in repeats]
        _without_contexts(info)
        _with_accounts_of(info, 0)
    else:
        count = len(info["plan"]["contexts"])
        info["memory"]["context_memory_bytes"] = [each[:count] for each in info["memory"]["context_memory_bytes"]]
    decodes = schedule["video"] is not None
    _take_away(info, [-DECODING * decodes] * len(repeats))
    info["memory"]["decoder_memory_bytes"] = [DECODERS if decodes else None for _ in repeats]
    levels = info["memory"]["application_rss_bytes"]
    info["frames"] = [frames_entry(each, level) for each, level in zip(frames, levels)]
    info["speed"].update(_speed(info["frames"]))
    info.update(changes)
    check_result(info)
    return info


def published_run(storage: Path, number: int = 1, frames: Frames = Frames(), **changes: Any) -> Path:
    """Write a run of all scenarios of streams: dup saves 240 of 480 MiB of inference, full dup 330."""
    rates = dict(zip(NAMES, (120.0, 43.0, 42.5, 43.0, 44.0, 41.0)))
    infos = []
    for name in NAMES:
        own = vars(frames) | {"per_s": min(rates[name], frames.fps * STREAMS or 120.0), "decode_only": name == NAMES[0]}
        repeats = [Frames(**{**own, "per_s": own["per_s"] - offset}) for offset in (0, 0.5, 1.0)]
        if name == NAMES[0]:
            repeats = [Frames(**own)] * 3
        infos.append(streams_result(storage, name, repeats, **changes))
    return write_run(storage, infos, number)


def _figures(given: Frames, per_s: float, stream: int) -> dict[str, Any]:
    done = math.floor(per_s * given.seconds)
    # As fast as possible nothing is lost.
    due = max(done, round(given.fps * given.seconds)) if given.fps else done
    missed = min(given.missed, due - done)
    figures = {"due": due, "done": done, "dropped": due - done - missed, "missed": missed}
    latency = quantiles(given.latency_ms + stream) if done else None
    return {**figures, "per_s": done / given.seconds, "latency_ns": latency}


def _stages(given: Frames) -> dict[str, Any]:
    shares = {"wait": 0.01, "decode": 0.15, "queue": 0.3, "resize": 0.05, "inference": 0.48, "output": 0.01}
    stages: dict[str, Any] = {name: quantiles(given.latency_ms * share) for name, share in shares.items()}
    return {**stages, **dict.fromkeys(_NO_STAGES)} if given.decode_only else stages


def _series(given: Frames, level_bytes: int) -> dict[str, Any]:
    count = 120
    seconds = [given.seconds * place / count for place in range(count)]
    slope = (given.trend or trend())["last_slope_bytes_per_s"]
    until = (given.trend or {}).get("level_after_s") or 0.0
    grown = [slope * each - 3 * MIB * max(0.0, 1 - each / until if until else 0.0) for each in seconds]
    wobble = [round(0.15 * MIB * math.sin(7 * place)) for place in range(count)]
    rates = [given.per_s] * count if given.computes else None
    lost = [max(0.0, given.fps * STREAMS - given.per_s)] * count if given.computes else None
    rss = [round(level_bytes + each + noise) for each, noise in zip(grown, wobble)]
    heap = [round(each * (given.heap or trend())["last_slope_bytes_per_s"]) + 10 * MIB for each in seconds]
    memory = {"rss_bytes": rss, "heap_bytes": heap, "npu_memory_bytes": None}
    return {"seconds": seconds, **memory, "done_per_s": rates, "lost_per_s": lost}


def _speed(frames: Sequence[dict[str, Any]]) -> dict[str, Any]:
    known = [each["all"] for each in frames]
    lost = [each and each["due"] and 100 * (each["dropped"] + each["missed"]) / each["due"] for each in known]
    return {
        "latency_median_ns": [each and each["latency_ns"] and each["latency_ns"]["p50"] for each in known],
        "latency_p99_ns": [each and each["latency_ns"] and each["latency_ns"]["p99"] for each in known],
        "throughput_per_s": [each and each["per_s"] for each in known],
        "frames_lost_percent": lost,
    }


def _take_away(info: dict[str, Any], sizes: Sequence[int]) -> None:
    """Take so many bytes of each repeat's memory at the end of the steady state away."""
    for name, values in info["memory"].items():
        if name.startswith("application_"):
            info["memory"][name] = [value - size for value, size in zip(values, sizes)]
    for repeat, size in zip(info["repeats"], sizes):
        process = repeat["phases"]["steady"]["process"]
        for name in ("rss_bytes", "pss_bytes", "uss_bytes", "rss_anon_bytes", "pss_anon_bytes", "peak_rss_bytes"):
            process[name] -= size


def _without_contexts(info: dict[str, Any]) -> None:
    info.update(copies=None, output_digests={})
    for name in ("context_load_ns", "first_inference_ns"):
        info["speed"][name] = [[] for _ in info["repeats"]]


def _with_accounts_of(info: dict[str, Any], count: int) -> None:
    """Leave in the accounts of NPU memory the first contexts alone."""
    accounts = [repeat["npu"] for repeat in info["repeats"] if repeat["npu"]]
    for account in accounts:
        contexts = account["contexts"][:count]
        total = sum(size for context in contexts for size in context.values())
        account.update(contexts=contexts, total_bytes=total, peak_bytes=total, shared=[])
    if accounts:
        totals = [account["total_bytes"] for account in accounts]
        info["memory"].update(npu_memory_bytes=totals, npu_peak_bytes=totals)
