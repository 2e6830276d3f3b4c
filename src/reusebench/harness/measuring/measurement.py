"""Configurations measured: prepared, repeated in fresh processes, checked for equal outputs."""

from __future__ import annotations

import copy
import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import msgspec

from reusebench.accounting.sharing import WRONG_READS
from reusebench.harness.measuring.input_files import InputFiles
from reusebench.harness.measuring.models.model_sets import ModelSets
from reusebench.harness.measuring.outputs import Outputs
from reusebench.harness.measuring.preparations import Preparations
from reusebench.harness.measuring.repeat import Repeat
from reusebench.harness.measuring.repeat_measurement import RepeatMeasurement
from reusebench.harness.measuring.result_building import Provenance, build_result, is_settled
from reusebench.harness.measuring.subject import Job, Subject, Supplies
from reusebench.harness.measuring.variation import Variation
from reusebench.harness.progress import Progress
from reusebench.harness.settings import Settings
from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan
from reusebench.samplers.npu import NpuSources
from reusebench.storage.result import Result
from reusebench.storage.trace import write_trace
from reusebench.targets.outcome import Failure
from reusebench.targets.target import Target

__all__ = ["Bench", "Measurement", "nameless"]


@dataclass(frozen=True)
class Measurement:
    """A result with its latencies."""

    result: Result
    #: Latencies of all inferences, or frames, in nanoseconds; empty after a failure.
    latencies_ns: list[int]
    #: Whether the user wants the session to end here (Ctrl-C); the result has what was measured
    #: until then.
    interrupted: bool = False


#: Stores a result that is not complete yet, in case the session is cut off now.
Keep = Callable[[Result], None]

#: The versions that a measured process reports.
_VERSIONS = ("runtime_version", "python_version", "driver_version")


