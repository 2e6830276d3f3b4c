"""One pytest session that measures: its storage, its results, and what pytest and pytest-benchmark
get of them.
"""

from __future__ import annotations

import datetime
import functools
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reusebench.harness.bench_options import resolve_model_sets, resolve_settings, resolve_videos
from reusebench.harness.clock import ReplayClock
from reusebench.harness.errors import NoModels, UnusableModel, UserError
from reusebench.harness.measuring.measurement import Bench, nameless
from reusebench.harness.memory_gate import Verdict, make_gate
from reusebench.harness.overrides import Overrides
from reusebench.harness.plans.plan_file import PlanFile
from reusebench.harness.plans.python_plan import Plan as PythonPlan
from reusebench.harness.plans.python_plan import plan_file_of
from reusebench.harness.plans.writing import check_scenario_name
from reusebench.harness.progress import Progress
from reusebench.harness.result_text import equal_text, is_equal, result_text
from reusebench.harness.selection import host_of, resolve_targets, selection_of, storage_of
from reusebench.harness.settings import check_kernel
from reusebench.measured.plan import Plan
from reusebench.measured.runtimes import UnknownRuntime, find_runtime
from reusebench.samplers.npu import find_npu_sources, has_npu
from reusebench.storage.result import Result
from reusebench.storage.run_file import (
    WITHOUT_SPEED,
    RunWriter,
    python_folder,
    run_number,
    save_run,
)
from reusebench.system.cache import remove_leftovers
from reusebench.system.files import printable
from reusebench.system.interrupts import check_interrupted
from reusebench.system.processes import watch_ends
from reusebench.targets.errors import TargetError
from reusebench.targets.target import Target

__all__ = ["Session", "choose_board_storage", "hide_latency_table", "show_latency_table", "use_up"]

_FILE_SCHEME = "file://"
#: pytest-benchmark's default of --benchmark-storage, which is one for all boards.
_COMMON_STORAGE = f"{_FILE_SCHEME}./.benchmarks"
#: pytest-benchmark's options of its table, and of figures that are made with it.
_OF_TABLE = tuple(
    f"--benchmark-{name}"
    for name in (
        "columns",
        "compare",
        "cprofile",
        "group-by",
        "histogram",
        "name",
        "sort",
        "time-unit",
        "verbose",
    )
)


