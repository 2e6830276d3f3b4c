"""Rows and groups: a row is a stored result with its baseline, a group is what one table shows.

Scenarios with equal plans are measured once in a session and stored under each name: one of them is
the row, the others are copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from reusebench.accounting.account import Account
from reusebench.measured.plan import RESTORED_PROMPT, SHARED_PROMPT, Plan, Streams
from reusebench.reports.base.statistics import Figure, difference
from reusebench.reports.base.stored_scenario import StoredScenario
from reusebench.reports.results.agreement import TOLERANCE, output_difference
from reusebench.reports.results.leak_limits import DEFAULT_LEAK_LIMITS, LeakLimits
from reusebench.scenarios.catalogue import (
    DEFAULT_OPTIONS,
    LEAN,
    OPTIONS,
    OTHER_QUESTION,
    PLANS,
    QUESTIONS,
    STREAMS,
)
from reusebench.storage.result import BUSY_PERCENT, Result, StreamsRun
from reusebench.storage.result_figures import latency, model_latencies, rate
from reusebench.storage.result_figures import memory as memory_of
from reusebench.storage.result_summary import ResultSummary
from reusebench.storage.run_file import StoredResult, StoredRun
from reusebench.storage.savings import APPLICATION, NPU, Saving, saving_of

#: The question that LEAN continues, if its scenarios begin with one of that question.
_DUP = "dup"


@dataclass(frozen=True, eq=False)
class Row:
    """One configuration: its newest result, and the row of its baseline if there is one."""

    result: StoredResult
    file: StoredRun
    baseline: Row | None
    #: The row that this one is a copy of; None if it was measured itself.
    original: Row | None = None
    #: The other scenarios with an equal plan; one measurement serves them all.
    equal: tuple[str, ...] = ()
    leak_limits: LeakLimits = DEFAULT_LEAK_LIMITS
    #: Figures of memory that were asked for; tables and texts ask for each many times.
    _memories: dict[str, Figure | None] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the scenario and of its equals."""
        return (self.scenario, *self.equal)

    @property
    def baseline_name(self) -> str | None:
        """The baseline's scenario; if the baseline is a copy, the scenario of its original."""
        if self.baseline is None:
            return self.info.baseline
        measured = self.baseline.original or self.baseline
        return measured.scenario

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
        """The highest load by other work before the processes started."""
        return max(self.info.speed.idle_cpu_percent, default=0.0)

    @property
    def system_noise_bytes(self) -> int | None:
        """The largest change of system memory while idle before a process; None if unread."""
        if not self.measured:
            return None
        noises = self.info.memory.system_memory_noise_bytes
        return max((noise for noise in noises if noise is not None), default=None)

    @property
    def is_disturbed(self) -> bool:
        """Whether other work or short memory may have changed its speed, or its baseline's."""
        rows = [row for row in (self, self.baseline) if row]
        return any(row.busy_percent > BUSY_PERCENT or row.is_short for row in rows)

    @property
    def is_short(self) -> bool:
        """Whether memory was short during the measurement: all but NPU memory reads too small."""
        return bool(self.info.shortage_signs)

    @property
    def is_compared_with_short(self) -> bool:
        """Whether memory was short for it or for its baseline, so that its savings are wrong."""
        return any(row.is_short for row in (self, self.baseline) if row)

    @cached_property
    def stored_scenario(self) -> StoredScenario:
        """The meaning of the scenario's name."""
        return stored_scenario_of(self.info)

    @cached_property
    def question(self) -> str:
        """The question that the scenario answers, a key of QUESTIONS or OTHER_QUESTION.

        Scenarios of LEAN belong to dup if they begin with one of dup, so that one table has them
        and their equals.
        """
        question = self.stored_scenario.question
        first = self.baseline or self.original
        if question == LEAN and first and first.question == _DUP:
            return _DUP
        return question

    @property
    def model_set(self) -> str:
        """The set of the session's models that the scenario uses; a user's plan has its own."""
        return self.stored_scenario.model_set

    @property
    def is_variant(self) -> bool:
        """Whether another scenario shows the same mechanism."""
        if self.question == OPTIONS and self.scenario != DEFAULT_OPTIONS:
            return True
        return self.stored_scenario.is_variant

    @property
    def computes(self) -> bool:
        """Whether the NPU really computed, so that speed and outputs mean something."""
        return self.info.computes

    @property
    def emulated(self) -> bool:
        """Whether its memory contains an emulator; assumed of virtual boards if not stored."""
        if self.info.emulated is None:
            return not self.computes
        return self.info.emulated

    @cached_property
    def outcome(self) -> str:
        """The stored outcome, or "outputs_differ" if the outputs are not the baseline's.

        If the run has no end, it is what is known of that: see StoredRun.end.

        Another option may select another algorithm, which rounds in another way. Such outputs may
        differ by TOLERANCE.
        """
        outcome = self.file.outcome_of(self.info.outcome)
        baseline = self.baseline
        if outcome != "ok" or baseline is None or baseline.info.outcome != "ok":
            return outcome

        if not (self.computes and baseline.computes):
            return outcome
        not_compared = {*self.info.not_compared, *baseline.info.not_compared}
        # An adapter over a model and the model that is merged with it are different files.
        own_models = {model.digest for model in self.info.models}
        not_compared |= own_models ^ {model.digest for model in baseline.info.models}
        digests = _without(self.info.output_digests, not_compared)
        if digests == _without(baseline.info.output_digests, not_compared):
            return outcome
        if _sums_in_another_order(self.info.plan):
            return outcome

        if self.options != baseline.options:
            relative_difference = self.output_difference
            if relative_difference is not None and relative_difference <= TOLERANCE:
                return outcome
        return "outputs_differ"

    @property
    def options(self) -> set[str]:
        """The runtime's own options that its contexts have."""
        return {option for context in self.info.plan.contexts for option in context.options}

    @property
    def output_difference(self) -> float | None:
        """The largest relative difference from the baseline's outputs; None if it is not known.

        It is 0 if the outputs are bit-equal.
        """
        if self.baseline is None:
            return None
        return output_difference(self.info, self.baseline.info)

    @property
    def supported(self) -> bool:
        """Whether the runtime has what the scenario needs."""
        return self.outcome != "not_supported"

    @property
    def measured(self) -> bool:
        """Whether its figures may be compared.

        Those of an option may be even if its outputs differ, as they do with fewer bits.
        """
        if self.outcome == "ok":
            return True
        has_other_options = self.baseline is not None and self.options != self.baseline.options
        return self.info.outcome == "ok" and has_other_options

    def memory(self, name: str) -> Figure | None:
        """Return a figure of storage.result.Memory over the repeats; None if it is not known."""
        if name not in self._memories:
            self._memories[name] = memory_of(self.info, name) if self.measured else None
        return self._memories[name]

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
        """Whether scenarios are compared by its steady phase: no streams, cycles or counting."""
        return self.schedule is None and self.has_planned_contexts

    @property
    def has_planned_contexts(self) -> bool:
        """Whether its figures are of the plan's contexts: none are added, or made in cycles."""
        return self.info.plan.cycles is None and not self.info.plan.fills

    @property
    def frames(self) -> list[StreamsRun]:
        """The streams of each repeat that came so far, whatever the outcome."""
        return [streams for streams in self.info.frames if streams]

    @property
    def latency(self) -> Figure | None:
        """Latency of an inference in ns.

        None with several models, which have a latency each, and for streams: the latency of a frame
        counts from the time when it was due.
        """
        if not self.measured or self.schedule:
            return None
        return latency(self.info)

    @property
    def model_latencies(self) -> list[tuple[str, Figure]]:
        """(model, latency of an inference in ns) of each model."""
        return model_latencies(self.info) if self.measured else []

    @property
    def latency_saved(self) -> Figure | None:
        """Latency in nanoseconds that the baseline takes more than this."""
        if self.baseline is None:
            return None
        return difference(self.baseline.latency, self.latency)

    @property
    def throughput(self) -> Figure | None:
        """Inferences per second of all contexts together; None for streams, which have a pace."""
        if not self.measured or self.schedule:
            return None
        return rate(self.info)

    def saving(self, memory: str) -> Saving | None:
        """Return the saving of a figure of storage.result.Memory; None if a side is not known."""
        if self.baseline is None:
            return None
        return saving_of(memory, self.baseline.memory(memory), self.memory(memory))

    @property
    def main_saving(self) -> Saving | None:
        """The saving of NPU memory; if there is none, of the process's application memory."""
        return self.saving(NPU) or self.saving(APPLICATION)

    def saved(self, memory: str = APPLICATION) -> Figure | None:
        """Return the bytes that it saves of a memory."""
        saving = self.saving(memory)
        return saving.saved if saving else None

    def saved_percent(self, memory: str = APPLICATION) -> Figure | None:
        """Return the saving of a memory, in percent of the baseline's memory."""
        saving = self.saving(memory)
        return saving.percent if saving else None

    @property
    def saved_over_baseline_percent(self) -> Figure | None:
        """The saved application memory in percent of what the baseline's contexts take.

        That is the memory above a process that has imported the runtime and made no context.
        """
        saving = self.saving(APPLICATION)
        if saving is None or self.baseline is None:
            return None
        whole = self.baseline.memory("application_memory_over_baseline_bytes")
        return saving.saved.percent_of(whole) if whole else None

    @property
    def models(self) -> str:
        """The models' names; with a note if files serve several streams in turn."""
        names = [model.name for model in self.info.models]
        return models_in_turn(names, self.info, self.model_set) or ", ".join(names)

    @property
    def models_in_turn(self) -> bool:
        """Whether there were fewer files than streams, so that some serve several."""
        names = [model.name for model in self.info.models]
        return models_in_turn(names, self.info, self.model_set) is not None


