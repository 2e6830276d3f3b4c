"""Free sizes that are expressions of others."""

from __future__ import annotations

import pytest

from reusebench.models.inputs.expressions import SizeExpression


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("s0", 7),
        ("2*s0", 14),
        ("s0 + s1", 10),
        ("past_length + 1", 5),
        ("floor(s0/2) - 1", 2),
        ("Max(1, s0) * (s1 + 1)", 28),
        ("Mod(s0, s1)", 1),
        ("encoder.length + 2", 11),
        ("s1 - s0", 0),
        ("s0 // (s1 - 3)", None),
        ("unknown + 1", None),
        ("s0 ** s1", None),
        ("__import__('os')", None),
        ("?", None),
    ],
)
def test_values(text: str, value: int | None) -> None:
    """Whole numbers are computed; what cannot be is no size."""
    sizes = {"s0": 7, "s1": 3, "past_length": 4, "encoder.length": 9}
    assert SizeExpression(text).value(sizes) == value


@pytest.mark.parametrize(
    ("text", "wanted", "solved"),
    [
        ("s0", 100, {"s0": 100}),
        ("2*s0", 100, {"s0": 50}),
        ("2*s0", 99, {"s0": 50}),
        ("s0//2 + 1", 100, {"s0": 198}),
        ("s1 + known", 100, {"s1": 60}),
        ("1 - s0", 5, {}),
        ("dynamic axis", 16, {"dynamic axis": 16}),
        ("-1", 16, {"-1": 16}),
    ],
)
def test_names_that_follow_from_a_size(text: str, wanted: int, solved: dict[str, int]) -> None:
    """The smallest value is chosen that gives as much; a text that is no expression is a name."""
    assert SizeExpression(text).solved(wanted, {"known": 40}) == solved


@pytest.mark.parametrize("text", ["(" * 5000, "1+" * 300 + "s", "s\0", "9" * 50 + "*s"])
def test_texts_of_damaged_files(text: str) -> None:
    """A text that is too long, or no expression, is a name."""
    assert SizeExpression(text).is_name
