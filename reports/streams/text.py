"""Streams of video in sentences: what was asked and sustained, what is saved, whether memory grows, what to doubt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reports.base.formatting import mib, npu_mib, npu_plus_minus, percent, plus_minus, shows_in_mib
from reports.base.statistics import Figure, difference
from reports.base.texts import Texts
from reports.results.rows import BUSY_PERCENT, Group, Row
from reports.sections.answers import answers
from reports.streams.frames import (
    FULL_DUP,
    HEAP,
    PER_CORE,
    RSS,
    VERDICTS,
    Growth,
    Workload,
    all_frames,
    growth,
    inference_saved_percent,
    is_cut_off,
    is_interrupted,
    kept_up,
    throttling,
    workloads,
)

MIB = 2**20
_MINUTE_S, _HOUR_S = 60, 3600
#: MiB a minute, from which on decimals are noise.
_WITHOUT_DECIMALS = 100


def asked_sentences(workload: Workload, texts: Texts) -> list[str]:
    """Return what was asked of the streams."""
    schedule, info = workload.schedule, workload.rows[0].info
    values = {
        "count": schedule.count,
        "contexts": info.contexts,
        "what": _what(workload, texts),
        "duration": _duration(schedule.duration_s, texts),
        "warm_up": _duration(schedule.warm_up_s, texts),
        "fps": _short(schedule.fps),
        "asked": _short(workload.due_per_s),
        "queue": schedule.queue,
    }
    pace = "streams_asked_paced" if schedule.fps else "streams_asked_fastest"
    queue = "streams_queue" if schedule.queue else "streams_no_queue"
    keys = ["streams_asked", pace, *([queue] if schedule.fps else [])]
    return [texts("sentence_separator").join(texts(key, **values) for key in keys)]


def frame_sentences(workload: Workload, texts: Texts) -> list[str]:
    """Return what was sustained, and whether the machine is too slow for what was asked."""
    if not workload.computes:
        return [texts("streams_virtual")]
    rates = _measured_rates(workload)
    if not rates:
        return []
    if not workload.schedule.fps:
        return [texts("streams_fastest", parts=_rates(rates, texts)), *_decoding(workload, texts)]
    slow = [(row, rate) for row, rate in rates if not kept_up(row)]
    asked = _short(workload.due_per_s)
    if not slow:
        return [texts("streams_kept_up", asked=asked, range=_range([rate for _, rate in rates], texts))]
    if len(slow) < len(rates):
        said = texts("streams_some_too_slow", asked=asked, parts=_rates(slow, texts))
    else:
        said = texts("streams_too_slow", asked=asked, range=_range([rate for _, rate in rates], texts))
    return [texts("sentence_separator").join([said, *_decoding(workload, texts)]), texts("streams_same_work")]


def memory_sentences(workload: Workload, texts: Texts) -> list[str]:
    """Return what each mode saves, of all memory and of that of inference, and what one context per core does."""
    said = answers(workload.rows, texts)
    parts = [
        texts("streams_part", scenario=texts.scenario(row.scenario), value=f"{percent(share)} %")
        for row in workload.modes
        if (share := _share(row, workload)) is not None
    ]
    if parts:
        said.append(texts("streams_inference_saved", parts=texts.joined(parts)))
    return said + _per_core(workload, texts)


def opening_part(group: Group, label: str, texts: Texts) -> str | None:
    """Return what the newest streams of a group sustained, and the mode that saves most, as far as they are known."""
    workload = next(iter(workloads(group.rows)), None)
    rates = [rate for _, rate in _measured_rates(workload)] if workload else []
    row = max(_saving(workload), key=_percent_saved, default=None) if workload else None
    if workload is None or not (rates if workload.computes else row):
        return None
    values = {
        "group": label,
        "asked": _short(workload.due_per_s),
        "range": _range(rates, texts) if rates else "",
    }
    pace = ("paced" if workload.schedule.fps else "fastest") if workload.computes else "virtual"
    if row is None:
        return texts(f"opening_streams_{pace}_only", **values)
    share = inference_saved_percent(row, workload.decode_only) if workload.computes else _percent_saved(row)
    memory = texts("opening_memory_npu" if row.npu_saved else "opening_memory_application")
    scenario = texts.scenario(row.scenario)
    return texts(f"opening_streams_{pace}", scenario=scenario, percent=percent(share), memory=memory, **values)


def growing_parts(group: Group, label: str, texts: Texts) -> list[str]:
    """Return the modes of a group whose memory was still growing at the end; by the heap in use rather than by RSS."""
    workload = next(iter(workloads(group.rows)), None)
    parts = []
    for row in workload.rows if workload else ():
        growing = [(name, grown) for name in (HEAP, RSS) if (grown := growth(row, name)) and grown.verdict == "growing"]
        for name, grown in growing[:1]:
            what = texts(f"streams_what_{name}")
            parts.append(texts("opening_growing_of", group=label, what=what, **_values_of_verdict(row, grown, texts)))
    return parts


def growth_sentences(workload: Workload, texts: Texts) -> list[str]:
    """Return whether memory grows over time, the scenarios that do first: RSS, then the heap in use."""
    # Of a heap of which nothing can be said the sentence of RSS says why.
    of_heap = [name for name in VERDICTS if name != "unknown"]
    said = [*_of_verdicts(workload, RSS, VERDICTS, texts), *_of_verdicts(workload, HEAP, of_heap, texts)]
    few = [row for row in workload.rows if row.frames and growth(row) is None]
    return said + ([texts("streams_trend_too_few", parts=_names(few, texts))] if few else [])


def growth_words(grown: Growth, texts: Texts) -> str:
    """Return the verdict in few words, for a cell or the title of a panel."""
    values = {"slope": per_minute(grown.slope), "seconds": _seconds(grown.level_after_s)}
    return texts(f"streams_verdict_{grown.verdict}", **values)


def per_minute(bytes_per_s: float) -> str:
    """Return a rate in MiB a minute, with decimals where they say something; what rounds to nothing has no sign."""
    rate = bytes_per_s * 60 / MIB
    decimals = 2 if abs(rate) < _WITHOUT_DECIMALS else 0
    return f"{round(rate, decimals) + 0.0:,.{decimals}f}"


def stream_warnings(workload: Workload, texts: Texts) -> list[str]:
    """Return a sentence for each reason to mistrust the figures."""
    ended = {
        "streams_interrupted": [row for row in workload.rows if is_interrupted(row)],
        "streams_cut_off": [row for row in workload.rows if is_cut_off(row)],
    }
    said = [texts(key, parts=_times(rows, texts)) for key, rows in ended.items() if rows]
    return [*_throttled(workload, texts), *_disturbed(workload, texts), *said]


def _throttled(workload: Workload, texts: Texts) -> list[str]:
    hot = {row: causes for row in workload.rows if (causes := throttling(row)) and causes.names}
    if not hot:
        return []
    names = texts.joined(dict.fromkeys(name for causes in hot.values() for name in causes.names))
    share = percent(max(causes.share_percent for causes in hot.values()))
    return [texts("streams_throttled", scenarios=_names(hot, texts), names=names, share=share)]


def _disturbed(workload: Workload, texts: Texts) -> list[str]:
    busy = [row for row in workload.rows if row.computes and row.busy_percent > BUSY_PERCENT]
    if not busy:
        return []
    share = f"{max(row.busy_percent for row in busy):.0f}"
    return [texts("streams_disturbed", scenarios=_names(busy, texts), percent=share)]


def _times(rows: Sequence[Row], texts: Texts) -> str:
    """Return the rows with how long the steady state was that is kept of each."""
    return texts.joined(
        texts("streams_part", scenario=texts.scenario(row.scenario), value=_measured_time(row, texts)) for row in rows
    )


def _measured_rates(workload: Workload) -> list[tuple[Row, Figure]]:
    """Return the frames per second of each mode that was measured."""
    return [(row, frames.per_s) for row in workload.modes if row.measured and (frames := all_frames(row))]


def _what(workload: Workload, texts: Texts) -> str:
    video = workload.schedule.video
    if video is None:
        return texts("streams_no_video")
    return texts("streams_video", width=video.width, height=video.height, codec=video.codec, name=video.name)


def _decoding(workload: Workload, texts: Texts) -> list[str]:
    """Return whether the machine could at least decode what was asked for."""
    frames = all_frames(workload.decode_only) if workload.decode_only else None
    if frames is None or workload.decode_only is None or not workload.schedule.video:
        return []
    values = {"rate": _short(frames.per_s.median), "asked": _short(workload.due_per_s)}
    if not workload.schedule.fps:
        return [texts("streams_decoding_alone", **values)]
    return [texts("streams_decodes" if kept_up(workload.decode_only) else "streams_cannot_decode", **values)]


def _saving(workload: Workload) -> list[Row]:
    """Return the modes that measurably save memory with as many contexts as their baseline."""
    return [
        row
        for row in workload.modes
        if (share := row.saving_percent)
        and share.median > 0
        and share.exceeds_spread
        and row.baseline
        and _count(row) == _count(row.baseline)
    ]


def _percent_saved(row: Row) -> float:
    return row.saving_percent.median if row.saving_percent else 0.0


def _share(row: Row, workload: Workload) -> float | None:
    """Return the percent of inference memory that a row measurably saves; of an emulator's memory that says nothing."""
    if not row.computes or row.saved is None or not shows_in_mib(row.saved) or row.saved.median <= 0:
        return None
    return inference_saved_percent(row, workload.decode_only)


