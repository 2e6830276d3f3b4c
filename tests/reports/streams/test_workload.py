"""Streams of video in a group: the rows compared, the parts of memory, and its growth."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from reusebench.measured.streams.threads import STAGES
from reusebench.reports.claims.claims import claims_records
from reusebench.reports.explanation.explanation import explain
from reusebench.reports.results.leak_limits import LeakLimits
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.sections.speed import speed_comparisons
from reusebench.reports.streams.growth import HEAP, growth
from reusebench.reports.streams.workload import (
    DECODE_ONLY,
    FULL_DUP,
    PER_CORE,
    Workload,
    all_frames,
    inference_saving,
    kept_up,
    memory_parts,
    stage,
    stream_frames,
    throttling_summary,
    workloads,
)
from tests.reports.stored import (
    DECODERS,
    DECODING,
    MIB,
    STREAMS,
    as_measured,
    changed,
    full_run,
    group_of,
    groups_of,
    npu_account,
    numbers,
    row_of,
    write_run,
)
from tests.reports.stored_streams import (
    HOT,
    SCHEDULE,
    SILENT,
    VIDEO,
    Frames,
    Shape,
    grown_until,
    level,
    moving,
    noisy,
    published_run,
    streams_result,
)

FAST = dataclasses.replace(SCHEDULE, fps=0.0)


@pytest.fixture
def published(streams_group: Group) -> Workload:
    """Return the workload of all scenarios of streams."""
    (workload,) = workloads(streams_group.rows)
    return workload


def row_with(storage: Path, frames: Sequence[Frames], limit_mib: int = 10) -> Row:
    """Return the row of no reuse with these streams, one per repeat."""
    info = streams_result(storage, "streams_no_reuse", frames)
    limits = LeakLimits(bytes_per_day=limit_mib * MIB)
    return group_of(storage, info, leak_limits=limits).rows[0]


def test_memory_consists_of_import_decoding_and_inference(published: Workload) -> None:
    """The parts add up to application memory; import and decoding are the decode-only run's."""
    for row in published.rows:
        parts = memory_parts(row, published.decode_only)
        whole = row.memory("application_memory_bytes")
        assert parts is not None
        assert parts.decoding is not None
        assert whole is not None
        inference = parts.inference.median if parts.inference else 0
        assert (parts.imported.median, parts.decoding.median) == (30 * MIB, DECODING)
        assert parts.imported.median + parts.decoding.median + inference == whole.median
        assert (parts.inference is None) == (row.scenario == DECODE_ONLY)


def test_a_mode_is_found_by_the_name_of_its_equal(tmp_path: Path) -> None:
    """With one stream partial dup is full dup: the workload has it once, under both names."""
    own = streams_result(tmp_path, "streams_partial_dup")
    (workload,) = workloads(group_of(tmp_path, own, as_measured(own, FULL_DUP)).rows)
    (row,) = workload.rows
    assert row.scenario == own.scenario
    assert workload.row(FULL_DUP) is row


def test_without_the_decode_only_run_decoding_is_read_in_the_process(tmp_path: Path) -> None:
    """The reading after the decoders were opened counts as decoding; the parts still add up."""
    row = row_with(tmp_path, [Frames()] * 3)
    parts = memory_parts(row, None)
    whole = row.memory("application_memory_bytes")
    assert parts is not None
    assert parts.decoding is not None
    assert parts.inference is not None
    assert whole is not None
    assert parts.decoding.median == DECODERS
    assert parts.imported.median + DECODERS + parts.inference.median == whole.median


def test_inference_saved_leaves_import_and_decoding_out(published: Workload) -> None:
    """330 MiB saved are 68.75 % of the 480 MiB of inference, and less of the whole."""
    full = published.row("streams_full_dup")
    assert full is not None
    saving = inference_saving(full, published.decode_only)
    whole = full.saved_percent()
    assert saving is not None
    assert whole is not None
    assert numbers(saving.percent) == pytest.approx((100 * 330 / 480, 100 * 6 / 480))
    assert whole.median < 100 * 330 / 480