@dataclass
class Bench:
    """Measures the configurations of one session."""

    supplies: Supplies
    storage: Path
    progress: Progress
    #: Sources of NPU memory; None on a machine without an NPU.
    npu: NpuSources | None = None
    #: Session of several boards only: the board in results.
    board: str | None = None
    #: Beginning of the names of traces, which several boards write for one session.
    prefix: str = ""
    #: Waits until this board may measure one process.
    turn: Callable[[], AbstractContextManager[None]] = nullcontext
    #: Identity of the session in its results.
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    #: Numbers of the session's processes, which keep the names of their traces apart.
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _outputs: Outputs = field(init=False)
    _preparations: Preparations = field(init=False)
    _files: InputFiles = field(init=False)
    #: Key: the plan without its scenario's name. Many scenarios have the same baseline, which is
    #: measured once.
    _measured: dict[Plan, Measurement] = field(default_factory=dict)
    #: Versions that processes reported at the barrier `imported`, by runtime.
    _versions: dict[str, dict[str, str | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        supplies = self.supplies
        self._preparations = Preparations(supplies.settings.time_limit_s)
        variation = Variation(supplies.targets, supplies.settings.time_limit_s)
        self._outputs = Outputs(variation.reason)
        self._files = InputFiles(supplies.targets, supplies.videos.pins)

    def varied(self, settings: Settings, models: ModelSets) -> Bench:
        """Return a bench with other settings and models, for the same session."""
        other = copy.copy(self)
        other.supplies = replace(self.supplies, settings=settings, models=models)
        other._measured = {}
        return other

    def add_target(self, runtime: str, target: Target) -> None:
        """Have one more runtime measured."""
        self.supplies.targets[runtime] = target
        self._files.pin_library(runtime)

    def measure(self, job: Job, keep: Keep = lambda _: None) -> Measurement:
        """Measure one configuration; every failure of the measured process is part of the result.

        While streams run, `keep` gets the unfinished result every few seconds. Raises UserError if
        models or video are missing.
        """
        for plan in job.plans(self.supplies):
            measurement = self._measure_once(job, plan, keep)
            # If the runtime lacks a mechanism, the next plan does without.
            if measurement.result.outcome != "not_supported":
                break
        return measurement

    def _measure_once(self, job: Job, plan: Plan, keep: Keep) -> Measurement:
        """Measure the plan; if the session has measured an equal one, return its figures."""
        known = self._measured.get(nameless(plan))
        if known is not None:
            result = msgspec.structs.replace(
                known.result,
                scenario=plan.scenario,
                baseline=plan.baseline,
                measured_as=known.result.scenario,
                plan=plan,
            )
            return Measurement(result, known.latencies_ns)

        settings = self.supplies.settings
        repeats = job.subject.fewest_repeats(settings)
        self.progress.begin(job.title, repeats, job.subject.expected_s(settings))
        try:
            measurement = self._measure_plan(job, plan, keep)
        finally:
            self.progress.end()
        if not measurement.interrupted:
            self._measured[nameless(plan)] = measurement
        return measurement

    def _measure_plan(self, job: Job, plan: Plan, keep: Keep) -> Measurement:
        """Measure the plan in fresh processes."""
        changed = self._files.failure_if_changed(plan, "prepare")
        if changed:
            return self._measurement(job, plan, [], failure=changed)
        preparations = self._preparations.of(plan, self.supplies.targets[job.runtime])
        if isinstance(preparations, Failure):
            return self._measurement(job, plan, [], failure=preparations)
        paths = {
            digest: preparation.path for digest, preparation in preparations.items() if preparation
        }
        prepared = plan.with_prepared(paths)

        repeats: list[Repeat] = []
        latencies_ns: list[int] = []
        while self._needs_repeat(job.subject, repeats):
            measuring = self._repeat_measurement(job, plan, prepared, repeats, keep)
            number = f"{self.prefix}{next(self._numbers):03}"
            trace_name = f"{number}-{plan.runtime}-{plan.scenario}-{len(repeats) + 1}"
            with self.turn():
                repeat = measuring.measure(partial(write_trace, self.storage, self.run, trace_name))
            repeats.append(repeat)
            failure = self._files.failure_if_changed(plan, "steady") or repeat.failure
            if failure is None:
                latencies_ns += measuring.latencies_ns(repeat)
            if failure or measuring.interrupted:
                measurement = self._measurement(job, plan, repeats, latencies_ns, failure)
                return replace(measurement, interrupted=measuring.interrupted)
        return self._measurement(job, plan, repeats, latencies_ns)

    def _repeat_measurement(
        self, job: Job, plan: Plan, prepared: Plan, repeats: Sequence[Repeat], keep: Keep
    ) -> RepeatMeasurement:
        """Return the measurement of the next process; `prepared` is the plan that it walks."""

        def keep_cut_off(repeat: Repeat) -> None:
            provenance = self._provenance(job, plan, [repeat])
            keep(build_result(provenance, [*repeats, repeat], repeat.failure))

        return RepeatMeasurement(
            prepared,
            self.supplies.targets[job.runtime],
            self.supplies.settings,
            self.npu,
            show_step=partial(self.progress.step, len(repeats) + 1),
            keep=keep_cut_off,
        )

    def _needs_repeat(self, subject: Subject, repeats: Sequence[Repeat]) -> bool:
        """Whether there is one more process: the fewest always, up to the most until memory is
        known well enough.
        """
        settings = self.supplies.settings
        if len(repeats) < subject.fewest_repeats(settings):
            return True
        return len(repeats) < subject.most_repeats(settings) and not is_settled(repeats)

    def _measurement(
        self,
        job: Job,
        plan: Plan,
        repeats: Sequence[Repeat],
        latencies_ns: Sequence[int] = (),
        failure: Failure | None = None,
    ) -> Measurement:
        """Return the result of the repeats; wrong outputs or memory make it a failure."""
        provenance = self._provenance(job, plan, repeats)
        result = build_result(provenance, repeats, failure)
        comparison = self._outputs.compare(result, repeats)
        wrong = _wrong_memory(repeats) or comparison.failure
        if failure is None and wrong:
            failure = wrong
            result = build_result(provenance, repeats, failure)
        if comparison.not_compared:
            result = msgspec.structs.replace(result, not_compared=comparison.not_compared)
        return Measurement(result, [] if failure else list(latencies_ns))

    def _provenance(self, job: Job, plan: Plan, repeats: Sequence[Repeat]) -> Provenance:
        target = self.supplies.targets[job.runtime]
        extent = job.subject.extent(job.runtime, self.supplies)
        versions = self._versions_of(job.runtime, repeats)
        return Provenance(
            plan=plan,
            board=self.board,
            target=target.name,
            driver=target.protocol.driver,
            streams=extent.streams,
            contexts=extent.contexts,
            model_files=extent.model_files,
            run=self.run,
            runtime_version=versions.get("runtime_version"),
            python_version=versions.get("python_version"),
            driver_version=versions.get("driver_version"),
            chip=target.chip,
            architecture=target.architecture,
            npu_memory_limit_bytes=target.npu_memory_limit_bytes,
            computes=target.computes,
            emulated=target.emulated,
            node_orders=self._preparations.node_orders(plan),
        )

    def _versions_of(self, runtime: str, repeats: Sequence[Repeat]) -> dict[str, str | None]:
        """Return the versions that the runtime's processes have reported in this session."""
        versions = self._versions.setdefault(runtime, {})
        for barrier in repeats[0].barriers if repeats else ():
            for name in _VERSIONS:
                versions[name] = getattr(barrier.data, name) or versions.get(name)
        return versions


def nameless(plan: Plan) -> Plan:
    """Return the plan without its scenario: scenarios with equal plans are measured once."""
    return replace(plan, scenario="", baseline=None)


def _wrong_memory(repeats: Sequence[Repeat]) -> Failure | None:
    """Return a failure if a context was seen to read memory that it should not."""
    for repeat in repeats:
        for finding in repeat.npu.findings if repeat.npu else ():
            if finding.kind not in WRONG_READS:
                continue
            owner = Message("owner_application")
            if finding.owner is not None:
                owner = Message("owner_context", {"number": finding.owner + 1})
            message = Message(finding.kind, {"owner": owner, "amount": finding.amount})
            return Failure("wrong_memory", "steady", finding.context, message)
    return None