@dataclass(frozen=True)
class Group:
    """Rows under the same conditions, with the same models, in the order of the scenarios."""

    #: Every measurement once.
    rows: tuple[Row, ...]
    #: The same measurements as stored under the names of other scenarios.
    copies: tuple[Row, ...] = ()

    @property
    def info(self) -> Result:
        """The result of one row; the conditions are the same in every row's."""
        return self.rows[0].info

    @property
    def board(self) -> str:
        """The board that all rows were measured on."""
        return self.newest.board

    @property
    def computes(self) -> bool:
        """Whether speed and outputs mean something; all rows are of one target."""
        return all(row.computes for row in self.rows)

    @property
    def emulated(self) -> bool:
        """Whether application memory contains an emulator."""
        return any(row.emulated for row in self.rows)

    @property
    def short_version(self) -> str | None:
        """The runtime's version without the build that Rockchip's libraries name after it."""
        version = self.info.runtime_version
        if not version:
            return None
        return version.partition(" ")[0]

    @property
    def has_npu_memory(self) -> bool:
        """Whether a row has a figure of NPU memory."""
        return any(row.memory("npu_memory_bytes") for row in self.rows)

    @property
    def is_of_plans(self) -> bool:
        """Whether its rows are user plans, which never share a group with built-in scenarios."""
        return self.rows[0].question == PLANS

    @property
    def questions(self) -> dict[str, list[Row]]:
        """The rows by the question that they answer, in the order of QUESTIONS.

        If a measurement answers two, as one may of external memory and of copies, the second
        question has the copy.
        """
        shown = [row for row in self.all_rows if not row.is_left_out]
        questions = {}
        for name in (*QUESTIONS, OTHER_QUESTION):
            rows = [row for row in shown if row.question == name]
            if rows:
                questions[name] = rows
        return questions

    @cached_property
    def all_rows(self) -> list[Row]:
        """The rows and the copies, in the order of the scenarios."""
        return sorted((*self.rows, *self.copies), key=lambda row: row.stored_scenario.sort_key)

    def named(self, scenario: str) -> list[Row]:
        """Return the rows and copies of a scenario, one for each set of models it ran with."""
        return [row for row in self.all_rows if row.scenario == scenario]

    @property
    def newest(self) -> StoredRun:
        """The latest run that a row came from."""
        return max((row.file for row in self.rows), key=lambda file: file.order)


