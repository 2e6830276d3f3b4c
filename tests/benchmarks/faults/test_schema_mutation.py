"""Changes of stored values by their own types."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Optional

import msgspec

from benchmarks.faults.schema_mutants import schema_mutant
from benchmarks.faults.schema_mutation import Change, FieldValues, Json, changed, changes


class _Part(msgspec.Struct):
    name: str
    sizes: tuple[Optional[int], ...]
    times: list[float]


class _Whole(msgspec.Struct):
    kind: Literal["a", "b"]
    parts: tuple[_Part, ...]
    by_name: dict[str, bool]
    limit: Optional[_Part] = None


_WHOLE = {
    "kind": "a",
    "parts": [{"name": "first", "sizes": [1, 2], "times": [1.0, 2.0]}],
    "by_name": {"x": True},
    "limit": None,
}


def _all(others: FieldValues | None = None) -> list[Change]:
    return changes(_WHOLE, _Whole, others or FieldValues())


def _values(path: tuple[object, ...]) -> list[Json]:
    """Return the values that a place gets."""
    values = []
    for change in _all():
        if len(change.values) == 1 and change.values[0][0] == path:
            values.append(change.values[0][1])
    return values


def test_each_place_gets_the_edges_of_its_type() -> None:
    """Numbers get bounds, texts unknown names, lists other lengths, optional values None."""
    sizes = ("parts", 0, "sizes")
    assert {None, 0, -1, 2**63 - 1} <= set(_values((*sizes, 0)))
    assert "unknown_name" in _values(("parts", 0, "name"))
    assert {"b", "unknown_name"} <= set(_values(("kind",)))
    lengths = {len(value) for value in _values(sizes)}
    assert {0, 1, 3, 4, 100} <= lengths
    assert [None, 2] in _values(sizes)
    assert {} in _values(("by_name",))
    assert {"name": "", "sizes": [], "times": []} in _values(("limit",))


def test_what_others_have_in_a_field() -> None:
    """An optional part that a document lacks is taken from one that has it."""
    others = FieldValues()
    part = {"name": "other", "sizes": [None], "times": [3.0]}
    others.add({**_WHOLE, "limit": part}, _Whole)
    assert any(change.values == ((("limit",), part),) for change in _all(others))


def test_lists_of_equal_length_change_together() -> None:
    """Lists with an item for each repeat are emptied, cut and doubled at once."""
    lengths = set()
    for change in _all():
        if len(change.values) == 2:
            part = changed(_WHOLE, change)["parts"][0]
            assert len(part["sizes"]) == len(part["times"])
            lengths.add(len(part["sizes"]))
    assert lengths == {0, 1, 4}


def test_a_change_leaves_the_document_alone() -> None:
    """Each change is made to a copy, and most copies are still of the schema."""
    before = msgspec.json.encode(_WHOLE)
    valid = 0
    for change in _all():
        try:
            msgspec.convert(changed(_WHOLE, change), _Whole)
            valid += 1
        except msgspec.ValidationError:
            pass
    assert msgspec.json.encode(_WHOLE) == before
    assert valid > len(_all()) / 2


def test_equal_indexes_make_equal_files(tmp_path: Path) -> None:
    """An input can be made again: its file, and the other files of its kind."""

    def files(folder: str) -> dict[str, bytes]:
        schema_mutant(tmp_path / "kinds", 70, "mutant", 3).write(tmp_path / folder)
        found = {}
        for path in (tmp_path / folder).rglob("*"):
            if path.is_file() and path.suffix == ".json":
                found[str(path.relative_to(tmp_path / folder))] = path.read_bytes()
        return found

    first = files("first")
    assert first == files("second")
    assert any("mutant" in name for name in first)
