"""The comparison: which stored results stand beside each other, and what each saves against its
baseline.

Scenarios with equal plans are measured once in a session and stored under each name: one of them is
the row, the others are copies of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Union

from reusebench.accounting.account import Account
from reusebench.measured.plan import Streams
from reusebench.reports.base.statistics import Figure, difference
from reusebench.reports.results.agreement import TOLERANCE, output_difference
from reusebench.reports.results.savings import APPLICATION, NPU, OVER_BASELINE, Saving, saving_of
from reusebench.scenarios.catalogue import (
    DEFAULT_OPTIONS,
    LEAN,
    OPTIONS,
    OTHER_QUESTION,
    PLANS,
    QUESTIONS,
    SCENARIOS,
    STREAMS,
    name_of_plan,
    question_of,
    without_reuse,
)
from reusebench.storage.result import BUSY_PERCENT, Result, StreamsRun
from reusebench.storage.run_file import StoredResult, StoredRun

#: What must be equal, besides the board, before two results stand in one table. A saving besides
#: needs equal models. Results that were stored before there was a `chip` have none.
GROUP_CONDITIONS = (
    "runtime",
    "runtime_version",
    "target",
    "chip",
    "npu_memory_limit_bytes",
    "python_version",
    "streams",
    "contexts",
    "cores",
)

#: Of these a user's plan says itself how many it has: plans of several layouts stand in one table.
_OF_LAYOUT = ("streams", "contexts", "cores")

#: The question that LEAN goes on with, if it begins with a scenario of it.
_DUP = "dup"
_ORDER = {scenario.name: position for position, scenario in enumerate(SCENARIOS)}
_MODEL_SETS = {scenario.name: scenario.model_set for scenario in SCENARIOS}
_VARIANTS = {scenario.name for scenario in SCENARIOS if scenario.is_variant}

_Conditions = tuple[Union[str, int, None], ...]
#: Digests of the models.
_Models = tuple[str, ...]
#: What streams were given to do: numbers of the schedule, and the digest of the video.
_Workload = tuple[Union[float, str, None], ...]


@dataclass(frozen=True, eq=False)
class Row:
    """One configuration: its newest result, and its baseline's row where it has one."""

    result: StoredResult
    file: StoredRun
    baseline: Row | None
    #: The row that it is a copy of; None: it is none.
    original: Row | None = None
    #: The other scenarios with an equal plan, which were measured once with it.
    equal: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The scenario's name, and those of its equals."""
        return (self.scenario, *self.equal)

    @property
    def baseline_name(self) -> str | None:
        """The scenario of its baseline; if that is a copy, the scenario of the copied row."""
        return (
            (self.baseline.original or self.baseline).scenario
            if self.baseline
            else self.info.baseline
        )

    @property
    def is_left_out(self) -> bool:
        """Whether it is a copy of a row that answers the same question."""
        return self.original is not None and self.original.question == self.question

    @property
    def info(self) -> Result:
        """The stored result."""
        return self.result.info

    @property
    def scenario(self) -> str:
        """The scenario's name."""
        return self.info.scenario

    @property
    def storage(self) -> Path:
        """The folder that the traces' paths are relative to."""
        return self.file.path.parent.parent

    @property
    def busy_percent(self) -> float:
        """How busy the machine was with other work before the processes started, at most."""
        return max(self.info.speed.idle_cpu_percent, default=0.0)

    @property
    def system_noise_bytes(self) -> int | None:
        """By how much system memory moved in the idle time before a process, at most; None if it
        was not read.
        """
        noises = self.info.memory.system_memory_noise_bytes if self.measured else ()
        return max((noise for noise in noises if noise is not None), default=None)

    @property
    def is_disturbed(self) -> bool:
        """Whether other work, or a shortage of memory, may show in its speed, or in that of its
        baseline.
        """
        rows = [row for row in (self, self.baseline) if row]
        return any(row.busy_percent > BUSY_PERCENT or row.is_short for row in rows)

    @property
    def is_short(self) -> bool:
        """Whether memory was short while it was measured, so that all of it but that of an NPU
        reads too small.
        """
        return bool(self.info.shortage_signs)

    @property
    def is_compared_with_short(self) -> bool:
        """Whether memory was short for it or for its baseline, so that its savings are not true."""
        return any(row.is_short for row in (self, self.baseline) if row)

    @cached_property
    def question(self) -> str:
        """The question that the scenario answers, a key of QUESTIONS or OTHER_QUESTION.

        The scenarios of LEAN belong to dup if they begin with one of dup, so that they stand beside
        their equals.
        """
        question = question_of(self.scenario, self.info.baseline)
        first = self.baseline or self.original
        return _DUP if question == LEAN and first and first.question == _DUP else question

    @property
    def model_set(self) -> str:
        """Which of the session's models the scenario uses, one of MODEL_SETS; a user's plan has a
        set of its own.
        """
        return _model_set(self.info)

    @property
    def is_variant(self) -> bool:
        """Whether another scenario shows the same mechanism."""
        return self.scenario in _VARIANTS or (
            self.question == OPTIONS and self.scenario != DEFAULT_OPTIONS
        )

    @property
    def computes(self) -> bool:
        """Whether the NPU's arithmetic was there, so that speed and outputs mean something."""
        return self.info.computes

    @property
    def emulated(self) -> bool:
        """Whether an emulator is in its memory; where that was not stored, virtual boards are taken
        for emulated.
        """
        return not self.computes if self.info.emulated is None else self.info.emulated

    @cached_property
    def outcome(self) -> str:
        """The stored outcome; outputs that differ from the stored baseline's count as such too.

        Another option may be another algorithm, which rounds in another way: TOLERANCE is allowed
        there.
        """
        outcome = self.info.outcome
        if outcome == "ok" and self.baseline and self.baseline.info.outcome == "ok":
            same = self.info.output_digests == self.baseline.info.output_digests
            comparable = self.computes and self.baseline.computes
            if same or not comparable:
                return "ok"
            difference = self.output_difference if self.options != self.baseline.options else None
            return "outputs_differ" if difference is None or difference > TOLERANCE else "ok"
        return outcome

    @property
    def options(self) -> set[str]:
        """The runtime's own options that its contexts have."""
        return {option for context in self.info.plan.contexts for option in context.options}

    @property
    def output_difference(self) -> float | None:
        """The largest relative difference of its outputs from its baseline's; 0 where they are
        bit-equal.

        None if it is not known.
        """
        return output_difference(self.info, self.baseline.info) if self.baseline else None

    @property
    def supported(self) -> bool:
        """Whether the runtime has what the scenario needs."""
        return self.outcome != "not_supported"

    @property
    def measured(self) -> bool:
        """Whether its figures may be compared: those of an option too that gives other outputs, as
        fewer bits do.
        """
        if self.outcome == "ok":
            return True
        has_other_options = self.baseline is not None and self.options != self.baseline.options
        return self.info.outcome == "ok" and has_other_options

    def memory(self, name: str) -> Figure | None:
        """Return a figure of storage.result.Memory over the repeats; None if it was not
        measured, or not stored.
        """
        return Figure.of(getattr(self.info.memory, name)) if self.measured else None

    @property
    def accounts(self) -> list[Account]:
        """The accounts of NPU memory, one per repeat that has one, whatever the outcome."""
        return [repeat.npu for repeat in self.info.repeats if repeat.npu]

    @property
    def schedule(self) -> Streams | None:
        """The plan's streams of frames; None if every context infers again and again."""
        return self.info.plan.schedule

    @property
    def is_compared(self) -> bool:
        """Whether its contexts have a steady phase by which scenarios are compared: no streams,
        cycles or counting.
        """
        plan = self.info.plan
        return plan.schedule is None and plan.cycles is None and not plan.fills

    @property
    def frames(self) -> list[StreamsRun]:
        """What the streams did, of each repeat that came so far, whatever the outcome."""
        return [streams for streams in self.info.frames if streams]

    @property
    def latency(self) -> Figure | None:
        """Latency in nanoseconds: the median over all inferences, the spread over the medians of
        the repeats.

        Frames of streams have another one, from the time that each was due.
        """
        if not self.measured or self.result.stats is None or self.schedule:
            return None
        repeats = Figure.of(self.info.speed.latency_median_ns)
        return Figure(self.result.stats.median * 1e9, repeats.spread if repeats else None)

    @property
    def latency_saved(self) -> Figure | None:
        """Latency in nanoseconds that the baseline takes more than this."""
        return difference(self.baseline.latency, self.latency) if self.baseline else None

    @property
    def throughput(self) -> Figure | None:
        """Inferences per second of all contexts together; streams have frames, as many as are
        due.
        """
        return (
            Figure.of(self.info.speed.throughput_per_s)
            if self.measured and not self.schedule
            else None
        )

    def saving(self, memory: str) -> Saving | None:
        """Return what it saves of a figure of storage.result.Memory; None if that is not known
        of both.
        """
        return (
            saving_of(memory, self.baseline.memory(memory), self.memory(memory))
            if self.baseline
            else None
        )

    @property
    def main_saving(self) -> Saving | None:
        """What it saves of NPU memory; if there is none, of the application's over the
        import.
        """
        return self.saving(NPU) or self.saving(OVER_BASELINE)

    def saved(self, memory: str = APPLICATION) -> Figure | None:
        """Return the bytes that it saves of a memory."""
        saving = self.saving(memory)
        return saving.saved if saving else None

    def saved_percent(self, memory: str = APPLICATION) -> Figure | None:
        """Return what it saves of a memory, in percent of what the baseline takes."""
        saving = self.saving(memory)
        return saving.percent if saving else None

    @property
    def models(self) -> str:
        """The models' names; with a note where files serve several streams in turn."""
        names = ", ".join(model.name for model in self.info.models)
        note = f" ({self.info.model_files} for {self.info.streams} streams, in turn)"
        return names + note if self.models_in_turn else names

    @property
    def models_in_turn(self) -> bool:
        """Whether there were fewer files than streams, so that some serve several."""
        files = self.info.model_files
        every_stream_has_one = self.model_set == STREAMS and len(self.info.models) == files
        return every_stream_has_one and files < self.info.streams


