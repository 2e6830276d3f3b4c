"""Streams of video in sentences: what was asked and sustained, what is saved, whether memory grows,
what to doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reusebench.reports.base.formatting import (
    mib,
    mib_per_minute,
    mib_spread,
    percent,
    plain,
    whole,
)
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.results.savings import (
    APPLICATION,
    LESS,
    MORE,
    NPU,
    SAME,
    best_percent,
    saving_of,
)
from reusebench.reports.sections.answers import answers
from reusebench.reports.streams.workload import (
    FULL_DUP,
    GROWTH_VERDICTS,
    HEAP,
    PER_CORE,
    RSS,
    Growth,
    Workload,
    all_frames,
    growth,
    inference_saving,
    is_cut_off,
    is_interrupted,
    kept_up,
    throttling_summary,
    workloads,
)
from reusebench.storage.result import BUSY_PERCENT

_MINUTE_S = 60
_HOUR_S = 3600


def workload_sentence(workload: Workload, texts: Texts) -> str:
    """Return what the streams were given to do."""
    schedule = workload.schedule
    video = workload.schedule.video
    frames = texts("streams_no_video")
    if video:
        frames = texts(
            "streams_video",
            width=video.width,
            height=video.height,
            codec=video.codec,
            name=video.name,
        )
    queue = texts("streams_queue" if schedule.queue else "streams_no_queue", queue=schedule.queue)
    request = texts(
        "streams_asked",
        count=schedule.count,
        contexts=workload.rows[0].info.contexts,
        what=frames,
        duration=_duration(schedule.duration_s, texts),
        warm_up=_duration(schedule.warm_up_s, texts),
    )
    if not schedule.fps:
        return texts.sentences([request, texts("streams_asked_fastest")])
    pace = texts("streams_asked_paced", fps=plain(schedule.fps), asked=plain(workload.due_per_s))
    return texts.sentences([request, pace, queue])


def frame_sentences(workload: Workload, texts: Texts) -> list[str]:
    """Return what was sustained, and whether the machine is too slow for what was asked."""
    if not workload.computes:
        return [texts("streams_virtual")]
    rates = _measured_rates(workload)
    if not rates:
        return []
    decoding = _decoding_sentence(workload, texts)
    if not workload.schedule.fps:
        return [
            texts("streams_fastest", parts=_rates(rates, texts)),
            *([decoding] if decoding else []),
        ]
    slow = [(row, rate) for row, rate in rates if not kept_up(row)]
    due = plain(workload.due_per_s)
    sustained = _range([rate for _, rate in rates], texts)
    if not slow:
        return [texts("streams_kept_up", asked=due, range=sustained)]
    if len(slow) < len(rates):
        sentence = texts("streams_some_too_slow", asked=due, parts=_rates(slow, texts))
    else:
        sentence = texts("streams_too_slow", asked=due, range=sustained)
    return [texts.sentences([sentence, decoding]), texts("streams_same_work")]


def memory_sentences(workload: Workload, texts: Texts) -> list[str]:
    """Return what each mode saves, of all memory and of that of inference, and what one context per
    core does.
    """
    sentences = answers(workload.rows, texts)
    parts = []
    for row in workload.modes:
        saving = inference_saving(row, workload.decode_only)
        # Of a virtual board's application memory it says nothing.
        if row.computes and saving and saving.percent and saving.change == LESS:
            value = f"{percent(saving.percent)} %"
            parts.append(texts("streams_part", scenario=texts.scenario(row.scenario), value=value))
    if parts:
        sentences.append(texts("streams_inference_saved", parts=texts.joined(parts)))
    few = workload.row(PER_CORE)
    many = workload.row(FULL_DUP)
    if few and many:
        sentences += _per_core_sentence(few, many, texts)
    return sentences


def opening_part(group: Group, label: str, texts: Texts) -> str | None:
    """Return what the newest streams of a group sustained, and the mode that saves most, as far as
    they are known.
    """
    workload = next(iter(workloads(group.rows)), None)
    if workload is None:
        return None
    rates = [rate for _, rate in _measured_rates(workload)]
    comparable = [
        row for row in workload.modes if row.baseline and _count(row) == _count(row.baseline)
    ]
    best = max(comparable, key=lambda row: best_percent(row.main_saving), default=None)
    saving = best.main_saving if best and best_percent(best.main_saving) else None
    if not (rates if workload.computes else saving):
        return None
    values = {
        "group": label,
        "asked": plain(workload.due_per_s),
        "range": _range(rates, texts) if rates else "",
    }
    pace = ("paced" if workload.schedule.fps else "fastest") if workload.computes else "virtual"
    if best is None or saving is None:
        return texts(f"opening_streams_{pace}_only", **values)
    of_inference = inference_saving(best, workload.decode_only)
    share = (
        (of_inference.percent if of_inference else None) if workload.computes else saving.percent
    )
    memory = texts("opening_memory_npu" if saving.is_npu else "opening_memory_application")
    values = {
        **values,
        "scenario": texts.scenario(best.scenario),
        "percent": percent(share),
        "memory": memory,
    }
    return texts(f"opening_streams_{pace}", **values)


def growing_parts(group: Group, label: str, texts: Texts) -> list[str]:
    """Return the modes of a group whose memory was still growing at the end; by the heap in use
    rather than by RSS.
    """
    workload = next(iter(workloads(group.rows)), None)
    parts = []
    for row in workload.rows if workload else ():
        growing = [
            (name, grown)
            for name in (HEAP, RSS)
            if (grown := growth(row, name)) and grown.verdict == "growing"
        ]
        for name, grown in growing[:1]:
            memory = texts(f"streams_what_{name}")
            parts.append(
                texts(
                    "opening_growing_of",
                    group=label,
                    what=memory,
                    **_growth_values(row, grown, texts),
                )
            )
    return parts


def growth_sentences(workload: Workload, texts: Texts) -> list[str]:
    """Return whether memory grows over time, the scenarios that do first: RSS, then the heap in
    use.
    """
    sentences = []
    for memory in (RSS, HEAP):
        grown_rows = [(row, grown) for row in workload.rows if (grown := growth(row, memory))]
        for verdict in GROWTH_VERDICTS:
            rows = [(row, grown) for row, grown in grown_rows if grown.verdict == verdict]
            # Of a heap of which nothing can be said the sentence of RSS says why.
            if not rows or (memory == HEAP and verdict == "unknown"):
                continue
            parts = []
            for row, grown in rows:
                part = texts(f"streams_trend_{verdict}_of", **_growth_values(row, grown, texts))
                if grown.count < grown.repeats and verdict not in ("level", "unknown"):
                    part = texts(
                        "streams_trend_in", part=part, count=grown.count, repeats=grown.repeats
                    )
                parts.append(part)
            resolution = mib_per_minute(max(grown.resolution for _, grown in rows))
            name = texts(f"streams_what_{memory}")
            sentences.append(
                texts(
                    f"streams_trend_{verdict}",
                    what=name,
                    parts=texts.joined(parts),
                    resolution=resolution,
                )
            )
    few = [row.scenario for row in workload.rows if row.frames and growth(row) is None]
    return sentences + ([texts("streams_trend_too_few", parts=texts.scenarios(few))] if few else [])


def growth_in_words(grown: Growth, texts: Texts) -> str:
    """Return the verdict in few words, for a cell or the title of a panel."""
    values = {"slope": mib_per_minute(grown.slope), "seconds": whole(grown.level_after_s or 0)}
    return texts(f"streams_verdict_{grown.verdict}", **values)


def stream_warnings(workload: Workload, texts: Texts) -> list[str]:
    """Return a sentence for each reason to mistrust the figures."""
    sentences = []
    hot = {
        row.scenario: causes
        for row in workload.rows
        if (causes := throttling_summary(row)) and causes.names
    }
    if hot:
        names = texts.joined(
            dict.fromkeys(name for causes in hot.values() for name in causes.names)
        )
        share = percent(max(causes.share_percent for causes in hot.values()))
        sentences.append(
            texts("streams_throttled", scenarios=texts.scenarios(hot), names=names, share=share)
        )
    busy = [row for row in workload.rows if row.computes and row.busy_percent > BUSY_PERCENT]
    if busy:
        most = whole(max(row.busy_percent for row in busy))
        scenarios = texts.scenarios(row.scenario for row in busy)
        sentences.append(texts("streams_disturbed", scenarios=scenarios, percent=most))
    for key, is_ended in (("streams_interrupted", is_interrupted), ("streams_cut_off", is_cut_off)):
        parts = []
        for row in filter(is_ended, workload.rows):
            # How long the steady state was that is kept, at least.
            measured = _duration(
                min((streams.seconds for streams in row.frames), default=0.0), texts
            )
            parts.append(
                texts("streams_part", scenario=texts.scenario(row.scenario), value=measured)
            )
        if parts:
            sentences.append(texts(key, parts=texts.joined(parts)))
    return sentences


def _measured_rates(workload: Workload) -> list[tuple[Row, Figure]]:
    """Return the frames per second of each mode that was measured."""
    return [
        (row, frames.per_s)
        for row in workload.modes
        if row.measured and (frames := all_frames(row))
    ]


def _decoding_sentence(workload: Workload, texts: Texts) -> str | None:
    """Return whether the machine could at least decode what was asked for."""
    row = workload.decode_only
    frames = all_frames(row) if row else None
    if row is None or frames is None or not workload.schedule.video:
        return None
    key = "streams_decodes" if kept_up(row) else "streams_cannot_decode"
    key = key if workload.schedule.fps else "streams_decoding_alone"
    return texts(key, rate=plain(frames.per_s.median), asked=plain(workload.due_per_s))


def _per_core_sentence(few: Row, many: Row, texts: Texts) -> list[str]:
    """Return what one context per core does in place of several per stream, all of them dups of
    one.
    """
    memory = NPU if few.memory(NPU) else APPLICATION
    saving = saving_of(memory, many.memory(memory), few.memory(memory))
    if saving is None:
        return []
    few_frames = all_frames(few)
    many_frames = all_frames(many)
    # Of application memory also less than the last digit shown is told, with its spread.
    change = SAME if not saving.saved.exceeds_spread else LESS if saving.saved.median > 0 else MORE
    sentence = texts(
        f"streams_per_core_{change}",
        few=_count(few),
        many=_count(many),
        memory=texts("memory_npu" if saving.is_npu else "memory_application"),
        saved=mib(abs(saving.saved), saving.is_npu, spread=False),
        spread=mib_spread(saving.saved, saving.is_npu),
    )
    rates = None
    if few_frames and many_frames:
        few_rate = plain(few_frames.per_s.median)
        many_rate = plain(many_frames.per_s.median)
        rates = texts("streams_per_core_frames", few_rate=few_rate, many_rate=many_rate)
    return [texts.sentences([sentence, rates])]


def _count(row: Row) -> int:
    return len(row.info.plan.contexts)


def _growth_values(row: Row, grown: Growth, texts: Texts) -> dict[str, str]:
    return {
        "scenario": texts.scenario(row.scenario),
        "slope": mib_per_minute(grown.slope),
        "low": mib_per_minute(grown.low),
        "high": mib_per_minute(grown.high),
        "confidence": plain(grown.confidence_percent),
        "seconds": whole(grown.level_after_s or 0),
    }


def _rates(rates: Iterable[tuple[Row, Figure]], texts: Texts) -> str:
    parts = [(texts.scenario(row.scenario), plain(rate.median)) for row, rate in rates]
    return texts.joined(
        texts("streams_part", scenario=scenario, value=rate) for scenario, rate in parts
    )


def _range(rates: Sequence[Figure], texts: Texts) -> str:
    low, high = (plain(end(rate.median for rate in rates)) for end in (min, max))
    return low if low == high else texts("streams_range", low=low, high=high)


def _duration(seconds: float, texts: Texts) -> str:
    """Return a time in the largest unit that it is a whole number of, from minutes on."""
    for unit, size in (("hours", _HOUR_S), ("minutes", _MINUTE_S)):
        if seconds >= size and seconds % size == 0:
            return texts(f"streams_{unit}", number=plain(seconds / size))
    return texts("streams_seconds", number=plain(seconds))
