"""Every mechanism of every runtime tried on a small model: is it there, and does it save anything here?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from harness.errors import NoModels, UserError
from harness.measuring.measurement import Bench
from harness.measuring.model_sets import BuiltIn, ModelSets
from harness.measuring.videos import Videos
from harness.options import Settings, check_kernel, npu_cores_of, usable_cpus
from harness.places import writable
from harness.progress import Silent
from harness.selection import Choice, chip_of, resolve_targets
from harness.verdict import judge
from samplers.npu import find_npu_sources, has_npu
from scenarios.catalogue import SCENARIOS
from scenarios.plan import Plan
from storage.mechanisms import RuntimeTrials, Trial, write_trials
from targets.base import Target

__all__ = ["Teller", "try_mechanisms"]

#: Small enough to be done with all mechanisms of a runtime in a minute, and large enough that its weights show.
_BUILT_IN = BuiltIn(
    stream=("mobilenet_v2", 224),
    in_turn=(("mobilenet_v2", 224), ("mobilenet_v2", 160)),
    resolutions=(("mobilenet_v2", 224), ("mobilenet_v2", 160), ("mobilenet_v2", 96)),
)
_CORES = 2
#: A spread of two would be little to judge a small saving by.
_REPEATS = 3

#: One scenario for each mechanism.
_MECHANISMS = tuple(each for each in SCENARIOS if each.baseline and not each.is_variant)


class Teller(Protocol):
    """Is told what is tried and what comes of it, as it comes."""

    def begin(self, runtime: str, target: str) -> None:
        """Begin a runtime."""

    def tell(self, trial: Trial) -> None:
        """One mechanism has been tried."""

    def cannot_try(self, runtime: str, reason: str) -> None:
        """A runtime has no models here."""


def try_mechanisms(choice: Choice, storage: Path, teller: Teller) -> None:
    """Try the runtimes and keep what came of it in the storage; raise UserError where nothing can be tried."""
    targets = resolve_targets(choice)
    check_kernel()
    writable(storage)
    reasons = []
    for runtime in targets:
        with tempfile.TemporaryDirectory() as folder:
            trials = _Trials(runtime, targets, Path(folder))
            try:
                trials.build_models()
            except NoModels as error:
                reasons.append(f"{runtime}: {error}")
                teller.cannot_try(runtime, str(error))
                continue
            teller.begin(runtime, targets[runtime].name)
            write_trials(storage, trials.try_all(teller))
    if len(reasons) == len(targets):
        raise UserError("; ".join(reasons))


class _Trials:
    """The trials of one runtime."""

    def __init__(self, runtime: str, targets: dict[str, Target], folder: Path) -> None:
        """Traces go into the folder, and are of no further use."""
        self._runtime = runtime
        self._target = targets[runtime]
        chip = chip_of(targets)
        settings, models = _settings(chip), ModelSets(_BUILT_IN, streams=1, chip=chip)
        npu = find_npu_sources() if has_npu() else None
        self._bench = Bench(settings, models, targets, Videos(targets), folder, Silent(), npu)
        #: Scenarios without reuse: several are the same at this size, and are measured once.
        self._baselines: dict[Plan, dict[str, Any]] = {}

    def build_models(self) -> None:
        """Have all models built; raise NoModels where one cannot be had."""
        for scenario in _MECHANISMS:
            self._bench.plans(self._runtime, scenario.name)

    def try_all(self, teller: Teller) -> RuntimeTrials:
        """Try every mechanism and tell of each."""
        results = []
        trials = []
        for result, baseline in self._measure():
            results.append(result)
            trials.append(judge(result, baseline))
            teller.tell(trials[-1])
        return RuntimeTrials(
            runtime=self._runtime,
            runtime_version=_last_known("runtime_version", results),
            target=self._target.name,
            python_version=_last_known("python_version", results),
            chip=self._target.chip,
            recorded_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            trials=tuple(trials),
        )

    def _measure(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        for scenario in _MECHANISMS:
            assert scenario.baseline is not None
            # First, since the outputs of what comes later are compared with its.
            baseline = self._measure_baseline(scenario.baseline)
            yield self._bench.measure(self._runtime, scenario.name).info, baseline

    def _measure_baseline(self, name: str) -> dict[str, Any]:
        (plan,) = self._bench.plans(self._runtime, name)
        nameless = replace(plan, scenario="")
        if nameless not in self._baselines:
            self._baselines[nameless] = self._bench.measure(self._runtime, name).info
        return self._baselines[nameless]


def _settings(chip: str | None) -> Settings:
    return Settings(
        streams=1,
        contexts=3,
        repeats=_REPEATS,
        rounds=3,
        sample_hz=200.0,
        time_limit_s=120.0,
        idle_s=0.0,
        cpus=min(_CORES, usable_cpus()),
        npu_cores=min(_CORES, npu_cores_of(chip)),
    )


def _last_known(name: str, results: Sequence[dict[str, Any]]) -> str | None:
    return next((each[name] for each in reversed(results) if each[name]), None)
