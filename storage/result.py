"""A result: one configuration, measured in several fresh processes, as it stands in `extra_info`.

Every figure is a list with one value per repeat, in order; null where that repeat did not give it. The names are
defined in schema/result-1.json and explained in docs/results.md.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scenarios.plan import Plan

__all__ = ["SCHEMA", "Configuration", "Repeat", "build_result"]

#: Written into every result; a change of names or meanings makes a new number.
#: 1 (2026-11): first form; later the same month, all optional: `npu`, `driver_version`, `chip`, `computes`, `copies`;
#: of streams `frames`, `plan.schedule` and figures of their own in `memory` and `speed`;
#: the `message` of a failure is a code with values, and was a sentence.
SCHEMA = "reusebench-result-1"


@dataclass(frozen=True)
class Configuration:
    """What was measured: the plan and what it was made from."""

    plan: Plan
    target: str
    streams: int
    #: Per stream.
    contexts: int
    #: How many model files the user gave, or the built-in set has.
    model_files: int
    #: The session's identity, common to all results of one `pytest bench/`.
    run: str
    #: What the measured processes reported; None before one of this runtime has come so far.
    runtime_version: str | None
    python_version: str | None
    #: Of the kernel driver under the runtime.
    driver_version: str | None = None
    #: The Rockchip chip, where it is known.
    chip: str | None = None
    #: False where the NPU's arithmetic is missing: no figure of speed, no comparison of outputs.
    computes: bool = True


@dataclass(frozen=True)
class Repeat:
    """What one fresh process gave."""

    #: A record per barrier, in order (targets.measured_process.Run.phases).
    barriers: Sequence[dict[str, Any]]
    #: None, or targets.outcome.Failure as dataclasses.asdict gives it.
    failure: dict[str, Any] | None
    elapsed_s: float
    system_memory_noise_bytes: int
    #: How busy the machine was in the idle time before the process started.
    idle_cpu_percent: float
    #: Path of the trace, relative to the storage.
    trace: str
    #: The account of NPU memory (accounting.account); None where nothing gives one.
    npu: dict[str, Any] | None = None
    #: What became of the frames of its streams (schema/result-1.json); None without streams, or before their time.
    frames: dict[str, Any] | None = None

    def reading(self, phase: str, part: str, key: str) -> int | None:
        """Return one figure of the reading at the end of a phase; None where the phase was not reached."""
        record = self.last(phase)
        return record[part][key] if record else None

    def last(self, phase: str) -> dict[str, Any] | None:
        """Return the last barrier of a phase."""
        return next((record for record in reversed(self.barriers) if record["phase"] == phase), None)

    def of_contexts(self, phase: str) -> list[dict[str, Any]]:
        """Return the barriers of a phase that has one per context, in the order of the contexts."""
        return sorted((each for each in self.barriers if each["phase"] == phase), key=lambda each: each["context"])


#: What is stored of a barrier; the last two where there is an NPU, and a ledger.
_OF_A_PHASE = ("malloc_trimmed", "process", "system", "npu", "npu_live_bytes")

#: Phases whose steps are of one context and add memory to it.
_OF_A_CONTEXT = ("context", "internal_memory", "first_inference")


def build_result(
    configuration: Configuration, repeats: Sequence[Repeat], failure: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the result as it is stored; `failure` is why the configuration has no figures to compare, if so."""
    plan = configuration.plan
    frames = {"frames": [repeat.frames for repeat in repeats]} if plan.schedule else {}
    return {
        "schema": SCHEMA,
        "run": configuration.run,
        "runtime": plan.runtime,
        "runtime_version": configuration.runtime_version,
        "target": configuration.target,
        "python_version": configuration.python_version,
        "driver_version": configuration.driver_version,
        "chip": configuration.chip,
        "computes": configuration.computes,
        "scenario": plan.scenario,
        "baseline": plan.baseline,
        "streams": configuration.streams,
        "contexts": configuration.contexts,
        "cores": plan.cores,
        "rounds": plan.rounds,
        "models": [{"name": model.name, "digest": model.digest} for model in plan.models],
        "model_files": configuration.model_files,
        "outcome": failure["kind"] if failure else "ok",
        "failure": failure,
        "output_digests": output_digests(plan, repeats),
        "copies": _copies(repeats),
        "memory": {name: [figure(repeat) for repeat in repeats] for name, figure in _MEMORY.items()},
        "speed": _speed(repeats, plan, configuration.computes),
        **frames,
        "repeats": [_stored_repeat(repeat) for repeat in repeats],
        "plan": plan.to_json(),
    }