def stored_scenario_of(info: Result) -> StoredScenario:
    """Return the scenario of a stored result."""
    return StoredScenario(info.scenario, info.baseline)


def models_in_turn(
    names: Sequence[str], info: Result | ResultSummary, model_set: str
) -> str | None:
    """Return the models' names, and that files serve several streams in turn; None if none does."""
    files = info.model_files or 0
    streams = info.streams or 0
    if model_set != STREAMS or len(names) != files or files >= streams:
        return None
    return f"{', '.join(names)} ({files} for {streams} streams, in turn)"


def _sums_in_another_order(plan: Plan) -> bool:
    """Whether a conversation may have other tokens for no fault of the layout.

    In a unified cache the cells of a sequence begin elsewhere, and a shared or restored prompt is
    computed in two parts: the sums are rounded differently, and close logits change places.
    """
    if plan.conversation is None:
        return False
    mechanisms = {context.mechanism for context in plan.contexts}
    is_unified = any(context.unified_cache for context in plan.contexts)
    return is_unified or bool({SHARED_PROMPT, RESTORED_PROMPT} & mechanisms)


def _without(
    digests: Mapping[str, tuple[str, ...]], models: set[str]
) -> dict[str, tuple[str, ...]]:
    """Return the digests of outputs of all but these models."""
    return {model: outputs for model, outputs in digests.items() if model not in models}
