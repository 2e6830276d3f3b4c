"""Measurements of plans by `pytest bench/` for `reusebench fit`, in fresh processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.commands.benching import run_bench
from reusebench.harness.errors import UserError
from reusebench.measured.plan import Plan
from reusebench.storage.errors import StorageError
from reusebench.storage.fit_answer import calibrations
from reusebench.storage.result import Result
from reusebench.storage.run_file import StoredRun, read_run_file, read_storage
from reusebench.system.cache import OwnFolder
from reusebench.system.files import replacing
from reusebench.system.user_files import ChangedFile, Pins
from reusebench.targets.resolve import Selection
from reusebench.targets.target import Target

__all__ = ["PlanBench", "write_plan"]


@dataclass
class PlanBench:
    """Measures plans of one runtime on one target, and keeps the results in the storage."""

    runtime: str
    target: Target
    selection: Selection
    storage: Path
    #: Digest of the library, which must not change between the sessions of pytest.
    _pins: Pins = field(default_factory=Pins)

    def __post_init__(self) -> None:
        self._check_library()

    @property
    def results(self) -> Path:
        """The storage of the results."""
        return calibrations(self.storage)

    def stored(self) -> list[Result]:
        """Return the results of earlier calls on this target, for the runtime's newest version.

        Those that were measured while memory was short are left out.
        """
        mine = []
        for run in read_storage(self.results):
            if isinstance(run, StoredRun):
                mine += [result.info for result in run.results if self._is_mine(result.info)]
        if not mine:
            return []
        version = mine[-1].runtime_version
        return [one for one in mine if one.runtime_version == version and not one.is_short]

    def _is_mine(self, result: Result) -> bool:
        return (result.runtime, result.target) == (self.runtime, self.target.name)

    def run(
        self, plans: Sequence[Plan], repeats: int, options: Sequence[str] = ()
    ) -> tuple[list[Result], str]:
        """Return the results, and what pytest has printed."""
        with OwnFolder() as folder:
            files = [folder / f"{plan.scenario}.json" for plan in plans]
            for plan, file in zip(plans, files):
                file.write_text(json.dumps(plan.to_json()), encoding="utf-8")
            tests = [f"test_plans.py::test_plans[{self.runtime}-{plan.scenario}]" for plan in plans]
            self.results.mkdir(parents=True, exist_ok=True)
            self.target.machine.close()  # pytest connects to a remote board itself
            all_options = [*self._options(files, repeats), *options]
            with (folder / "output").open("w+", encoding="utf-8", errors="replace") as output:
                _, paths = run_bench(all_options, self.results, tests, output)
                output.seek(0)
                words = output.read()
            self._check_library()
        results = []
        for path in paths:
            run = read_run_file(path)
            if isinstance(run, StoredRun):
                results += [result.info for result in run.results]
        return results, words

    def _options(self, plan_files: Sequence[Path], repeats: int) -> list[str]:
        """Return pytest's options for a session with these plans."""
        options = [f"--plan={file}" for file in plan_files]
        options += ["--runtime", self.runtime, "--target", self.selection.target]
        options += ["--repeats", str(repeats)]
        options += ["-q", "--no-header", "--benchmark-quiet"]
        if self.selection.rknn_library:
            options += ["--rknn-library", str(self.selection.rknn_library)]
        return options

    def _check_library(self) -> None:
        """Pin the library; raise UserError if it has changed since the beginning."""
        if self.selection.rknn_library:
            try:
                self._pins.check(self.selection.rknn_library)
            except ChangedFile as error:
                raise UserError(f"--rknn-library {error}") from None


def write_plan(plan: Plan, storage: Path, name: str) -> Path:
    """Write the plan into the folder of the answers, and return its path."""
    path = calibrations(storage).parent / f"{name}-{plan.runtime}.json"
    try:
        with replacing(path) as unfinished:
            unfinished.write_text(json.dumps(plan.to_json(), indent=2), encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"the plan cannot be stored in {path.parent} ({error.strerror})"
        ) from None
    return path
