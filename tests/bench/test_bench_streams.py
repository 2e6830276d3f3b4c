"""`pytest bench/ -k published` as a user runs it, on ONNX Runtime, with a short clip made on the
spot.
"""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
from msgspec.structs import astuple

from reusebench.storage.result import FrameCount, Result, StreamsRun
from reusebench.storage.trace import Trace, read_trace
from reusebench.video.clip import Clip, ensure_clip
from tests.bench.bench_process import Bench, Done, repeated, stored_runs, wait_for
from tests.helpers.support import Reusebench, known

pytestmark = pytest.mark.process

#: Decoding alone, and two modes of the published test.
_MODES = ("streams_no_reuse", "streams_full_dup")
_SCENARIOS = ("streams_decode_only", *_MODES)
#: Unfinished streams are kept at every second, not every fifth.
_KEEPS_OFTEN = """
from reusebench.harness.measuring import repeat_measurement
repeat_measurement._KEEP_EVERY_S = 0.1
"""


@pytest.fixture(scope="module")
def clip(cache: Path) -> Path:
    """Return half a second of video."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        return ensure_clip(Clip(320, 180, fps=30, seconds=0.5))


@pytest.fixture(scope="module")
def published(
    tmp_path_factory: pytest.TempPathFactory,
    cache: Path,
    clip: Path,
    tiny_models: tuple[Path, Path],
) -> Done:
    """Return the published experiment, as small as possible."""
    bench = Bench(tmp_path_factory.mktemp("published"), cache)
    models = repeated("--model", tiny_models)
    chosen = " or ".join(f"-{name}]" for name in _SCENARIOS)
    done = bench.run(f"-k{chosen}", "--video", clip, *models)
    assert done.code == 0, done.words
    return done


@pytest.fixture(scope="module")
def results(published: Done) -> dict[str, Result]:
    """Return its results by scenario."""
    results = published.results()
    assert list(results) == list(_SCENARIOS)
    for info in results.values():
        assert (info.outcome, info.failure) == ("ok", None)
    return results


def _streams(info: Result) -> tuple[StreamsRun, FrameCount]:
    """Return the streams of a result's one repeat, and the count of all frames."""
    (streams,) = info.frames
    assert streams is not None
    assert streams.all is not None
    return streams, streams.all


@pytest.mark.parametrize("scenario", _SCENARIOS)
def test_every_frame_that_was_due_is_accounted_for(
    results: dict[str, Result], scenario: str
) -> None:
    """Counts hold in each stream and in all: one second of two streams at 30 frames/s.

    Speed is that of frames.
    """
    streams, whole = _streams(results[scenario])
    counts = streams.streams or ()
    assert len(counts) == 2
    for count in (whole, *counts):
        assert count.due == count.done + count.dropped + count.missed
    assert whole.due == sum(count.due for count in counts) == 60
    assert whole.done > 0
    assert whole.latency_ns is not None
    assert list(astuple(whole.latency_ns)) == sorted(astuple(whole.latency_ns))
    assert not streams.interrupted
    speed = results[scenario].speed
    assert speed.throughput_per_s == (whole.per_s,)
    assert speed.latency_median_ns == (whole.latency_ns.p50,)
    assert 0 <= (speed.frames_lost_percent[0] or 0) < 100


def test_memory_of_decoding_is_told_apart(results: dict[str, Result]) -> None:
    """Decoder memory is about the same in all modes, whose contexts differ; decoding alone takes
    the least.
    """
    decoding = [info.memory.decoder_memory_bytes[0] or 0 for info in results.values()]
    assert 0 < max(decoding) < 1.5 * min(decoding)
    whole = {name: info.memory.application_memory_bytes[0] or 0 for name, info in results.items()}
    assert whole["streams_decode_only"] == min(whole.values())


def test_stages_are_those_of_the_mode(results: dict[str, Result]) -> None:
    """Decoding alone neither scales nor infers."""
    alone, full = (
        _streams(results[name])[0].stages_ns or {}
        for name in ("streams_decode_only", "streams_full_dup")
    )
    assert all(full.values())
    assert {name for name, figures in alone.items() if figures} == {"wait", "decode"}


