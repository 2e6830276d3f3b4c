"""The verdict on an applied program: what it saves, what differs, and what became worse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reusebench.apply.comparison.document import ComparedFigure, ComparedProgram
from reusebench.apply.comparison.figures import UNDECIDED, WORSE, Comparison, compare_figures
from reusebench.apply.comparison.measuring import Measured
from reusebench.apply.comparison.outputs import (
    DIFFERENT,
    EQUAL,
    NOT_COMPUTED,
    UNKNOWN,
    VARIES,
    Finding,
    compare_models,
    compare_text,
)
from reusebench.apply.comparison.runs import Run, Side
from reusebench.apply.comparison.task import ComparisonTask
from reusebench.apply.report import ProcessReport, totals
from reusebench.storage.formatting import mib, seconds
from reusebench.storage.measured_figure import Figure

__all__ = ["Verdict", "judge"]

_OK, _WORSE, _UNDECIDED = 0, 1, 2
#: Names of figures in sentences.
_TITLES = {
    "application_memory": "application memory",
    "npu_memory": "NPU memory",
    "time": "time",
}


@dataclass(frozen=True)
class Verdict:
    """What is known of both sides."""

    measured: Measured
    figures: Sequence[Comparison]
    models: Finding
    text: Finding
    problems: Sequence[str]
    doubts: Sequence[str]

    @property
    def reports(self) -> Sequence[ProcessReport]:
        """The reports of the last applied run that has some."""
        for run in reversed(self.measured.applied.all_runs):
            if run.reports:
                return run.reports
        return ()

    def exit_code(self, is_strict: bool) -> int:
        """0: equal, and nothing is worse; 1: it is not; 2: it cannot be told."""
        if self.problems:
            return _WORSE
        if not self.figures:
            return _UNDECIDED
        return _UNDECIDED if is_strict and self.doubts else _OK

    def lines(self) -> Iterator[str]:
        """Yield the verdict for people, without what was shared."""
        if self.figures:
            yield ", ".join(self._figures())
        yield f"{self.models.words}, {self.text.words}"
        yield from (f"WORSE: {problem}" for problem in self.problems)
        yield from (f"undecided: {doubt}" for doubt in self.doubts)
        if not (self.problems or self.doubts):
            yield "nothing became worse"

    def document(self, is_strict: bool) -> ComparedProgram:
        """Return the verdict for programs."""
        figures = {figure.name: _document(figure) for figure in self.figures}
        sums = totals(self.reports)
        return ComparedProgram(
            verdict=("ok", "worse", "undecided")[self.exit_code(is_strict)],
            application_memory_bytes=figures.get("application_memory"),
            usual_application_memory_bytes=figures.get("usual_application_memory"),
            peak_rss_bytes=figures.get("peak_rss"),
            npu_memory_bytes=figures.get("npu_memory"),
            time_ns=figures.get("time"),
            cpu_time_ns=figures.get("cpu_time"),
            output_equal=self._are_outputs_equal(),
            models_equal=_truth(self.models),
            standard_output_equal=_truth(self.text),
            shared=sums.shared,
            left_alone=sums.left_alone,
            as_is_endings=tuple(run.ending for run in self.measured.as_is.all_runs),
            applied_endings=tuple(run.ending for run in self.measured.applied.all_runs),
            problems=tuple(self.problems),
            doubts=tuple(self.doubts),
            run=str(self.measured.stored) if self.measured.stored else None,
        )

    def _are_outputs_equal(self) -> bool | None:
        results = {self.models.result, self.text.result}
        if DIFFERENT in results:
            return False
        is_compared = self.models.result in (EQUAL, NOT_COMPUTED)
        return True if is_compared and EQUAL in results and UNKNOWN not in results else None

    def _figures(self) -> Iterator[str]:
        by_name = {figure.name: figure for figure in self.figures}
        if "application_memory" in by_name:
            yield _memory_words(by_name["application_memory"])
        if "npu_memory" in by_name:
            npu = by_name["npu_memory"]
            yield (f"NPU memory {_npu_mib(npu.as_is)} -> {_npu_mib(npu.applied)} MiB")
        if "time" in by_name:
            time = by_name["time"]
            error = time.difference.error
            spread = "" if error is None else f" (± {seconds(Figure(error))})"
            yield (
                f"time {seconds(time.applied, spread=False)} s against"
                f" {seconds(time.as_is, spread=False)}{spread}"
            )


def judge(task: ComparisonTask, measured: Measured) -> Verdict:
    """Compare the two sides."""
    as_is, applied = measured.as_is, measured.applied
    # An emulator's time is no board's, and a program that runs for a given time takes that.
    is_timed = task.computes and task.duration_s is None
    figures = compare_figures(as_is.runs, applied.runs, is_timed)
    models = compare_models(as_is, applied, task.computes)
    text = compare_text(as_is, applied, models.result == EQUAL)
    failed = next((run for run in as_is.all_runs if run.has_failed), None)
    if failed:
        return Verdict(measured, [], models, text, [], [f"as it is: {failed.end_words}"])
    problems = [
        *_problems_of_endings(as_is, applied),
        *_problems_of_ledgers(as_is, applied),
        *(finding.words for finding in (models, text) if finding.result == DIFFERENT),
    ]
    unclear = (UNKNOWN,) if models.result == EQUAL else (UNKNOWN, VARIES)
    doubts = [finding.words for finding in (models, text) if finding.result in unclear]
    for figure in figures:
        if figure.is_judged and figure.outcome == WORSE:
            problems.append(_change_words(figure))
        if figure.is_judged and figure.outcome == UNDECIDED:
            doubts.append(f"{_change_words(figure)}. More --repeats tell")
    return Verdict(measured, figures, models, text, problems, doubts)


def _problems_of_endings(as_is: Side, applied: Side) -> Iterator[str]:
    before = dict.fromkeys(run.ending for run in as_is.all_runs)
    for ending in dict.fromkeys(run.ending for run in applied.all_runs):
        if ending not in before:
            run = next(run for run in applied.all_runs if run.ending == ending)
            yield f"as it is: {' or '.join(before)}; applied: {run.end_words}"


def _problems_of_ledgers(as_is: Side, applied: Side) -> Iterator[str]:
    """Yield reads of wrong memory, and buffers that were not given back."""
    before, after = _most_wrong_reads(as_is.all_runs), _most_wrong_reads(applied.all_runs)
    if after:
        yield (
            f"the NPU reads memory that was freed, or is in no buffer: {after} places applied,"
            f" {before} as it is"
        )
    before, after = _most_left(as_is.all_runs), _most_left(applied.all_runs)
    if after > before:
        yield (
            f"NPU memory was not given back at the end: {mib(Figure(after), npu=True)} MiB applied,"
            f" {mib(Figure(before), npu=True)} as it is"
        )


def _most_wrong_reads(runs: Sequence[Run]) -> int:
    ledgers = [run.recording.ledger for run in runs]
    return max((len(ledger.wrong_reads()) for ledger in ledgers if ledger), default=0)


def _most_left(runs: Sequence[Run]) -> int:
    """Return the most that a run, which ended by itself, had at its end."""
    sizes = [0]
    for run in runs:
        ledger = run.recording.ledger
        if ledger and not run.recording.is_cut:
            sizes.append(ledger.live_bytes(run.recording.end_ns))
    return max(sizes)


def _memory_words(figure: Comparison) -> str:
    difference = figure.difference
    as_is = mib(figure.as_is, spread=False)
    error = difference.error
    if error is None or abs(difference.change) <= error:
        spread = "" if error is None else f" (± {mib(Figure(error))})"
        return (
            f"application memory {as_is} -> {mib(figure.applied, spread=False)} MiB{spread}, no"
            " change that could be shown"
        )
    verb = "saves" if difference.change < 0 else "takes"
    more = "of" if difference.change < 0 else "more than the"
    percent = abs(difference.percent or 0)
    return (
        f"{verb} {mib(Figure(abs(difference.change)))} ± {mib(Figure(error))} MiB {more} {as_is}"
        f" ({percent:.0f} %)"
    )


def _npu_mib(figure: Figure) -> str:
    """Return the size; its spread only if the repeats differ."""
    return mib(figure, npu=True, spread=bool(figure.spread))


def _change_words(figure: Comparison) -> str:
    """Return by how much a figure is, or may be, worse than allowed."""
    difference = figure.difference
    base = difference.base_mean or 1
    error = difference.error
    spread = "" if error is None else f" ± {100 * error / base:.1f}"
    return (
        f"{_TITLES[figure.name]}: {100 * difference.change / base:+.1f}{spread} %, allowed"
        f" {100 * figure.allowed / base:.1f}"
    )


def _document(figure: Comparison) -> ComparedFigure:
    return ComparedFigure(
        as_is=figure.as_is.median,
        applied=figure.applied.median,
        as_is_repeats=figure.as_is.values,
        applied_repeats=figure.applied.values,
        change=figure.difference.change,
        error=figure.difference.error,
        outcome=figure.outcome,
    )


def _truth(finding: Finding) -> bool | None:
    return {EQUAL: True, DIFFERENT: False}.get(finding.result)