def _per_core(workload: Workload, texts: Texts) -> list[str]:
    """Return what one context per core does in place of several per stream, all of them dups of one."""
    few, many = workload.row(PER_CORE), workload.row(FULL_DUP)
    if few is None or many is None:
        return []
    shown, name, spread = (mib, "application_memory_bytes", plus_minus)
    if few.memory("npu_memory_bytes"):
        shown, name, spread = (npu_mib, "npu_memory_bytes", npu_plus_minus)
    saved = difference(many.memory(name), few.memory(name))
    if saved is None:
        return []
    values = {
        "few": _count(few),
        "many": _count(many),
        "memory": texts("memory_npu" if name.startswith("npu") else "memory_application"),
        "saved": shown(Figure(abs(saved.median), None), spread=False),
        "spread": spread(saved),
        "few_rate": _rate(few),
        "many_rate": _rate(many),
    }
    kind = "same" if not saved.exceeds_spread else "less" if saved.median > 0 else "more"
    keys = [f"streams_per_core_{kind}", *(["streams_per_core_frames"] if _rate(few) and _rate(many) else [])]
    return [texts("sentence_separator").join(texts(key, **values) for key in keys)]


def _count(row: Row) -> int:
    return len(row.info.plan.contexts)


def _rate(row: Row) -> str:
    frames = all_frames(row)
    return _short(frames.per_s.median) if frames else ""