@pytest.mark.parametrize("scenario", _SCENARIOS)
def test_the_exported_timeline_has_every_frame(
    published: Done, results: dict[str, Result], reusebench: Reusebench, scenario: str
) -> None:
    """Each frame was due in the steady state, after the warm-up, and its stages are within the
    process's time.
    """
    done = reusebench("export", "--storage", published.storage, "--format", "trace")
    assert (done.exit_code, done.err) == (0, "")
    events = json.loads(done.out)["traceEvents"]
    (process,) = (
        event["pid"]
        for event in events
        if event["name"] == "process_name" and f" {scenario} (" in event["args"]["name"]
    )
    events = [event for event in events if event["pid"] == process]
    steps = {event["name"]: event for event in events if event["ph"] == "X"}
    begun = [
        event for event in events if event["ph"] == "b" and event["name"].startswith("stream ")
    ]
    info = results[scenario]
    streams, whole = _streams(info)
    assert len(begun) == whole.done
    begin_us = steps["warm-up"]["ts"] + steps["warm-up"]["dur"]
    assert all(0 <= event["ts"] - begin_us < streams.seconds * 1e6 for event in begun)
    end_us = {}
    for event in events:
        if event["ph"] == "e":
            end_us[str(event["id2"]), event["name"]] = event["ts"]
    latencies_us = []
    for event in begun:
        latencies_us.append(end_us[str(event["id2"]), event["name"]] - event["ts"])
    assert max(latencies_us) == pytest.approx(known(whole.latency_ns).max / 1000, abs=2)
    assert max(event["ts"] for event in events) <= info.repeats[0].elapsed_s * 1e6


def test_frames_change_the_outputs(published: Done, results: dict[str, Result]) -> None:
    """The input is the video: frames differ from each other, and are the same in every mode."""
    of_frame: dict[tuple[str, str], set[int]] = {}
    of_model: dict[str, set[int]] = {}
    for name in _MODES:
        trace = read_trace(published.storage, results[name].repeats[0].trace, Trace)
        assert trace is not None
        (steady,) = (reading.data for reading in trace.barriers if reading.phase == "steady")
        assert set(steady.unequal_frames) == {0}
        for model, checksums in zip(results[name].models, steady.frame_checksums):
            of_model.setdefault(model.digest, set()).update(checksums.values())
            for frame, value in checksums.items():
                of_frame.setdefault((model.digest, frame), set()).add(value)
    assert {len(values) for values in of_frame.values()} == {1}
    assert all(len(values) > 5 for values in of_model.values())


def test_as_fast_as_possible(bench: Bench, clip: Path, tiny_model: Path) -> None:
    """With --fps 0 nothing is lost on any machine."""
    done = bench.run(
        "-k", "streams_full_dup_per_core", "--video", clip, "--fps=0", "--model", tiny_model
    )
    assert done.code == 0, done.words
    (info,) = done.results().values()
    _, whole = _streams(info)
    assert whole.due == whole.done > 0
    assert info.plan.schedule is not None
    assert info.plan.schedule.fps == 0


def test_a_video_that_is_none_stops_the_session(bench: Bench, tiny_model: Path) -> None:
    """Mistakes are told before anything is measured, with a sentence that names the option."""
    done = bench.run("-k", "published", "--video", "README.md", "--model", tiny_model)
    assert done.code == pytest.ExitCode.USAGE_ERROR
    assert re.search(r"--video \S*README.md cannot be read as a video", done.words)
    assert "Traceback" not in done.words
    assert done.runs() == []


def test_ctrl_c_keeps_what_streams_did(bench: Bench, clip: Path, tiny_model: Path) -> None:
    """The result is stored with all its figures of memory, in a finished run, and says that it was
    interrupted.

    Unfinished streams are stored before, too, while they run: a power cut or a kill leaves that.
    """
    chosen = (
        "-k",
        "streams_full_dup and not core",
        "--duration=599",
        *bench.plugin("often", _KEEPS_OFTEN),
    )
    process = bench.start(*chosen, "--video", clip, "--model", tiny_model)
    (kept,) = wait_for(lambda: stored_runs(bench.storage))
    process.send_signal(signal.SIGINT)
    done = bench.finish(process)

    (result,) = kept.results
    streams, whole = _streams(result.info)
    assert streams.seconds >= 1
    assert whole.done > 0
    assert (known(result.info.failure).kind, kept.is_finished) == ("cut_off", False)

    assert done.code == pytest.ExitCode.INTERRUPTED, done.words
    assert done.runs()[0].is_finished
    (info,) = done.results().values()
    streams, _ = _streams(info)
    assert streams.interrupted
    assert 0 < streams.seconds < 599
    assert info.outcome == "ok"
    assert (info.memory.application_memory_trimmed_bytes[0] or 0) > 0