class Session:
    """Created once tests that measure have been collected."""

    def __init__(
        self,
        config: pytest.Config,
        configurations: Sequence[tuple[str, str]],
        plan_files: Sequence[PlanFile] = (),
    ) -> None:
        """Check everything a user can have got wrong, and make what is needed, before anything is
        measured.

        `configurations` are pairs of a runtime and a scenario; those of `plan_files` are named by
        the files.
        """
        of_files = {scenario: file for file in plan_files for scenario in file.scenarios}
        _check_plans(configurations, of_files)
        self._config = config
        self._selection = selection_of(config.option)
        self._benchmarks = config.pluginmanager.getplugin("pytest-benchmark")
        #: False under --benchmark-disable and --benchmark-skip.
        saves = not (self._benchmarks.disabled or self._benchmarks.skip)
        targets = resolve_targets(self._selection)
        host = host_of(targets)
        check_kernel(host)
        with suppress(
            OSError
        ):  # of others, or on a disk that cannot be written: it is not this session that needs it
            list(remove_leftovers())
        watch_ends()
        self.storage = _writable(_storage_folder(config))
        self._gate = make_gate(config.option, self.storage)
        if self._gate and not saves:
            raise UserError(
                "--memory-baseline needs a run that is stored: leave out --benchmark-disable and"
                " --benchmark-skip"
            )
        settings = resolve_settings(config.option, targets)
        self._progress = Progress(config)
        models = resolve_model_sets(config.option, targets)
        videos = resolve_videos(config.option, targets, models.user.pins)
        npu = find_npu_sources(host) if has_npu(host) else None
        self._bench = Bench(
            settings, models, targets, videos, self.storage, self._progress, npu, of_files
        )
        #: By what calls of `measure` say in place of the options.
        self._benches = {Overrides(): self._bench}
        #: Why configurations have no models.
        self._without_models = self._find_without_models(configurations)
        #: What is said before anything is measured, a line each: what was assumed of the user's
        #: models, and what a library is not kept from.
        self.remarks = [*models.assumptions(), *_exposures(targets)]
        if saves and not self._benchmarks.save:
            self._benchmarks.autosave = datetime.datetime.now(datetime.timezone.utc).strftime(
                "%Y%m%d_%H%M%S"
            )
        self._name: str = self._benchmarks.save or self._benchmarks.autosave
        try:
            self._writer = RunWriter(self.storage.resolve(), self._name) if saves else None
        except ValueError as error:
            raise UserError(f"--benchmark-save: {error}") from None
        self._benchmarks.storage.save = self._save
        # It takes a second, and is called at the beginning and at the end.
        self._benchmarks.get_machine_info = functools.cache(self._benchmarks.get_machine_info)
        self._empty_run = self._generate_empty_run()
        #: By the test's full name: what is stored of it, in the form of pytest-benchmark's entries.
        self._entries: dict[str, dict[str, Any]] = {}
        self._has_warned = False
        #: The file of this run, once it is finished.
        self.saved: Path | None = None
        #: Whether the storage did not take it.
        self.is_misplaced = False
        self._has_measured = False
        #: What has been measured, which may be the baseline of others.
        self._results: dict[tuple[str, str, Overrides], Result] = {}
        #: The tests that the terminal shows no dot of.
        self._without_dot: set[str] = set()
        self._shown_reasons: set[str] = set()
        #: Why configurations have no figures.
        self._reasons: list[str] = []

    def runtime(self, name: str | None) -> str:
        """Return the name of a runtime that can be measured, the first one by default; raise
        UserError.
        """
        if name is None:
            return next(iter(self._bench.targets))
        if name not in self._bench.targets:
            try:
                selection = replace(self._selection, runtimes=(find_runtime(name).name,))
            except UnknownRuntime as error:
                raise UserError(str(error)) from None
            self._bench.add_target(name, resolve_targets(selection)[name])
        return name

    def scenario(self, scenario: str | PythonPlan) -> str:
        """Return the name under which a scenario, or a plan, is measured; raise UserError if there
        is none.
        """
        if isinstance(scenario, str):
            is_option = "=" in scenario
            if scenario not in self._bench.plan_files and not is_option:
                check_scenario_name(scenario)
            return scenario
        file = plan_file_of(scenario)
        known = self._bench.plan_files.get(file.name, file)
        if known != file:
            raise UserError(
                f"{file.document.title}: this session has another plan of this name; give it"
                " another name"
            )
        self._bench.plan_files.update(dict.fromkeys(file.scenarios, file))
        without_reuse, name = file.scenarios
        return name if scenario.reuse else without_reuse

    def _bench_with(self, overrides: Overrides) -> Bench:
        if overrides not in self._benches:
            settings = overrides.settings(self._bench.settings)
            self._benches[overrides] = self._bench.varied(
                settings, overrides.model_sets(self._bench.models)
            )
        return self._benches[overrides]

    def measure(
        self,
        benchmark: Any,
        clock: ReplayClock,
        runtime: str,
        scenario: str,
        overrides: Overrides,
    ) -> Result:
        """Measure one configuration, give its latencies to pytest-benchmark, and return the result.

        Fails or skips the test if there are no figures.
        """
        check_interrupted()
        self._progress.prepare(_title((runtime, scenario)))
        bench = self._bench_with(overrides)
        try:
            measurement = bench.measure(
                runtime, scenario, lambda result: self._keep(_entry(benchmark, result))
            )
        except NoModels as no_models:
            use_up(benchmark)
            self._reasons.append(f"{runtime}: {no_models}")
            self._show(benchmark, _title((runtime, scenario)), f"skipped: {no_models}")
            pytest.skip(self._reasons[-1])
        result = measurement.result
        baseline = (
            self._results.get((runtime, result.baseline, overrides)) if result.baseline else None
        )
        self._results[runtime, scenario, overrides] = result
        if measurement.latencies_ns:
            benchmark.extra_info.update(msgspec.to_builtins(result))
            clock.load(measurement.latencies_ns)
            benchmark.pedantic(
                clock.advance, setup=clock.rewind, rounds=len(measurement.latencies_ns)
            )
            if self._writer:  # else there may be no statistics
                self._keep(self._benchmarks.benchmarks[-1].as_dict(include_data=False))
        else:
            self._keep(_entry(benchmark, result))
            use_up(benchmark)
        # What is shown is stored, whatever happens next.
        text = "" if is_equal(result) else printable(result_text(result, baseline), keep="\n")
        self._show(benchmark, _title((runtime, scenario)), text)
        if measurement.interrupted:
            raise KeyboardInterrupt
        if result.failure is None:
            self._has_measured = True
            return result
        reason = printable(str(result.failure.message), keep="\n")
        self._reasons.append(f"{runtime}: {reason}")
        if result.failure.kind == "not_supported":
            pytest.skip(reason)
        words = "\n".join(filter(None, (str(result.failure), result.failure.last_words)))
        pytest.fail(printable(words, keep="\n"), pytrace=False)

    def take_dot(self, test: str) -> bool:
        """Return whether the terminal shows no dot of this test, named in full: it has a line, or
        the end names it.

        True once: when pytest asks again it is for its summary, which has a word for each test.
        """
        is_without = test in self._without_dot
        self._without_dot.discard(test)
        return is_without

    def _show(self, benchmark: Any, title: str, text: str) -> None:
        """Show what came of a configuration, if there is a text; the reason why there is nothing to
        show, once.
        """
        kind, _, reason = text.partition(": ")
        if reason and reason in self._shown_reasons:
            text = f"{kind}, as above"
        self._shown_reasons.add(reason)
        self._progress.result(title, text)
        if self._progress.replaces_dots:
            self._without_dot.add(benchmark.fullname)

    def add_without_speed(self, output_json: dict[str, Any]) -> None:
        """Put the results without speed into what pytest-benchmark is about to write."""
        output_json[WITHOUT_SPEED] = [
            entry for entry in self._entries.values() if "stats" not in entry
        ]

    def save_without_speed_alone(self) -> None:
        """Save these results if there are no others: pytest-benchmark then saves nothing."""
        if not self._entries or self._benchmarks.benchmarks:
            return
        document = dict(self._empty_run)
        self.add_without_speed(document)
        self._save(document, self._name)
        self._benchmarks.save = self._benchmarks.autosave = None

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
        """Write the run as far as it has come, with this entry in place of an older one of its
        test.
        """
        if self._writer is None:
            return
        self._entries[entry["fullname"]] = entry
        document = {
            **self._empty_run,
            "benchmarks": [row for row in self._entries.values() if "stats" in row],
        }
        self.add_without_speed(document)
        try:
            self._writer.write(document, finished=False)
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                warnings.warn(
                    f"the storage {self.storage} cannot be written ({error.strerror}): the"
                    " measurement goes on, and a power cut before its end loses what is not"
                    " stored yet",
                    stacklevel=2,
                )

    @functools.cached_property
    def verdict(self) -> Verdict | None:
        """What comes of the comparison with the baseline; None without --memory-baseline."""
        if self._gate is None:
            return None
        if self.saved is None:
            return Verdict(False, "nothing was measured: nothing to compare")
        return self._gate.judge(self.saved)

    @property
    def equal(self) -> str:
        """Which scenarios have no line since they are equal to others; empty if none is."""
        return equal_text(self._results.values())

    @property
    def problem(self) -> str:
        """Why the run has failed although its tests may have been skipped, each reason once; empty
        where it has not.
        """
        if self._reasons and not self._has_measured:
            return f"Nothing was measured. {'; '.join(dict.fromkeys(self._reasons))}"
        unusable = [
            error for error in self._without_models.values() if isinstance(error, UnusableModel)
        ]
        return (
            f"Not all was measured. {'; '.join(dict.fromkeys(map(str, unusable)))}"
            if unusable
            else ""
        )

    @property
    def is_failed(self) -> bool:
        """Whether the run as a whole has failed, however its tests did."""
        return (
            self.is_misplaced
            or bool(self.problem)
            or (self.verdict is not None and not self.verdict.passed)
        )

    def _save(self, output_json: dict[str, Any], name: str) -> None:
        """Write the finished run; pytest-benchmark cannot count past 9999, nor beside another
        writer.
        """
        assert self._writer is not None
        try:
            self.saved = self._writer.write(output_json)
        except OSError as error:
            self.is_misplaced = True
            self.saved = self._save_elsewhere(output_json, name, error)
        if self.saved is not None:
            self._benchmarks.logger.info(f"Saved benchmark data in: {self.saved}")

    def _save_elsewhere(
        self, output_json: dict[str, Any], name: str, refusal: OSError
    ) -> Path | None:
        """Write the run among the temporary files; return where most of it is, None if nothing
        is stored.
        """
        assert self._writer is not None
        reason = f"the storage {self.storage} cannot be written ({refusal.strerror})"
        try:
            saved = save_run(Path(tempfile.mkdtemp(prefix="reusebench-")), output_json, name)
        except OSError as error:
            stored = self._writer.path
            rest = (
                f"What was stored before is in {stored}"
                if stored
                else "Nothing of this run is stored"
            )
            self._benchmarks.logger.error(
                f"{reason}, nor can temporary files ({error.strerror}). {rest}"
            )
            return stored
        self._benchmarks.logger.error(
            f"{reason}. The run is in {saved}. When there is room, move it to"
            f" {self.storage / saved.parent.name}, under a number that is free"
        )
        return saved

    def _find_without_models(
        self, configurations: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], NoModels]:
        """Read or build all models, and learn how long all will take; return why configurations
        have none.

        The default clip, which takes seconds to make, waits until streams are measured, if
        something else is before. Raises UserError if no configuration is left, or none of a
        runtime that --runtime names.
        """
        late = [key for key in configurations if self._bench.waits_for_clip(key[1])]
        if len(late) == len(configurations):
            late = []
        reasons: dict[tuple[str, str], NoModels] = {}
        expected_s = {_title(key): self._bench.expected_s(key[1]) for key in configurations}
        plans: set[Plan] = set()
        for key in configurations:
            self._progress.expect(expected_s)
            self._progress.prepare(_title(key))
            if key in late:
                continue
            try:
                plan = nameless(self._bench.plans(*key)[0])
            except NoModels as error:
                reasons[key] = error
            if key in reasons or plan in plans:  # an equal plan is not measured again
                del expected_s[_title(key)]
            else:
                plans.add(plan)
        self._progress.expect(expected_s)
        for name in self._config.option.runtime or (None,):
            required = [key for key in configurations if name in (None, key[0])]
            if required and all(key in reasons for key in required):
                raise UserError(
                    "; ".join(dict.fromkeys(f"{key[0]}: {reasons[key]}" for key in required))
                )
        return reasons


