"""Mutation of stored values by their own types: what the schema lets pass, readers must take.

Each place of a value gets the edge values of its type: none, empty, one, many, the bounds of
numbers, names that no version knows, and what other stored values have in the same field.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import inspect

from reusebench.measured.runtimes import RUNTIMES
from reusebench.scenarios.catalogue import SCENARIOS
from reusebench.targets.outcome import OUTCOMES

__all__ = ["Change", "FieldValues", "Json", "changed", "changes"]

#: A parsed JSON document.
Json = Any
_Path = tuple[Any, ...]

_SEQUENCES = (inspect.ListType, inspect.VarTupleType)
_OBJECTS = (inspect.StructType, inspect.DataclassType)
#: In place of a value: its key is removed.
_MISSING = object()
_MANY = 100
#: Most values that a field gets from other stored values.
_MOST_OTHERS = 6
_TEXTS = ("", "unknown_name", "a.b", "x=1", "two words", "0", "\u4e2d\u6587", "a" * 200)
_WHOLE = (0, 1, -1, 2, 3, 1000, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
_REAL = (0.0, -1.0, 1.0, 1e-300, 100.0, 1e9, 3e38, -3e38)
#: Edge values of types without parts.
_SIMPLE: dict[type[inspect.Type], tuple[Json, ...]] = {
    inspect.NoneType: (None,),
    inspect.BoolType: (True, False),
    inspect.IntType: _WHOLE,
    inspect.FloatType: _REAL,
}
#: The smallest value of types that need none of their parts.
_EMPTY: dict[type[inspect.Type], Json] = {
    inspect.BoolType: False,
    inspect.ListType: [],
    inspect.VarTupleType: [],
    inspect.DictType: {},
}
#: Names that this version knows, by field.
_KNOWN: dict[str, tuple[str, ...]] = {
    "runtime": tuple(entry.name for entry in RUNTIMES),
    "scenario": tuple(scenario.name for scenario in SCENARIOS),
    "baseline": tuple(scenario.name for scenario in SCENARIOS),
    "measured_as": tuple(scenario.name for scenario in SCENARIOS[::8]),
    "outcome": tuple(OUTCOMES),
    "kind": tuple(OUTCOMES),
    "schema": ("reusebench-result-3", "reusebench-program-9", "reusebench-fit-2", "other-1"),
}


@dataclass(frozen=True)
class Change:
    """A new value for some places of a document, the same for all or one for each."""

    about: str
    #: Paths with their new values.
    values: tuple[tuple[_Path, Json], ...]


@dataclass
class FieldValues:
    """The values that stored documents have in each field of each type."""

    _values: dict[tuple[str, str], dict[str, Json]] = field(default_factory=dict)

    def add(self, value: Json, kind: Any) -> None:
        """Take the values of all fields in a document of this type."""
        self._add(value, inspect.type_info(kind))

    def _add(self, value: Json, kind: inspect.Type) -> None:
        kind = _chosen(value, kind)
        for _, part, part_kind, name in _parts(value, kind):
            if isinstance(kind, _OBJECTS):
                others = self._values.setdefault((kind.cls.__name__, name), {})
                others.setdefault(json.dumps(part), part)
            self._add(part, part_kind)

    def of(self, owner: str, name: str) -> list[Json]:
        """Return some distinct values of a field, those of different size first."""
        values = self._values.get((owner, name), {})
        by_size: dict[int, Json] = {}
        for text, value in values.items():
            by_size.setdefault(len(text), value)
        return list(by_size.values())[:_MOST_OTHERS]


def changed(document: Json, change: Change) -> Json:
    """Return a copy of the document with the change."""
    result = copy.deepcopy(document)
    for path, value in change.values:
        holder = result
        *before, last = path
        for key in before:
            holder = holder[key]
        if value is _MISSING:
            del holder[last]
        else:
            holder[last] = copy.deepcopy(value)
    return result


def changes(document: Json, kind: Any, others: FieldValues) -> list[Change]:
    """Return every change of a single place, then those of lists whose lengths must agree.

    Places with equal names, such as the items of a list, are alike: the first and the last are
    changed.
    """
    root = inspect.type_info(kind)
    by_name: dict[str, list[_Place]] = {}
    for place in _places(document, root, (), "", None):
        by_name.setdefault(place.name, []).append(place)
    single: dict[tuple[str, str], Change] = {}
    for name, places in by_name.items():
        for index in sorted({0, len(places) - 1}):
            place = places[index]
            for value in _edges(place, others):
                if value is not _MISSING and _same(value, place.value):
                    continue
                words = "missing" if value is _MISSING else json.dumps(value)
                about = f"{name} [{index}]: {words[:60]}"
                change = Change(about, ((place.path, value),))
                single.setdefault((f"{name} {index}", words), change)
    return [*single.values(), *_together(document, root)]


@dataclass(frozen=True)
class _Place:
    path: _Path
    #: The names of its fields, without indexes.
    name: str
    value: Json
    kind: inspect.Type
    #: Type and field that it is the value of; None for an item.
    owner: tuple[str, inspect.Field] | None


def _places(
    value: Json,
    kind: inspect.Type,
    path: _Path,
    name: str,
    owner: tuple[str, inspect.Field] | None,
) -> Iterator[_Place]:
    if path:
        yield _Place(path, name, value, kind, owner)
    chosen = _chosen(value, kind)
    for key, part, part_kind, part_name in _parts(value, chosen):
        inner_name = f"{name}{part_name}"
        inner_owner = None
        if isinstance(chosen, _OBJECTS):
            inner_name = f"{name}.{part_name}".lstrip(".")
            its_field = next(its for its in chosen.fields if its.name == part_name)
            inner_owner = (chosen.cls.__name__, its_field)
        yield from _places(part, part_kind, (*path, key), inner_name, inner_owner)


def _edges(place: _Place, others: FieldValues) -> Iterator[Json]:
    """Yield the edge values of a place, by its type and its field."""
    name = ""
    if place.owner:
        owner, its_field = place.owner
        name = its_field.name
        if not its_field.required and isinstance(place.path[-1], str):
            yield _MISSING
        yield from others.of(owner, name)
    yield from _edges_of(place.kind, place.value, name)


def _edges_of(kind: inspect.Type, value: Json, name: str) -> Iterator[Json]:
    """Yield the edge values of a type; `value` is the present one."""
    if isinstance(kind, inspect.UnionType):
        for other in kind.types:
            yield from _edges_of(other, value, name)
    elif isinstance(kind, inspect.StrType):
        yield from (*_TEXTS, *_KNOWN.get(name, ()))
    elif isinstance(kind, inspect.LiteralType):
        yield from (*kind.values, "unknown_name")
    elif isinstance(kind, _SEQUENCES):
        yield from _lists(kind, value if isinstance(value, list) else [])
    elif isinstance(kind, inspect.DictType):
        yield from _mappings(kind, value if isinstance(value, dict) else {})
    elif isinstance(kind, _OBJECTS):
        yield _least(kind)
    else:
        yield from _SIMPLE.get(type(kind), ())


def _lists(kind: Any, value: list[Json]) -> Iterator[Json]:
    """Yield lists of other lengths, in another order, and of edge values."""
    yield from ([], value[:1], value[:-1], value[::-1], value * 2)
    item = _least(kind.item_type)
    yield from ([item], [item] * len(value), [item] * _MANY, [*value, item])
    if value and _takes_none(kind.item_type):
        yield from ([None, *value[1:]], [*value[:-1], None])
    yield value[:1] * _MANY


def _mappings(kind: inspect.DictType, value: dict[str, Json]) -> Iterator[Json]:
    """Yield mappings with other keys."""
    first = next(iter(value.values()), _least(kind.value_type))
    yield from ({}, {"unknown_name": first}, {**value, "unknown_name": first}, {"": first})
    yield {f"name{number}": first for number in range(_MANY)}
    yield {"0": first}
    for removed in value:
        yield {key: inner for key, inner in value.items() if key != removed}


def _least(kind: inspect.Type) -> Json:
    """Return the smallest value of a type."""
    if isinstance(kind, inspect.UnionType):
        return None if kind.includes_none else _least(kind.types[0])
    if isinstance(kind, _OBJECTS):
        least = {part.encode_name: _least(part.type) for part in kind.fields if part.required}
        return list(least.values()) if _is_array(kind) else least
    if isinstance(kind, inspect.StrType):
        return "x" * (kind.min_length or 0)
    if isinstance(kind, inspect.LiteralType):
        return kind.values[0]
    if isinstance(kind, (inspect.IntType, inspect.FloatType)):
        return kind.ge or 0
    return copy.copy(_EMPTY.get(type(kind)))


def _together(document: Json, root: inspect.Type) -> Iterator[Change]:
    """Yield changes of all lists of equal length, in each struct and in the whole document.

    Such lists may have an item for each repeat, reading or context, so that lengths must agree.
    """
    groups: dict[str, list[_Place]] = {}
    for place in _places(document, root, (), "", None):
        if isinstance(place.value, list) and place.value and place.owner:
            parent = place.name.rpartition(".")[0]
            groups.setdefault(f"{parent} {place.path[:-1]} {len(place.value)}", []).append(place)
            groups.setdefault(f"everywhere {len(place.value)}", []).append(place)
    told = set()
    for places in groups.values():
        outer = _outermost(places)
        about = " and ".join(sorted({place.name for place in outer}))
        if len(outer) < 2 or about in told:
            continue
        told.add(about)
        yield Change(f"none of {about}", tuple((place.path, []) for place in outer))
        for words, low, high in (("one", None, 1), ("all but one", None, -1), ("last", -1, None)):
            values = tuple((place.path, place.value[low:high]) for place in outer)
            yield Change(f"{words} of {about}", values)
        yield Change(f"twice {about}", tuple((place.path, place.value * 2) for place in outer))
        nones = [place for place in outer if _items_take_none(place.kind)]
        if nones:
            values = tuple((place.path, [None] * len(place.value)) for place in nones)
            yield Change(f"only None in {about}", values)


def _outermost(places: Iterable[_Place]) -> list[_Place]:
    """Return the places that lie in no other of them."""
    outer: list[_Place] = []
    paths: set[_Path] = set()
    for place in sorted(places, key=lambda place: len(place.path)):
        if not any(place.path[:length] in paths for length in range(len(place.path))):
            outer.append(place)
            paths.add(place.path)
    return outer


def _items_take_none(kind: inspect.Type) -> bool:
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return any(isinstance(one, _SEQUENCES) and _takes_none(one.item_type) for one in kinds)


def _takes_none(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.UnionType) and kind.includes_none


def _same(value: Json, other: Json) -> bool:
    return type(value) is type(other) and bool(value == other)


# A value beside its type


def _parts(value: Json, kind: inspect.Type) -> Iterator[tuple[Any, Json, inspect.Type, str]]:
    """Yield the parts of a value: key, value, type and name of each."""
    if isinstance(kind, _OBJECTS):
        for index, part in enumerate(kind.fields):
            key: Any = index if _is_array(kind) else part.encode_name
            if _is_array(kind) or key in value:
                yield key, value[key], part.type, part.name
    elif isinstance(kind, _SEQUENCES):
        for index, item in enumerate(value):
            yield index, item, kind.item_type, "[]"
    elif isinstance(kind, inspect.DictType):
        for key, item in value.items():
            yield key, item, kind.value_type, "{}"


def _chosen(value: Json, kind: inspect.Type) -> inspect.Type:
    """Return the type of the value, one of a union's."""
    if not isinstance(kind, inspect.UnionType):
        return kind
    if isinstance(value, dict):
        wanted: tuple[type, ...] = (*_OBJECTS, inspect.DictType)
    elif isinstance(value, list):
        wanted = _SEQUENCES
    else:
        return inspect.NoneType()
    return next(
        other
        for other in kind.types
        if isinstance(other, wanted) or (isinstance(value, list) and _is_array(other))
    )


def _is_array(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.StructType) and kind.array_like
