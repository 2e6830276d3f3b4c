"""One configuration measured: prepared, repeated in fresh processes, checked for equal outputs, made a result."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.progress import Progress
from harness.settings import Settings
from models.cache import cache_root
from samplers.observer import Observer
from samplers.system import observe_idle
from scenarios.catalogue import build_plan
from scenarios.plan import Model, Plan
from storage.result import Configuration, Repeat, build_result
from storage.trace import write_trace
from targets.base import Target
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
    models: tuple[Model, ...]
    target: Target
    storage: Path
    progress: Progress
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    #: How many processes the session has started, which keeps the names of their traces apart.
    _processes: int = 0
    #: By runtime and model: the outputs' digests, and the scenario that gave them first.
    _outputs: dict[tuple[str, str], tuple[list[str], str]] = field(default_factory=dict)
    #: By runtime: what its processes said at the barrier `imported`.
    _versions: dict[str, dict[str, str]] = field(default_factory=dict)

    def measure(self, runtime: str, scenario: str) -> Measurement:
        """Measure one configuration; every failure of the measured process is part of what is returned."""
        plan = build_plan(scenario, self.settings.parameters(runtime, self.models))
        self.progress.begin(f"{runtime} {scenario}", self.settings.repeats)
        try:
            return self._repeat(plan)
        finally:
            self.progress.end()

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
            latencies_ns += _latencies(repeat)
        return self._measurement(plan, repeats, None, latencies_ns)

    def _one_repeat(self, plan: Plan, number: int) -> Repeat | Failure:
        """Prepare the plan's models anew and walk it once; a Failure where they could not be prepared.

        What a runtime prepares may differ from time to time (ONNX Runtime orders the optimised graph differently, and
        full dup of YOLOv5s then takes 285 to 358 MiB): prepared once for all, the spread would hide it.
        """
        folder = cache_root() / plan.runtime
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix="prepared-") as work:
            prepared = prepare_models(self.target, plan, Path(work), self.settings.time_limit_s)
            return prepared if isinstance(prepared, Failure) else self._one_process(prepared, number)

    def _one_process(self, plan: Plan, number: int) -> Repeat:
        idle = observe_idle(self.settings.idle_s)
        observer = Observer(self.settings.sample_hz)
        steps = list(plan.steps())
        on_step = self._reporter(number, len(steps))
        run = run_plan(self.target, plan, observer, self.settings.time_limit_s, on_step)
        self._processes += 1
        name = f"{self._processes:03}-{plan.runtime}-{plan.scenario}-{number}"
        trace = write_trace(self.storage, self.run, name, _trace(run, observer))
        failure = asdict(run.failure) if run.failure else None
        return Repeat(run.phases, failure, run.elapsed_s, idle.memory_noise_bytes, idle.cpu_percent, trace)

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
        difference = self._outputs_differ(info)
        if failure is None and difference:
            info = build_result(configuration, repeats, asdict(difference))
            return Measurement(info, [])
        return Measurement(info, latencies_ns)

    def _configuration(self, plan: Plan, repeats: list[Repeat]) -> Configuration:
        imported = repeats[0].last("imported") if repeats else None
        if imported:
            self._versions[plan.runtime] = imported["data"]
        versions = self._versions.get(plan.runtime, {})
        return Configuration(
            plan=plan,
            target=self.target.name,
            streams=self.settings.streams,
            contexts=self.settings.contexts,
            model_files=len(self.models),
            run=self.run,
            runtime_version=versions.get("runtime_version"),
            python_version=versions.get("python_version"),
        )

    def _outputs_differ(self, info: dict[str, Any]) -> Failure | None:
        """Return a failure where a model's outputs are not the same everywhere they were taken in this session."""
        for model in info["models"]:
            digests = info["output_digests"].get(model["digest"])
            if not digests:
                continue
            first, scenario = self._outputs.setdefault((info["runtime"], model["digest"]), (digests, info["scenario"]))
            if len(digests) > 1 or digests != first:
                message = f"outputs of {model['name']} are {', '.join(digests)}; {scenario} gave {', '.join(first)}"
                return Failure("outputs_differ", "steady", None, message)
        return None


def _latencies(repeat: Repeat) -> list[int]:
    steady = repeat.last("steady")
    return [ns for each in steady["data"]["latencies_ns"] for ns in each] if steady else []


def _trace(run: Run, observer: Observer) -> dict[str, Any]:
    timeline = observer.timeline
    return {
        "barriers": run.phases,
        "timeline": {
            "times_ns": timeline.times_ns.tolist(),
            "rss_bytes": timeline.rss_bytes.tolist(),
            "system_memory_bytes": timeline.system_bytes.tolist(),
        },
    }