def test_other_paces_are_other_workloads(tmp_path: Path) -> None:
    """A mode is compared with a baseline of the same workload; each workload is shown by itself."""
    published_run(tmp_path)
    write_run(
        tmp_path,
        [streams_result(tmp_path, "streams_full_dup", schedule=FAST)],
        2,
        at="2026-02-01T00:00:00",
    )
    (group,) = groups_of(tmp_path)
    newest, older = workloads(group.rows)
    assert (newest.schedule.fps, older.schedule.fps) == (0.0, 30.0)
    assert [row.saved() for row in newest.rows] == [None]
    assert len(older.rows) == 6
    assert all(row.saved() for row in older.rows if row.info.baseline)


def test_a_video_is_known_by_its_contents(tmp_path: Path) -> None:
    """The same video in another place is the same workload."""
    moved = dataclasses.replace(
        SCHEDULE, video=dataclasses.replace(VIDEO, path="/elsewhere/other.mp4")
    )
    group = group_of(
        tmp_path,
        streams_result(tmp_path, "streams_no_reuse"),
        streams_result(tmp_path, "streams_partial_dup", schedule=moved),
    )
    assert row_of(group, "streams_partial_dup").saved() is not None


def test_frames_are_no_inferences(streams_group: Group) -> None:
    """The latency and the rate of frames never count as figures of single inferences."""
    assert [(row.latency, row.throughput) for row in streams_group.rows] == [(None, None)] * 6
    assert speed_comparisons(streams_group) == []


def test_streams_change_no_verdict(full_group: Group, tmp_path: Path) -> None:
    """Claims are judged by single inferences, with or without streams in the group."""
    full_run(tmp_path)
    published_run(tmp_path, 2)
    (both,) = groups_of(tmp_path)
    assert claims_records(full_group) == claims_records(both)


def test_a_mode_keeps_up_if_it_loses_few_frames(tmp_path: Path) -> None:
    """A mode that loses up to 1 % kept up; as fast as possible there is nothing to keep up with."""
    group = group_of(
        tmp_path,
        streams_result(tmp_path, "streams_no_reuse", [Frames(per_s=119.5)]),
        streams_result(tmp_path, "streams_partial_dup", [Frames(per_s=60.0)]),
        streams_result(tmp_path, "streams_full_dup", [Frames(fps=0)], schedule=FAST),
    )
    kept = {row.scenario: kept_up(row) for row in group.rows}
    assert kept == {
        "streams_no_reuse": True,
        "streams_partial_dup": False,
        "streams_full_dup": None,
    }


def test_frames_over_repeats(tmp_path: Path) -> None:
    """Figures are medians of the repeats, the maximum is over all; streams add up to the total."""
    repeats = [
        Frames(per_s=40, latency_ms=50),
        Frames(per_s=44, latency_ms=60),
        Frames(per_s=48, latency_ms=400),
    ]
    row = row_with(tmp_path, repeats)
    whole = all_frames(row)
    streams = stream_frames(row)
    assert whole is not None
    assert whole.per_s.median == 44
    assert whole.latency["p50"].median == 60_000_000
    assert whole.latency["max"].median == 400_000_000 * 2.6
    assert len(streams) == STREAMS
    assert sum(stream.done.median for stream in streams) == whole.done.median
    assert whole.due.median == whole.done.median + whole.dropped.median + whole.missed.median


def test_without_contexts_there_are_no_stages_after_decoding(published: Workload) -> None:
    """Frames that are only decoded are not resized, inferred or read."""
    assert published.decode_only is not None
    known = {name: stage(published.decode_only, name, "p99") for name in STAGES}
    assert [name for name, figure in known.items() if figure is None] == [
        "resize",
        "inference",
        "output",
    ]


