"""A bench that measures real processes with a scripted runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reusebench.harness.measuring.measurement import Bench
from reusebench.harness.measuring.subject import Job, ScenarioSubject, Supplies
from reusebench.harness.measuring.videos import Videos
from reusebench.harness.progress import Progress
from reusebench.harness.settings import Settings
from reusebench.measured import runtimes
from reusebench.scenarios.catalogue import find_scenario
from tests.helpers.forks import SCRIPTED_FORKS
from tests.helpers.scripted_driver import ENTRY
from tests.helpers.support import TIME_LIMIT_S, models_of

_SETTINGS = Settings(
    streams=1,
    contexts=2,
    repeats=2,
    rounds=3,
    sample_hz=500,
    time_limit_s=TIME_LIMIT_S,
    idle_s=0,
    cpus=2,
    npu_cores=1,
)


class _NoVideos(Videos):
    """Videos of a machine that decodes nothing, so that no clip is made."""

    def of(self, runtime: str) -> None:  # noqa: ARG002
        return None


class _Scripts:
    """Model sets that are the same scripts for every set."""

    def __init__(self, *scripts: str) -> None:
        self._models = models_of(*scripts)

    def of(self, *_: str) -> Any:
        return self._models


def job(scenario: str, runtime: str = "scripted") -> Job:
    """Return the configuration of a built-in scenario."""
    return Job(runtime, ScenarioSubject(find_scenario(scenario)))


#: Makes a bench of scripts that stores in a folder; more arguments are settings.
MakeBench = Callable[..., Bench]


@pytest.fixture(scope="module", autouse=True)
def scripted_runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Add the scripted runtime to the list, and use a cache of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(runtimes, "RUNTIMES", (*runtimes.RUNTIMES, ENTRY))
        yield


@pytest.fixture(scope="session")
def make_bench() -> MakeBench:
    """Return make_bench(storage, scripts..., target=TARGET, settings...)."""

    def make(storage: Path, *scripts: str, target: Any = SCRIPTED_FORKS, **settings: Any) -> Bench:
        models: Any = _Scripts(*scripts)
        targets = {"scripted": target}
        supplies = Supplies(replace(_SETTINGS, **settings), models, _NoVideos(targets), targets)
        return Bench(supplies, storage, Progress())

    return make
