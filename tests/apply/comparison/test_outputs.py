"""Outputs of both sides, as their runs give them."""

from __future__ import annotations

import pytest

from reusebench.apply.comparison.outputs import compare_models, compare_text
from reusebench.apply.comparison.runs import Run, Side
from reusebench.apply.comparison.task import APPLIED, AS_IT_IS
from tests.apply.comparison.made import made_run

_EQUAL = {"a": (2, 7), "b": (1, 9)}


def _sides(as_is: list[Run], applied: list[Run]) -> tuple[Side, Side]:
    return Side(AS_IT_IS, checked=as_is), Side(APPLIED, checked=applied)


def test_equal_outputs_of_several_processes() -> None:
    """Processes may do the runs in any division: runs and sums add."""
    as_is = [made_run("", {"a": (1, 2**127)}, {"a": (1, 2**127 + 7), "b": (1, 9)})]
    sides = _sides(as_is, [made_run("", _EQUAL)])
    finding = compare_models(*sides, computes=True)
    assert (finding.result, finding.words) == ("equal", "outputs bit-equal (3 runs of 2 models)")


def test_nothing_is_claimed_where_nothing_is_computed() -> None:
    """On the virtual board the numbers of runs are compared, and no values."""
    sides = _sides([made_run("", _EQUAL)], [made_run("", {"a": (2, 1), "b": (1, 1)})])
    finding = compare_models(*sides, computes=False)
    assert finding.result == "not computed"
    assert "the virtual board computes nothing" in finding.words
    other = _sides([made_run("", _EQUAL)] * 2, [made_run("", {"a": (2, 7)})])
    assert compare_models(*other, computes=False).result == "different"


@pytest.mark.parametrize(
    ("again", "applied", "result", "words"),
    [
        (_EQUAL, {"a": (2, 8), "b": (1, 9)}, "different", "a: other values in 2 runs"),
        (_EQUAL, {"a": (2, 7)}, "different", "b: 1 runs as it is, 0 applied"),
        ({"a": (2, 3), "b": (1, 9)}, {"a": (2, 8), "b": (1, 9)}, "unknown", "others each time"),
        ({"a": (5, 3)}, {"a": (4, 8)}, "unknown", "3 and 5 as it is, 4 applied"),
    ],
)
def test_outputs_that_differ(
    again: dict[str, tuple[int, int]],
    applied: dict[str, tuple[int, int]],
    result: str,
    words: str,
) -> None:
    """It is a difference only if the program as it is gives the same each time."""
    sides = _sides([made_run("", _EQUAL), made_run("", again)], [made_run("", applied)])
    finding = compare_models(*sides, computes=True)
    assert finding.result == result
    assert words in finding.words


@pytest.mark.parametrize(
    ("as_is", "applied", "are_models_equal", "result", "words"),
    [
        (["a\nb", "a\nb"], ["a\nb"], False, "equal", "standard output equal"),
        (["a 1\nb", "a 2\nb"], ["a 3\nb"], True, "varies", "in 1 line, and is equal in the other"),
        (["a 1\nb", "a 2\nb"], ["a 3\nc"], True, "different", "'b' as it is, 'c' applied"),
        (["a\nb", "a"], ["a"], True, "unknown", "another number of lines"),
        (["a 1", "a 1"], ["a 2"], True, "unknown", "other numbers alone"),
        (["a 1", "a 1"], ["a 2"], False, "different", "'a 1' as it is, 'a 2' applied"),
        (["I RKNN: [1] x\na", "a"], ["W RKNN: [2] y\na"], False, "equal", "output equal"),
        (["a", "a"], ["E RKNN: [1] x\na"], True, "different", "'E RKNN:  x' applied"),
        (["E RKNN: [1] x", "E RKNN: [2] x"], ["E RKNN: [3] x"], False, "equal", "output equal"),
        (["a", "a"], ["a", "a\nmore"], True, "different", "'' as it is, 'more' applied"),
    ],
)
def test_standard_output(
    as_is: list[str], applied: list[str], are_models_equal: bool, result: str, words: str
) -> None:
    """Lines that vary by themselves are left out; all others must be equal in each run."""
    sides = _sides([made_run(text) for text in as_is], [made_run(text) for text in applied])
    finding = compare_text(*sides, are_models_equal=are_models_equal)
    assert finding.result == result
    assert words in finding.words
