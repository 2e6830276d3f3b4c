"""The summary of a stored result: what a report needs of all results, besides those it shows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import NamedTuple, Optional

from reusebench.storage.measured_figure import Figure
from reusebench.storage.recorded_program import Program
from reusebench.storage.result import Result
from reusebench.storage.result_figures import latency, memory, rate
from reusebench.storage.run_file import StoredRun
from reusebench.storage.savings import NPU

__all__ = ["PROGRAM", "ResultSummary", "summaries_of", "summary_of", "workload_of"]

#: The runtime of a recorded program.
PROGRAM = "program"
#: Digits of a digest, enough to distinguish the contents of all runs.
_DIGITS = 24


class ResultSummary(NamedTuple):
    """A result, or a recorded program, whose `scenario` is its name.

    Fields with the name of one of Result have the same meaning; a program lacks most of them.
    Figures are rounded medians as exported tables have them, and None if the result failed.
    """

    board: str
    #: False if the board was never reached, so that nothing is known of its machine.
    has_machine: bool
    runtime: str
    scenario: str
    outcome: str
    #: Id of the commit, as the file has it.
    commit: Optional[str]
    #: Short memory, as codes with a space between; None if there was enough.
    memory_short: Optional[str]
    #: Identity of the session: `run` of Result, which here is a file.
    session: Optional[str] = None
    runtime_version: Optional[str] = None
    target: Optional[str] = None
    chip: Optional[str] = None
    npu_memory_limit_bytes: Optional[int] = None
    python_version: Optional[str] = None
    streams: Optional[int] = None
    contexts: Optional[int] = None
    cores: Optional[int] = None
    counted_by: Optional[str] = None
    baseline: Optional[str] = None
    measured_as: Optional[str] = None
    model_digests: tuple[str, ...] = ()
    model_names: tuple[str, ...] = ()
    model_files: Optional[int] = None
    #: See workload_of.
    workload: Optional[str] = None
    application_memory_bytes: Optional[int] = None
    application_memory_spread_bytes: Optional[int] = None
    npu_memory_bytes: Optional[int] = None
    latency_ns: Optional[int] = None
    throughput_per_s: Optional[float] = None
    #: Digest of what the results of the file are of, without their figures: two files with the same
    #: one have results of the same configurations under the same conditions.
    contents: str = ""


def summaries_of(file: StoredRun) -> Iterator[ResultSummary]:
    """Yield the summary of each result, then of each program, in the order of the file."""
    summaries = [summary_of(stored.info, file) for stored in file.results]
    contents = _digest(sorted(map(_identity, summaries)))
    for summary in summaries:
        yield summary._replace(contents=contents)
    for program in file.programs:
        yield ResultSummary(
            file.board,
            has_machine=True,
            runtime=PROGRAM,
            scenario=program.name,
            outcome=program.outcome,
            commit=file.commit.id,
            memory_short=_codes(program),
            contents=contents,
        )


def summary_of(result: Result, file: StoredRun) -> ResultSummary:
    """Return the summary of one result of the file, without `contents`."""
    is_measured = result.outcome == "ok"
    has_rate = is_measured and result.plan.schedule is None
    application = memory(result, "application_memory_bytes") if is_measured else None
    board = file.board_of(result)
    return ResultSummary(
        board,
        has_machine=file.machines.get(board, file.machine) is not None,
        runtime=result.runtime,
        scenario=result.scenario,
        outcome=result.outcome,
        commit=file.commit.id,
        memory_short=_codes(result),
        session=result.run,
        runtime_version=result.runtime_version,
        target=result.target,
        chip=result.chip,
        npu_memory_limit_bytes=result.npu_memory_limit_bytes,
        python_version=result.python_version,
        streams=result.streams,
        contexts=result.contexts,
        cores=result.cores,
        counted_by=result.counted_by,
        baseline=result.baseline,
        measured_as=result.measured_as,
        model_digests=tuple(model.digest for model in result.models),
        model_names=tuple(model.name for model in result.models),
        model_files=result.model_files,
        workload=workload_of(result),
        application_memory_bytes=_whole(application.median if application else None),
        application_memory_spread_bytes=_whole(application.spread if application else None),
        npu_memory_bytes=_median(memory(result, NPU) if is_measured else None),
        latency_ns=_median(latency(result) if has_rate else None),
        throughput_per_s=_rate(rate(result) if has_rate else None),
    )


def workload_of(result: Result) -> str | None:
    """Return the task of streams or conversations as JSON, equal wherever a video lies.

    None if contexts only infer.
    """
    schedule = result.plan.schedule
    conversation = result.plan.conversation
    if conversation is not None:
        return json.dumps([asdict(conversation), _common_options(result)])
    if schedule is None:
        return None
    return json.dumps(
        [
            schedule.count,
            schedule.fps,
            schedule.queue,
            schedule.warm_up_s,
            schedule.duration_s,
            schedule.video.digest if schedule.video else None,
        ]
    )


def _common_options(result: Result) -> list[str]:
    """Return the options that every context has but the one that is its scenario's name."""
    options = [set(context.options) for context in result.plan.contexts if context.source is None]
    common = set.intersection(*options) if options else set()
    return sorted(common - {result.scenario})


def _identity(summary: ResultSummary) -> str:
    """Return all that decides which group and row a result belongs to."""
    without_figures = summary[: summary._fields.index("application_memory_bytes")]
    of_one_run = {"outcome", "commit", "memory_short", "session", "measured_as"}
    return json.dumps(
        [value for name, value in zip(summary._fields, without_figures) if name not in of_one_run]
    )


def _digest(texts: list[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:_DIGITS]


def _codes(measured: Result | Program) -> str | None:
    return " ".join(message.code for message in measured.shortage_signs) or None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _median(figure: Figure | None) -> int | None:
    return _whole(figure.median if figure else None)


def _rate(figure: Figure | None) -> float | None:
    return round(figure.median, 3) if figure else None
