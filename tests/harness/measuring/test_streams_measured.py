"""Streams measured on a real process with a scripted runtime: results, what is kept meanwhile, and Ctrl-C."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from storage.files import check_result

import runtimes
from harness.errors import NoModels
from harness.measuring import repeat as one_repeat
from harness.measuring.measurement import Bench
from harness.progress import Silent
from harness.settings import Pace, Settings
from tests.scripted_driver import ENTRY
from tests.support import SCRIPTED, TIME_LIMIT_S, models_of

_SETTINGS = Settings(
    streams=2,
    contexts=2,
    repeats=2,
    rounds=1,
    sample_hz=500,
    time_limit_s=TIME_LIMIT_S,
    idle_s=0,
    cpus=2,
    npu_cores=1,
    pace=Pace(warm_up_s=0.1, duration_s=0.5, fps=50.0),
)


class _Models:
    def of(self, *_: str) -> Any:
        return models_of("plain")


class _NoVideo:
    """As if nothing were decoded here, so that no clip is made."""

    def of(self, _: str) -> None:
        return None


class _Heard(Silent):
    """Keeps the phases that it is told of."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    def step(self, repeat: int, share: float, phase: str, context: int | None) -> None:  # noqa: ARG002
        """Keep it."""
        assert 0 <= share <= 1
        self.phases.append(phase)


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the scripted runtime in the list."""
    monkeypatch.setattr(runtimes, "RUNTIMES", (*runtimes.RUNTIMES, dataclasses.replace(ENTRY, prepares=False)))


def _bench(storage: Path, pace: Pace = _SETTINGS.pace) -> Bench:
    settings = dataclasses.replace(_SETTINGS, pace=pace)
    models: Any = _Models()
    videos: Any = _NoVideo()
    return Bench(settings, models, {"scripted": SCRIPTED}, videos, storage, _Heard())


def _checked(info: dict[str, Any]) -> dict[str, Any]:
    """Return the result as it is read again, which is of the schema."""
    stored: dict[str, Any] = json.loads(json.dumps(info))
    check_result(stored)
    return stored


def test_a_result_has_the_frames_of_each_repeat(tmp_path: Path) -> None:
    """With latencies for pytest-benchmark, one for each frame that was done."""
    measured = _bench(tmp_path).measure("scripted", "streams_full_dup")
    info = _checked(measured.info)
    assert len(info["frames"]) == 2
    done = [each["all"]["done"] for each in info["frames"]]
    assert done == [info["frames"][0]["all"]["due"]] * 2 == [50, 50]
    assert len(measured.latencies_ns) == 100
    assert not measured.interrupted
    assert info["plan"]["schedule"]["duration_s"] == 0.5


def test_there_is_nothing_to_decode_alone(tmp_path: Path) -> None:
    """Without a video decoding alone would be nothing at all."""
    with pytest.raises(NoModels, match="decodes no video"):
        _bench(tmp_path).plans("scripted", "streams_decode_only")


def test_progress_tells_of_the_streams(tmp_path: Path) -> None:
    """Who watches sees how far they are, and what they lost."""
    bench = _bench(tmp_path)
    bench.measure("scripted", "streams_full_dup")
    heard: Any = bench.progress
    assert any(phase.startswith("streams ") and phase.endswith(" lost") for phase in heard.phases)


def test_what_is_measured_so_far_is_given_away_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time as a result that could be stored, which says that it was cut off; the last is no part of the end."""
    monkeypatch.setattr(one_repeat, "_KEEP_EVERY_S", 0.0)
    kept: list[dict[str, Any]] = []
    bench = _bench(tmp_path, Pace(warm_up_s=0.0, duration_s=2.2, fps=20.0))
    final = bench.measure("scripted", "streams_full_dup", lambda info: kept.append(_checked(info))).info
    of_first, of_second = ([each for each in kept if len(each["repeats"]) == count] for count in (1, 2))
    assert of_first
    assert of_second
    for info in kept:
        assert info["failure"]["kind"] == info["outcome"] == "cut_off"
        assert 0 < info["frames"][-1]["seconds"] <= 2.2
    seconds = [info["frames"][0]["seconds"] for info in of_first]
    assert seconds == sorted(set(seconds))
    assert of_second[0]["frames"][0] == _checked(final)["frames"][0]
    assert final["outcome"] == "ok"


def test_ctrl_c_keeps_the_repeat_and_begins_no_other(tmp_path: Path) -> None:
    """The result is whole; the session hears that it is to end."""

    class Interrupts(_Heard):
        def step(self, repeat: int, share: float, phase: str, context: int | None) -> None:
            super().step(repeat, share, phase, context)
            if [phase] == [each for each in self.phases if each.startswith("streams")]:
                os.kill(os.getpid(), signal.SIGINT)

    bench = _bench(tmp_path, Pace(warm_up_s=0.0, duration_s=60.0, fps=20.0))
    bench.progress = Interrupts()
    measured = bench.measure("scripted", "streams_full_dup")
    info = _checked(measured.info)
    assert measured.interrupted
    assert info["outcome"] == "ok"
    assert len(info["repeats"]) == len(info["frames"]) == 1
    assert info["frames"][0]["interrupted"]
    assert info["memory"]["application_memory_trimmed_bytes"][0] > 0
