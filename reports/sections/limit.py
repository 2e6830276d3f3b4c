"""The question of limits: how many contexts fit, and what happens when no more do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from reusebench.accounting.domains import DomainUse
from reusebench.measured.messages import Message
from reusebench.reports.base.drawing import (
    Draw,
    Rows,
    bars,
    end_with_room,
    new_canvas,
    svg_of,
    write_labels,
)
from reusebench.reports.base.formatting import EMPTY, mib, plain, whole, whole_mib
from reusebench.reports.base.paper import WIDE, Paper
from reusebench.reports.base.statistics import Figure, rounded
from reusebench.reports.base.table import Table, heads_of
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.colours import scenario_colour
from reusebench.reports.results.rows import Row
from reusebench.reports.sections.question import QuestionSection
from reusebench.reports.sections.section import GroupView, Values
from reusebench.scenarios.catalogue import LIMIT
from reusebench.storage.result import ContextLimit, Failure

#: Prefix of the scenarios' names, before the name of the scenario with the same mechanism.
_PREFIX = "limit_"
#: Messages of libraries that get no memory.
_NO_MEMORY = re.compile(r"fail\w* to m?alloc|alloc\w* failed|cannot allocate memory", re.IGNORECASE)
#: Columns of the exported table; new ones come at the end.
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
    """The number of contexts that fit."""

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

    def part_summary(self, view: GroupView) -> str | None:
        """Return the numbers of contexts that fit, without reuse and at most."""
        return limit_in_words(view.rows, view.texts)

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
        """The number of contexts for a table, with "≥" if none failed."""
        count = whole(self.limit.contexts)
        return count if self.limit.failure else f"≥ {count}"

    def count(self, texts: Texts) -> str:
        """Return the number of contexts for a sentence, with "at least" if none failed."""
        count = whole(self.limit.contexts)
        if self.limit.failure:
            return count
        return texts("limit_at_least", count=count)

    def names(self, texts: Texts) -> str:
        """Return its name, and those of scenarios with an equal plan."""
        return " = ".join(texts.scenario(name.removeprefix(_PREFIX)) for name in self.row.names)

    def name(self, texts: Texts) -> str:
        """Return the name of the mechanism: every scenario here goes on until a context fails."""
        return texts.scenario(self.row.scenario.removeprefix(_PREFIX))


def is_out_of_files(limit: ContextLimit) -> bool:
    """Whether too few file descriptors were left for another context.

    Libraries report that as lack of memory.
    """
    if limit.failure is None or limit.fd_limit is None or limit.further_fds is None:
        return False
    return limit.fd_count + limit.further_fds > limit.fd_limit


def full_domain(limit: ContextLimit) -> DomainUse | None:
    """Return the address space without room for another context; None if all have room."""
    needed_bytes = limit.further_npu_bytes
    if limit.failure is None or needed_bytes is None:
        return None
    return next((domain for domain in limit.domains if domain.left_bytes < needed_bytes), None)


def limit_sentences(rows: Sequence[Row], texts: Texts) -> list[str]:
    """Return sentences on how many contexts fit, and how the next one fails."""
    fits = _fits(rows)
    before = _without_reuse(fits)
    if before:
        sentences = [_before_in_words(before, texts), *_moves(before, fits, texts)]
    else:
        sentences = [_with_reuse(fit, texts) for fit in fits]
    sentences += [*_failures(fits, texts), *_remarks(fits, texts)]
    for row in rows:
        failure = row.info.failure
        if failure and row.supported:
            key = "limit_not_one" if failure.context == 0 else "limit_failed"
            scenario = texts.scenario(row.scenario)
            sentences.append(texts(key, scenario=scenario, failure=_in_words(failure, texts)))
    return sentences


def limit_in_words(rows: Sequence[Row], texts: Texts) -> str | None:
    """Return the contexts that fit without reuse and at most; None if not measured."""
    fits = _fits(rows)
    before = _without_reuse(fits)
    if before is None:
        return None
    most = max(fits, key=lambda fit: fit.limit.contexts)
    if most.limit.contexts == before.limit.contexts:
        return texts("summary_limit_same", before=before.count(texts))
    return texts(
        "summary_limit_of",
        before=before.count(texts),
        scenario=most.name(texts),
        most=most.count(texts),
    )


def limit_table(rows: Sequence[Row], texts: Texts) -> Table | None:
    """Return a row for each scenario; None if nothing was measured.

    It has the contexts that fitted, the memory that they took, and how the next context failed.
    """
    fits = _fits(rows)
    if not fits:
        return None
    has_memory_limit = any(fit.row.info.npu_memory_limit_bytes for fit in fits)
    lines = []
    for fit in fits:
        limit = fit.limit
        counts = [whole(count) for count in (limit.fd_count, limit.fd_limit) if count is not None]
        cells = [fit.names(texts), fit.number, _npu_mib(limit.npu_memory_bytes)]
        if has_memory_limit:
            cells.append(_npu_mib(_npu_bytes_left(fit)))
        cells += [_npu_mib(limit.further_npu_bytes), " / ".join(counts)]
        if limit.failure:
            others = texts(f"limit_short_{_others(limit)}")
            cells += [_in_words(limit.failure, texts), others]
        else:
            cells += [texts("limit_none_failed"), EMPTY]
        lines.append((fit.row.outcome, cells))
    heads = ["column_scenario", "column_limit_contexts", "column_limit_npu"]
    if has_memory_limit:
        heads.append("column_limit_left")
    heads += ["column_limit_further", "column_limit_files"]
    heads += ["column_limit_failure", "column_limit_others"]
    return Table(heads_of(heads, texts), lines, words=(0, -3, -2, -1), exported="limits")


def limit_last_words(rows: Sequence[Row], texts: Texts) -> list[tuple[str, str]]:
    """Return (scenarios, words) that libraries wrote at the failure; equal words stand once."""
    alike: dict[str, list[_Fit]] = {}
    for fit in _fits(rows):
        if fit.limit.failure and fit.limit.failure.last_words:
            alike.setdefault(fit.limit.failure.last_words, []).append(fit)
    return [(_names(fits, texts), words) for words, fits in alike.items()]


def limit_figure(rows: Sequence[Row], texts: Texts, paper: Paper = WIDE) -> str | None:
    """Draw the number of contexts of each scenario as a bar; None if nothing was measured."""
    fits = _fits(rows)
    if not fits:
        return None
    lanes = Rows(paper)
    labels = []
    for fit in fits:
        middle = lanes.add(fit.name(texts), _ROW_PX) + _ROW_PX / 2
        labels.append((fit.number, fit.limit.contexts, middle))
    canvas = new_canvas(lanes.end_px + 50, paper)
    axes = canvas.add_subplot()
    for fit, (_, contexts, middle) in zip(fits, labels):
        colour = scenario_colour(fit.row.scenario)
        bars(axes, [(0, contexts, middle)], _BAR_PX, facecolors=colour)
    write_labels(axes, labels)
    lanes.draw_names(axes)
    axes.set_xlim(0, end_with_room(labels, lanes.panel_px))
    axes.set_xlabel(texts("axis_limit"))
    return svg_of(canvas, [])


def limit_records(row: Row) -> list[dict[str, Any]]:
    """Return a record in LIMIT_COLUMNS; the failure is in English."""
    limit = row.info.limit
    if limit is None:
        return []
    record: dict[str, Any] = {
        **dict.fromkeys(LIMIT_COLUMNS),
        "contexts_that_fit": limit.contexts,
        "bound": limit.bound,
        "survived": limit.survived,
        "npu_memory_limit_bytes": row.info.npu_memory_limit_bytes,
        "npu_memory_bytes": limit.npu_memory_bytes,
        "further_npu_bytes": rounded(limit.further_npu_bytes),
        "npu_left_bytes": limit.npu_left_bytes,
        "fd_count": limit.fd_count,
        "fd_limit": limit.fd_limit,
    }
    if limit.failure:
        record["failure_kind"] = limit.failure.kind
        record["failure_phase"] = limit.failure.phase
        record["failure"] = str(limit.failure.message)
    return [record]


def _fits(rows: Sequence[Row]) -> list[_Fit]:
    fits = []
    for row in rows:
        if row.measured and row.info.limit:
            fits.append(_Fit(row, row.info.limit))
    return fits


def _without_reuse(fits: Sequence[_Fit]) -> _Fit | None:
    return next((fit for fit in fits if fit.row.info.baseline is None), None)


def _names(fits: Sequence[_Fit], texts: Texts) -> str:
    return texts.joined(fit.name(texts) for fit in fits)


def _npu_mib(size_bytes: float | None) -> str:
    return mib(None if size_bytes is None else Figure(size_bytes), npu=True)


def _npu_bytes_left(fit: _Fit) -> int | None:
    """Return the bytes below the limit of NPU memory; None if either is not known."""
    limit_bytes = fit.row.info.npu_memory_limit_bytes
    taken_bytes = fit.limit.npu_memory_bytes
    if limit_bytes is None or taken_bytes is None:
        return None
    return limit_bytes - taken_bytes


def _before_in_words(fit: _Fit, texts: Texts) -> str:
    count = fit.count(texts)
    model = fit.row.info.models[0].name
    limit_bytes = fit.row.info.npu_memory_limit_bytes
    if limit_bytes is None:
        return texts("limit_fits", count=count, model=model)
    return texts("limit_fits_in", memory=whole_mib(limit_bytes), count=count, model=model)


def _with_reuse(fit: _Fit, texts: Texts) -> str:
    model = fit.row.info.models[0].name
    return texts("limit_fits_with", scenario=fit.name(texts), count=fit.count(texts), model=model)


def _moves(before: _Fit, fits: Sequence[_Fit], texts: Texts) -> list[str]:
    """Return the mechanisms that fit more contexts, the most first, and those that do not."""
    others = [fit for fit in fits if fit is not before]
    # If no context failed without reuse, there is no limit to move.
    if before.limit.failure is None or not others:
        return []
    more = [fit for fit in others if fit.limit.contexts > before.limit.contexts]
    more.sort(key=lambda fit: -fit.limit.contexts)
    sentences = []
    if more:
        parts = []
        for fit in more:
            times = plain(fit.limit.contexts / before.limit.contexts)
            values = {"scenario": fit.name(texts), "count": fit.count(texts), "times": times}
            parts.append(texts("limit_moves_to", **values))
        sentences.append(texts("limit_moves", parts=texts.joined(parts)))
    same = [fit for fit in others if fit not in more]
    if same:
        sentences.append(texts("limit_does_not_move", scenarios=_names(same, texts)))
    return sentences


def _failures(fits: Sequence[_Fit], texts: Texts) -> list[str]:
    """Return the failures of the next context, then the fates of the others; equal ones once."""
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
        is_everywhere = len(alike) == len(failed) > 1
        names = texts("limit_everywhere") if is_everywhere else _names(alike, texts)
        sentences.append(texts(f"limit_others_{fate}", scenarios=names, failure=words))
    return sentences


def _remarks(fits: Sequence[_Fit], texts: Texts) -> list[str]:
    """Return remarks on these figures, each once with all its scenarios."""
    remarks = []
    files = [fit for fit in fits if is_out_of_files(fit.limit)]
    if files:
        limit = whole(files[0].limit.fd_limit or 0)
        runtime = files[0].row.info.runtime
        names = _names(files, texts)
        remarks.append(texts.of_runtime("limit_files", runtime, scenarios=names, limit=limit))
    for fit in fits:
        domain = full_domain(fit.limit)
        if domain:
            remark = texts.of_runtime(
                "limit_domain",
                fit.row.info.runtime,
                scenario=fit.name(texts),
                domain=domain.domain,
                taken=_npu_mib(domain.peak_bytes),
                left=_npu_mib(domain.left_bytes),
            )
            remarks.append(remark)
    misleading = [fit for fit in fits if _code_misleads(fit.limit)]
    if misleading:
        remarks.append(texts("limit_code_misleads", scenarios=_names(misleading, texts)))
    unfailing = [fit for fit in fits if fit.limit.failure is None]
    bounded = [fit for fit in unfailing if fit.limit.contexts == fit.limit.bound]
    if bounded:
        bound = whole(bounded[0].limit.bound)
        remarks.append(texts("limit_bound", scenarios=_names(bounded, texts), bound=bound))
    short = [fit for fit in unfailing if fit not in bounded]
    if short:
        remarks.append(texts("limit_system_memory", scenarios=_names(short, texts)))
    for fit in fits:
        if fit.limit.npu_left_bytes:
            left = _npu_mib(fit.limit.npu_left_bytes)
            remarks.append(texts("limit_left", scenario=fit.name(texts), left=left))
    return remarks


def _code_misleads(limit: ContextLimit) -> bool:
    """Whether a call returned another code, though the library wrote that it got no memory."""
    if limit.failure is None or is_out_of_files(limit) or full_domain(limit):
        return False
    name = limit.failure.message.values.get("name", "MALLOC")
    return "MALLOC" not in str(name) and bool(_NO_MEMORY.search(limit.failure.last_words))


def _others(limit: ContextLimit) -> str:
    """Return the fate of the contexts that fitted: "run", "fail" or "lost"."""
    if not limit.survived:
        return "lost"
    return "fail" if limit.afterwards else "run"


def _in_words(failure: Failure, texts: Texts) -> str:
    """Return the step in which a context failed, and the code of the call or the process's end.

    Causes are left out: the library's lines are below, and a remedy does not say how the next
    context fails.
    """
    values = failure.message.values
    step = texts.words.get(f"limit_in_{failure.phase}", failure.phase)
    if {"call", "code", "name"} <= values.keys():
        name = values["name"]
        words = texts.message(name) if isinstance(name, Message) else name
        return texts("limit_call", step=step, call=values["call"], code=values["code"], name=words)
    end = values.get("end")
    message = end if isinstance(end, Message) else failure.message
    return texts("limit_failure", step=step, message=texts.message(message))
