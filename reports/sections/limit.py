"""How many contexts fit: which mechanism moves the limit, how the next one fails, and what becomes
of the others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from reusebench.accounting.domains import DomainUse
from reusebench.measured.messages import Message
from reusebench.reports.base.drawing import Draw, bars, label, named_rows, new_canvas, svg_of
from reusebench.reports.base.formatting import EMPTY, mib, plain, whole, whole_mib
from reusebench.reports.base.statistics import Figure, rounded
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import scenario_colour
from reusebench.reports.results.rows import Row
from reusebench.reports.sections.question import QuestionSection
from reusebench.reports.sections.section import GroupView, Values
from reusebench.scenarios.catalogue import LIMIT
from reusebench.storage.result import ContextLimit, Failure

#: Of the scenarios' names, before that of the scenario with the same mechanism.
_PREFIX = "limit_"
#: What libraries write where they get no memory.
_NO_MEMORY = re.compile(r"fail\w* to m?alloc|alloc\w* failed|cannot allocate memory", re.IGNORECASE)
#: Of the exported table, behind what identifies a configuration; new columns come at the end.
LIMIT_COLUMNS = (
    "contexts_that_fit",
    "bound",
    "failure_kind",
    "failure_phase",
    "failure",
    "survived",
    "npu_memory_limit_bytes",
    "npu_memory_bytes",
    "further_npu_bytes",
    "npu_left_bytes",
    "fd_count",
    "fd_limit",
)
_BAR_PX = 18
_ROW_PX = 30


class LimitSection(QuestionSection):
    """How many contexts fit."""

    def __init__(self) -> None:
        super().__init__(LIMIT)

    def part(self, view: GroupView) -> Values:
        """Return sentences, the table, and the last words of libraries."""
        return {
            **super().part(view),
            "sentences": limit_sentences(view.rows, view.texts),
            "table": limit_table(view.rows, view.texts),
            "last_words": limit_last_words(view.rows, view.texts),
        }

    def part_figures(self, view: GroupView) -> dict[str, Draw]:
        """Return the figure of how many contexts fit."""
        return {"limit": partial(limit_figure, view.rows, view.texts)}


@dataclass(frozen=True)
class _Fit:
    """A scenario, and how many contexts fitted."""

    row: Row
    limit: ContextLimit

    @property
    def number(self) -> str:
        """How many, with the sign of "at least" where none failed."""
        return f"{'' if self.limit.failure else '≥ '}{whole(self.limit.contexts)}"

    def count(self, texts: Texts) -> str:
        """Return the same for a sentence."""
        count = whole(self.limit.contexts)
        return count if self.limit.failure else texts("limit_at_least", count=count)

    def name(self, texts: Texts) -> str:
        """Return the mechanism's name: in this section all scenarios go on until one fails."""
        return texts.scenario(self.row.scenario.removeprefix(_PREFIX))


def is_out_of_files(limit: ContextLimit) -> bool:
    """Whether a further context had too few file descriptors left, which libraries call lack of
    memory.
    """
    if limit.failure is None or limit.fd_limit is None or limit.further_fds is None:
        return False
    return limit.fd_count + limit.further_fds > limit.fd_limit


def full_domain(limit: ContextLimit) -> DomainUse | None:
    """Return the address space in which a further context would not have found room; None if all
    had room.
    """
    needed = limit.further_npu_bytes
    if limit.failure is None or needed is None:
        return None
    return next((use for use in limit.domains if use.left_bytes < needed), None)


def limit_sentences(rows: Sequence[Row], texts: Texts) -> list[str]:
    """Return how many fit without reuse, what moves that and what does not, how the next one fails,
    and why.

    Without reuse not measured, how many fit with each mechanism.
    """
    fits = _fits(rows)
    before = next((fit for fit in fits if fit.row.info.baseline is None), None)
    if before:
        sentences = [_without_reuse(before, texts), *_moves(before, fits, texts)]
    else:
        sentences = [_with_reuse(fit, texts) for fit in fits]
    sentences += [*_failures(fits, texts), *_remarks(fits, texts)]
    for row in rows:
        failure = row.info.failure
        if failure and row.supported:
            key = "limit_not_one" if failure.context == 0 else "limit_failed"
            sentences.append(
                texts(key, scenario=texts.scenario(row.scenario), failure=_in_words(failure, texts))
            )
    return sentences


def opening_limit(rows: Sequence[Row], group: str, texts: Texts) -> str | None:
    """Return how many contexts fit without reuse and with what fits most; None if that was not
    measured.
    """
    fits = _fits(rows)
    before = next((fit for fit in fits if fit.row.info.baseline is None), None)
    if before is None:
        return None
    most = max(fits, key=lambda fit: fit.limit.contexts)
    values = {"group": group, "before": before.count(texts)}
    if most.limit.contexts == before.limit.contexts:
        return texts("opening_limit_same", **values)
    return texts("opening_limit_of", scenario=most.name(texts), most=most.count(texts), **values)


