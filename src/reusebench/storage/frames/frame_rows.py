"""Rows of figures, collected as numbers and turned into a frame at once."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from reusebench.storage.configuration_row import Figures
from reusebench.storage.frames.columns import TYPES, UNITS
from reusebench.storage.frames.configurations import texts
from reusebench.storage.metrics import FRACTIONAL

__all__ = ["NONE", "Kind", "Rows"]

_Integers = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]
#: Key without a value; keys are whole numbers.
NONE = -1
#: Bound of whole numbers; every figure is smaller.
_MOST = 2.0**62


class Kind:
    """The rows that have figures of the same metrics."""

    def __init__(self, metrics: tuple[str, ...], wanted: Sequence[str]) -> None:
        #: Positions of the wanted metrics among those of the kind.
        self._wanted = [index for index, name in enumerate(metrics) if name in wanted]
        #: The wanted metrics.
        self.metrics = tuple(metrics[index] for index in self._wanted)
        #: Position of each row among the rows of all kinds.
        self.positions = array("q")
        self._figures: list[Figures] = []
        self._packed: list[_Floats] = [np.empty((0, len(self.metrics)))]

    def add(self, position: int, figures: Figures) -> None:
        """Add a row, with a figure for each metric of the kind."""
        self.positions.append(position)
        self._figures.append(tuple(figures[index] for index in self._wanted))

    def pack(self) -> None:
        """Turn the figures into an array, which takes less memory than objects."""
        if self._figures:
            self._packed.append(np.array(self._figures, dtype="float64"))
            self._figures = []

    def add_all(self, positions: _Integers, figures: _Floats) -> None:
        """Add rows at once; the figures are those of the wanted metrics."""
        self.pack()
        self.positions.frombytes(positions.tobytes())
        self._packed.append(figures)

    def figures(self) -> _Floats:
        """Return all figures, one line per row; NaN is a missing figure."""
        self.pack()
        self._packed = [np.concatenate(self._packed)]
        return self._packed[0]


class Rows:
    """The rows of several kinds, whose keys are whole numbers: phases are numbered by name."""

    def __init__(
        self, keys: Sequence[str], metrics: Sequence[str], *kinds: tuple[str, ...]
    ) -> None:
        """Take the key names after `configuration`, the wanted metrics, and those of each kind."""
        self._names = ["configuration", *keys]
        self._metrics = list(metrics)
        self.kinds = [Kind(kind, metrics) for kind in kinds]
        self._keys = array("q")
        self._phases: dict[str, int] = {}

    def phase(self, name: str) -> int:
        """Return the number of a phase."""
        return self._phases.setdefault(name, len(self._phases))

    def add(self, kind: Kind, keys: tuple[int, ...], figures: Figures) -> None:
        """Add a row, unless none of its metrics is wanted."""
        if kind.metrics:
            kind.add(len(self._keys) // len(self._names), figures)
            self._keys.extend(keys)

    def add_all(self, kind: Kind, keys: _Integers, figures: _Floats) -> None:
        """Add rows at once: lines of keys, and of the kind's figures; all are NaN without any."""
        first = len(self._keys) // len(self._names)
        kind.add_all(np.arange(first, first + len(keys)), figures)
        self._keys.frombytes(keys.tobytes())

    def add_if_first(self, keys: tuple[int, ...]) -> None:
        """Add a row without figures, unless its configuration has a row."""
        if not self._keys or self._keys[-len(self._names)] != keys[0]:
            self._keys.extend(keys)

    def pack(self) -> None:
        """Turn the figures of all kinds into arrays."""
        for kind in self.kinds:
            kind.pack()

    def frame(
        self, configurations: pd.DataFrame, wide: bool, order: Sequence[str] = ()
    ) -> pd.DataFrame:
        """Return the rows, sorted by the keys in `order`, beside the columns of configurations."""
        keys = np.array(self._keys, dtype="int64").reshape(-1, len(self._names))
        ordered = np.arange(len(keys))
        if order:
            # lexsort takes its last key as the most significant one, and is stable.
            ordered = np.lexsort([keys[:, self._names.index(name)] for name in reversed(order)])
        if wide:
            rows = ordered
            figures = self._wide(rows)
        else:
            rows, figures = self._tidy(ordered)

        numbers, *columns = keys[rows].T
        key_columns = {
            name: self._decoded(name, column) for name, column in zip(self._names[1:], columns)
        }
        common = configurations.take(numbers).reset_index(drop=True)
        frame: pd.DataFrame = pd.concat(
            [common, pd.DataFrame(key_columns), pd.DataFrame(figures)], axis="columns"
        )
        return frame

    def _wide(self, rows: _Integers) -> dict[str, Any]:
        """Return a column for each metric, in the order of `rows`."""
        columns: dict[str, Any] = {}
        for name in self._metrics:
            values = np.full(len(rows), np.nan)
            for kind in self.kinds:
                if name in kind.metrics:
                    positions = np.array(kind.positions, dtype="int64")
                    values[positions] = kind.figures()[:, kind.metrics.index(name)]
            columns[name] = _in_unit(name, values[rows])
        return columns

    def _tidy(self, rows: _Integers) -> tuple[_Integers, dict[str, Any]]:
        """Return the row of each figure, in the order of `rows`, and the columns of the figures."""
        positions = []
        metrics = []
        values = []
        for kind in self.kinds:
            figures = kind.figures()
            present, columns = np.nonzero(~np.isnan(figures))
            numbers = np.array([self._metrics.index(name) for name in kind.metrics], dtype="int64")
            positions.append(np.array(kind.positions, dtype="int64")[present])
            metrics.append(numbers[columns])
            values.append(figures[present, columns])

        all_positions = np.concatenate(positions)
        ranks = np.argsort(rows)
        in_order = np.argsort(ranks[all_positions], kind="stable")
        metric = np.concatenate(metrics)[in_order]
        units = [UNITS[name] for name in self._metrics]
        distinct_units = list(dict.fromkeys(units))
        unit_of_metric = np.array([distinct_units.index(unit) for unit in units], dtype="int64")
        return all_positions[in_order], {
            "metric": texts(metric, self._metrics).remove_unused_categories(),
            "unit": texts(unit_of_metric[metric], distinct_units).remove_unused_categories(),
            "value": np.concatenate(values)[in_order],
        }

    def _decoded(self, name: str, numbers: _Integers) -> Any:
        """Return the values of a key in its type."""
        if name == "phase":
            return texts(numbers, list(self._phases))
        if TYPES[name] == "Int64":
            return pd.arrays.IntegerArray(numbers, numbers == NONE)
        return numbers.astype(TYPES[name])


def _in_unit(name: str, values: _Floats) -> Any:
    """Return the values of a metric: rates and shares as they are, others as whole numbers."""
    if UNITS[name] in FRACTIONAL:
        return values
    is_missing = ~(np.abs(values) < _MOST)  # NaN too
    return pd.arrays.IntegerArray(np.where(is_missing, 0, values).astype("int64"), is_missing)
