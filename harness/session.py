"""One pytest session that measures: its storage, its results, and what they say to pytest and pytest-benchmark."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.clock import ReplayClock
from harness.errors import StorageNotLocal, StorageNotWritable, UserError
from harness.measurement import Bench
from harness.model_sets import ModelSets
from harness.progress import Progress
from harness.settings import (
    check_kernel,
    check_runtimes,
    resolve_model_sets,
    resolve_settings,
    resolve_target,
)
from samplers.npu import find_npu_sources, has_npu
from scenarios.catalogue import find_scenario
from storage.board import board_storage
from storage.files import WITHOUT_SPEED, check_result
from targets.outcome import Failure

__all__ = ["Session"]

_FILE_SCHEME = "file://"
#: pytest-benchmark's default of --benchmark-storage, which is one for all boards.
_COMMON_STORAGE = "file://./.benchmarks"


class Session:
    """Begins when tests that measure have been collected."""

    def __init__(self, config: pytest.Config, configurations: Sequence[tuple[str, str]]) -> None:
        """Check everything a user can have got wrong, and make what is needed, before anything is measured.

        `configurations` are the runtime and the scenario of each.
        """
        self._config = config
        self._benchmarks = config.pluginmanager.getplugin("pytest-benchmark")
        check_runtimes(config)
        check_kernel()
        self.storage = _writable(storage_folder(config))
        target = resolve_target(config)
        settings = resolve_settings(config, target)
        progress = Progress(config)
        progress.expect(len(configurations) * settings.repeats)
        models = resolve_model_sets(config, target)
        #: Runtimes that nobody asked for by name and that have no models here, and why.
        self._without_models: dict[str, str] = {}
        for runtime, scenario in configurations:
            self._try_models(models, runtime, find_scenario(scenario).model_set)
        if configurations and all(runtime in self._without_models for runtime, _ in configurations):
            raise UserError("; ".join(self._without_models.values()))
        npu = find_npu_sources() if has_npu() else None
        self._bench = Bench(settings, models, target, self.storage, progress, npu)
        #: Results that pytest-benchmark has no statistics for, in the form of its entries.
        self._without_speed: list[dict[str, Any]] = []
        #: False under --benchmark-disable and --benchmark-skip.
        self.saves = not (self._benchmarks.disabled or self._benchmarks.skip)
        if self.saves and not self._benchmarks.save:
            self._benchmarks.autosave = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d_%H%M%S")

    def measure(self, benchmark: Any, clock: ReplayClock, runtime: str, scenario: str) -> None:
        """Measure one configuration and give its latencies to pytest-benchmark; fail or skip where there are none."""
        if runtime in self._without_models:
            _pass_over(benchmark)
            pytest.skip(self._without_models[runtime])
        measurement = self._bench.measure(runtime, scenario)
        check_result(measurement.info)
        if measurement.latencies_ns:
            benchmark.extra_info.update(measurement.info)
            clock.load(measurement.latencies_ns)
            benchmark.pedantic(clock.advance, setup=clock.rewind, rounds=len(measurement.latencies_ns))
            return
        self._keep_without_speed(benchmark, measurement.info)
        if measurement.info["failure"] is None:
            return
        failure = Failure(**measurement.info["failure"])
        if failure.kind == "not_supported":
            pytest.skip(failure.message)
        pytest.fail("\n".join(filter(None, (str(failure), failure.last_words))), pytrace=False)

    def add_without_speed(self, output_json: dict[str, Any]) -> None:
        """Put the results without speed into what pytest-benchmark is about to write."""
        output_json[WITHOUT_SPEED] = self._without_speed

    def save_without_speed_alone(self) -> None:
        """Save these results where no other is: pytest-benchmark then has nothing to save beside them."""
        if not self._without_speed or self._benchmarks.benchmarks or not self.saves:
            return
        hook = self._config.hook
        output_json = hook.pytest_benchmark_generate_json(
            config=self._config,
            benchmarks=[],
            include_data=False,
            machine_info=self._benchmarks.get_machine_info(),
            commit_info=hook.pytest_benchmark_generate_commit_info(config=self._config),
        )
        self.add_without_speed(output_json)
        self._benchmarks.storage.save(output_json, self._benchmarks.save or self._benchmarks.autosave)
        self._benchmarks.save = self._benchmarks.autosave = None

    def _try_models(self, models: ModelSets, runtime: str, model_set: str) -> None:
        """Have the models read or built; a runtime that was found, and not asked for, may go without."""
        try:
            models.of(runtime, model_set)
        except UserError as error:
            if self._config.option.runtime:
                raise
            self._without_models[runtime] = f"--runtime {runtime}: {error}"

    def _keep_without_speed(self, benchmark: Any, info: dict[str, Any]) -> None:
        entry = {key: getattr(benchmark, key) for key in ("group", "name", "fullname", "params")}
        self._without_speed.append({**entry, "extra_info": info})
        _pass_over(benchmark)


def _pass_over(benchmark: Any) -> None:
    """Have the fixture count as used without statistics: a disabled one does."""
    benchmark.disabled = True
    benchmark.pedantic(lambda: None)


def storage_folder(config: pytest.Config) -> Path:
    """Return the folder of --benchmark-storage, or raise where it is none."""
    uri: str = config.getoption("benchmark_storage")
    scheme, separator, path = uri.rpartition("://")
    if separator and f"{scheme}{separator}" != _FILE_SCHEME:
        raise StorageNotLocal(uri)
    return Path(path)


def choose_board_storage(config: pytest.Config) -> None:
    """Let each board have its own storage, unless the user has chosen one, which must be a folder."""
    if config.option.benchmark_storage == _COMMON_STORAGE:
        config.option.benchmark_storage = f"{_FILE_SCHEME}{board_storage()}"
    try:
        storage_folder(config)
    except StorageNotLocal as error:  # said here, since pytest-benchmark would open it next and show a traceback
        raise pytest.UsageError(str(error)) from None


def _writable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise StorageNotWritable(folder, error) from None
