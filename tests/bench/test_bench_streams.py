"""`pytest bench/ -k published` as a user runs it, on ONNX Runtime, with a short clip made on the spot."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from storage.files import check_result
from storage.recovery import recover

from bench.test_published import SCENARIOS
from storage.trace import read_trace
from tests.bench.bench_process import Bench, Done
from video.clip import Clip, ensure_clip

_SCENARIOS = list(SCENARIOS)
#: Without the first, which only decodes.
_MODES = _SCENARIOS[1:]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return half a second of video."""
    cache = tmp_path_factory.mktemp("clip")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        return ensure_clip(Clip(320, 180, fps=30, seconds=0.5))


@pytest.fixture(scope="module")
def published(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, clip: Path, tiny_models: tuple[Path, Path]
) -> Done:
    """Return the published experiment, as small as it can be."""
    bench = Bench(tmp_path_factory.mktemp("published"), cache)
    models = [word for model in tiny_models for word in ("--model", model)]
    done = bench.run("-k", "published", "--video", clip, *models)
    assert done.code == 0, done.words
    return done


@pytest.fixture(scope="module")
def results(published: Done) -> dict[str, dict[str, Any]]:
    """Return its results by scenario."""
    return published.results()


def test_every_mode_of_the_published_test_is_measured(results: dict[str, dict[str, Any]]) -> None:
    """And decoding alone beside them, and one context for each core."""
    assert list(results) == _SCENARIOS
    for info in results.values():
        check_result(info)
        assert (info["outcome"], info["failure"]) == ("ok", None)


@pytest.mark.parametrize("scenario", _SCENARIOS)
def test_every_frame_that_was_due_is_accounted_for(results: dict[str, dict[str, Any]], scenario: str) -> None:
    """In each stream and in all; one second of two streams at 30 frames per second."""
    (frames,) = results[scenario]["frames"]
    assert len(frames["streams"]) == 2
    for figures in (frames["all"], *frames["streams"]):
        assert figures["due"] == figures["done"] + figures["dropped"] + figures["missed"]
    assert frames["all"]["due"] == sum(each["due"] for each in frames["streams"]) == 60
    assert frames["all"]["done"] > 0
    quantiles = list(frames["all"]["latency_ns"].values())
    assert quantiles == sorted(quantiles)
    assert not frames["interrupted"]


def test_memory_of_decoding_is_told_apart(results: dict[str, dict[str, Any]]) -> None:
    """It is about the same in all modes, which differ by what contexts take; decoding alone takes less than any."""
    decoding = [info["memory"]["decoder_memory_bytes"][0] for info in results.values()]
    assert min(decoding) > 0
    assert max(decoding) < 1.5 * min(decoding)
    whole = {name: info["memory"]["application_memory_bytes"][0] for name, info in results.items()}
    assert whole["streams_decode_only"] == min(whole.values())


def test_stages_are_those_of_the_mode(results: dict[str, dict[str, Any]]) -> None:
    """Decoding alone neither scales nor infers."""
    alone, full = (results[name]["frames"][0]["stages_ns"] for name in ("streams_decode_only", "streams_full_dup"))
    assert all(full.values())
    assert {name for name, figures in alone.items() if figures} == {"wait", "decode"}
    inference = full["inference"]["p50"]
    assert inference > full["output"]["p50"]


def test_speed_is_that_of_frames(results: dict[str, dict[str, Any]]) -> None:
    """pytest-benchmark's statistics are of latencies from when a frame was due; throughput is frames per second."""
    for info in results.values():
        (frames,), speed = info["frames"], info["speed"]
        assert speed["throughput_per_s"] == [frames["all"]["per_s"]]
        assert speed["latency_median_ns"] == [frames["all"]["latency_ns"]["p50"]]
        assert 0 <= speed["frames_lost_percent"][0] < 100


