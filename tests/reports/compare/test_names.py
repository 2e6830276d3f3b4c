"""Short names of configurations."""

from __future__ import annotations

from dataclasses import replace

from reusebench.reports.compare.names import common_words, short_names
from tests.reports.compare.short_runs import FULL_DUP, NO_REUSE


def test_what_all_have_in_common_is_said_once() -> None:
    """Common parts stand above the table, not in the names."""
    assert list(short_names([FULL_DUP, NO_REUSE]).values()) == ["full_dup", "no_reuse"]
    assert common_words([FULL_DUP, NO_REUSE]) == "onnxruntime, 4 x 3, model-a"
    assert common_words([]) == ""


def test_the_same_name_says_what_differs() -> None:
    """Configurations with one name get the parts that differ."""
    other = replace(FULL_DUP, runtime="rknn", target="vboard:rk3588")
    small = replace(FULL_DUP, detail="1 x 2")
    assert list(short_names([FULL_DUP, other]).values()) == [
        "full_dup (onnxruntime)",
        "full_dup (rknn, vboard:rk3588)",
    ]
    assert list(short_names([FULL_DUP, small]).values()) == ["full_dup (4 x 3)", "full_dup (1 x 2)"]


def test_models_are_told_apart_by_all_of_them() -> None:
    """Two sets of models with the same first model have two names."""
    one, other = (replace(FULL_DUP, models=("a", last)) for last in ("b", "c"))
    assert list(short_names([one, other]).values()) == ["full_dup (a, b)", "full_dup (a, c)"]
