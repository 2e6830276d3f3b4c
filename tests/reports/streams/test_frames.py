"""Streams of video in a group: whose rows are compared, what their memory is for, whether it grows."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from reports.claims.claims import claims_rows
from reports.explanation.explanation import explain
from reports.results.rows import Group
from reports.sections.speed import weighed
from reports.streams.frames import (
    DECODE_ONLY,
    PER_CORE,
    Workload,
    all_frames,
    growth,
    inference_saved_percent,
    kept_up,
    memory_parts,
    stage,
    stream_frames,
    throttling,
    workloads,
)
from tests.reports.results.test_rows import groups_of, row
from tests.reports.stored import MIB, STREAMS, full_run, npu_account, write_run
from tests.reports.stored_streams import (
    DECODERS,
    DECODING,
    HOT,
    SCHEDULE,
    VIDEO,
    Frames,
    published_run,
    streams_result,
    trend,
)

FAST = {**SCHEDULE, "fps": 0.0}


def group_of(storage: Path) -> Group:
    (group,) = groups_of(storage)
    return group


def workload_of(storage: Path) -> Workload:
    (found,) = workloads(group_of(storage).rows)
    return found


def test_memory_is_that_of_import_decoding_and_inference(tmp_path: Path) -> None:
    """The parts of every mode add up to its application memory; the first two are those of the decode-only run."""
    published_run(tmp_path)
    found = workload_of(tmp_path)
    for each in found.rows:
        parts, whole = memory_parts(each, found.decode_only), each.memory("application_memory_bytes")
        assert parts is not None
        assert parts.decoding is not None
        assert whole is not None
        inference = parts.inference.median if parts.inference else 0
        assert (parts.imported.median, parts.decoding.median) == (30 * MIB, DECODING)
        assert parts.imported.median + parts.decoding.median + inference == whole.median
        assert (parts.inference is None) == (each.scenario == DECODE_ONLY)


def test_without_the_decode_only_run_decoders_are_those_of_the_process(tmp_path: Path) -> None:
    """Then what was read when the decoders had been opened stands for decoding, and the parts still add up."""
    write_run(tmp_path, [streams_result(tmp_path, "streams_no_reuse")])
    (each,) = workload_of(tmp_path).rows
    parts, whole = memory_parts(each, None), each.memory("application_memory_bytes")
    assert parts is not None
    assert parts.decoding is not None
    assert parts.inference is not None
    assert whole is not None
    assert parts.decoding.median == DECODERS
    assert parts.imported.median + DECODERS + parts.inference.median == whole.median


def test_inference_saved_leaves_import_and_decoding_out(tmp_path: Path) -> None:
    """330 MiB saved are 68.75 % of the 480 MiB of inference, and less of the whole."""
    published_run(tmp_path)
    found = workload_of(tmp_path)
    full = found.row("streams_full_dup")
    assert full is not None
    assert full.saved_percent is not None
    assert inference_saved_percent(full, found.decode_only) == pytest.approx(100 * 330 / 480)
    assert full.saved_percent < 100 * 330 / 480


def test_other_paces_are_other_workloads(tmp_path: Path) -> None:
    """A mode is compared with the baseline that was asked for the same; each workload is shown for itself."""
    published_run(tmp_path)
    write_run(tmp_path, [streams_result(tmp_path, "streams_full_dup", schedule=FAST)], 2, at="2026-02-01T00:00:00")
    newest, older = workloads(group_of(tmp_path).rows)
    assert (newest.schedule["fps"], older.schedule["fps"]) == (0.0, 30.0)
    assert [each.saved for each in newest.rows] == [None]
    assert len(older.rows) == 6
    assert all(each.saved for each in older.rows if each.info["baseline"])


def test_a_video_is_known_by_its_contents(tmp_path: Path) -> None:
    """The same video in another place is the same workload."""
    moved = {**SCHEDULE, "video": {**VIDEO, "path": "/elsewhere/other.mp4"}}
    infos = [
        streams_result(tmp_path, "streams_no_reuse"),
        streams_result(tmp_path, "streams_partial_dup", schedule=moved),
    ]
    write_run(tmp_path, infos)
    assert row(group_of(tmp_path), "streams_partial_dup").saved is not None


def test_frames_are_no_inferences(tmp_path: Path) -> None:
    """The latency of a frame and the rate of frames stand nowhere among those of single inferences."""
    published_run(tmp_path)
    group = group_of(tmp_path)
    assert [(each.latency, each.throughput) for each in group.rows] == [(None, None)] * 6
    assert weighed(group) == []


def test_streams_change_no_verdict(tmp_path: Path) -> None:
    """Claims are judged on single inferences, with or without streams beside them."""
    folders = [tmp_path / name for name in ("alone", "both")]
    for folder in folders:
        full_run(folder)
    published_run(folders[1], 2)
    alone, both = (claims_rows(group_of(folder)) for folder in folders)
    assert alone == both


def test_what_was_sustained(tmp_path: Path) -> None:
    """A mode that loses up to 1 % kept up; as fast as possible there is nothing to keep up with."""
    frames = [Frames(per_s=rate) for rate in (119.5, 60.0)]
    infos = [
        streams_result(tmp_path, name, [each])
        for name, each in zip(("streams_no_reuse", "streams_partial_dup"), frames)
    ]
    fast = streams_result(tmp_path, "streams_full_dup", [Frames(fps=0)], schedule=FAST)
    write_run(tmp_path, [*infos, fast])
    found = {each.scenario: kept_up(each) for each in group_of(tmp_path).rows}
    assert found == {"streams_no_reuse": True, "streams_partial_dup": False, "streams_full_dup": None}


def test_frames_over_repeats(tmp_path: Path) -> None:
    """Figures are medians of the repeats, the longest latency is that of all, and streams add up to all."""
    repeats = [Frames(per_s=40, latency_ms=50), Frames(per_s=44, latency_ms=60), Frames(per_s=48, latency_ms=400)]
    write_run(tmp_path, [streams_result(tmp_path, "streams_no_reuse", repeats)])
    (each,) = group_of(tmp_path).rows
    whole, streams = all_frames(each), stream_frames(each)
    assert whole is not None
    assert whole.per_s.median == 44
    assert whole.latency["p50"].median == 60_000_000
    assert whole.latency["max"].median == 400_000_000 * 2.6
    assert len(streams) == STREAMS
    assert sum(stream.done.median for stream in streams) == whole.done.median
    assert whole.due.median == whole.done.median + whole.dropped.median + whole.missed.median


def test_what_has_no_contexts_has_no_stages_of_them(tmp_path: Path) -> None:
    """Of frames that are only decoded nothing is resized, inferred or read."""
    write_run(tmp_path, [streams_result(tmp_path, DECODE_ONLY, [Frames(per_s=120, decode_only=True)])])
    (each,) = group_of(tmp_path).rows
    known = {name: stage(each, name, "p99") for name in ("wait", "decode", "resize", "inference", "output")}
    assert [name for name, figure in known.items() if figure is None] == ["resize", "inference", "output"]


@pytest.mark.parametrize(
    ("verdicts", "said", "count"),
    [
        (("level", "growing", "level"), "growing", 1),
        (("level", "level", "grew_then_level"), "grew_then_level", 1),
        (("unknown", "level", "level"), "level", 2),
        (("unknown", "unknown", "unknown"), "unknown", 3),
    ],
)
def test_a_leak_in_one_process_is_a_leak(tmp_path: Path, verdicts: tuple[str, ...], said: str, count: int) -> None:
    """Of repeats that differ the gravest verdict counts, and in how many it was."""
    repeats = [Frames(trend=trend(verdict, number)) for number, verdict in enumerate(verdicts)]
    write_run(tmp_path, [streams_result(tmp_path, "streams_no_reuse", repeats)])
    found = growth(group_of(tmp_path).rows[0])
    assert found is not None
    assert (found.verdict, found.count, found.repeats) == (said, count, 3)
    if said == "growing":
        assert found.slope == pytest.approx(1 * MIB / 60)


def test_a_machine_that_does_not_say_was_not_seen_to_throttle(tmp_path: Path) -> None:
    """Not known, not throttled, and throttled are three things."""
    cool = {**HOT, "throttled": []}
    names = ("streams_no_reuse", "streams_partial_dup", "streams_full_dup")
    for number, (name, machine) in enumerate(zip(names, (None, cool, HOT)), start=1):
        write_run(tmp_path, [streams_result(tmp_path, name, [Frames(machine=machine)])], number)
    unknown, quiet, hot = (throttling(row(group_of(tmp_path), name)) for name in names)
    assert unknown is None
    assert quiet is not None
    assert quiet.names == ()
    assert hot is not None
    assert (hot.names, hot.share_percent) == (("thermal-cpufreq-0",), 35.0)


def test_decoders_are_a_component_of_the_explanation(tmp_path: Path) -> None:
    """What decoders take is predicted for itself; it is not taken for what running at the same time takes."""
    published_run(tmp_path)
    found = explain(row(group_of(tmp_path), "streams_full_dup"))
    assert found is not None
    decoders, at_once = found.measured["decoders"], found.measured["at_once"]
    assert decoders is not None
    assert at_once is not None
    assert (decoders.median, at_once.median) == (DECODERS, DECODING - DECODERS)
    assert found.error.median == 0


def test_nothing_is_claimed_of_fewer_contexts(tmp_path: Path) -> None:
    """(N-1)/N is said of as many contexts as the baseline has: one context per core has a prediction and no claim."""
    published_run(tmp_path, npu=npu_account)
    group = group_of(tmp_path)
    fewer, as_many = (explain(row(group, name)) for name in (PER_CORE, "streams_full_dup"))
    assert fewer is not None
    assert as_many is not None
    assert fewer.naive_percent is None
    assert as_many.naive_percent == pytest.approx(100 * 11 / 12)
    assert fewer.error.median == 0
    assert explain(row(group, DECODE_ONLY)) is None


def test_repeats_that_did_not_come_so_far_are_left_out(tmp_path: Path) -> None:
    """A repeat without frames neither counts nor disturbs those that have them."""
    info = streams_result(tmp_path, "streams_no_reuse", [Frames(per_s=rate) for rate in (40, 44, 48)])
    info["frames"][1] = None
    write_run(tmp_path, [info])
    whole = all_frames(group_of(tmp_path).rows[0])
    assert whole is not None
    assert whole.per_s.median == 44
    assert dataclasses.asdict(whole)["per_s"]["spread"] == 4