def _title(configuration: tuple[str, str]) -> str:
    return " ".join(configuration)


def _exposures(targets: Mapping[str, Target]) -> Iterable[str]:
    """Return a line where a virtual board's library is not kept from what is the user's."""
    for reason in {target.exposure for target in targets.values() if target.exposure}:
        yield (
            "the library on the virtual board runs without a sandbox, and reaches your files, the"
            f" network and the devices as you do ({reason}); see docs/security.md"
        )


def _check_plans(
    configurations: Sequence[tuple[str, str | None]], of_files: Mapping[str, PlanFile]
) -> None:
    """Raise UserError if plans are to be measured and none is given, or are given and none is to
    be measured.
    """
    scenarios = {scenario for _, scenario in configurations}
    if None in scenarios:
        raise UserError(
            "bench/test_plans.py measures plans of yours: name one with --plan FILE (docs/plans.md)"
        )
    if of_files and not scenarios & of_files.keys():
        raise UserError(
            "--plan is measured by bench/test_plans.py: name no other file of bench/, or leave"
            " --plan out"
        )


def _entry(benchmark: Any, result: Result) -> dict[str, Any]:
    """Return a result without statistics in the form of pytest-benchmark's."""
    names = {key: getattr(benchmark, key) for key in ("group", "name", "fullname", "params")}
    return {**names, "extra_info": msgspec.to_builtins(result)}


