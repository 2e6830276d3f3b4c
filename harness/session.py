"""One pytest session that measures: its storage, its results, and what they say to pytest and pytest-benchmark."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path
from typing import Any

import pytest

from harness.clock import ReplayClock
from harness.errors import StorageNotLocal, StorageNotWritable
from harness.measurement import Bench
from harness.progress import Progress
from harness.settings import check_kernel, check_runtimes, resolve_models, resolve_settings
from storage.board import board_storage
from storage.files import FAILURES, check_result
from targets.base import THIS_INTERPRETER
from targets.outcome import Failure

__all__ = ["Session"]

_FILE_SCHEME = "file://"
#: pytest-benchmark's default of --benchmark-storage, which is one for all boards.
_COMMON_STORAGE = "file://./.benchmarks"


class Session:
    """Begins when tests that measure have been collected."""

    def __init__(self, config: pytest.Config, processes_per_repeat: int) -> None:
        """Check everything a user can have got wrong, and make what is needed, before anything is measured."""
        self._config = config
        self._benchmarks = config.pluginmanager.getplugin("pytest-benchmark")
        check_runtimes(config)
        check_kernel()
        self.storage = _writable(storage_folder(config))
        settings = resolve_settings(config)
        progress = Progress(config)
        progress.expect(processes_per_repeat * settings.repeats)
        models = resolve_models(config)
        self._bench = Bench(settings, models, THIS_INTERPRETER, self.storage, progress)
        #: Results without figures, in the form of pytest-benchmark's entries.
        self._failures: list[dict[str, Any]] = []
        #: False under --benchmark-disable and --benchmark-skip.
        self.saves = not (self._benchmarks.disabled or self._benchmarks.skip)
        if self.saves and not self._benchmarks.save:
            self._benchmarks.autosave = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d_%H%M%S")

    def measure(self, benchmark: Any, clock: ReplayClock, runtime: str, scenario: str) -> None:
        """Measure one configuration and give its latencies to pytest-benchmark; fail or skip where there are none."""
        measurement = self._bench.measure(runtime, scenario)
        check_result(measurement.info)
        if measurement.latencies_ns:
            benchmark.extra_info.update(measurement.info)
            clock.load(measurement.latencies_ns)
            benchmark.pedantic(clock.advance, setup=clock.rewind, rounds=len(measurement.latencies_ns))
            return
        self._keep_failure(benchmark, measurement.info)
        failure = Failure(**measurement.info["failure"])
        if failure.kind == "not_supported":
            pytest.skip(failure.message)
        pytest.fail("\n".join(filter(None, (str(failure), failure.last_words))), pytrace=False)

    def add_failures(self, output_json: dict[str, Any]) -> None:
        """Put the results without figures into what pytest-benchmark is about to write."""
        output_json[FAILURES] = self._failures

    def save_failures_alone(self) -> None:
        """Save the failures where no configuration succeeded: pytest-benchmark then has nothing to save beside them."""
        if not self._failures or self._benchmarks.benchmarks or not self.saves:
            return
        hook = self._config.hook
        output_json = hook.pytest_benchmark_generate_json(
            config=self._config,
            benchmarks=[],
            include_data=False,
            machine_info=self._benchmarks.get_machine_info(),
            commit_info=hook.pytest_benchmark_generate_commit_info(config=self._config),
        )
        self.add_failures(output_json)
        self._benchmarks.storage.save(output_json, self._benchmarks.save or self._benchmarks.autosave)
        self._benchmarks.save = self._benchmarks.autosave = None

    def _keep_failure(self, benchmark: Any, info: dict[str, Any]) -> None:
        entry = {key: getattr(benchmark, key) for key in ("group", "name", "fullname", "params")}
        self._failures.append({**entry, "extra_info": info})
        # A disabled fixture counts as used, and gives pytest-benchmark no empty statistics.
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
