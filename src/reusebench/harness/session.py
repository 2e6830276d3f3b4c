"""One pytest session that measures: from the user's options to its results and its verdict."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import msgspec
import pytest

from reusebench.harness.bench_options import (
    check_kinds,
    conversation_remark,
    resolve_settings,
    resolve_videos,
)
from reusebench.harness.benchmark_plugin import saves_runs, storage_folder, use_up, writable
from reusebench.harness.board_worker.link import BoardRun, Link, LinkOutput
from reusebench.harness.clock import ReplayClock
from reusebench.harness.errors import NoModels, UnusableModel, UserError
from reusebench.harness.figure_properties import Property, figure_properties
from reusebench.harness.measuring.measurement import Bench, nameless
from reusebench.harness.measuring.subject import Job, Subject, Supplies
from reusebench.harness.memory_gate import MemoryGate, Verdict, make_gate
from reusebench.harness.model_request import ModelRequest, resolve_model_sets
from reusebench.harness.overrides import Overrides
from reusebench.harness.plans.plan_file import PlanFile
from reusebench.harness.plans.python_plan import Plan as PythonPlan
from reusebench.harness.progress import Progress, TerminalOutput
from reusebench.harness.result_text import equal_text, is_equal, result_text
from reusebench.harness.selection import host_of, resolve_targets, selection_of
from reusebench.harness.session_run import SessionRun
from reusebench.harness.settings import check_kernel, has_conversations
from reusebench.harness.subjects import Subjects
from reusebench.measured.plan import Plan
from reusebench.measured.runtimes import UnknownRuntime, find_runtime
from reusebench.samplers.npu import find_npu_sources, has_npu
from reusebench.storage.result import Result
from reusebench.system.cache import remove_leftovers
from reusebench.system.files import printable
from reusebench.system.interrupts import check_interrupted
from reusebench.system.processes import watch_ends
from reusebench.targets.target import Target

__all__ = ["NamedConfiguration", "Session", "checked_gate"]

#: A runtime's and a subject's name, as a test of bench/ has them; None if there is none to choose.
NamedConfiguration = tuple[Optional[str], Optional[str]]


class Session:
    """Everything that tests measure with, made once such tests have been collected."""

    def __init__(
        self,
        config: pytest.Config,
        configurations: Sequence[NamedConfiguration],
        plan_files: Sequence[PlanFile] = (),
        link: Link | None = None,
    ) -> None:
        """Check everything that the user can have got wrong, and make what is needed, before
        anything is measured.

        `configurations` are those of bench/; tests of a project of the user's name theirs later.
        With a `link` it is the session of one board of a fleet.
        """
        _check_plans(configurations, plan_files)
        self._selection = selection_of(config.option)
        targets = resolve_targets(self._selection)
        check_kinds(config.option, (runtime for runtime, _ in configurations if runtime))
        self._subjects = Subjects(plan_files)
        if link:
            link.reached()
        _prepare_machine(targets)
        self.storage = writable(storage_folder(config))
        self._gate = None if link else checked_gate(config, self.storage)
        self._link = link
        self._terminal = TerminalOutput(config)
        self._progress = Progress(LinkOutput(link) if link else self._terminal)
        self._bench = _bench(config, targets, self.storage, self._progress)
        if link:
            self._bench.board = link.board
            self._bench.prefix = f"{link.task.label}-"
            self._bench.turn = link.turn
            self._bench.run = link.task.run
        #: Benches for calls of `measure` that override options.
        self._benches = {Overrides(): self._bench}
        jobs = [self._job(*names) for names in configurations]
        #: Reasons why configurations have no models.
        self._without_models = self._prepare_models(jobs, config.option.runtime)
        #: Lines to show before anything is measured: assumptions about the user's models, and what
        #: a library is not kept from.
        self.remarks = [*self._bench.supplies.models.assumptions(), *_exposures(targets)]
        if any(has_conversations(runtime) for runtime, _ in configurations if runtime):
            self.remarks += filter(None, [conversation_remark(config.option)])
        self._run = BoardRun(config, link) if link else SessionRun(config, self.storage)

        self._has_measured = False
        #: Results by runtime, scenario and overrides: they may be the baselines of others.
        self._results: dict[tuple[str, str, Overrides], Result] = {}
        #: Full names of the tests that the terminal shows no dot for.
        self._without_dot: set[str] = set()
        self._shown_reasons: set[str] = set()
        #: Reasons why measured configurations have no figures.
        self._reasons: list[str] = []

    # Preparation

    def runtime(self, name: str | None) -> str:
        """Return the name of a runtime that can be measured, by default the first one; raise
        UserError.
        """
        targets = self._bench.supplies.targets
        if name is None:
            return next(iter(targets))
        if name not in targets:
            try:
                selection = replace(self._selection, runtimes=(find_runtime(name).name,))
            except UnknownRuntime as error:
                raise UserError(str(error)) from None
            self._bench.add_target(name, resolve_targets(selection)[name])
        return name

    def subject(self, scenario: str | PythonPlan) -> Subject:
        """Return the subject that a scenario's name, an option or a plan means; raise UserError."""
        return self._subjects.of(scenario)

    def _job(self, runtime: str | None, scenario: str | None) -> Job:
        # Sessions without a runtime or a plan have ended before with the reason.
        assert runtime is not None
        assert scenario is not None
        return Job(runtime, self.subject(scenario))

    def _prepare_models(
        self, jobs: Sequence[Job], required_runtimes: Sequence[str] | None
    ) -> dict[str, NoModels]:
        """Read or build all models, and tell the progress how long all will take.

        Returns why configurations have none, by title. The default clip, which takes seconds to
        make, waits until streams are measured, if something else is measured before. Raises
        UserError if no configuration is left, or none of a runtime that --runtime names.
        """
        supplies = self._bench.supplies
        has_clip = supplies.videos.are_ready
        late = [job for job in jobs if job.subject.has_streams and not has_clip]
        if len(late) == len(jobs):
            late = []
        reasons: dict[str, NoModels] = {}
        expected_s = {job.title: job.subject.expected_s(supplies.settings) for job in jobs}
        plans: set[Plan] = set()
        for job in jobs:
            self._progress.expect(expected_s)
            self._progress.prepare(job.title)
            if job in late:
                continue
            try:
                plan = nameless(job.plans(supplies)[0])
            except NoModels as error:
                reasons[job.title] = error
                expected_s.pop(job.title, None)
                continue
            if plan in plans:  # an equal plan is not measured again
                expected_s.pop(job.title, None)
            plans.add(plan)
        self._progress.expect(expected_s)
        for name in required_runtimes or (None,):
            required = [job for job in jobs if name in (None, job.runtime)]
            if required and all(job.title in reasons for job in required):
                problems = [f"{job.runtime}: {reasons[job.title]}" for job in required]
                raise UserError("; ".join(dict.fromkeys(problems)))
        return reasons

    # Measuring

    def measure(
        self,
        benchmark: Any,
        clock: ReplayClock,
        runtime: str,
        subject: Subject,
        overrides: Overrides,
    ) -> Result:
        """Measure one configuration, give its latencies to pytest-benchmark, and return the result.

        Fails or skips the test if there are no figures.
        """
        check_interrupted()
        job = Job(runtime, subject)
        self._progress.prepare(job.title)
        try:
            measurement = self._bench_with(overrides).measure(
                job, keep=functools.partial(self._run.keep, benchmark)
            )
        except NoModels as error:
            use_up(benchmark)
            self._show(benchmark, job.title, f"skipped: {error}")
            self._reasons.append(f"{runtime}: {error}")
            pytest.skip(self._reasons[-1])

        result = measurement.result
        if measurement.latencies_ns:
            benchmark.extra_info.update(msgspec.to_builtins(result))
            clock.load(measurement.latencies_ns)
            benchmark.pedantic(
                clock.advance, setup=clock.rewind, rounds=len(measurement.latencies_ns)
            )
            self._run.keep_newest_benchmark()
        else:
            self._run.keep(benchmark, result)
            use_up(benchmark)

        # The result is stored by now, whatever happens next.
        self._show(benchmark, job.title, self._text(result, overrides))
        self._results[runtime, subject.name, overrides] = result
        if measurement.interrupted:
            raise KeyboardInterrupt
        if result.failure is not None:
            self._end_test(result)
        self._has_measured = True
        return result

    def _bench_with(self, overrides: Overrides) -> Bench:
        if overrides not in self._benches:
            supplies = self._bench.supplies
            settings = overrides.settings(supplies.settings)
            models = overrides.model_sets(supplies.models)
            self._benches[overrides] = self._bench.varied(settings, models)
        return self._benches[overrides]

    def _text(self, result: Result, overrides: Overrides) -> str:
        """Return the terminal's text of a result; empty if another scenario's line shows it."""
        if is_equal(result):
            return ""
        return printable(result_text(result, self._baseline(result, overrides)), keep="\n")

    def _baseline(self, result: Result, overrides: Overrides) -> Result | None:
        """Return the result of its baseline; None if that was not measured."""
        if not result.baseline:
            return None
        return self._results.get((result.runtime, result.baseline, overrides))

    def properties(self, result: Result, overrides: Overrides) -> Iterable[Property]:
        """Return the figures of a result for reports of its test."""
        return figure_properties(result, self._baseline(result, overrides))

    def _show(self, benchmark: Any, title: str, text: str) -> None:
        """Show the text of a configuration, if there is one; the same reason in full only once."""
        kind, _, reason = text.partition(": ")
        if reason and reason in self._shown_reasons:
            text = f"{kind}, as above"
        self._shown_reasons.add(reason)
        self._progress.result(title, text)
        if self._link:
            self._link.shown(benchmark.fullname, title, text)
        elif self._terminal.replaces_dots:
            self._without_dot.add(benchmark.fullname)

    def _end_test(self, result: Result) -> None:
        """Skip the test if the runtime lacks a mechanism; otherwise fail it."""
        assert result.failure is not None
        reason = printable(str(result.failure.message), keep="\n")
        self._reasons.append(f"{result.runtime}: {reason}")
        if result.failure.kind == "not_supported":
            pytest.skip(reason)
        lines = [str(result.failure)]
        if result.failure.last_words:
            lines.append(result.failure.last_words)
        pytest.fail(printable("\n".join(lines), keep="\n"), pytrace=False)

    def take_dot(self, test: str) -> bool:
        """Return whether the terminal shows no dot for this test, by its full name: it has a line,
        or the end names it.

        True once: when pytest asks again, it is for its summary, which has a word for each test.
        """
        is_without = test in self._without_dot
        self._without_dot.discard(test)
        return is_without

    # The end of the session

    def add_without_speed(self, output_json: dict[str, Any]) -> None:
        """Add the results without speed to the run that pytest-benchmark is about to write."""
        self._run.add_without_speed(output_json)

    def finish(self, interrupted: bool) -> None:  # noqa: ARG002  a fleet needs to know
        """Save the run if pytest-benchmark would not; give the board of a fleet back."""
        self._run.save_alone()
        if self._link:
            self._link.end(self.problem, self.equal)

    @functools.cached_property
    def verdict(self) -> Verdict | None:
        """Outcome of the comparison with the baseline; None without --baseline."""
        return self._gate.judge(self._run.saved) if self._gate else None

    @property
    def equal(self) -> str:
        """Names of scenarios that have no line since they are equal to others; may be empty."""
        return equal_text(self._results.values())

    @property
    def problem(self) -> str:
        """Reasons why the run has failed although its tests may have been skipped; may be empty."""
        if self._reasons and not self._has_measured:
            return f"Nothing was measured. {'; '.join(dict.fromkeys(self._reasons))}"
        unusable = []
        for error in self._without_models.values():
            if isinstance(error, UnusableModel):
                unusable.append(str(error))
        if unusable:
            return f"Not all was measured. {'; '.join(dict.fromkeys(unusable))}"
        return ""

    @property
    def is_failed(self) -> bool:
        """Whether the run as a whole has failed, even if no test did."""
        if self._run.is_misplaced or self.problem:
            return True
        return self.verdict is not None and not self.verdict.passed