def test_frames_change_the_outputs(published: Done, results: dict[str, dict[str, Any]]) -> None:
    """What is inferred is the video: frames differ from each other, and are the same in every mode."""
    seen: dict[tuple[str, str], set[int]] = {}
    numbers: dict[str, set[int]] = {}
    for name in _MODES:
        (repeat,) = results[name]["repeats"]
        trace = read_trace(published.storage, repeat["trace"])
        assert trace is not None
        (steady,) = (each for each in trace["barriers"] if each["phase"] == "steady")
        assert steady["data"]["unequal_frames"] == [0] * len(results[name]["models"])
        for model, checksums in zip(results[name]["models"], steady["data"]["frame_checksums"]):
            numbers.setdefault(model["digest"], set()).update(checksums.values())
            for frame, value in checksums.items():
                seen.setdefault((model["digest"], frame), set()).add(value)
    assert {len(values) for values in seen.values()} == {1}
    assert all(len(values) > 5 for values in numbers.values())


def test_as_fast_as_possible(bench: Bench, clip: Path, tiny_model: Path) -> None:
    """With --fps 0 nothing is lost, whatever the machine can do."""
    done = bench.run("-k", "streams_full_dup_per_core", "--video", clip, "--fps=0", "--model", tiny_model)
    assert done.code == 0, done.words
    for info in done.results().values():
        (frames,) = info["frames"]
        assert frames["all"]["due"] == frames["all"]["done"] > 0
        assert info["plan"]["schedule"]["fps"] == 0


def test_a_video_that_is_none_stops_the_session(bench: Bench, tiny_model: Path) -> None:
    """Before anything is measured, with a sentence that names the option."""
    done = bench.run("-k", "published", "--video", "README.md", "--model", tiny_model)
    assert done.code == pytest.ExitCode.USAGE_ERROR
    assert "--video README.md: " in done.words
    assert "Traceback" not in done.words
    assert not list(bench.storage.glob("*/*.json"))


def _started_streams(bench: Bench, *arguments: object) -> subprocess.Popen[bytes]:
    """Return a session that measures one configuration for ten minutes, once its streams run."""
    process = bench.start("-k", "streams_full_dup and not core", "--duration=599", *arguments)
    until = time.monotonic() + 60
    while not _frames_run(process):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.1)
    return process


def _frames_run(process: subprocess.Popen[bytes]) -> bool:
    """Whether the measured process has a thread for each stream, beside its own and those of the contexts."""
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "scenarios.driver" in child.cmdline() and child.num_threads() >= 1 + 4 + 2:
                return True
    return False


def test_ctrl_c_keeps_what_streams_did(bench: Bench, clip: Path, tiny_model: Path) -> None:
    """The result is stored with all its figures of memory, and says that it was interrupted."""
    process = _started_streams(bench, "--video", clip, "--model", tiny_model)
    time.sleep(2.5)
    process.send_signal(signal.SIGINT)
    done = bench.finish(process)
    assert done.code == pytest.ExitCode.INTERRUPTED, done.words
    (info,) = done.results().values()
    check_result(info)
    (frames,) = info["frames"]
    assert frames["interrupted"]
    assert 0 < frames["seconds"] < 60
    assert info["outcome"] == "ok"
    assert info["memory"]["application_memory_trimmed_bytes"][0] > 0


def test_a_session_that_is_killed_leaves_what_it_measured(bench: Bench, clip: Path, tiny_model: Path) -> None:
    """As a power cut would: after some seconds of streams they are in the journal, which becomes a run."""
    process = _started_streams(bench, "--video", clip, "--model", tiny_model)
    until = time.monotonic() + 60
    while not list(bench.storage.glob("journals/*/result-*.json")):
        assert time.monotonic() < until
        time.sleep(0.2)
    process.kill()
    process.communicate()
    (recovery,) = recover(bench.storage)
    assert recovery.run is not None
    (info,) = Done(0, "", bench.storage).results().values()
    check_result(info)
    assert info["failure"]["kind"] == "cut_off"
    (frames,) = info["frames"]
    assert frames["seconds"] > 4
    assert frames["all"]["done"] > 0
