"""Answers of `reusebench fit --sessions`: conversations in a limit, and what other layouts cost."""

from __future__ import annotations

from reusebench.reports.base.formatting import (
    EMPTY,
    component_mib,
    mib,
    per_second,
    percent,
    plain,
    seconds,
    whole,
)
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.sections.code import CodeBlock, code_of
from reusebench.reports.sections.section import Values
from reusebench.reports.shared.session_words import CACHE_TYPE
from reusebench.reports.shared.shortage import short_row
from reusebench.storage.fit_sessions import SessionPoint, SessionsAnswer
from reusebench.storage.group_charge import charge_words
from reusebench.storage.result import BUSY_PERCENT

__all__ = [
    "conversation_layouts_table",
    "conversations_figures_table",
    "conversations_sentences",
    "conversations_summary",
    "conversations_title",
    "conversations_values",
]


def conversations_values(answer: SessionsAnswer, texts: Texts) -> Values:
    """Return the answer with its figures, all layouts and the program of the recommended one."""
    return {
        "title": conversations_title(answer, texts),
        "sentences": conversations_sentences(answer, texts),
        "figures": conversations_figures_table(answer, texts),
        "layouts": conversation_layouts_table(answer, texts),
        "refused": list(map(texts.message, answer.refused)),
        "code": _code(answer, texts),
    }


def conversations_title(answer: SessionsAnswer, texts: Texts) -> str:
    """Return the subject of an answer: runtime, target, model, conversations and their room."""
    return texts(
        "fit_conversations_title",
        runtime=texts.runtime(answer.runtime),
        target=answer.target,
        model=answer.model,
        **_room(answer),
    )


def conversations_summary(answer: SessionsAnswer, texts: Texts) -> str:
    """Return the peak and the layout that the answer recommends; empty if none is fast enough."""
    best = answer.best
    if best is None:
        return ""
    return texts(
        "fit_conversations_summary", size=_peak(best), layout=_layout(best, texts), **_room(answer)
    )


def conversations_sentences(answer: SessionsAnswer, texts: Texts) -> list[str]:
    """Return the wish, the memory of the defaults, and the recommendation with its outcome."""
    conversation = answer.conversation
    wanted = texts(
        "fit_conversations_wanted",
        prompt=whole(conversation.prompt),
        common=whole(conversation.common),
        generated=whole(conversation.generated),
        **_room(answer),
    )
    today = texts(
        "fit_conversations_today",
        size=_peak(answer.today),
        layout=_layout(answer.today, texts),
    )
    if answer.tokens_per_s is not None:
        speed = texts("fit_conversations_wanted_speed", wished=plain(answer.tokens_per_s))
        wanted = texts.sentences([wanted, speed])
    sentences = [wanted, today]
    best = answer.best
    if best is None:
        sentences.append(_too_slow(answer, texts))
    else:
        sentences.append(_recommendation(answer, best, texts))
        if answer.limit_bytes is not None:
            sentences.append(_judgement(answer, best, answer.limit_bytes, texts))
        sentences += _speed(best, texts)
        if not best.has_equal_tokens:
            sentences.append(texts("fit_conversations_other_tokens"))
    if answer.busy_percent > BUSY_PERCENT:
        sentences.append(texts("fit_conversations_busy", percent=whole(answer.busy_percent)))
    charge = charge_words([answer.charge])
    if charge:
        sentences.append(texts("fit_charge", charge=texts.message(charge)))
    if answer.short:
        plans = [short_row(shortage.plan, shortage.signs, texts) for shortage in answer.short]
        sentences.append(texts("fit_short", plans="; ".join(plans)))
    return sentences


def conversations_figures_table(answer: SessionsAnswer, texts: Texts) -> Table | None:
    """Return the predicted figures, with measured ones if there are any; None without any."""
    peak = _figure(answer.predicted_peak_bytes, answer.predicted_peak_plus_minus_bytes)
    pairs = {
        "column_application": (
            mib,
            _figure(answer.predicted_application_memory_bytes),
            _figure(answer.measured_application_memory_bytes),
        ),
        "fit_peak": (mib, peak, _figure(answer.measured_peak_bytes)),
        "fit_kv_cache": (
            component_mib,
            _figure(answer.predicted_kv_bytes),
            _figure(answer.measured_kv_bytes),
        ),
        "fit_tokens_per_s": (
            per_second,
            _figure(answer.predicted_tokens_per_s),
            _figure(answer.measured_tokens_per_s),
        ),
    }
    rows = []
    for key, (written, predicted, measured) in pairs.items():
        if predicted is None:
            continue
        error = None
        if measured and measured.median:
            error = 100 * (predicted.median / measured.median - 1)
        rows.append(("", [texts(key), written(predicted), written(measured), percent(error)]))
    heads = ("fit_of_recommended", "fit_predicted", "fit_measured", "fit_error")
    return Table(heads_of(heads, texts), rows) if rows else None