def _check_plans(
    configurations: Iterable[NamedConfiguration], plan_files: Sequence[PlanFile]
) -> None:
    """Raise UserError if plans are to be measured and none is given, or the other way round."""
    scenarios = {scenario for _, scenario in configurations}
    if None in scenarios:
        raise UserError(
            "bench/test_plans.py measures plans of yours: name one with --plan FILE"
            " (docs/reference/plans.md)"
        )
    if plan_files and not any(scenarios.intersection(file.scenarios) for file in plan_files):
        raise UserError(
            "--plan is measured by bench/test_plans.py: name no other file of bench/, or leave"
            " --plan out"
        )


def _prepare_machine(targets: Mapping[str, Target]) -> None:
    """Check that memory can be read, and remove what killed sessions left behind."""
    check_kernel(host_of(targets))
    with suppress(OSError):
        # Leftovers of other users, or on a disk that cannot be written, do not concern this
        # session.
        list(remove_leftovers())
    watch_ends()


def checked_gate(config: pytest.Config, storage: Path) -> MemoryGate | None:
    """Return the gate that the options describe; None without options."""
    gate = make_gate(config.option, storage)
    if gate and not saves_runs(config):
        raise UserError(
            "--baseline needs a run that is stored: leave out --benchmark-disable and"
            " --benchmark-skip"
        )
    return gate


def _bench(
    config: pytest.Config, targets: dict[str, Target], storage: Path, progress: Progress
) -> Bench:
    settings = resolve_settings(config.option, targets)
    models = resolve_model_sets(ModelRequest.of(config.option), targets)
    # From now on pytest holds standard error back.
    models.user.pins.tell = progress.note
    videos = resolve_videos(config.option, targets, models.user.pins)
    host = host_of(targets)
    npu = find_npu_sources(host) if has_npu(host) else None
    return Bench(Supplies(settings, models, videos, targets), storage, progress, npu)


def _exposures(targets: Mapping[str, Target]) -> Iterable[str]:
    """Yield a line for each reason why a virtual board's library is not sandboxed."""
    for reason in {target.exposure for target in targets.values() if target.exposure}:
        yield (
            "the library on the virtual board runs without a sandbox, and reaches your files, the"
            f" network and the devices as you do ({reason}); see docs/explanation/security.md"
        )