def output_digests(plan: Plan, repeats: Sequence[Repeat]) -> dict[str, list[str]]:
    """Return, by the model's digest, every distinct digest of its outputs, over contexts, phases and repeats."""
    found: dict[str, set[str]] = {}
    for repeat in repeats:
        firsts = [(record["context"], record["data"]["digest"]) for record in repeat.of_contexts("first_inference")]
        steady = repeat.last("steady")
        # Those of frames are compared frame by frame.
        lasts = enumerate(steady["data"]["digests"]) if steady and plan.schedule is None else ()
        for index, digest in (*firsts, *lasts):
            model = plan.models[plan.contexts[index].model]
            found.setdefault(model.digest, set()).add(digest)
    return {model: sorted(digests) for model, digests in found.items()}


def _copies(repeats: Sequence[Repeat]) -> list[dict[str, int]] | None:
    """Return what an inference of each context copies, which is the same in every repeat; None where none ran."""
    firsts = repeats[0].of_contexts("first_inference") if repeats else []
    return [record["data"]["copies"] for record in firsts] or None


def _difference(repeat: Repeat, phase: str, key: str) -> int | None:
    """Return a phase's process figure over the do-nothing baseline of the same process."""
    value, baseline = repeat.reading(phase, "process", key), repeat.reading("imported", "process", key)
    return None if value is None or baseline is None else value - baseline


def _peak(repeat: Repeat) -> int | None:
    """Return the highest RSS from the start of the process to the end of the steady phase."""
    if repeat.last("steady") is None:
        return None
    peaks = [each["process"]["peak_rss_bytes"] for each in repeat.barriers if each["phase"] != "destroy"]
    return None if None in peaks else max(peaks)


def _system(repeat: Repeat) -> int | None:
    record = repeat.last("steady")
    return record["system"]["total_bytes"] - record["system"]["available_bytes"] if record else None


def _trimmed(repeat: Repeat, key: str) -> int | None:
    record = repeat.last("trimmed")
    return record["process"][key] if record and record["malloc_trimmed"] else None


def _context_memory(repeat: Repeat) -> list[int] | None:
    """Return the PSS that each context added: when it was made, and in the steps of its memory and first inference."""
    made = repeat.of_contexts("context")
    if not made or len(made) != len(repeat.of_contexts("first_inference")):
        return None
    added = [0] * len(made)
    for before, after in zip(repeat.barriers, repeat.barriers[1:]):
        if after["phase"] in _OF_A_CONTEXT:
            added[after["context"]] += after["process"]["pss_bytes"] - before["process"]["pss_bytes"]
    return added


def _npu_memory(repeat: Repeat) -> int | None:
    """Return the NPU's memory by its most exact source: ledger, the process's dma-bufs, the runtime's words."""
    if repeat.npu is not None and repeat.npu["source"] == "ledger":
        return _npu(repeat, "total_bytes")
    record = repeat.last("steady")
    held: int | None = record["npu"]["process_dmabuf_bytes"] if record and record.get("npu") else None
    return _npu(repeat, "total_bytes") if held is None else held


def _npu(repeat: Repeat, key: str) -> int | None:
    value: int | None = repeat.npu[key] if repeat.npu else None
    return value