def conversation_layouts_table(answer: SessionsAnswer, texts: Texts) -> Table:
    """Return all layouts by memory, and what each costs against the recommended one."""
    best = answer.best
    rows = []
    for point in answer.candidates:
        more_bytes = None
        faster = None
        if best is not None and point != best:
            more_bytes = point.peak_bytes - best.peak_bytes
            if point.tokens_per_s and best.tokens_per_s:
                faster = 100 * (point.tokens_per_s / best.tokens_per_s - 1)
        key = "fit_equal_tokens" if point.has_equal_tokens else "fit_other_tokens"
        cells = [
            texts.message(point.words),
            texts.joined(point.options) or EMPTY,
            _outcome(answer, point, texts),
            mib(Figure(point.bytes)),
            _peak(point),
            mib(_figure(more_bytes)),
            component_mib(Figure(point.kv_bytes)),
            mib(Figure(point.further_bytes)),
            per_second(_figure(point.tokens_per_s)),
            percent(faster),
            per_second(_figure(point.alone_tokens_per_s)),
            _prompts(point),
            texts(key),
        ]
        rows.append(("", cells))
    heads = (
        "fit_layout",
        "column_session_options",
        "column_outcome",
        "column_application",
        "fit_peak",
        "fit_peak_more",
        "fit_kv_cache",
        "column_further_session",
        "fit_tokens_per_s",
        "fit_tokens_more",
        "fit_tokens_alone",
        "fit_prompts",
        "fit_generated_tokens",
    )
    return Table(heads_of(heads, texts), rows, words=(0, 1, 2, -1))


def _code(answer: SessionsAnswer, texts: Texts) -> CodeBlock | None:
    """Return the program of the recommended layout; None if there is none."""
    if answer.recommended is None:
        return None
    title = conversations_title(answer, texts)
    subject = {"group": title, "scenario": texts("fit_recommended_layout")}
    return code_of(answer.recommended, None, subject, texts)


def _recommendation(answer: SessionsAnswer, best: SessionPoint, texts: Texts) -> str:
    is_within = answer.limit_bytes is None or best.limited_bytes <= answer.limit_bytes
    return texts(
        "fit_conversations_best" if is_within else "fit_conversations_smallest",
        layout=_layout(best, texts),
        memory=mib(Figure(best.bytes)),
        peak=_peak(best),
        cache=component_mib(Figure(best.kv_bytes)),
        type=_cache_type(best, texts),
        further=mib(Figure(best.further_bytes)),
    )


def _judgement(answer: SessionsAnswer, best: SessionPoint, limit_bytes: int, texts: Texts) -> str:
    """Return whether the peak is within the limit, as predicted and as measured."""
    limit = mib(Figure(limit_bytes))
    margin_bytes = limit_bytes - best.limited_bytes
    if margin_bytes >= 0 and not answer.fits and answer.measured_peak_bytes is not None:
        measured = mib(Figure(answer.measured_peak_bytes))
        return texts("fit_conversations_measured_more", limit=limit, measured=measured)
    key = "fit_fits" if margin_bytes >= 0 else "fit_does_not_fit"
    return texts(key, limit=limit, margin=mib(Figure(abs(margin_bytes))))


def _speed(best: SessionPoint, texts: Texts) -> list[str]:
    if best.tokens_per_s is None or best.alone_tokens_per_s is None:
        return [texts("fit_conversations_speed_unknown")]
    speed = texts(
        "fit_conversations_speed",
        rate=per_second(Figure(best.tokens_per_s)),
        alone=per_second(Figure(best.alone_tokens_per_s)),
    )
    return [speed]


def _too_slow(answer: SessionsAnswer, texts: Texts) -> str:
    """Return the wished speed, and the highest one of all layouts."""
    points = answer.candidates or [answer.today]
    most = max(points, key=lambda point: point.tokens_per_s or 0.0)
    return texts(
        "fit_conversations_too_slow",
        wished=plain(answer.tokens_per_s or 0.0),
        most=per_second(_figure(most.tokens_per_s)),
        layout=_layout(most, texts),
    )


def _outcome(answer: SessionsAnswer, point: SessionPoint, texts: Texts) -> str:
    if answer.limit_bytes is not None and point.limited_bytes > answer.limit_bytes:
        return texts("fit_outcome_too_large")
    if point == answer.best:
        return texts("fit_best_mark" if answer.fits else "fit_outcome_too_large")
    return EMPTY if answer.limit_bytes is None else texts("fit_outcome_fits")


def _layout(point: SessionPoint, texts: Texts) -> str:
    return texts("fit_words_separator").join((texts.message(point.words), *point.options))


def _cache_type(point: SessionPoint, texts: Texts) -> str:
    for option in point.options:
        name, _, value = option.partition("=")
        if name == CACHE_TYPE:
            return value
    return texts("fit_default_cache_type")


def _peak(point: SessionPoint) -> str:
    return mib(Figure(point.peak_bytes, point.limited_bytes - point.peak_bytes))


def _prompts(point: SessionPoint) -> str:
    return EMPTY if point.prompts_s is None else seconds(Figure(point.prompts_s * 1e9))


def _room(answer: SessionsAnswer) -> dict[str, str]:
    return {"sessions": whole(answer.sessions), "tokens": whole(answer.conversation.tokens)}


def _figure(value: float | None, plus_minus: float | None = None) -> Figure | None:
    return None if value is None else Figure(value, plus_minus)
