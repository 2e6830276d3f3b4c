"""The stored run of a session: it is written after each result, and whole at the end."""

from __future__ import annotations

import datetime
import functools
import warnings
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reusebench.harness.benchmark_plugin import benchmark_plugin, saves_runs
from reusebench.harness.errors import UserError
from reusebench.storage.refused_run import refusal_of, save_elsewhere, where_it_is
from reusebench.storage.result import Result
from reusebench.storage.run_file import BOARDS, WITHOUT_SPEED, RunWriter

__all__ = ["SessionRun", "entry_of"]


def entry_of(benchmark: Any, result: Result) -> dict[str, Any]:
    """Return a result without statistics of latencies, as pytest-benchmark's entry."""
    names = {key: getattr(benchmark, key) for key in ("group", "name", "fullname", "params")}
    return {**names, "extra_info": msgspec.to_builtins(result)}


class SessionRun:
    """The results of a session in pytest-benchmark's form, and their file.

    pytest-benchmark has no hook for the way a run is saved, so three of its session's attributes
    are replaced: `storage.save`, `autosave` and `get_machine_info`.
    """

    def __init__(self, config: pytest.Config, storage: Path) -> None:
        """Have pytest-benchmark save its run here; raise UserError if the run's name is wrong."""
        self.storage = storage
        #: File of the finished run; None before the end.
        self.saved: Path | None = None
        #: Whether the storage refused the finished run.
        self.is_misplaced = False
        self._config = config
        self._benchmarks = benchmark_plugin(config)
        #: Session of several boards only: the machine_info of each by its name, None if the board
        #: was not reached.
        self.boards: dict[str, Any] = {}
        #: Results by the full name of their test, in the form of pytest-benchmark's entries.
        self._entries: dict[str, dict[str, Any]] = {}
        self._has_warned = False
        saves = saves_runs(config)
        if saves and not self._benchmarks.save:
            now = datetime.datetime.now(datetime.timezone.utc)
            self._benchmarks.autosave = now.strftime("%Y%m%d_%H%M%S")
        self._name: str = self._benchmarks.save or self._benchmarks.autosave
        self._writer: RunWriter | None = None
        if saves:
            try:
                self._writer = RunWriter(storage.resolve(), self._name)
            except ValueError as error:
                raise UserError(f"--benchmark-save: {error}") from None
        self._benchmarks.storage.save = self._save
        # It takes a second, and is called at the beginning and at the end.
        self._benchmarks.get_machine_info = functools.cache(self._benchmarks.get_machine_info)
        self._empty_run = self._generate_empty_run()

    def keep(self, benchmark: Any, result: Result) -> None:
        """Store a result without statistics of latencies."""
        self._keep(entry_of(benchmark, result))

    def keep_newest_benchmark(self) -> None:
        """Store the result whose latencies pytest-benchmark has got last."""
        if self._writer:  # without one there may be no statistics
            self._keep(self._benchmarks.benchmarks[-1].as_dict(include_data=False))

    def put(self, test: str, entry: dict[str, Any]) -> None:
        """Take the entry of a test, in place of an older one."""
        self._entries[test] = entry

    def add_without_speed(self, output_json: dict[str, Any]) -> None:
        """Add the results without speed to the run that pytest-benchmark is about to write."""
        output_json[WITHOUT_SPEED] = [
            entry for entry in self._entries.values() if "stats" not in entry
        ]

    def save_alone(self) -> None:
        """Save the results if pytest-benchmark, which has no benchmarks, would save nothing."""
        if not self._entries or self._benchmarks.benchmarks:
            return
        self._save(self._document(), self._name)
        self._benchmarks.save = None
        self._benchmarks.autosave = None

    def _generate_empty_run(self) -> dict[str, Any]:
        """Return the document that pytest-benchmark would write of a session without results."""
        hook = self._config.hook
        output_json: dict[str, Any] = hook.pytest_benchmark_generate_json(
            config=self._config,
            benchmarks=[],
            include_data=False,
            machine_info=self._benchmarks.get_machine_info(),
            commit_info=hook.pytest_benchmark_generate_commit_info(config=self._config),
        )
        return output_json

    def _document(self) -> dict[str, Any]:
        """Return the run with all results until now."""
        with_speed = [entry for entry in self._entries.values() if "stats" in entry]
        document = {**self._empty_run, "benchmarks": with_speed}
        self.add_without_speed(document)
        if self.boards:
            document[BOARDS] = self.boards
        return document

    def _keep(self, entry: dict[str, Any]) -> None:
        if self._writer is not None:
            self.put(entry["fullname"], entry)
            self.write_unfinished()

    def write_unfinished(self) -> None:
        """Write the run with all results until now."""
        assert self._writer is not None
        try:
            self._writer.write(self._document(), finished=False)
        except OSError as error:
            if self._has_warned:
                return
            self._has_warned = True
            warnings.warn(
                f"{refusal_of(self.storage, error)}: the measurement goes on, and a power cut"
                " before its end loses what is not stored yet",
                stacklevel=2,
            )

    def _save(self, output_json: dict[str, Any], name: str) -> None:
        """Write the finished run in place of pytest-benchmark.

        It cannot count past 9999, and its numbers clash if another session writes, too.
        """
        assert self._writer is not None
        try:
            self.saved = self._writer.write(output_json)
        except OSError as error:
            self.is_misplaced = True
            self.saved = self._save_elsewhere(output_json, name, error)
        else:
            # Not at the top: nothing of the index is in memory while something is measured.
            from reusebench.storage.index.storage_index import index_run

            index_run(self.saved)
        if self.saved is not None:
            self._benchmarks.logger.info(f"Saved benchmark data in: {self.saved}")

    def _save_elsewhere(
        self, output_json: dict[str, Any], name: str, refusal: OSError
    ) -> Path | None:
        """Write the run among the temporary files; return the file that has most of it, or None."""
        assert self._writer is not None
        try:
            saved = save_elsewhere(output_json, name)
        except OSError as error:
            unfinished = self._writer.path
            rest = "Nothing of this run is stored"
            if unfinished:
                rest = f"What was stored before is in {unfinished}"
            self._benchmarks.logger.error(
                f"{refusal_of(self.storage, refusal)}, nor can temporary files"
                f" ({error.strerror}). {rest}"
            )
            return unfinished
        self._benchmarks.logger.error(where_it_is(self.storage, refusal, saved))
        return saved