_MEMORY: dict[str, Callable[[Repeat], Any]] = {
    "application_memory_bytes": lambda repeat: repeat.reading("steady", "process", "pss_bytes"),
    "application_memory_trimmed_bytes": lambda repeat: _trimmed(repeat, "pss_bytes"),
    "application_memory_over_baseline_bytes": lambda repeat: _difference(repeat, "steady", "pss_bytes"),
    "baseline_memory_bytes": lambda repeat: repeat.reading("imported", "process", "pss_bytes"),
    "application_rss_bytes": lambda repeat: repeat.reading("steady", "process", "rss_bytes"),
    "application_uss_bytes": lambda repeat: repeat.reading("steady", "process", "uss_bytes"),
    "application_peak_rss_bytes": _peak,
    "residue_memory_bytes": lambda repeat: None if repeat.failure else _difference(repeat, "destroy", "pss_bytes"),
    "context_memory_bytes": _context_memory,
    "decoder_memory_bytes": lambda repeat: _difference(repeat, "decoders", "pss_bytes"),
    "system_memory_bytes": _system,
    "system_memory_noise_bytes": lambda repeat: repeat.system_memory_noise_bytes,
    "npu_memory_bytes": _npu_memory,
    "npu_peak_bytes": lambda repeat: _npu(repeat, "peak_bytes"),
    "npu_left_bytes": lambda repeat: _npu(repeat, "left_bytes"),
}


def _frames(repeat: Repeat, *keys: str) -> Any:
    """Return one figure of all frames; None where there is none."""
    value: Any = repeat.frames and repeat.frames["all"]
    for key in keys:
        value = value and value[key]
    return value


def _frames_lost_percent(repeat: Repeat) -> float | None:
    due: int | None = _frames(repeat, "due")
    return 100 * (_frames(repeat, "dropped") + _frames(repeat, "missed")) / due if due else None


def _latency_median(repeat: Repeat) -> int | None:
    record = repeat.last("steady")
    return round(statistics.median(ns for each in record["data"]["latencies_ns"] for ns in each)) if record else None


def _throughput(repeat: Repeat) -> float | None:
    record = repeat.last("steady")
    if record is None:
        return None
    inferences: int = sum(len(each) for each in record["data"]["latencies_ns"])
    elapsed_ns: int = record["data"]["elapsed_ns"]
    return inferences / (elapsed_ns / 1e9)


_SPEED: dict[str, Callable[[Repeat], Any]] = {
    "latency_median_ns": _latency_median,
    "throughput_per_s": _throughput,
    "context_load_ns": lambda repeat: [each["data"]["load_ns"] for each in repeat.of_contexts("context")],
    "idle_cpu_percent": lambda repeat: repeat.idle_cpu_percent,
    "first_inference_ns": lambda repeat: [each["data"]["latency_ns"] for each in repeat.of_contexts("first_inference")],
}


#: Of streams: latencies are from when a frame is due to when its output has been read.
_SPEED_OF_STREAMS: dict[str, Callable[[Repeat], Any]] = {
    **_SPEED,
    "latency_median_ns": lambda repeat: _frames(repeat, "latency_ns", "p50"),
    "throughput_per_s": lambda repeat: _frames(repeat, "per_s"),
    "latency_p99_ns": lambda repeat: _frames(repeat, "latency_ns", "p99"),
    "frames_lost_percent": _frames_lost_percent,
}
#: Figures that have one value for each context.
_OF_EACH_CONTEXT = {"context_load_ns", "first_inference_ns"}


def _speed(repeats: Sequence[Repeat], plan: Plan, computes: bool) -> dict[str, Any]:
    """Return the figures of speed; where nothing computes there are none, only how busy the machine was."""
    figures = _SPEED_OF_STREAMS if plan.schedule else _SPEED
    if computes:
        return {name: [figure(repeat) for repeat in repeats] for name, figure in figures.items()}
    missing: dict[str, Any] = {name: [[] if name in _OF_EACH_CONTEXT else None for _ in repeats] for name in figures}
    return {**missing, "idle_cpu_percent": [repeat.idle_cpu_percent for repeat in repeats]}


def _stored_repeat(repeat: Repeat) -> dict[str, Any]:
    """Return the repeat with the full reading at the end of each phase; every barrier is in the trace."""
    phases = dict.fromkeys(record["phase"] for record in repeat.barriers)
    return {
        "failure": repeat.failure,
        "elapsed_s": repeat.elapsed_s,
        "trace": repeat.trace,
        "phases": {phase: _stored_phase(repeat, phase) for phase in phases},
        "npu": repeat.npu,
    }


def _stored_phase(repeat: Repeat, phase: str) -> dict[str, Any]:
    last = repeat.last(phase)
    assert last is not None
    return {key: last[key] for key in _OF_A_PHASE if key in last}
