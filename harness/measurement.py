"""One configuration measured: prepared, repeated in fresh processes, checked for equal outputs, made a result."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from accounting.account import account_of_ledger, account_of_runtime
from accounting.ledger import Ledger, read_ledger
from accounting.sharing import WRONG_READS
from harness.errors import ResolutionsTooFew
from harness.model_sets import ModelSets
from harness.progress import Listener
from harness.settings import Settings
from models.cache import cache_root
from runtimes import find_runtime
from samplers.npu import NpuSources
from samplers.observer import Observer
from samplers.system import observe_idle
from scenarios.catalogue import TooFewModels, build_plans, find_scenario
from scenarios.plan import Plan
from storage.result import Configuration, Repeat, build_result
from storage.trace import write_trace
from targets.base import LEDGER_VARIABLE, Target
from targets.measured_process import Run, prepare_models, run_plan
from targets.outcome import Failure

__all__ = ["Bench", "Measurement"]


@dataclass(frozen=True)
class Measurement:
    """A result, and the latencies of all its inferences in nanoseconds; none when it failed."""

    info: dict[str, Any]
    latencies_ns: list[int]


@dataclass
class Bench:
    """Measures the configurations of one session."""

    settings: Settings
    models: ModelSets
    #: Where each runtime's processes run.
    targets: Mapping[str, Target]
    storage: Path
    progress: Listener
    #: Where NPU memory can be read; None on a machine without an NPU.
    npu: NpuSources | None = None
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    #: How many processes the session has started, which keeps the names of their traces apart.
    _processes: int = 0
    #: By runtime and model: the outputs' digests, and the scenario that gave them first.
    _outputs: dict[tuple[str, str], tuple[list[str], str]] = field(default_factory=dict)
    #: By runtime: what its processes said at the barrier `imported`.
    _versions: dict[str, dict[str, str | None]] = field(default_factory=dict)

    def plans(self, runtime: str, scenario: str) -> list[Plan]:
        """Return the plans of a configuration, the best first; raise UserError where its models cannot be had."""
        models = self.models.of(runtime, find_scenario(scenario).model_set)
        try:
            return build_plans(scenario, self.settings.parameters(runtime, models))
        except TooFewModels as error:
            raise ResolutionsTooFew(error) from None

    def measure(self, runtime: str, scenario: str) -> Measurement:
        """Measure one configuration; every failure of the measured process is part of what is returned."""
        plans = self.plans(runtime, scenario)
        self.progress.begin(f"{runtime} {scenario}", self.settings.repeats)
        try:
            return self._first_supported(plans)
        finally:
            self.progress.end()

    def _first_supported(self, plans: Sequence[Plan]) -> Measurement:
        """Measure the first plan that the runtime has all mechanisms for; where it has none, the last one's answer."""
        *better, last = plans
        for plan in better:
            measurement = self._repeat(plan)
            if measurement.info["outcome"] != "not_supported":
                return measurement
        return self._repeat(last)

    def _repeat(self, plan: Plan) -> Measurement:
        repeats: list[Repeat] = []
        latencies_ns: list[int] = []
        for number in range(1, self.settings.repeats + 1):
            repeat = self._one_repeat(plan, number)
            if isinstance(repeat, Failure):
                return self._measurement(plan, repeats, asdict(repeat), [])
            repeats.append(repeat)
            if repeat.failure:
                return self._measurement(plan, repeats, repeat.failure, [])
            latencies_ns += _latencies(repeat) if self.targets[plan.runtime].computes else []
        return self._measurement(plan, repeats, None, latencies_ns)

    def _one_repeat(self, plan: Plan, number: int) -> Repeat | Failure:
        """Prepare the plan's models anew and walk it once; a Failure where they could not be prepared.

        What a runtime prepares may differ from time to time (ONNX Runtime orders the optimised graph differently, and
        full dup of YOLOv5s then takes 285 to 358 MiB): prepared once for all, the spread would hide it.
        """
        if not find_runtime(plan.runtime).prepares:
            return self._one_process(plan, number)
        folder = cache_root() / "prepared"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=f"{plan.runtime}-") as work:
            prepared = prepare_models(self.targets[plan.runtime], plan, Path(work), self.settings.time_limit_s)
            return prepared if isinstance(prepared, Failure) else self._one_process(prepared, number)

    def _one_process(self, plan: Plan, number: int) -> Repeat:
        idle = observe_idle(self.settings.idle_s)
        observer = Observer(self.settings.sample_hz, self.npu if _on_npu(plan) else None)
        steps = list(plan.steps())
        run, ledger = self._walk(plan, observer, self._reporter(number, len(steps)))
        self._processes += 1
        name = f"{self._processes:03}-{plan.runtime}-{plan.scenario}-{number}"
        trace = write_trace(self.storage, self.run, name, _trace(run, observer, ledger))
        return Repeat(
            barriers=run.phases,
            failure=asdict(run.failure) if run.failure else None,
            elapsed_s=run.elapsed_s,
            system_memory_noise_bytes=idle.memory_noise_bytes,
            idle_cpu_percent=idle.cpu_percent,
            trace=trace,
            npu=_npu_account(plan, run, ledger) if _on_npu(plan) else None,
        )

    def _walk(self, plan: Plan, observer: Observer, on_step: Callable[[Any], None]) -> tuple[Run, Ledger | None]:
        """Walk the plan in one process; with the ledger that it wrote, where the target keeps one."""
        target, limit_s = self.targets[plan.runtime], self.settings.time_limit_s
        if not (target.keeps_ledger and _on_npu(plan)):
            return run_plan(target, plan, observer, limit_s, on_step), None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.jsonl"
            target = replace(target, environment={**target.environment, LEDGER_VARIABLE: str(path)})
            run = run_plan(target, plan, observer, limit_s, on_step)
            ledger = read_ledger(path)
        for record in run.phases:
            record["npu_live_bytes"] = ledger.live_bytes(record["at_ns"])
        return run, ledger

    def _reporter(self, number: int, steps: int) -> Callable[[Any], None]:
        done = iter(range(steps))

        def on_step(step: Any) -> None:
            self.progress.step(number, next(done) / steps, step.phase, step.context)

        return on_step

    def _measurement(
        self, plan: Plan, repeats: list[Repeat], failure: dict[str, Any] | None, latencies_ns: list[int]
    ) -> Measurement:
        configuration = self._configuration(plan, repeats)
        info = build_result(configuration, repeats, failure)
        wrong = _wrong_memory(repeats) or self._outputs_differ(info)
        if failure is None and wrong:
            return Measurement(build_result(configuration, repeats, asdict(wrong)), [])
        return Measurement(info, latencies_ns)

    def _configuration(self, plan: Plan, repeats: list[Repeat]) -> Configuration:
        target, versions = self.targets[plan.runtime], self._versions.setdefault(plan.runtime, {})
        for record in repeats[0].barriers if repeats else ():
            if record["phase"] in ("imported", "context"):
                versions.update({key: value for key, value in record["data"].items() if key.endswith("_version")})
        return Configuration(
            plan=plan,
            target=target.name,
            streams=self.settings.streams,
            contexts=self.settings.contexts,
            model_files=len(self.models.of(plan.runtime, find_scenario(plan.scenario).model_set)),
            run=self.run,
            runtime_version=versions.get("runtime_version"),
            python_version=versions.get("python_version"),
            driver_version=versions.get("driver_version"),
            chip=target.chip,
            computes=target.computes,
        )

    def _outputs_differ(self, info: dict[str, Any]) -> Failure | None:
        """Return a failure where a model's outputs are not the same everywhere they were taken in this session."""
        if not info["computes"]:
            return None
        for model in info["models"]:
            digests = info["output_digests"].get(model["digest"])
            if not digests:
                continue
            first, scenario = self._outputs.setdefault((info["runtime"], model["digest"]), (digests, info["scenario"]))
            if len(digests) > 1 or digests != first:
                message = f"outputs of {model['name']} are {', '.join(digests)}; {scenario} gave {', '.join(first)}"
                return Failure("outputs_differ", "steady", None, message)
        return None