def use_up(benchmark: Any) -> None:
    """Have the fixture count as used, without statistics: a disabled one does."""
    benchmark.disabled = True
    benchmark.pedantic(lambda: None)


def show_latency_table(config: pytest.Config) -> None:
    """Undo hide_latency_table, for a session with benchmarks that are not ours."""
    config.pluginmanager.getplugin("pytest-benchmark").quiet = False


def hide_latency_table(config: pytest.Config) -> bool:
    """Do as --benchmark-quiet does, unless an option of the user's is about pytest-benchmark's
    table.

    The table would bury the results: it is several screens long, and of latencies alone. It is in
    the report, and --benchmark-verbose shows it.
    """
    if config.option.benchmark_quiet or any(
        word.startswith(_OF_TABLE) for word in config.invocation_params.args
    ):
        return False
    config.option.benchmark_quiet = True
    return True


def choose_board_storage(config: pytest.Config) -> None:
    """Let each board have its own storage, unless the user has chosen one, which must be a folder.

    --benchmark-compare alone becomes the number of the newest run: pytest-benchmark would read all
    runs for it, and know none past 9999.
    """
    option = config.option
    try:
        if option.benchmark_storage == _COMMON_STORAGE:
            option.benchmark_storage = f"{_FILE_SCHEME}{storage_of(option.target)}"
        storage = _storage_folder(config)
    except (
        TargetError,
        UserError,
    ) as error:  # else pytest-benchmark would open it next and show a traceback
        raise pytest.UsageError(str(error)) from None
    if option.benchmark_compare is True:
        newest = max(
            (run_number(path) or 0 for path in (storage / python_folder()).glob("*.json")),
            default=0,
        )
        option.benchmark_compare = f"{newest:04}_" if newest else True


def _storage_folder(config: pytest.Config) -> Path:
    """Return the folder of --benchmark-storage; raise UserError if it is none."""
    uri = config.option.benchmark_storage
    scheme, separator, path = uri.rpartition("://")
    if separator and f"{scheme}{separator}" != _FILE_SCHEME:
        raise UserError(
            f"--benchmark-storage {uri}: results and traces need a folder; valid: file://PATH or a"
            " path"
        )
    return Path(path)


def _writable(folder: Path) -> Path:
    """Return the folder, made where it is missing; raise UserError if nothing can be written
    there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise UserError(
            f"the storage {folder} cannot be written ({error.strerror}). Choose another: "
            "--benchmark-storage=file://PATH"
        ) from None
