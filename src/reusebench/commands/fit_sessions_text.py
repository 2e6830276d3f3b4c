"""The answer of `reusebench fit --sessions` as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from tabulate import tabulate

from reusebench.commands.fit_text import mib_text
from reusebench.measured.messages import words
from reusebench.storage.fit_sessions import SessionPoint, SessionsAnswer
from reusebench.storage.group_charge import charge_words
from reusebench.storage.result import BUSY_PERCENT

__all__ = ["session_lines"]

_MIB = 2**20
_HEADS = ("peak", "caches", "one more", "tokens/s each", "alone", "prompts", "tokens")


def session_lines(answer: SessionsAnswer) -> Iterator[str]:
    """Yield the lines of the answer."""
    conversation = answer.conversation
    asked = (
        f"{_counted(answer.sessions, 'conversation')} of {conversation.tokens:,} tokens, with a"
        f" prompt of {conversation.prompt:,} and an answer of {conversation.generated:,}"
    )
    yield f"Wanted          {asked}"
    yield f"Default         {_size(answer.today)}: {_layout(answer.today)}"
    if answer.limit_bytes is not None:
        source = f", left by {answer.limit_source}" if answer.limit_source else ""
        yield f"Limit           {mib_text(answer.limit_bytes)}{source}"
    best = answer.best
    if best is None:
        most = max(answer.candidates, key=lambda point: point.tokens_per_s or 0.0)
        yield (
            f"No layout generates {answer.tokens_per_s:,.10g} tokens per second in each"
            f" conversation; the most is {_speed(most.tokens_per_s)}: {_layout(most)}"
        )
        yield from _all(answer)
        return
    head = "Recommended" if answer.fits or answer.limit_bytes is None else "Smallest"
    yield f"{head:16}{_size(best)}{_margin(answer, best)}"
    yield f"                {_layout(best)}"
    yield f"                {mib_text(best.further_bytes)} for each conversation more"
    yield from _speed_lines(answer, best)
    charge = charge_words([answer.charge])
    if charge:
        yield f"Container       {charge}"
    yield from _compared(answer)
    yield from _all(answer)


def _margin(answer: SessionsAnswer, point: SessionPoint) -> str:
    if answer.limit_bytes is None:
        return ""
    margin = answer.limit_bytes - point.limited_bytes
    if margin >= 0 and not answer.fits and answer.measured_peak_bytes is not None:
        return f": does not fit, it took {mib_text(answer.measured_peak_bytes)} when measured"
    if margin >= 0:
        return f": fits, {mib_text(margin)} left"
    return f": does not fit, {mib_text(-margin)} too much"


def _speed_lines(answer: SessionsAnswer, best: SessionPoint) -> Iterator[str]:
    yield (
        f"Speed           {_speed(best.tokens_per_s)} tokens per second in each conversation while"
        f" all generate, {_speed(best.alone_tokens_per_s)} in one alone, with full contexts"
    )
    if answer.busy_percent > BUSY_PERCENT:
        unheeded = "" if answer.tokens_per_s is None else ", and --tokens-per-s was not considered"
        yield (
            f"                other work took {answer.busy_percent:.0f} % of this machine: do not"
            f" rely on the speed{unheeded}"
        )


def _compared(answer: SessionsAnswer) -> Iterator[str]:
    """Yield the table of predicted figures, with measured ones if there are any."""
    figures = {
        "caches, MiB": ("kv_bytes", _MIB),
        "application memory, MiB": ("application_memory_bytes", _MIB),
        "its peak, MiB": ("peak_bytes", _MIB),
        "tokens per second": ("tokens_per_s", 1),
    }
    rows = []
    for title, (name, unit) in figures.items():
        predicted = getattr(answer, f"predicted_{name}")
        measured = getattr(answer, f"measured_{name}")
        if predicted is None:
            continue
        row = [title, f"{predicted / unit:.2f}"]
        if measured:
            error = 100 * (predicted - measured) / measured
            row += [f"{measured / unit:.2f}", f"{error:+.2f} %"]
        rows.append(row)
    heads = ["", "predicted", "measured", "error"]
    columns = max(map(len, rows))
    yield ""
    yield tabulate(
        rows,
        heads[:columns],
        disable_numparse=True,
        colalign=("left", *["right"] * (columns - 1)),
    )


def _all(answer: SessionsAnswer) -> Iterator[str]:
    """Yield the table of all layouts."""
    rows = []
    for point in answer.candidates:
        fits = answer.limit_bytes is None or point.limited_bytes <= answer.limit_bytes
        rows.append(
            (
                f"{point.peak_bytes / _MIB:.1f}" + ("" if fits else " (does not fit)"),
                f"{point.kv_bytes / _MIB:.1f}",
                f"{point.further_bytes / _MIB:.1f}",
                _speed(point.tokens_per_s),
                _speed(point.alone_tokens_per_s),
                "?" if point.prompts_s is None else f"{point.prompts_s:.1f} s",
                "equal" if point.has_equal_tokens else "others",
                _layout(point),
            )
        )
    yield "\nAll layouts, in MiB; prompts: of all conversations, at the speed of short ones:"
    yield tabulate(
        rows,
        (*_HEADS, "layout"),
        disable_numparse=True,
        colalign=(*["right"] * 6, "left", "left"),
    )
    for reason in answer.refused:
        yield words(reason)


def _layout(point: SessionPoint) -> str:
    return ", ".join((words(point.words), *point.options))


def _size(point: SessionPoint) -> str:
    return f"{mib_text(point.peak_bytes)} ±{(point.limited_bytes - point.peak_bytes) / _MIB:.1f}"


def _speed(tokens_per_s: float | None) -> str:
    return "?" if tokens_per_s is None else f"{tokens_per_s:.1f}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
