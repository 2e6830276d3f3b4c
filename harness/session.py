"""One pytest session that measures: its storage, its results, and what they say to pytest and pytest-benchmark."""

from __future__ import annotations

import datetime
import functools
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.clock import ReplayClock
from harness.errors import NoModels, UserError
from harness.gate import Verdict, make_gate
from harness.measuring.measurement import Bench
from harness.measuring.videos import Videos
from harness.options import resolve_model_sets, resolve_settings
from harness.progress import Progress
from harness.selection import Choice, chip_of, resolve_targets
from harness.settings import check_kernel
from samplers.npu import find_npu_sources, has_npu
from storage.board import board_storage
from storage.result import Result
from storage.run_file import WITHOUT_SPEED, RunWriter, python_folder, run_number, save_run

__all__ = ["Session"]

_FILE_SCHEME = "file://"
#: pytest-benchmark's default of --benchmark-storage, which is one for all boards.
_COMMON_STORAGE = f"{_FILE_SCHEME}./.benchmarks"


class Session:
    """Begins when tests that measure have been collected."""

    def __init__(self, config: pytest.Config, configurations: Sequence[tuple[str, str]]) -> None:
        """Check everything a user can have got wrong, and make what is needed, before anything is measured.

        `configurations` are the runtime and the scenario of each.
        """
        self._config = config
        self._benchmarks = config.pluginmanager.getplugin("pytest-benchmark")
        targets = resolve_targets(Choice.of(config.option))
        check_kernel()
        self.storage = _writable(_storage(config))
        self._gate = make_gate(config.option, self.storage)
        chip = chip_of(targets)
        settings = resolve_settings(config.option, chip)
        progress = Progress(config)
        models = resolve_model_sets(config.option, chip)
        videos = Videos(targets, config.option.video)
        npu = find_npu_sources() if has_npu() else None
        self._bench = Bench(settings, models, targets, videos, self.storage, progress, npu)
        #: Configurations that have no models, and why.
        self._without_models = self._find_without_models(configurations)
        progress.expect((len(configurations) - len(self._without_models)) * settings.repeats)
        #: Results that pytest-benchmark has no statistics for, in the form of its entries.
        self._without_speed: list[dict[str, Any]] = []
        #: The file of this run, once it is written.
        self.saved: Path | None = None
        #: Whether the storage did not take it.
        self.is_misplaced = False
        #: False under --benchmark-disable and --benchmark-skip.
        self.saves = not (self._benchmarks.disabled or self._benchmarks.skip)
        if self._gate and not self.saves:
            raise UserError(
                "--memory-baseline needs a run that is stored: leave out --benchmark-disable and --benchmark-skip"
            )
        if self.saves and not self._benchmarks.save:
            self._benchmarks.autosave = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d_%H%M%S")
        self._benchmarks.storage.save = self._save
        # It takes a second, and is asked for at the beginning and at the end.
        self._benchmarks.get_machine_info = functools.cache(self._benchmarks.get_machine_info)
        #: By the test's full name: what was measured so far, encoded, and whether it has statistics.
        self._entries: dict[str, tuple[msgspec.Raw, bool]] = {}
        self._writer = RunWriter(self.storage.resolve(), self._name) if self.saves else None
        self._empty_run = self._generate_empty_run()
        self._has_warned = False

    def measure(self, benchmark: Any, clock: ReplayClock, runtime: str, scenario: str) -> None:
        """Measure one configuration and give its latencies to pytest-benchmark; fail or skip where there are none."""
        if (runtime, scenario) in self._without_models:
            _pass_over(benchmark)
            pytest.skip(self._without_models[runtime, scenario])
        measurement = self._bench.measure(runtime, scenario, lambda result: self._keep(_entry(benchmark, result)))
        result = measurement.result
        if measurement.latencies_ns:
            benchmark.extra_info.update(msgspec.to_builtins(result))
            clock.load(measurement.latencies_ns)
            benchmark.pedantic(clock.advance, setup=clock.rewind, rounds=len(measurement.latencies_ns))
            if self._writer:  # else there may be no statistics
                self._keep(self._benchmarks.benchmarks[-1].as_dict(include_data=False))
        else:
            entry = _entry(benchmark, result)
            self._without_speed.append(entry)
            self._keep(entry)
            _pass_over(benchmark)
        if measurement.interrupted:
            raise KeyboardInterrupt
        if result.failure is None:
            return
        if result.failure.kind == "not_supported":
            pytest.skip(str(result.failure.reason))
        pytest.fail("\n".join(filter(None, (str(result.failure), result.failure.last_words))), pytrace=False)

    def add_without_speed(self, output_json: dict[str, Any]) -> None:
        """Put the results without speed into what pytest-benchmark is about to write."""
        output_json[WITHOUT_SPEED] = self._without_speed

    def save_without_speed_alone(self) -> None:
        """Save these results where no other is: pytest-benchmark then has nothing to save beside them."""
        if not self._without_speed or self._benchmarks.benchmarks or not self.saves:
            return
        self._save({**self._empty_run, WITHOUT_SPEED: self._without_speed}, self._name)
        self._benchmarks.save = self._benchmarks.autosave = None

    @property
    def _name(self) -> str:
        """What the run is called."""
        name: str = self._benchmarks.save or self._benchmarks.autosave
        return name

    def _generate_empty_run(self) -> dict[str, Any]:
        """Return what pytest-benchmark would write of a session without results."""
        hook = self._config.hook
        output_json: dict[str, Any] = hook.pytest_benchmark_generate_json(
            config=self._config,
            benchmarks=[],
            include_data=False,
            machine_info=self._benchmarks.get_machine_info(),
            commit_info=hook.pytest_benchmark_generate_commit_info(config=self._config),
        )
        return output_json

    def _keep(self, entry: dict[str, Any]) -> None:
        """Have the run on the disk with this entry of pytest-benchmark's form, in place of an older one of its test."""
        if self._writer is None:
            return
        encoded = msgspec.Raw(msgspec.json.encode(entry, enc_hook=str))
        self._entries[entry["fullname"]] = (encoded, "stats" in entry)
        entries = self._entries.values()
        document = {
            **self._empty_run,
            "benchmarks": [raw for raw, has_stats in entries if has_stats],
            WITHOUT_SPEED: [raw for raw, has_stats in entries if not has_stats],
        }
        try:
            self._writer.write(document, finished=False)
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                warnings.warn(
                    f"the storage {self.storage} cannot be written ({error.strerror}): the measurement goes on, and a "
                    "power cut before its end loses what is not stored yet",
                    stacklevel=2,
                )

    @functools.cached_property
    def verdict(self) -> Verdict | None:
        """What the comparison with the baseline says of the stored run; None where none is asked for."""
        if self._gate is None:
            return None
        return (
            self._gate.judge(self.saved) if self.saved else Verdict(False, "nothing was measured: nothing to compare")
        )

    @property
    def is_failed(self) -> bool:
        """Whether the run as a whole has failed, however its tests did."""
        return self.is_misplaced or (self.verdict is not None and not self.verdict.passed)

    def _save(self, output_json: dict[str, Any], name: str) -> None:
        """Write the finished run; pytest-benchmark cannot count past 9999, nor beside another writer."""
        logger = self._benchmarks.logger
        assert self._writer is not None
        try:
            self.saved = self._writer.write(output_json)
        except OSError as error:
            self.is_misplaced = True
            self.saved = save_run(Path(tempfile.mkdtemp(prefix="reusebench-")), output_json, name)
            logger.error(
                f"the storage {self.storage} cannot be written ({error.strerror}). The run is in {self.saved}. When "
                f"there is room, move it to {self.storage / self.saved.parent.name}, under a number that is free"
            )
        logger.info(f"Saved benchmark data in: {self.saved}")

    def _find_without_models(self, configurations: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Have all models read or built; return which configurations have none. Raise where that leaves nothing.

        Of a runtime that was asked for by name something has to be left.
        """
        reasons: dict[tuple[str, str], str] = {}
        for runtime, scenario in configurations:
            try:
                self._bench.plans(runtime, scenario)
            except NoModels as error:
                reasons[runtime, scenario] = f"{runtime}: {error}"
        for name in self._config.option.runtime or (None,):
            asked = [each for each in configurations if name in (None, each[0])]
            if asked and all(each in reasons for each in asked):
                raise UserError("; ".join(dict.fromkeys(reasons[each] for each in asked)))
        return reasons


def _entry(benchmark: Any, result: Result) -> dict[str, Any]:
    """Return a result without statistics in the form of pytest-benchmark's."""
    names = {key: getattr(benchmark, key) for key in ("group", "name", "fullname", "params")}
    return {**names, "extra_info": msgspec.to_builtins(result)}


def _pass_over(benchmark: Any) -> None:
    """Have the fixture count as used without statistics: a disabled one does."""
    benchmark.disabled = True
    benchmark.pedantic(lambda: None)


def choose_board_storage(config: pytest.Config) -> None:
    """Let each board have its own storage, unless the user has chosen one, which must be a folder."""
    if config.option.benchmark_storage == _COMMON_STORAGE:
        config.option.benchmark_storage = f"{_FILE_SCHEME}{board_storage()}"
    try:
        _compare_with_newest(config, _storage(config))
    except UserError as error:  # said here, since pytest-benchmark would open it next and show a traceback
        raise pytest.UsageError(str(error)) from None


def _compare_with_newest(config: pytest.Config, storage: Path) -> None:
    """Name the run that --benchmark-compare alone means: pytest-benchmark reads all runs for it, up to 9999."""
    numbers = [run_number(path) or 0 for path in (storage / python_folder()).glob("*.json")]
    if config.option.benchmark_compare is True and any(numbers):
        config.option.benchmark_compare = f"{max(numbers):04}_"


def _storage(config: pytest.Config) -> Path:
    """Return the folder of --benchmark-storage, or raise UserError where it is none."""
    uri = config.option.benchmark_storage
    scheme, separator, path = uri.rpartition("://")
    if separator and f"{scheme}{separator}" != _FILE_SCHEME:
        raise UserError(f"--benchmark-storage {uri}: results and traces need a folder; valid: file://PATH or a path")
    return Path(path)


def _writable(folder: Path) -> Path:
    """Return the folder, made where it is missing; raise UserError where nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise UserError(
            f"the storage {folder} cannot be written ({error.strerror}). Choose another: "
            "--benchmark-storage=file://PATH"
        ) from None
