from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reusebench.reports.base.texts import texts_of
from reusebench.reports.results.labels import labels_of
from reusebench.storage.result import Result
from tests.reports.stored import changed, even, groups_of, machine, result, write_run

ENGLISH = texts_of("en")


def stored_labels(storage: Path, infos: list[Result]) -> list[str]:
    for number, info in enumerate(infos, start=1):
        write_run(storage, [info], number, at=f"2026-01-0{number}T00:00:00")
    return labels_of(groups_of(storage), ENGLISH)


def test_one_group_is_its_runtime_and_target(tmp_path: Path) -> None:
    """The label has nothing that is not needed to tell groups apart."""
    assert stored_labels(tmp_path, [result(tmp_path, "no_reuse", even(3))]) == [
        "ONNX Runtime 1.2.3"
    ]


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"python_version": "3.9.1"}, ["Python 3.9.1", "Python 3.11.7"]),
        ({"cores": 1}, ["1 at once", "2 at once"]),
        ({"streams": 2}, ["2 streams", "4 streams"]),
    ],
)
def test_groups_say_what_they_differ_in(
    tmp_path: Path, change: dict[str, Any], facts: list[str]
) -> None:
    """Labels of two groups of one runtime and target add the condition that differs."""
    info = result(tmp_path, "no_reuse", even(3))
    labels = stored_labels(tmp_path, [info, changed(info, **change)])
    assert all(
        label.startswith(f"ONNX Runtime 1.2.3, {fact}") for label, fact in zip(labels, facts)
    )
    assert len(set(labels)) == 2


def test_boards_are_named_if_there_are_several(tmp_path: Path) -> None:
    """The same measurement on two boards is labelled with the board."""
    for number, board in enumerate(("one", "two"), start=1):
        write_run(
            tmp_path, [result(tmp_path, "no_reuse", even(3))], number, machine=machine(board=board)
        )
    assert sorted(labels_of(groups_of(tmp_path), ENGLISH)) == [
        "ONNX Runtime 1.2.3, one",
        "ONNX Runtime 1.2.3, two",
    ]