def _npu_account(plan: Plan, run: Run, ledger: Ledger | None) -> dict[str, Any] | None:
    """Return the account by the most exact source there is."""
    return account_of_ledger(plan, run.phases, ledger) if ledger else account_of_runtime(plan, run.phases)


def _on_npu(plan: Plan) -> bool:
    """Whether the plan's runtime infers on the NPU, so that there is NPU memory to speak of."""
    return find_runtime(plan.runtime).device == "npu"


def _wrong_memory(repeats: list[Repeat]) -> Failure | None:
    """Return a failure where a context was seen to read memory that it should not."""
    for repeat in repeats:
        for finding in repeat.npu["findings"] if repeat.npu else ():
            if finding["kind"] in WRONG_READS:
                owner = "the application" if finding["owner"] is None else f"context {finding['owner'] + 1}"
                what = "freed memory" if finding["kind"] == "reads_freed" else "memory that the plan does not share"
                message = f"its register commands name {what} of {owner}, {finding['amount']} addresses"
                return Failure("wrong_memory", "steady", finding["context"], message)
    return None


def _latencies(repeat: Repeat) -> list[int]:
    steady = repeat.last("steady")
    return [ns for each in steady["data"]["latencies_ns"] for ns in each] if steady else []


def _trace(run: Run, observer: Observer, ledger: Ledger | None) -> dict[str, Any]:
    timeline = observer.timeline
    trace: dict[str, Any] = {
        "barriers": run.phases,
        "timeline": {
            "times_ns": timeline.times_ns.tolist(),
            "rss_bytes": timeline.rss_bytes.tolist(),
            "system_memory_bytes": timeline.system_bytes.tolist(),
        },
    }
    if ledger is not None:
        times_ns, live_bytes = zip(*ledger.timeline()) if ledger.buffers else ((), ())
        trace["npu"] = {"times_ns": times_ns, "live_bytes": live_bytes, "ledger": asdict(ledger)}
    return trace
