"""Stored runs of streams made from chosen figures, by the code that stores measured ones."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reusebench.measured.plan import Streams, Video
from reusebench.measured.streams.threads import STAGES
from reusebench.samplers.readings import (
    CpuUse,
    Frequency,
    MachineState,
    NpuLoad,
    Temperature,
    Throttle,
)
from reusebench.storage.result import FrameCount, Percentiles, Result, Series, StreamsRun
from tests.reports.stored import MIB, STREAMS, dup, even, result, write_run

FPS = 30
SECONDS = 120.0
VIDEO = Video(
    "noise-1080p30.mp4", "/videos/noise-1080p30.mp4", "e" * 64, "h264", 1920, 1080, 30.0, 300
)
SCHEDULE = Streams(STREAMS, float(FPS), queue=0, warm_up_s=2.0, duration_s=SECONDS, video=VIDEO)
_MS = 1_000_000
#: Bytes that each context adds, by scenario.
_COSTS = {
    "streams_decode_only": even(0),
    "streams_no_reuse": even(40, spread=0.5),
    "streams_partial_dup": even(20, spread=0.4),
    "streams_no_reuse_one_model": even(40, spread=0.5),
    "streams_full_dup": dup(40, 10),
    "streams_full_dup_per_core": dup(40, 10),
}
NAMES = tuple(_COSTS)
#: A machine that says nothing of throttling and the NPU.
SILENT = MachineState((), (Frequency("cpu0", 2.4e9, 2.4e9, 2.4e9),), None, None)
#: A board that was too hot.
HOT = MachineState(
    temperatures=(
        Temperature("soc-thermal", 61.0, 86.5, 85.1),
        Temperature("npu-thermal", 60.0, 84.0, 83.0),
    ),
    frequencies=(Frequency("policy4", 1.2e9, 1.7e9, 2.4e9),),
    npu_load_percent=tuple(NpuLoad(core, 71.0 + core, 100.0) for core in range(3)),
    throttled=(Throttle("thermal-cpufreq-0", "cooling_device", 35.0),),
)

#: Bytes of memory above its beginning, by the second.
Shape = Callable[[float], float]


def level(_: float) -> float:
    """Memory that is constant."""
    return 0.0


def noisy(second: float) -> float:
    """Memory so unsteady that no growth can be proved or ruled out."""
    return random.Random(round(second)).uniform(-20, 20) * MIB


def moving(mib_per_min: float) -> Shape:
    """Memory that grows or falls steadily."""
    return lambda second: mib_per_min * MIB / 60 * second


def grown_until(second: float) -> Shape:
    """Memory that grows by 3 MiB at `second`."""
    return lambda at: 3 * MIB * (at >= second)


@dataclass(frozen=True)
class Frames:
    """Frames of the streams of one process; frames that were due and not done were dropped."""

    #: Frames per second, of all streams together.
    per_s: float = 44.0
    #: Median latency of all frames; other percentiles follow from it.
    latency_ms: float = 60.0
    fps: float = FPS
    seconds: float = SECONDS
    missed: int = 0
    interrupted: bool = False
    rss: Shape = level
    #: Growth of the heap in use; None if the C library does not tell.
    heap: Shape | None = level
    machine: MachineState = SILENT
    decode_only: bool = False
    computes: bool = True

    def stored(self, level_bytes: int) -> StreamsRun:
        """Return the frames as stored, with correct sums."""
        known = self.computes
        streams = tuple(self._count(stream) for stream in range(STREAMS))
        sums = {
            name: sum(getattr(count, name) for count in streams)
            for name in ("due", "done", "dropped", "missed")
        }
        latency = percentiles(self.latency_ms) if sums["done"] else None
        whole = FrameCount(**sums, per_s=sums["done"] / self.seconds, latency_ns=latency)
        return StreamsRun(
            seconds=self.seconds,
            interrupted=self.interrupted,
            all=whole if known else None,
            streams=streams if known else None,
            stages_ns=self._stages() if known else None,
            cpu=CpuUse((97.1, 95.0), 190.2, 1.3) if known else None,
            machine=self.machine,
            series=self._series(level_bytes),
        )

    def _count(self, stream: int) -> FrameCount:
        done = math.floor(self.per_s / STREAMS * self.seconds)
        # No frame is lost at full speed.
        due = max(done, round(self.fps * self.seconds)) if self.fps else done
        missed = min(self.missed, due - done)
        latency = percentiles(self.latency_ms + stream) if done else None
        per_s = done / self.seconds
        return FrameCount(
            due=due,
            done=done,
            dropped=due - done - missed,
            missed=missed,
            per_s=per_s,
            latency_ns=latency,
        )

    def _stages(self) -> dict[str, Percentiles | None]:
        shares = dict(zip(STAGES, (0.01, 0.15, 0.3, 0.05, 0.48, 0.01)))
        stages: dict[str, Percentiles | None] = {
            name: percentiles(self.latency_ms * shares[name]) for name in STAGES
        }
        return {**stages, **dict.fromkeys(STAGES[3:])} if self.decode_only else stages

    def _series(self, level_bytes: int) -> Series:
        seconds = tuple(float(second) for second in range(1, int(self.seconds) + 1))
        lost_per_s = max(0.0, self.fps * STREAMS - self.per_s)
        return Series(
            seconds=seconds,
            rss_bytes=tuple(round(level_bytes + self.rss(second)) for second in seconds),
            heap_bytes=(
                tuple(round(10 * MIB + self.heap(second)) for second in seconds)
                if self.heap
                else None
            ),
            done_per_s=(self.per_s,) * len(seconds) if self.computes else None,
            lost_per_s=(lost_per_s,) * len(seconds) if self.computes else None,
        )


def percentiles(p50_ms: float) -> Percentiles:
    """Return durations with this median."""
    p50, p90, p99, longest = (round(p50_ms * factor * _MS) for factor in (1.0, 1.4, 1.9, 2.6))
    return Percentiles(p50=p50, p90=p90, p99=p99, max=longest)


def streams_result(
    storage: Path,
    scenario: str,
    frames: Sequence[Frames] = (Frames(),) * 3,
    *,
    schedule: Streams = SCHEDULE,
    **options: Any,
) -> Result:
    """Return a result of streams with one repeat for each of `frames`, and write its traces."""
    costs = _COSTS[scenario][: len(frames)]
    levels = [600 * MIB + sum(repeat) for repeat in costs]
    stored = [repeat.stored(level_bytes) for repeat, level_bytes in zip(frames, levels)]
    computes = all(repeat.computes for repeat in frames)
    return result(
        storage, scenario, costs, schedule=schedule, frames=stored, computes=computes, **options
    )


def published_run(
    storage: Path, number: int = 1, frames: Frames = Frames(), **options: Any
) -> Path:
    """Write a run of all scenarios of streams: dup saves 240 of 480 MiB of inference, full dup
    330.
    """
    rates = dict(zip(NAMES, (120.0, 43.0, 42.5, 43.0, 44.0, 41.0)))
    infos = []
    for name in NAMES:
        per_s = min(rates[name], frames.fps * STREAMS or 120.0)
        if name == NAMES[0]:
            repeats = [replace(frames, per_s=per_s, decode_only=True)] * 3
        else:
            repeats = [replace(frames, per_s=per_s - offset) for offset in (0, 0.5, 1.0)]
        infos.append(streams_result(storage, name, repeats, **options))
    return write_run(storage, infos, number)