@dataclass(frozen=True)
class Group:
    """Rows measured under the same conditions, with the same models, in the order of the
    scenarios.
    """

    #: Every measurement once.
    rows: tuple[Row, ...]
    #: What is stored of the same measurements under the names of other scenarios.
    copies: tuple[Row, ...] = ()

    @property
    def info(self) -> Result:
        """A result: the conditions are the same in every row's."""
        return self.rows[0].info

    @property
    def board(self) -> str:
        """The board that it was measured on; results of two boards never stand in one group."""
        return self.newest.board

    @property
    def computes(self) -> bool:
        """Whether speed and outputs mean something; all rows are of one target."""
        return all(row.computes for row in self.rows)

    @property
    def emulated(self) -> bool:
        """Whether an emulator is in application memory."""
        return any(row.emulated for row in self.rows)

    @property
    def short_version(self) -> str | None:
        """The runtime's version without the build that Rockchip's libraries name after it."""
        version = self.info.runtime_version
        return version.partition(" ")[0] if version else None

    @property
    def has_npu_memory(self) -> bool:
        """Whether a row has a figure of NPU memory."""
        return any(row.memory("npu_memory_bytes") for row in self.rows)

    @property
    def is_of_plans(self) -> bool:
        """Whether its rows are plans of the user's, which share no group with built-in
        scenarios.
        """
        return self.rows[0].question == PLANS

    @property
    def questions(self) -> dict[str, list[Row]]:
        """The rows by the question that they answer, in the order of QUESTIONS.

        If a row answers two, as one may of external memory and of copies, the second has the copy.
        """
        shown = [row for row in self.all_rows if not row.is_left_out]
        questions = {
            name: [row for row in shown if row.question == name]
            for name in (*QUESTIONS, OTHER_QUESTION)
        }
        return {name: rows for name, rows in questions.items() if rows}

    @property
    def all_rows(self) -> list[Row]:
        """The rows and the copies, in the order of the scenarios."""
        return sorted((*self.rows, *self.copies), key=lambda row: _place(row.info))

    def named(self, scenario: str) -> list[Row]:
        """Return the rows and copies of a scenario, one for each set of models that it was measured
        with.
        """
        return [row for row in self.all_rows if row.scenario == scenario]

    @property
    def newest(self) -> StoredRun:
        """The latest run that a row came from."""
        return max((row.file for row in self.rows), key=lambda file: file.order)


