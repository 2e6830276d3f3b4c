"""One configuration measured: prepared, repeated in fresh processes, checked for equal outputs,
made a result.
"""

from __future__ import annotations

import copy
import itertools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import msgspec

from reusebench.accounting.sharing import WRONG_READS
from reusebench.harness.errors import NoModels
from reusebench.harness.measuring.model_sets import ModelSets
from reusebench.harness.measuring.outputs import Outputs
from reusebench.harness.measuring.preparations import Preparations
from reusebench.harness.measuring.repeat import Repeat
from reusebench.harness.measuring.repeat_measurement import RepeatMeasurement
from reusebench.harness.measuring.result_building import Provenance, build_result, is_settled
from reusebench.harness.measuring.videos import Videos
from reusebench.harness.plans.plan_file import PlanFile
from reusebench.harness.progress import Progress
from reusebench.harness.settings import Settings
from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan
from reusebench.measured.runtimes import find_runtime
from reusebench.measured.runtimes.rknn.library_file import LIBRARY_VARIABLE, find_library
from reusebench.samplers.npu import NpuSources
from reusebench.scenarios.catalogue import TooFewModels, build_plans, find_scenario, without_reuse
from reusebench.storage.result import Result
from reusebench.storage.trace import write_trace
from reusebench.system.user_files import ChangedFile
from reusebench.targets.machine import LocalMachine
from reusebench.targets.outcome import Failure
from reusebench.targets.target import Target

__all__ = ["Bench", "Measurement", "nameless"]


@dataclass(frozen=True)
class Measurement:
    """A result, and the latencies of all its inferences, or frames, in nanoseconds; none when it
    failed.
    """

    result: Result
    latencies_ns: list[int]
    #: Whether the user wants the session to end here (Ctrl-C): what was measured until then is in
    #: the result.
    interrupted: bool = False


#: The versions that a measured process reports.
_VERSIONS = ("runtime_version", "python_version", "driver_version")

#: Stores a result as it is if the session is cut off now.
Keep = Callable[[Result], None]


