"""One repeat: one measured process, what reads it, and what comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from reusebench.accounting.account import account_of_ledger, account_of_runtime
from reusebench.accounting.ledger import Ledger, read_ledger
from reusebench.harness.measuring.context_limit import limit_of
from reusebench.harness.measuring.frames_watch import FramesWatch
from reusebench.harness.measuring.repeat import Repeat
from reusebench.harness.settings import Settings
from reusebench.measured.messages import Message
from reusebench.measured.plan import Plan, Step
from reusebench.measured.runtimes import find_runtime
from reusebench.samplers.npu import NpuSources
from reusebench.samplers.observer import Observer
from reusebench.samplers.system_memory import Idle, observe_idle
from reusebench.storage.trace import NpuTimeline, Timeline, Trace
from reusebench.targets.barriers import Frames
from reusebench.targets.errors import TargetError
from reusebench.targets.measured_process import MeasuredRun, failure_of_target, run_plan
from reusebench.targets.outcome import Failure
from reusebench.targets.target import Target

__all__ = ["RepeatMeasurement"]

#: Shows the share of the process that is done, and what is under way: a phase, and its context
#: where it has one.
ShowStep = Callable[[float, str, "int | None"], None]
#: Stores the repeat as it is if the session is cut off now.
Keep = Callable[[Repeat], None]

#: While streams run, readings are rarer: they share the CPUs with what is timed.
_STREAMS_INTERVAL_S = 1 / 20
#: What streams have done is kept this often, if there is anything new.
_KEEP_EVERY_S = 5.0


class RepeatMeasurement:
    """Measures one process. It is the listener of the run."""

    def __init__(
        self,
        plan: Plan,
        target: Target,
        settings: Settings,
        npu: NpuSources | None,
        show_step: ShowStep,
        keep: Keep,
    ) -> None:
        """`npu` is None if NPU memory cannot be read."""
        self._plan = plan
        self._target = target
        self._settings = settings
        self._host = target.machine.host
        self._show_step = show_step
        self._keep = keep
        self._on_npu = find_runtime(plan.runtime).device == "npu"
        self._observer = Observer(self._host, settings.sample_hz, npu if self._on_npu else None)
        self._steps = len(list(plan.steps()))
        self._begun = 0
        self._frames: FramesWatch | None = None
        self._kept_at = time.monotonic()
        self._idle = Idle(0, 0.0)
        #: Whether the user wants the session to end here.
        self.interrupted = False

    def measure(self, write_trace: Callable[[Trace], str]) -> Repeat:
        """Walk the plan in a fresh process; write_trace keeps the trace and returns its path."""
        try:
            self._idle = observe_idle(self._host, self._settings.idle_s)
            run, ledger = self._walk()
        except TargetError as error:  # a board far away that cannot be reached any more
            run = MeasuredRun(failure=failure_of_target(error))
            ledger = None
        self.interrupted = run.interrupted
        npu = None
        limit = limit_of(self._plan, run, ledger)
        if self._on_npu:  # by the most exact source there is
            plan = self._plan.limited_to(limit.contexts) if limit else self._plan
            barriers = run.barriers
            npu = (
                account_of_ledger(plan, barriers, ledger)
                if ledger
                else account_of_runtime(plan, barriers)
            )
        # What ends a plan that fills is its result.
        failure = None if limit else run.failure
        trace = write_trace(self._trace(run, ledger))
        return replace(self._repeat(run), trace=trace, npu=npu, limit=limit, failure=failure)

    def latencies_ns(self, repeat: Repeat) -> list[int]:
        """Return the latencies of the repeat's inferences, or of its frames; none where nothing
        computes.
        """
        if not self._target.computes or repeat.limit:
            return []
        if self._frames:
            return self._frames.latencies_ns()
        steady = repeat.last("steady")
        return [ns for latencies in steady.data.latencies_ns for ns in latencies] if steady else []

    def step(self, step: Step) -> None:
        """Take note of a step before it begins."""
        if step.phase == "steady" and self._plan.schedule is not None:
            self._observer.interval_s = max(self._observer.interval_s, _STREAMS_INTERVAL_S)
            self._frames = FramesWatch(self._plan, self._observer, self._target.computes)
        self._show_step(self._begun / self._steps, step.phase, step.context)
        self._begun += 1

    def frames(self, message: Frames, run: MeasuredRun) -> None:
        """Take note of the frames of the last second."""
        assert self._frames is not None
        assert self._plan.schedule is not None
        has_new = self._frames.take(message)
        seconds = self._frames.seconds
        of_s = self._plan.schedule.duration_s
        share = (self._begun - 1 + seconds / of_s) / self._steps
        self._show_step(
            share, f"streams {seconds:.0f} of {of_s:.0f} s, {self._frames.lost} lost", None
        )
        if has_new and time.monotonic() - self._kept_at >= _KEEP_EVERY_S:
            self._kept_at = time.monotonic()
            failure = Failure(
                "cut_off", "steady", None, Message("session_cut_off", {"seconds": round(seconds)})
            )
            self._keep(replace(self._repeat(run), failure=failure))

    def _repeat(self, run: MeasuredRun) -> Repeat:
        """Return the repeat as far as the run has come."""
        return Repeat(
            barriers=run.barriers,
            failure=run.failure,
            elapsed_s=run.elapsed_s,
            system_memory_noise_bytes=self._idle.memory_noise_bytes,
            idle_cpu_percent=self._idle.cpu_percent,
            trace="",
            start_ns=run.start_ns,
            frames=self._frames.summary(run.interrupted) if self._frames else None,
        )

    def _walk(self) -> tuple[MeasuredRun, Ledger | None]:
        """Walk the plan in one process; with the ledger that it wrote, where the target keeps
        one.
        """
        run = run_plan(self._target, self._plan, self._observer, self._settings.time_limit_s, self)
        if run.ledger is None:
            return run, None
        ledger = read_ledger(run.ledger)
        for barrier in run.barriers:
            barrier.npu_live_bytes = ledger.live_bytes(barrier.at_ns)
        return run, ledger

    def _trace(self, run: MeasuredRun, ledger: Ledger | None) -> Trace:
        readings = self._observer.timeline
        timeline = Timeline(
            readings.times_ns.tolist(), readings.rss_bytes.tolist(), readings.system_bytes.tolist()
        )
        live = None
        if ledger is not None:
            changes = ledger.timeline()
            live = NpuTimeline(
                [time_ns for time_ns, _ in changes], [size for _, size in changes], ledger
            )
        frames = self._frames.times() if self._frames else None
        return Trace(run.barriers, timeline, live, run.start_ns, frames)