@dataclass(frozen=True, eq=False)
class _Gathering:
    """Results that are to become a group, from runs taken newest first."""

    conditions: _Conditions
    #: The first model of each set, which tells the sets of two runs apart: some scenarios use no
    #: other of it.
    firsts: dict[str, str]
    #: By scenario, models and workload.
    members: dict[tuple[str, _Models, _Workload | None], tuple[StoredResult, StoredRun]]

    def takes(self, conditions: _Conditions, firsts: dict[str, str]) -> bool:
        """Whether a run under these conditions uses, of each set that both have, the same
        models.
        """
        same = all(self.firsts.get(name, first) == first for name, first in firsts.items())
        return same and self.conditions == conditions

    def add(self, results: Iterable[StoredResult], file: StoredRun, firsts: dict[str, str]) -> None:
        """Take what no newer run has measured."""
        self.firsts.update(firsts)
        for result in results:
            info = result.info
            self.members.setdefault(
                (info.scenario, _models(info), workload_key(info)), (result, file)
            )

    def group(self) -> Group:
        """Return the rows in their order, each joined to the baseline with the same models and the
        same workload.

        Of equal scenarios the first in the order is the row, whichever was measured.
        """
        ordered = sorted(self.members.items(), key=lambda member: _place(member[1][0].info))
        equal: dict[Hashable, list[str]] = {}
        for (scenario, models, workload), (result, _) in ordered:
            equal.setdefault((_measurement(result.info), models, workload), []).append(scenario)
        originals: dict[Hashable, Row] = {}
        baselines: dict[tuple[str | None, _Models, _Workload | None], Row] = {}
        copies = []
        for (scenario, models, workload), (result, file) in ordered:
            info = result.info
            measurement = (_measurement(result.info), models, workload)
            baseline = baselines.get((info.baseline, models, workload))
            row = Row(
                result,
                file,
                baseline if baseline and _is_comparable(info, baseline.info) else None,
                originals.get(measurement),
                tuple(name for name in equal[measurement] if name != scenario),
            )
            if row.original:
                copies.append(row)
            else:
                originals[measurement] = row
            baselines[(scenario, models, workload)] = (
                row.original if row.original and row.is_left_out else row
            )
        return Group(tuple(originals.values()), tuple(copies))