@dataclass
class Bench:
    """Measures the configurations of one session."""

    settings: Settings
    models: ModelSets
    #: Where each runtime's processes run.
    targets: dict[str, Target]
    #: What streams play.
    videos: Videos
    storage: Path
    progress: Progress
    #: Where NPU memory can be read; None on a machine without an NPU.
    npu: NpuSources | None = None
    #: The user's plans, each by the names of its two scenarios.
    plan_files: dict[str, PlanFile] = field(default_factory=dict)
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    #: The numbers of the session's processes, which keep the names of their traces apart.
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _outputs: Outputs = field(default_factory=Outputs)
    _preparations: Preparations = field(init=False)
    #: By a plan without its scenario's name: many scenarios have the baseline of another one, and
    #: it is measured once.
    _measured: dict[Plan, Measurement] = field(default_factory=dict)
    #: By runtime: the versions that its processes reported at the barrier `imported`.
    _versions: dict[str, dict[str, str | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._preparations = Preparations(self.settings.time_limit_s)
        for runtime in self.targets:
            self._pin_library(runtime)

    def varied(self, settings: Settings, models: ModelSets) -> Bench:
        """Return a bench with other settings and models, for the same session."""
        other = copy.copy(self)
        other.settings = settings
        other.models = models
        other._measured = {}
        return other

    def add_target(self, runtime: str, target: Target) -> None:
        """Have one more runtime measured."""
        self.targets[runtime] = target
        self._pin_library(runtime)

    def _pin_library(self, runtime: str) -> None:
        library = self._library(runtime)
        if library:
            self.videos.pins.check(library)

    def plans(self, runtime: str, scenario: str) -> list[Plan]:
        """Return the plans of a configuration, the best first; raise UserError if models or
        video are missing.
        """
        if scenario in self.plan_files:
            plan = self._plan_of_file(runtime, self.plan_files[scenario])
            return [plan if scenario == plan.scenario else without_reuse(plan)]
        entry = find_scenario(scenario)
        if entry.fills and find_runtime(runtime).device == "cpu":
            raise NoModels(
                "contexts on a CPU are limited by the system's memory, which is not filled: how"
                " many fit follows from what each adds. bench/test_limit.py is for an NPU"
            )
        models = self.models.of(runtime, entry.model_set)
        schedule = self.settings.schedule(self.videos.of(runtime)) if entry.has_streams else None
        try:
            plans = build_plans(scenario, self.settings.parameters(runtime, models, schedule))
        except TooFewModels as error:
            raise NoModels(str(error)) from None
        if schedule and not (schedule.video or plans[0].contexts):
            raise NoModels("video is not decoded there, so there is no decoder memory to measure")
        return plans

    def waits_for_clip(self, scenario: str) -> bool:
        """Whether the default clip has to be made before the scenario is measured."""
        return self._has_streams(scenario) and not self.videos.are_ready

    def expected_s(self, scenario: str) -> float:
        """Return how long the processes of a configuration are expected to take, in seconds."""
        return self.settings.expected_s(scenario, self._has_streams(scenario))

    def _has_streams(self, scenario: str) -> bool:
        file = self.plan_files.get(scenario)
        return bool(file.streams) if file else find_scenario(scenario).has_streams

    def _plan_of_file(self, runtime: str, file: PlanFile) -> Plan:
        """Return the user's plan on a runtime; raise UserError if the runtime or the machine is
        not for it.
        """
        settings = self.settings
        is_known = find_runtime(runtime).device == "cpu" or self.targets[runtime].chip is not None
        cores = file.checked_cores(settings.cores(runtime), is_known)
        models = self.models.of_plan(runtime, file)
        schedule = file.schedule(settings.pace, self.videos.of(runtime)) if file.streams else None
        return file.plan(runtime, models, cores, file.rounds or settings.rounds, schedule)

    def measure(self, runtime: str, scenario: str, keep: Keep = lambda _: None) -> Measurement:
        """Measure one configuration; every failure of the measured process is part of the result.

        While streams run, keep gets the result as far as it has come, every few seconds.
        """
        for plan in self.plans(runtime, scenario):
            measurement = self._measure_once(plan, keep)
            # Where the runtime lacks a mechanism the next plan does without.
            if measurement.result.outcome != "not_supported":
                break
        return measurement

    def _measure_once(self, plan: Plan, keep: Keep) -> Measurement:
        """Measure the plan; where the session has measured an equal one, return its figures under
        this name.
        """
        known = self._measured.get(nameless(plan))
        if known is None:
            repeats = self.settings.repeats_of(plan.scenario)
            expected_s = self.expected_s(plan.scenario)
            self.progress.begin(f"{plan.runtime} {plan.scenario}", repeats, expected_s)
            try:
                measurement = self._repeat(plan, keep)
            finally:
                self.progress.end()
            if not measurement.interrupted:
                self._measured[nameless(plan)] = measurement
            return measurement
        result = msgspec.structs.replace(
            known.result,
            scenario=plan.scenario,
            baseline=plan.baseline,
            measured_as=known.result.scenario,
            plan=plan,
        )
        return Measurement(result, known.latencies_ns)

    def _repeat(self, plan: Plan, keep: Keep) -> Measurement:
        repeats: list[Repeat] = []
        latencies_ns: list[int] = []
        interrupted = False
        changed = self._changed_input(plan, "prepare")
        if changed:
            return self._measurement(plan, [], changed, [])
        preparations = self._preparations.of(plan, self.targets[plan.runtime])
        if isinstance(preparations, Failure):
            return self._measurement(plan, [], preparations, [])
        prepared = plan.with_prepared(
            {digest: made.path for digest, made in preparations.items() if made}
        )
        while not interrupted and self._is_to_be_repeated(plan, repeats):
            number = len(repeats) + 1
            trace_name = f"{next(self._numbers):03}-{plan.runtime}-{plan.scenario}-{number}"
            measuring = RepeatMeasurement(
                prepared,
                self.targets[plan.runtime],
                self.settings,
                self.npu,
                show_step=partial(self.progress.step, number),
                keep=lambda cut_off: keep(
                    build_result(
                        self._provenance(plan, [cut_off]), [*repeats, cut_off], cut_off.failure
                    )
                ),
            )
            repeats.append(
                measuring.measure(partial(write_trace, self.storage, self.run, trace_name))
            )
            interrupted = measuring.interrupted
            failure = self._changed_input(plan, "steady") or repeats[-1].failure
            if failure:
                return replace(
                    self._measurement(plan, repeats, failure, []), interrupted=interrupted
                )
            latencies_ns += measuring.latencies_ns(repeats[-1])
        return replace(
            self._measurement(plan, repeats, None, latencies_ns), interrupted=interrupted
        )

    def _changed_input(self, plan: Plan, phase: str) -> Failure | None:
        """Return a failure where a file that the plan is measured with is not the one that its
        digest is of.
        """
        for path in (*map(Path, _files(plan)), *filter(None, [self._library(plan.runtime)])):
            try:
                self.videos.pins.check(path)
            except ChangedFile:
                return Failure(
                    "input_changed", phase, None, Message("input_changed", {"file": str(path)})
                )
        return None

    def _library(self, runtime: str) -> Path | None:
        """Return Rockchip's library that is measured; None if there is none, or it is on a board
        far away.
        """
        target = self.targets[runtime]
        if not isinstance(
            target.machine, LocalMachine
        ):  # it was pushed when the session began, and stays there
            return None
        path = target.environment.get(LIBRARY_VARIABLE) or (
            find_library() if runtime == "rknn" else None
        )
        return Path(path) if path else None

    def _is_to_be_repeated(self, plan: Plan, repeats: list[Repeat]) -> bool:
        """Whether there is a further process: the fewest always, up to the most until memory is
        known well enough.
        """
        if len(repeats) < self.settings.repeats_of(plan.scenario):
            return True
        return len(repeats) < self.settings.most_repeats_of(plan.scenario) and not is_settled(
            repeats
        )

    def _measurement(
        self, plan: Plan, repeats: list[Repeat], failure: Failure | None, latencies_ns: list[int]
    ) -> Measurement:
        provenance = self._provenance(plan, repeats)
        result = build_result(provenance, repeats, failure)
        wrong = _wrong_memory(repeats) or self._outputs.differ(result, repeats)
        if failure is None and wrong:
            return Measurement(build_result(provenance, repeats, wrong), [])
        return Measurement(result, latencies_ns)

    def _provenance(self, plan: Plan, repeats: list[Repeat]) -> Provenance:
        target = self.targets[plan.runtime]
        versions = self._versions.setdefault(plan.runtime, {})
        for barrier in repeats[0].barriers if repeats else ():
            for name in _VERSIONS:
                versions[name] = getattr(barrier.data, name) or versions.get(name)
        file = self.plan_files.get(plan.scenario)
        if file:
            streams = file.stream_count
            contexts = file.contexts_per_stream
            model_files = len(file.models)
        else:
            streams = self.settings.streams
            contexts = self.settings.contexts
            model_files = len(self.models.of(plan.runtime, find_scenario(plan.scenario).model_set))
        return Provenance(
            plan=plan,
            target=target.name,
            driver=target.protocol.driver,
            streams=streams,
            contexts=contexts,
            model_files=model_files,
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


def nameless(plan: Plan) -> Plan:
    """Return the plan without its scenario: what is equal of two scenarios is measured once."""
    return replace(plan, scenario="", baseline=None)


def _files(plan: Plan) -> Iterator[str]:
    """Yield the paths of what the plan is measured with."""
    for model in plan.models:
        yield from filter(
            None, (model.path, model.weightless, *(tensor.file for tensor in model.inputs))
        )
    if plan.schedule and plan.schedule.video:
        yield plan.schedule.video.path


def _wrong_memory(repeats: list[Repeat]) -> Failure | None:
    """Return a failure where a context was seen to read memory that it should not."""
    for repeat in repeats:
        for finding in repeat.npu.findings if repeat.npu else ():
            if finding.kind in WRONG_READS:
                owner = Message("owner_application")
                if finding.owner is not None:
                    owner = Message("owner_context", {"number": finding.owner + 1})
                message = Message(finding.kind, {"owner": owner, "amount": finding.amount})
                return Failure("wrong_memory", "steady", finding.context, message)
    return None
