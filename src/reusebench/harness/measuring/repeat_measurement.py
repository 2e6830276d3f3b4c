"""One measured process: it is walked through its plan while samplers read it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import msgspec

from reusebench.accounting.account import Account, account_of_ledger, account_of_runtime
from reusebench.accounting.ledger import Ledger, LedgerError, read_ledger
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
from reusebench.targets.outcome import LEDGER_BROKEN, Failure
from reusebench.targets.target import Target

__all__ = ["RepeatMeasurement"]

#: Shows the share of the process that is done, and the step that begins: its phase, and its context
#: if it has one.
ShowStep = Callable[[float, str, "int | None"], None]
#: Stores the unfinished repeat, in case the session is cut off now.
Keep = Callable[[Repeat], None]

#: While streams run, readings are rarer: they share the CPUs with the frames that are timed.
_STREAMS_INTERVAL_S = 1 / 20
#: The unfinished repeat is kept at this interval if it has anything new.
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
        """Make the observer; `npu` is None if NPU memory cannot be read."""
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
        """Walk the plan in a fresh process; `write_trace` keeps the trace and returns its path."""
        try:
            self._idle = observe_idle(self._host, self._settings.idle_s)
            run, ledger = self._walk()
        except TargetError as error:  # the connection to a remote board is lost
            run = MeasuredRun(failure=failure_of_target(error))
            ledger = None
        self.interrupted = run.interrupted
        limit = limit_of(self._plan, run, ledger)
        plan = self._plan.limited_to(limit.contexts) if limit else self._plan
        npu = self._npu_account(plan, run, ledger)
        return replace(
            self._repeat(run),
            trace=write_trace(self._trace(run, ledger)),
            npu=npu,
            limit=limit,
            # The failure that ends a plan that fills is its result.
            failure=None if limit else run.failure,
        )

    def latencies_ns(self, repeat: Repeat) -> list[int]:
        """Return the latencies of the repeat's inferences or frames; empty if nothing computes."""
        if not self._target.computes or repeat.limit:
            return []
        if self._frames:
            return self._frames.latencies_ns()
        steady = repeat.last("steady")
        if steady is None:
            return []
        all_latencies_ns: list[int] = []
        for latencies_ns in steady.data.latencies_ns:
            all_latencies_ns += latencies_ns
        return all_latencies_ns

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
        duration_s = self._plan.schedule.duration_s
        share = (self._begun - 1 + seconds / duration_s) / self._steps
        label = f"streams {seconds:.0f} of {duration_s:.0f} s, {self._frames.lost} lost"
        self._show_step(share, label, None)
        if has_new and time.monotonic() - self._kept_at >= _KEEP_EVERY_S:
            self._kept_at = time.monotonic()
            message_of_end = Message("session_cut_off", {"seconds": round(seconds)})
            failure = Failure("cut_off", "steady", None, message_of_end)
            self._keep(replace(self._repeat(run), failure=failure))

    def _walk(self) -> tuple[MeasuredRun, Ledger | None]:
        """Walk the plan in one process; return the run, and its ledger if the target keeps one.

        The run has failed if the ledger is not one of the preload library.
        """
        run = run_plan(self._target, self._plan, self._observer, self._settings.time_limit_s, self)
        if run.ledger is None:
            return run, None
        try:
            ledger = read_ledger(run.ledger)
        except LedgerError as error:
            run.failure = self._failure_of_ledger(error, run)
            return run, None
        for barrier in run.barriers:
            barrier.npu_live_bytes = ledger.live_bytes(barrier.at_ns)
        return run, ledger

    def _failure_of_ledger(self, error: LedgerError, run: MeasuredRun) -> Failure:
        """Return the failure, in the last step of the run."""
        message = Message(LEDGER_BROKEN, {"problem": str(error)})
        if run.failure:
            return msgspec.structs.replace(run.failure, kind="failed", message=message)
        last = run.barriers[-1]
        return Failure("failed", last.phase, last.context, message)

    def _npu_account(self, plan: Plan, run: MeasuredRun, ledger: Ledger | None) -> Account | None:
        """Return the account of NPU memory by the most exact source there is."""
        if not self._on_npu:
            return None
        if ledger:
            return account_of_ledger(plan, run.barriers, ledger)
        return account_of_runtime(plan, run.barriers)

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

    def _trace(self, run: MeasuredRun, ledger: Ledger | None) -> Trace:
        readings = self._observer.timeline
        timeline = Timeline(
            readings.times_ns.tolist(), readings.rss_bytes.tolist(), readings.system_bytes.tolist()
        )
        npu_timeline = None
        if ledger is not None:
            changes = ledger.timeline()
            times_ns = [time_ns for time_ns, _ in changes]
            sizes = [size for _, size in changes]
            npu_timeline = NpuTimeline(times_ns, sizes, ledger)
        frames = self._frames.times() if self._frames else None
        return Trace(run.barriers, timeline, npu_timeline, run.start_ns, frames)