def limit_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return what fitted, what it took, and how the next context failed; None if nothing was
    measured.
    """
    lines = []
    fits = _fits(rows)
    has_limit = any(fit.row.info.npu_memory_limit_bytes for fit in fits)
    for fit in fits:
        limit = fit.limit
        total = fit.row.info.npu_memory_limit_bytes
        taken = limit.npu_memory_bytes
        left = None if taken is None or total is None else Figure(total - taken)
        files = [whole(count) for count in (limit.fd_count, limit.fd_limit) if count is not None]
        cells = [
            fit.name(texts),
            fit.number,
            mib(None if taken is None else Figure(taken), npu=True),
            *([mib(left, npu=True)] if has_limit else []),
            mib(
                None if limit.further_npu_bytes is None else Figure(limit.further_npu_bytes),
                npu=True,
            ),
            " / ".join(files),
            _in_words(limit.failure, texts) if limit.failure else texts("limit_none_failed"),
            texts(f"limit_short_{_others(limit)}") if limit.failure else EMPTY,
        ]
        lines.append((fit.row.outcome, cells))
    heads = [
        "column_scenario",
        "column_limit_contexts",
        "column_limit_npu",
        *(["column_limit_left"] if has_limit else []),
        "column_limit_further",
        "column_limit_files",
        "column_limit_failure",
        "column_limit_others",
    ]
    return Table(heads_of(heads, texts), lines, words=(0, -3, -2, -1)) if lines else None


def limit_last_words(rows: Sequence[Row], texts: Texts) -> list[tuple[str, str]]:
    """Return (scenarios, words) of what the library wrote when the next context failed, equal words
    once.
    """
    alike: dict[str, list[_Fit]] = {}
    for fit in _fits(rows):
        if fit.limit.failure and fit.limit.failure.last_words:
            alike.setdefault(fit.limit.failure.last_words, []).append(fit)
    return [(_names(fits, texts), words) for words, fits in alike.items()]


def limit_figure(rows: Sequence[Row], texts: Texts) -> str | None:
    """Draw a bar for each scenario, as long as contexts fit; None if nothing was measured."""
    fits = _fits(rows)
    if not fits:
        return None
    canvas = new_canvas(_ROW_PX * len(fits) + 50)
    axes = canvas.add_subplot()
    middles = [(index + 0.5) * _ROW_PX for index in range(len(fits))]
    for fit, middle in zip(fits, middles):
        bars(
            axes,
            [(0, fit.limit.contexts, middle)],
            _BAR_PX,
            facecolors=scenario_colour(fit.row.scenario),
        )
        label(axes, fit.number, fit.limit.contexts, middle)
    named_rows(axes, [fit.name(texts) for fit in fits], middles, len(fits) * _ROW_PX)
    axes.set_xlim(0, 1.12 * max(fit.limit.contexts for fit in fits))
    axes.set_xlabel(texts("axis_limit"))
    return svg_of(canvas, [])


def limit_records(row: Row) -> list[dict[str, Any]]:
    """Return what fitted in LIMIT_COLUMNS; the failure is in English."""
    limit = row.info.limit
    if limit is None:
        return []
    failure = limit.failure
    same = ("bound", "survived", "npu_memory_bytes", "npu_left_bytes", "fd_count", "fd_limit")
    return [
        {
            **{name: getattr(limit, name) for name in same},
            "contexts_that_fit": limit.contexts,
            "failure_kind": failure.kind if failure else None,
            "failure_phase": failure.phase if failure else None,
            "failure": str(failure.message) if failure else None,
            "npu_memory_limit_bytes": row.info.npu_memory_limit_bytes,
            "further_npu_bytes": rounded(limit.further_npu_bytes),
        }
    ]


def _fits(rows: Sequence[Row]) -> list[_Fit]:
    return [_Fit(row, row.info.limit) for row in rows if row.measured and row.info.limit]


def _names(fits: Sequence[_Fit], texts: Texts) -> str:
    return texts.joined(fit.name(texts) for fit in fits)


def _without_reuse(fit: _Fit, texts: Texts) -> str:
    total = fit.row.info.npu_memory_limit_bytes
    values = {"count": fit.count(texts), "model": fit.row.info.models[0].name}
    if total is None:
        return texts("limit_fits", **values)
    return texts("limit_fits_in", memory=whole_mib(total), **values)


def _with_reuse(fit: _Fit, texts: Texts) -> str:
    model = fit.row.info.models[0].name
    return texts("limit_fits_with", scenario=fit.name(texts), count=fit.count(texts), model=model)


def _moves(before: _Fit, fits: Sequence[_Fit], texts: Texts) -> list[str]:
    """Return which mechanisms fit more contexts, the one that fits most first, and which do not."""
    others = [fit for fit in fits if fit is not before]
    # Where none failed without reuse there is no limit to move.
    if before.limit.failure is None or not others:
        return []
    more = [fit for fit in others if fit.limit.contexts > before.limit.contexts]
    parts = []
    for fit in sorted(more, key=lambda fit: -fit.limit.contexts):
        times = plain(fit.limit.contexts / before.limit.contexts)
        parts.append(
            texts("limit_moves_to", scenario=fit.name(texts), count=fit.count(texts), times=times)
        )
    same = [fit for fit in others if fit not in more]
    return [
        *([texts("limit_moves", parts=texts.joined(parts))] if parts else []),
        *([texts("limit_does_not_move", scenarios=_names(same, texts))] if same else []),
    ]


def _failures(fits: Sequence[_Fit], texts: Texts) -> list[str]:
    """Return how the next context fails, then what becomes of the others, equal ways once."""
    failed = [fit for fit in fits if fit.limit.failure]
    failures: dict[str, list[_Fit]] = {}
    fates: dict[tuple[str, str], list[_Fit]] = {}
    for fit in failed:
        limit = fit.limit
        assert limit.failure is not None
        failures.setdefault(_in_words(limit.failure, texts), []).append(fit)
        after = _in_words(limit.afterwards, texts) if limit.afterwards else ""
        fates.setdefault((_others(limit), after), []).append(fit)
    sentences = []
    for words, alike in failures.items():
        sentences.append(texts("limit_fails", scenarios=_names(alike, texts), failure=words))
    for (fate, words), alike in fates.items():
        names = texts("limit_everywhere") if len(alike) == len(failed) > 1 else _names(alike, texts)
        sentences.append(texts(f"limit_others_{fate}", **{"scenarios": names, "failure": words}))
    return sentences


def _remarks(fits: Sequence[_Fit], texts: Texts) -> list[str]:
    """Return what is to be known of these figures, each remark once with all scenarios that it is
    of.
    """
    files = [fit for fit in fits if is_out_of_files(fit.limit)]
    misleading = [fit for fit in fits if _code_misleads(fit.limit)]
    unfailing = [fit for fit in fits if fit.limit.failure is None]
    bounded = [fit for fit in unfailing if fit.limit.contexts == fit.limit.bound]
    short = [fit for fit in unfailing if fit not in bounded]
    remarks = []
    if files:
        remarks.append(
            texts(
                "limit_files",
                scenarios=_names(files, texts),
                limit=whole(files[0].limit.fd_limit or 0),
            )
        )
    for fit in fits:
        domain = full_domain(fit.limit)
        if domain:
            sizes = {"taken": domain.peak_bytes, "left": domain.left_bytes}
            values = {name: mib(Figure(size), npu=True) for name, size in sizes.items()}
            remarks.append(
                texts("limit_domain", scenario=fit.name(texts), domain=domain.domain, **values)
            )
    if misleading:
        remarks.append(texts("limit_code_misleads", scenarios=_names(misleading, texts)))
    if bounded:
        remarks.append(
            texts(
                "limit_bound", scenarios=_names(bounded, texts), bound=whole(bounded[0].limit.bound)
            )
        )
    if short:
        remarks.append(texts("limit_system_memory", scenarios=_names(short, texts)))
    for fit in fits:
        if fit.limit.npu_left_bytes:
            left = mib(Figure(fit.limit.npu_left_bytes), npu=True)
            remarks.append(texts("limit_left", scenario=fit.name(texts), left=left))
    return remarks


def _code_misleads(limit: ContextLimit) -> bool:
    """Whether memory ran out and a call returned another code, though the library wrote that it got
    none.
    """
    if limit.failure is None or is_out_of_files(limit) or full_domain(limit):
        return False
    name = limit.failure.message.values.get("name", "MALLOC")
    return "MALLOC" not in str(name) and bool(_NO_MEMORY.search(limit.failure.last_words))


def _others(limit: ContextLimit) -> str:
    """Return what becomes of the contexts that fitted: "run", "fail" or "lost"."""
    if not limit.survived:
        return "lost"
    return "fail" if limit.afterwards else "run"


def _in_words(failure: Failure, texts: Texts) -> str:
    """Return in which step a context failed, and with what: of a call its code, of a process its
    end.

    Causes are left out: the library's lines are below, and a remedy is no answer to how the next
    one fails.
    """
    values = failure.message.values
    step = texts.words.get(f"limit_in_{failure.phase}", failure.phase)
    if {"call", "code", "name"} <= values.keys():
        name = values["name"]
        words = texts.message(name) if isinstance(name, Message) else name
        return texts("limit_call", step=step, call=values["call"], code=values["code"], name=words)
    end = values.get("end")
    return texts(
        "limit_failure",
        step=step,
        message=texts.message(end if isinstance(end, Message) else failure.message),
    )
