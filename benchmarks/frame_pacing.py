"""Accuracy of the times of frames: `python -m benchmarks.frame_pacing`.

The real driver runs 4 streams at 30 frames/s with 3 contexts per stream, controlled and read as in
a measurement. The runtime computes nothing, so that all delays are the scheduler's. `due to begun`
is the pacing error: the time from a frame's due time until its stream begins with it. `decoded to
taken` is the time until a free context takes a decoded frame. It runs once with empty frames, and
once with the default clip, decoded and scaled.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

from benchmarks.quick import parse
from reusebench.harness.measuring.frames_watch import FramesWatch
from reusebench.harness.measuring.videos import Videos
from reusebench.measured.plan import Context, Plan, Streams, Video
from reusebench.samplers.host import LOCAL_HOST
from reusebench.samplers.observer import Observer
from reusebench.storage.result import StreamsRun
from reusebench.targets.barriers import Frames
from reusebench.targets.measured_process import MeasuredRun, run_plan
from reusebench.targets.target import THIS_INTERPRETER, Target
from tests.helpers.support import CHECKOUT, StubListener, models_of

_TARGET = Target("idle", (sys.executable, "-m", "tests.measured.idle_driver"), CHECKOUT)
_STREAMS = 4
_CONTEXTS = 3
#: Sampling rate, as when streams are measured.
_SAMPLE_HZ = 20.0
_STAGES = {
    "wait": "due to begun",
    "decode": "decoding",
    "queue": "decoded to taken",
    "resize": "scaling",
}


class _Listener(StubListener):
    """A listener that collects the messages about frames."""

    def __init__(self, plan: Plan, observer: Observer) -> None:
        self.watch = FramesWatch(plan, observer, computes=True)

    def frames(self, message: Frames, run: MeasuredRun) -> None:  # noqa: ARG002
        """Collect a message."""
        self.watch.take(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure both kinds of frames and print a table for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--fps", type=float, default=30.0)
    options = parse(parser, arguments, ("--seconds=1",))
    print(
        f"{_STREAMS} streams x {options.fps:g} frames/s, {_CONTEXTS} contexts per stream,"
        f" {options.seconds:g} s;",
        end=" ",
    )
    print(f"{len(os.sched_getaffinity(0))} CPUs, Python {sys.version.split()[0]}")
    for name, video in _videos():
        print(f"\n{name}")
        for line in _table(_measure(options.seconds, options.fps, video)):
            print(line)
    return 0


def _videos() -> Iterator[tuple[str, Video | None]]:
    yield "empty frames", None
    video = Videos({"idle": THIS_INTERPRETER}).of("idle")
    assert video is not None
    yield f"{video.width}x{video.height} {video.codec}, decoded and scaled", video


def _measure(seconds: float, fps: float, video: Video | None) -> StreamsRun:
    schedule = Streams(_STREAMS, fps, queue=0, warm_up_s=2.0, duration_s=seconds, video=video)
    contexts = tuple(Context(stream, 0) for stream in range(_STREAMS) for _ in range(_CONTEXTS))
    plan = Plan(
        "pacing", None, "idle", models_of("none"), contexts, cores=2, rounds=1, schedule=schedule
    )
    observer = Observer(LOCAL_HOST, _SAMPLE_HZ)
    listener = _Listener(plan, observer)
    run = run_plan(_TARGET, plan, observer, 60.0, listener)
    if run.failure:
        sys.exit(f"{run.failure}\n{run.failure.last_words}")
    streams = listener.watch.summary(run.interrupted)
    assert streams is not None
    return streams


def _table(streams: StreamsRun) -> Iterator[str]:
    whole = streams.all
    stages_ns = streams.stages_ns
    cpu = streams.cpu
    assert whole is not None
    assert stages_ns is not None
    assert cpu is not None
    yield (
        f"  {whole.done} of {whole.due} frames done, {whole.dropped} dropped, {whole.missed} missed"
    )
    yield f"  {'ms':<18}{'50 %':>8}{'90 %':>8}{'99 %':>8}{'max':>8}"
    for stage, name in _STAGES.items():
        times_ns = stages_ns[stage]
        if times_ns is not None:
            shown = (times_ns.p50, times_ns.p90, times_ns.p99, times_ns.max)
            yield f"  {name:<18}" + "".join(f"{time_ns / 1e6:8.3f}" for time_ns in shown)
    yield (
        f"  CPU, of one core: process {cpu.process_percent:.1f} %, harness"
        f" {cpu.harness_percent:.1f} %"
    )


if __name__ == "__main__":
    sys.exit(main())