@pytest.mark.parametrize(
    ("shapes", "limit_mib", "verdict", "count"),
    [
        ((level, moving(1), level), 500, "growing", 1),
        ((level, level, grown_until(30)), 5000, "grew_then_level", 1),
        ((noisy, level, level), 500, "level", 2),
        ((noisy, level, level), 10, "unknown", 3),
        ((noisy, noisy, noisy), 500, "unknown", 3),
    ],
)
def test_a_leak_in_one_process_is_a_leak(
    tmp_path: Path, shapes: Sequence[Shape], limit_mib: int, verdict: str, count: int
) -> None:
    """If repeats differ, the gravest verdict counts, with the number of repeats that have it."""
    grown = growth(row_with(tmp_path, [Frames(rss=shape) for shape in shapes], limit_mib))
    assert grown is not None
    assert (grown.verdict, grown.count, grown.repeats) == (verdict, count, 3)
    if verdict == "growing":
        assert grown.slope == pytest.approx(1 * MIB / 60, rel=0.01)


def test_heap_that_was_not_always_read_has_no_trend(tmp_path: Path) -> None:
    """RSS has one all the same; repeats without readings are left out."""
    repeats = [Frames(), Frames(heap=None), Frames(seconds=3.0)]
    row = row_with(tmp_path, repeats)
    rss = growth(row)
    heap = growth(row, HEAP)
    assert rss is not None
    assert heap is not None
    assert (rss.repeats, heap.repeats) == (2, 1)


def test_a_machine_that_does_not_say_was_not_seen_to_throttle(tmp_path: Path) -> None:
    """Unknown, not throttled and throttled are three different things."""
    cool = msgspec.structs.replace(HOT, throttled=())
    machines = {"streams_no_reuse": SILENT, "streams_partial_dup": cool, "streams_full_dup": HOT}
    infos = [
        streams_result(tmp_path, name, [Frames(machine=machine)])
        for name, machine in machines.items()
    ]
    group = group_of(tmp_path, *infos)
    unknown, quiet, hot = (throttling_summary(row_of(group, name)) for name in machines)
    assert unknown is None
    assert quiet is not None
    assert quiet.names == ()
    assert hot is not None
    assert (hot.names, hot.share_percent) == (("thermal-cpufreq-0",), 35.0)


def test_decoders_are_a_component_of_the_explanation(streams_group: Group) -> None:
    """Decoders are predicted as a component, and not taken for memory of running at once."""
    explanation = explain(row_of(streams_group, "streams_full_dup"))
    assert explanation is not None
    decoders = explanation.measured.sizes["decoders"]
    at_once = explanation.measured.sizes["at_once"]
    assert decoders is not None
    assert at_once is not None
    assert (decoders.median, at_once.median) == (DECODERS, DECODING - DECODERS)
    assert explanation.error.median == 0


def test_nothing_is_claimed_of_fewer_contexts(tmp_path: Path) -> None:
    """One context per core has a prediction, but no claim of (N-1)/N: the baseline has more
    contexts.
    """
    published_run(tmp_path, npu=npu_account)
    (group,) = groups_of(tmp_path)
    fewer, as_many = (explain(row_of(group, name)) for name in (PER_CORE, "streams_full_dup"))
    assert fewer is not None
    assert as_many is not None
    assert fewer.naive_percent is None
    assert as_many.naive_percent == pytest.approx(100 * 11 / 12)
    assert fewer.error.median == 0
    assert explain(row_of(group, DECODE_ONLY)) is None


def test_repeats_that_did_not_come_so_far_are_left_out(tmp_path: Path) -> None:
    """A repeat without frames neither counts nor disturbs the others."""
    info = streams_result(
        tmp_path, "streams_no_reuse", [Frames(per_s=rate) for rate in (40, 44, 48)]
    )
    first, _, last = info.frames
    whole = all_frames(group_of(tmp_path, changed(info, frames=(first, None, last))).rows[0])
    assert whole is not None
    assert (whole.per_s.median, whole.per_s.spread) == (44, 8)
