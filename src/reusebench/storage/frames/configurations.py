"""The common columns of a configuration's rows, and columns in their types."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from reusebench.storage.configuration_row import ConfigurationRow, row_of_program, row_of_result
from reusebench.storage.frames.columns import CONFIGURATION_COLUMNS, TYPES
from reusebench.storage.recorded_program import Program
from reusebench.storage.result import Result
from reusebench.storage.run_file import StoredRun
from reusebench.storage.runs import Run, run_of

__all__ = ["Configurations", "texts", "typed_frame"]


class Configurations:
    """Configurations, numbered as they come."""

    def __init__(self) -> None:
        self._rows: list[ConfigurationRow] = []
        #: The last file, and its run.
        self._read: tuple[StoredRun, Run] | None = None

    def results_of(self, file: StoredRun) -> Iterator[tuple[int, Result]]:
        """Yield the results of scenarios, each with its number."""
        run = self._run_of(file)
        for stored, measured in zip(file.results, run.measured):
            yield self._add(row_of_result(run, measured, stored.info)), stored.info

    def programs_of(self, file: StoredRun) -> Iterator[tuple[int, Program]]:
        """Yield the recorded programs, each with its number."""
        run = self._run_of(file)
        for program in file.programs:
            yield self._add(row_of_program(run, program)), program

    def _run_of(self, file: StoredRun) -> Run:
        """Return the run of a file; it is computed once, as digests of plans take long."""
        if self._read is None or self._read[0] is not file:
            self._read = (file, run_of(file))
        return self._read[1]

    def _add(self, row: ConfigurationRow) -> int:
        """Add a configuration and return its number."""
        self._rows.append(row)
        return len(self._rows) - 1

    def frame(self) -> pd.DataFrame:
        """Return a frame with a row for each configuration, by number."""
        return typed_frame(CONFIGURATION_COLUMNS, self._rows)


def typed_frame(columns: Sequence[str], rows: Sequence[tuple[object, ...]]) -> pd.DataFrame:
    """Return rows as a frame, each column in its type."""
    values = list(zip(*rows)) or [()] * len(columns)
    typed = {name: _typed(name, column) for name, column in zip(columns, values)}
    frame: pd.DataFrame = pd.DataFrame(typed)
    return frame


def _typed(name: str, values: Sequence[Any]) -> Any:
    """Return the values of a column in its type; text is a categorical in order of appearance."""
    if name == "recorded_at":
        moments = [datetime.datetime.fromisoformat(text).replace(tzinfo=None) for text in values]
        return pd.DatetimeIndex(np.array(moments, dtype="datetime64[us]")).tz_localize("UTC")
    kind = TYPES.get(name)
    if kind == "Int64":
        return pd.array(values, dtype=pd.Int64Dtype())
    if kind is not None:
        return np.array(values, dtype=kind)
    codes, words = pd.factorize(np.array(values, dtype=object))
    return texts(codes, list(words))


def texts(codes: npt.NDArray[Any], words: Sequence[str]) -> pd.Categorical:
    """Return a column of text by indices into `words`; -1 is a missing value."""
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(words), dtype=str))
