"""The methods that RuntimeContext implements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reusebench.measured.runtimes.base import Copies, RuntimeContext


class _Context(RuntimeContext):
    """A context with given outputs."""

    def __init__(self, *outputs: np.ndarray) -> None:
        self._outputs = outputs

    def infer(self) -> None:
        """Do nothing."""

    def outputs(self) -> Sequence[memoryview]:
        """Return the arrays."""
        return [output.data for output in self._outputs]

    def copies(self) -> Copies:
        """Return zeros."""
        return Copies(0, 0)

    def destroy(self) -> None:
        """Do nothing."""


def test_samples_are_at_even_distances() -> None:
    """They go from the first value of an output to its last; a small output has all values."""
    large = np.arange(1000, dtype="float32").reshape(10, 100)
    small = np.array([2.5, -1], dtype="float64")
    of_large, of_small, of_one = _Context(large, small, np.array([7], dtype="float32")).samples()
    assert (of_large[0], of_large[-1], len(of_large)) == (0.0, 999.0, 32)
    positions = [value for value in of_large if value is not None]
    assert {later - earlier for earlier, later in zip(positions, positions[1:])} == {32, 33}
    assert (of_small, of_one) == ([2.5, -1.0], [7.0])


def test_what_has_no_samples() -> None:
    """A value that is not finite is None; whole numbers and empty outputs have no samples."""
    outputs = (
        np.array([np.nan, 1, np.inf], "float32"),
        np.zeros(4, "int8"),
        np.zeros((0, 4), "float32"),
    )
    assert _Context(*outputs).samples() == [[None, 1.0, None], [], []]
