"""Streams of video in sentences: the task, the rate, savings, growth of memory, and doubts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from reusebench.reports.base.formatting import (
    daily,
    mib,
    mib_per_minute,
    mib_spread,
    per_second,
    percent,
    plain,
    whole,
)
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.streams.growth import GROWTH_VERDICTS, HEAP, RSS, Growth, growth
from reusebench.reports.streams.workload import (
    FULL_DUP,
    PER_CORE,
    Workload,
    all_frames,
    is_interrupted,
    kept_up,
    throttling_summary,
)
from reusebench.storage.result import BUSY_PERCENT
from reusebench.storage.run_file import CUT_OFF, NO_END, RUNNING
from reusebench.storage.savings import (
    APPLICATION,
    LESS,
    MORE,
    NPU,
    SAME,
    Saving,
    saving_of,
)

_MINUTE_S = 60
_HOUR_S = 3600
#: Durations from this number of minutes on are told in hours.
_WHOLE_HOURS_MIN = 120


def workload_sentence(workload: Workload, texts: Texts) -> str:
    """Return the task of the streams."""
    schedule = workload.schedule
    request = texts(
        "streams_asked",
        count=schedule.count,
        contexts=workload.rows[0].info.contexts,
        what=_video(workload, texts),
        duration=_duration(schedule.duration_s, texts),
        warm_up=_duration(schedule.warm_up_s, texts),
    )
    if not schedule.fps:
        return texts.sentences([request, texts("streams_asked_fastest")])
    pace = texts("streams_asked_paced", fps=plain(schedule.fps), asked=plain(workload.due_per_s))
    queue = texts("streams_queue" if schedule.queue else "streams_no_queue", queue=schedule.queue)
    return texts.sentences([request, pace, queue])


def _video(workload: Workload, texts: Texts) -> str:
    video = workload.schedule.video
    if video is None:
        return texts("streams_no_video")
    return texts(
        "streams_video",
        width=video.width,
        height=video.height,
        codec=video.codec,
        name=video.name,
    )


def frame_sentences(workload: Workload, texts: Texts) -> list[str]:
    """Return the sustained rate, and whether the machine is too slow for the task."""
    if not workload.computes:
        return [texts("streams_virtual")]
    rates = _measured_rates(workload)
    if not rates:
        return []

    decoding = _decoding_sentence(workload, texts)
    if not workload.schedule.fps:
        sentences = [texts("streams_fastest", parts=_listed_rates(rates, texts)), decoding]
        return [sentence for sentence in sentences if sentence]

    slow = [(row, rate) for row, rate in rates if not kept_up(row)]
    due = plain(workload.due_per_s)
    sustained = _range([rate for _, rate in rates], texts)
    if not slow:
        return [texts("streams_kept_up", asked=due, range=sustained)]
    if len(slow) < len(rates):
        too_slow = texts("streams_some_too_slow", asked=due, parts=_listed_rates(slow, texts))
    else:
        too_slow = texts("streams_too_slow", asked=due, range=sustained)
    return [texts.sentences([too_slow, decoding]), texts("streams_same_work")]


def memory_sentences(workload: Workload, texts: Texts) -> list[str]:
    """Return the savings of each mode, and of one context per core."""
    sentences = []
    per_core = workload.row(PER_CORE)
    full_dup = workload.row(FULL_DUP)
    if per_core and full_dup:
        sentences += _per_core_sentence(per_core, full_dup, texts)
    return sentences


def frames_in_words(workload: Workload, texts: Texts) -> str:
    """Return the rate that all modes kept, in a few words."""
    if not workload.computes:
        return texts("summary_streams_virtual")
    rates = [rate for _, rate in _measured_rates(workload)]
    if not rates:
        return texts("summary_not_measured")
    key = "summary_streams_paced" if workload.schedule.fps else "summary_streams_fastest"
    return texts(key, asked=plain(workload.due_per_s), range=_range(rates, texts))


def growing_parts(group: Group, texts: Texts) -> list[str]:
    """Return the modes whose memory was still growing at the end.

    The heap in use tells it if it grows, otherwise RSS.
    """
    parts = []
    for row in filter(lambda row: row.schedule, group.rows):
        for memory in (HEAP, RSS):
            grown = growth(row, memory)
            if grown and grown.verdict == "growing":
                what = texts(f"streams_what_{memory}")
                values = _growth_values(row, grown, texts)
                parts.append(texts("summary_streams_growing", what=what, **values))
                break
    return parts


def growth_sentences(workload: Workload, texts: Texts) -> list[str]:
    """Return the verdicts on memory over time, growth first: RSS, then the heap in use."""
    sentences = []
    for memory in (RSS, HEAP):
        for verdict in GROWTH_VERDICTS:
            # If a verdict on the heap is unknown, the sentence on RSS says why.
            if memory == HEAP and verdict == "unknown":
                continue
            sentences += _verdict_sentence(workload, memory, verdict, texts)

    too_few = [row.scenario for row in workload.rows if row.frames and growth(row) is None]
    if too_few:
        sentences.append(texts("streams_trend_too_few", parts=texts.scenarios(too_few)))
    return sentences


def _verdict_sentence(workload: Workload, memory: str, verdict: str, texts: Texts) -> list[str]:
    """Return the sentence on all scenarios with the verdict; empty if there are none."""
    parts = []
    most_per_day = []
    needed_s = []
    for row in workload.rows:
        grown = growth(row, memory)
        if grown is None or grown.verdict != verdict:
            continue
        part = texts(f"streams_trend_{verdict}_of", **_growth_values(row, grown, texts))
        if grown.count < grown.repeats and verdict not in ("level", "unknown"):
            part = texts("streams_trend_in", part=part, count=grown.count, repeats=grown.repeats)
        parts.append(part)
        most_per_day.append(grown.most_per_day)
        needed_s.append(grown.needed_s)
    if not parts:
        return []
    sentence = texts(
        f"streams_trend_{verdict}",
        what=texts(f"streams_what_{memory}"),
        parts=texts.joined(parts),
        most=daily(max(most_per_day)),
        duration=_duration_option(max(needed_s)),
    )
    return [sentence]


def _duration_option(length_s: float) -> str:
    """Return a value of --duration of at least 2 minutes, in whole minutes or hours."""
    minutes = max(2, math.ceil(length_s / 60))
    return f"{minutes}m" if minutes < _WHOLE_HOURS_MIN else f"{math.ceil(minutes / 60)}h"


def growth_in_words(grown: Growth, texts: Texts) -> str:
    """Return the verdict as a few words, for a cell or the title of a panel."""
    values = {
        "slope": mib_per_minute(grown.slope),
        "day": daily(grown.per_day),
        "most": daily(grown.most_per_day),
        "seconds": whole(grown.level_after_s or 0),
    }
    return texts(f"streams_verdict_{grown.verdict}", **values)


def stream_warnings(workload: Workload, texts: Texts) -> list[str]:
    """Return a sentence for each reason to mistrust the figures."""
    sentences = [
        _throttling_warning(workload, texts),
        _busy_warning(workload, texts),
        _early_end_warning("streams_interrupted", filter(is_interrupted, workload.rows), texts),
    ]
    for end in (CUT_OFF, RUNNING, NO_END):
        rows = (row for row in workload.rows if row.outcome == end)
        sentences.append(_early_end_warning(f"streams_{end}", rows, texts))
    return [sentence for sentence in sentences if sentence]


def _throttling_warning(workload: Workload, texts: Texts) -> str | None:
    scenarios = []
    names: list[str] = []
    shares = []
    for row in workload.rows:
        causes = throttling_summary(row)
        if causes and causes.names:
            scenarios.append(row.scenario)
            names += causes.names
            shares.append(causes.share_percent)
    if not scenarios:
        return None
    return texts(
        "streams_throttled",
        scenarios=texts.scenarios(scenarios),
        names=texts.joined(dict.fromkeys(names)),
        share=percent(max(shares)),
    )


def _busy_warning(workload: Workload, texts: Texts) -> str | None:
    busy = [row for row in workload.rows if row.computes and row.busy_percent > BUSY_PERCENT]
    if not busy:
        return None
    return texts(
        "streams_disturbed",
        scenarios=texts.scenarios(row.scenario for row in busy),
        percent=whole(max(row.busy_percent for row in busy)),
    )


def _early_end_warning(key: str, rows: Iterable[Row], texts: Texts) -> str | None:
    """Return the shortest steady state of each row that ended early."""
    parts = []
    for row in rows:
        shortest_s = min((streams.seconds for streams in row.frames), default=0.0)
        value = _duration(shortest_s, texts)
        parts.append(texts("streams_part", scenario=texts.scenario(row.scenario), value=value))
    if not parts:
        return None
    return texts(key, parts=texts.joined(parts))


def _measured_rates(workload: Workload) -> list[tuple[Row, Figure]]:
    """Return the frames per second of each mode that was measured."""
    rates = []
    for row in workload.modes:
        frames = all_frames(row)
        if row.measured and frames:
            rates.append((row, frames.per_s))
    return rates


def _decoding_sentence(workload: Workload, texts: Texts) -> str | None:
    """Return whether the machine could at least decode the frames that were due."""
    row = workload.decode_only
    if row is None or not workload.schedule.video:
        return None
    frames = all_frames(row)
    if frames is None:
        return None
    if not workload.schedule.fps:
        key = "streams_decoding_alone"
    elif kept_up(row):
        key = "streams_decodes"
    else:
        key = "streams_cannot_decode"
    return texts(key, rate=per_second(frames.per_s, spread=False), asked=plain(workload.due_per_s))


def _per_core_sentence(per_core: Row, full_dup: Row, texts: Texts) -> list[str]:
    """Return the effect of one context per core instead of several dups per stream."""
    memory = NPU if per_core.memory(NPU) else APPLICATION
    saving = saving_of(memory, full_dup.memory(memory), per_core.memory(memory))
    if saving is None:
        return []
    sentence = texts(
        f"streams_per_core_{_change(saving)}",
        few=_context_count(per_core),
        many=_context_count(full_dup),
        memory=texts("memory_npu" if saving.is_npu else "memory_application"),
        saved=mib(abs(saving.saved), saving.is_npu, spread=False),
        spread=mib_spread(saving.saved, saving.is_npu),
    )

    rates = None
    per_core_frames = all_frames(per_core)
    full_dup_frames = all_frames(full_dup)
    if per_core_frames and full_dup_frames:
        rates = texts(
            "streams_per_core_frames",
            few_rate=per_second(per_core_frames.per_s, spread=False),
            many_rate=per_second(full_dup_frames.per_s, spread=False),
        )
    return [texts.sentences([sentence, rates])]


def _change(saving: Saving) -> str:
    """Return LESS, SAME or MORE by the spread alone.

    Saving.change has SAME for less than the last digit shown; here that is told with its spread.
    """
    if not saving.saved.exceeds_spread:
        return SAME
    return LESS if saving.saved.median > 0 else MORE


def _context_count(row: Row) -> int:
    return len(row.info.plan.contexts)


def _growth_values(row: Row, grown: Growth, texts: Texts) -> dict[str, str]:
    return {
        "scenario": texts.scenario(row.scenario),
        "slope": mib_per_minute(grown.slope),
        "low": mib_per_minute(grown.low),
        "high": mib_per_minute(grown.high),
        "day": daily(grown.per_day),
        "most": daily(grown.most_per_day),
        "confidence": plain(grown.confidence_percent),
        "seconds": whole(grown.level_after_s or 0),
    }


def _listed_rates(rates: Iterable[tuple[Row, Figure]], texts: Texts) -> str:
    parts = []
    for row, rate in rates:
        scenario = texts.scenario(row.scenario)
        parts.append(texts("streams_part", scenario=scenario, value=per_second(rate, spread=False)))
    return texts.joined(parts)


def _range(rates: Sequence[Figure], texts: Texts) -> str:
    ordered = sorted(rates, key=lambda rate: rate.median)
    low = per_second(ordered[0], spread=False)
    high = per_second(ordered[-1], spread=False)
    if low == high:
        return low
    return texts("streams_range", low=low, high=high)


def _duration(seconds: float, texts: Texts) -> str:
    """Return a time in whole hours or minutes if that is exact, otherwise in seconds."""
    for unit, size in (("hours", _HOUR_S), ("minutes", _MINUTE_S)):
        if seconds >= size and seconds % size == 0:
            return texts(f"streams_{unit}", number=plain(seconds / size))
    return texts("streams_seconds", number=plain(seconds))