def _of_verdicts(workload: Workload, memory: str, verdicts: Sequence[str], texts: Texts) -> list[str]:
    """Return one sentence for all scenarios of each verdict."""
    known = [(row, of_row) for row in workload.rows if (of_row := growth(row, memory))]
    by_verdict = {name: [(row, grown) for row, grown in known if grown.verdict == name] for name in verdicts}
    return [
        texts(
            f"streams_trend_{verdict}",
            what=texts(f"streams_what_{memory}"),
            parts=texts.joined(_part_of_verdict(row, grown, texts) for row, grown in rows),
            resolution=per_minute(max(grown.resolution for _, grown in rows)),
        )
        for verdict, rows in by_verdict.items()
        if rows
    ]


def _part_of_verdict(row: Row, grown: Growth, texts: Texts) -> str:
    said = texts(f"streams_trend_{grown.verdict}_of", **_values_of_verdict(row, grown, texts))
    if grown.count == grown.repeats or grown.verdict in ("level", "unknown"):
        return said
    return texts("streams_trend_in", said=said, count=grown.count, repeats=grown.repeats)


def _values_of_verdict(row: Row, grown: Growth, texts: Texts) -> dict[str, str]:
    return {
        "scenario": texts.scenario(row.scenario),
        "slope": per_minute(grown.slope),
        "low": per_minute(grown.low),
        "high": per_minute(grown.high),
        "confidence": _short(grown.confidence_percent),
        "seconds": _seconds(grown.level_after_s),
    }


def _measured_time(row: Row, texts: Texts) -> str:
    """Return how long the steady state was that is kept, at least."""
    return _duration(min((streams.seconds for streams in row.frames), default=0.0), texts)


def _rates(rates: Sequence[tuple[Row, Figure]], texts: Texts) -> str:
    return texts.joined(
        texts("streams_part", scenario=texts.scenario(row.scenario), value=_short(rate.median)) for row, rate in rates
    )


def _range(rates: Sequence[Figure], texts: Texts) -> str:
    low, high = (_short(end(rate.median for rate in rates)) for end in (min, max))
    return low if low == high else texts("streams_range", low=low, high=high)


def _names(rows: Iterable[Row], texts: Texts) -> str:
    return texts.joined(texts.scenario(row.scenario) for row in rows)


def _duration(seconds: float, texts: Texts) -> str:
    """Return a time in the largest unit that it is a whole number of, from minutes on."""
    for unit, size in (("hours", _HOUR_S), ("minutes", _MINUTE_S)):
        if seconds >= size and seconds % size == 0:
            return texts(f"streams_{unit}", number=_short(seconds / size))
    return texts("streams_seconds", number=_short(seconds))


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:,.0f}"


def _short(value: float) -> str:
    """Return a number with one decimal, which a whole one has not."""
    text = f"{value:,.1f}"
    return text[:-2] if text.endswith(".0") else text
