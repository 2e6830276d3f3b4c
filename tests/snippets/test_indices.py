"""Expressions of a context's number: a formula if one fits, otherwise a table."""

from __future__ import annotations

import pytest

from reusebench.snippets.indices import Indices


@pytest.mark.parametrize(
    ("values", "expression"),
    [
        ([7, 7, 7], "7"),
        ([None, None, None], "0"),
        ([0, 1, 2, 3], "i"),
        ([0, 1, 2, 0, 1, 2], "i % 3"),
        ([0, 0, 0, 1, 1, 1], "i // 3"),
        ([None, 0, 0, None, 3, 3], "i // 3 * 3"),
        ([None, 0, None, 2], "i // 2 * 2"),
        ([2, 0, 1], "it[i]"),
    ],
)
def test_values(values: list[int | None], expression: str) -> None:
    """The expression gives each value that is not left open."""
    indices = Indices(len(values), divide="//")
    assert indices.value("it", values) == expression
    for i, value in enumerate(values):
        assert value in (None, eval(expression, {"i": i, **indices.tables}))


@pytest.mark.parametrize(
    ("members", "condition"),
    [
        ({0}, "i == 0"),
        ({2}, "i == 2"),
        ({1, 2, 3, 4, 5}, "i > 0"),
        ({0, 1, 2}, "i < 3"),
        ({3, 4, 5}, "i >= 3"),
        ({0, 2, 4}, "i % 2 == 0"),
        ({1, 2, 4, 5}, "i % 3 != 0"),
        ({1, 2, 5}, "some[i]"),
    ],
)
def test_conditions(members: set[int], condition: str) -> None:
    """The condition is true for these contexts and no other."""
    indices = Indices(6, divide="//")
    where = indices.where("some", members)
    assert (where.any, where.all, where.condition) == (True, False, condition)
    assert {i for i in range(6) if eval(condition, {"i": i, **indices.tables})} == members


def test_everyone_and_nobody() -> None:
    """Neither needs a condition, nor a table."""
    indices = Indices(3, divide="/")
    everyone = indices.where("a", range(3))
    nobody = indices.where("b", [])
    assert (everyone.any, everyone.all, nobody.any, nobody.all) == (True, True, False, False)
    assert indices.tables == {}
