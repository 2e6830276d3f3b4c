"""Streams measured on a real process with a scripted runtime: results, unfinished results, and
Ctrl-C.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from reusebench.harness.measuring import repeat_measurement
from reusebench.harness.progress import Progress
from reusebench.harness.settings import StreamPace
from reusebench.measured import runtimes
from reusebench.storage.result import FrameCount, Result, StreamsRun
from tests.harness.measuring.conftest import MakeBench, job
from tests.helpers.scripted_driver import ENTRY
from tests.helpers.support import known

pytestmark = pytest.mark.process


class _Progress(Progress):
    """Progress that keeps the phases."""

    def __init__(self) -> None:
        super().__init__()
        self.phases: list[str] = []

    def step(self, repeat: int, share: float, phase: str, context: int | None) -> None:  # noqa: ARG002
        assert 0 <= share <= 1
        self.phases.append(phase)


@pytest.fixture(autouse=True)
def nothing_to_prepare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the unfinished repeats of a process."""
    monkeypatch.setattr(
        runtimes, "RUNTIMES", (*runtimes.RUNTIMES[:-1], replace(ENTRY, prepares=False))
    )


def _read(result: Result) -> Result:
    """Return the result as it is read again."""
    return msgspec.json.decode(msgspec.json.encode(result), type=Result)


def _frames(result: Result, repeat: int) -> tuple[StreamsRun, FrameCount]:
    """Return the streams of a repeat, and the count of all frames."""
    streams = known(result.frames[repeat])
    return streams, known(streams.all)


def test_a_result_has_the_frames_of_each_repeat(
    tmp_path: Path, make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each frame that was done has a latency.

    Meanwhile the result can be stored as cut off; at the end it is not.
    """
    monkeypatch.setattr(repeat_measurement, "_KEEP_EVERY_S", 0.0)
    kept: list[Result] = []
    bench = make_bench(
        tmp_path, "plain", streams=2, pace=StreamPace(warm_up_s=0.1, duration_s=1.5, fps=20.0)
    )
    bench.progress = progress = _Progress()
    measurement = bench.measure(job("streams_full_dup"), lambda result: kept.append(_read(result)))
    result = _read(measurement.result)
    counts = [_frames(result, repeat)[1] for repeat in range(2)]
    assert [count.due for count in counts] == [60, 60]
    assert [count.done + count.dropped + count.missed for count in counts] == [60, 60]
    assert len(measurement.latencies_ns) == sum(count.done for count in counts) > 0
    assert (result.outcome, measurement.interrupted) == ("ok", False)
    assert known(result.plan.schedule).duration_s == 1.5
    assert any(
        phase.startswith("streams ") and phase.endswith(" lost") for phase in progress.phases
    )
    assert {len(result.repeats) for result in kept} == {1, 2}
    for cut_off in kept:
        assert known(cut_off.failure).kind == cut_off.outcome == "cut_off"
        assert 0 < _frames(cut_off, -1)[0].seconds <= 1.5
    assert kept[-1].frames[0] == result.frames[0]


def test_ctrl_c_keeps_the_repeat_and_begins_no_other(tmp_path: Path, make_bench: MakeBench) -> None:
    """The result is whole, and tells the session to end."""

    class Interrupts(_Progress):
        def step(self, repeat: int, share: float, phase: str, context: int | None) -> None:
            super().step(repeat, share, phase, context)
            if [phase] == [name for name in self.phases if name.startswith("streams")]:
                os.kill(os.getpid(), signal.SIGINT)

    bench = make_bench(
        tmp_path, "plain", streams=2, pace=StreamPace(warm_up_s=0.0, duration_s=60.0, fps=20.0)
    )
    bench.progress = Interrupts()
    measurement = bench.measure(job("streams_full_dup"))
    result = _read(measurement.result)
    assert measurement.interrupted
    assert (result.outcome, len(result.repeats), len(result.frames)) == ("ok", 1, 1)
    assert _frames(result, 0)[0].interrupted
    assert (result.memory.application_memory_trimmed_bytes[0] or 0) > 0