def group_results(files: Iterable[StoredRun]) -> list[Group]:
    """Return the groups, newest first; where a configuration was measured again, its newest result
    stands.

    The results of a run that were measured under the same conditions stand in one group, whatever
    models they use. An older run joins the newest group under these conditions in which no set of
    models is another one.
    """
    gatherings: list[_Gathering] = []
    # Of two runs at the same time the later file is the newer one.
    for file in sorted(files, key=lambda file: file.order)[::-1]:
        by_conditions: dict[_Conditions, list[StoredResult]] = {}
        for result in file.results:
            by_conditions.setdefault(_conditions(file.board, result.info), []).append(result)
        for conditions, results in by_conditions.items():
            firsts = {_model_set(result.info): _models(result.info)[0] for result in results}
            gathering = next(
                (other for other in gatherings if other.takes(conditions, firsts)), None
            )
            if gathering is None:
                gathering = _Gathering(conditions, {}, {})
                gatherings.append(gathering)
            gathering.add(results, file, firsts)
    groups = [gathering.group() for gathering in gatherings]
    return sorted(groups, key=lambda group: group.newest.order, reverse=True)


def newest_groups(groups: Iterable[Group]) -> list[Group]:
    """Return the newest group of scenarios and of plans of each board, runtime and target; they
    come newest first.
    """
    newest: dict[tuple[str, str, str, bool], Group] = {}
    for group in groups:
        newest.setdefault(
            (group.board, group.info.runtime, group.info.target, group.is_of_plans), group
        )
    return list(newest.values())


def workload_key(info: Result) -> _Workload | None:
    """Return what tells the streams of two results apart, wherever their video is; None if there
    are none.
    """
    schedule = info.plan.schedule
    if schedule is None:
        return None
    digest = schedule.video.digest if schedule.video else None
    return (
        schedule.count,
        schedule.fps,
        schedule.queue,
        schedule.warm_up_s,
        schedule.duration_s,
        digest,
    )


def _conditions(board: str, info: Result) -> _Conditions:
    """Return what must be equal before two results stand in one table."""
    left_out = _OF_LAYOUT if question_of(info.scenario, info.baseline) == PLANS else ()
    return (
        board,
        *(None if name in left_out else getattr(info, name) for name in GROUP_CONDITIONS),
    )


def _measurement(info: Result) -> tuple[str, str]:
    """Return the key of a measurement within a group; a failure is never a copy, and is listed by
    its reason.
    """
    measured_as = info.measured_as if info.failure is None else None
    return info.run, measured_as or info.scenario


def _place(info: Result) -> tuple[int, str, bool]:
    """Return what rows are sorted by: scenarios as they run, then plans by name; a baseline before
    the others.
    """
    name = info.baseline or info.scenario
    return (
        _ORDER.get(info.scenario, len(_ORDER)),
        name_of_plan(name) or "",
        info.baseline is not None,
    )


def _is_comparable(info: Result, baseline: Result) -> bool:
    """Whether a plan of this name had the same contexts when its baseline was measured; of
    scenarios it has.
    """
    is_plan = question_of(info.scenario, info.baseline) == PLANS
    return not is_plan or without_reuse(info.plan).contexts == baseline.plan.contexts


def _model_set(info: Result) -> str:
    name = info.baseline or info.scenario
    return _MODEL_SETS.get(info.scenario, name if name_of_plan(name) else STREAMS)


def _models(info: Result) -> _Models:
    return tuple(model.digest for model in info.models)
