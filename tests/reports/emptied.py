"""Stored documents in which a list, a mapping or an optional field is empty."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import inspect

__all__ = ["Emptied", "emptied"]

_SEQUENCES = (inspect.ListType, inspect.VarTupleType)
_COLLECTIONS = (*_SEQUENCES, inspect.DictType)
_OBJECTS = (inspect.StructType, inspect.DataclassType)
#: Keys and indexes from the root to a value.
_Path = tuple[Any, ...]


@dataclass(frozen=True)
class Emptied:
    """A document with an empty value, and the place of that value."""

    where: str
    document: Any


@dataclass(frozen=True)
class _Place:
    path: _Path
    #: The names of its fields, without indexes: what is alike is emptied once.
    name: str
    empty: Any


def emptied(value: Any, kind: Any) -> Iterator[Emptied]:
    """Yield the value's JSON with each place of its type empty, one at a time.

    Then yield it with all lists of equal length empty, in one struct and in the whole value: such
    lists may have an element for each reading or repeat, so that their lengths must agree.
    """
    document = msgspec.json.decode(msgspec.json.encode(value))
    root = inspect.type_info(kind)
    seen: set[str] = set()
    for place in _places(document, root, (), ""):
        if place.name not in seen:
            seen.add(place.name)
            yield Emptied(place.name, _with(document, [place]))
    for together in (*_together(document, root, (), ""), *_everywhere(document, root)):
        name = " and ".join(dict.fromkeys(place.name for place in together))
        if name not in seen:
            seen.add(name)
            yield Emptied(name, _with(document, together))


def _with(document: Any, places: list[_Place]) -> Any:
    """Return a copy with empty places; the rest of the document is not copied."""
    changed = copy.copy(document)
    for place in places:
        *before, last = place.path
        holder = changed
        for key in before:
            holder[key] = copy.copy(holder[key])
            holder = holder[key]
        holder[last] = place.empty
    return changed


def _places(value: Any, kind: inspect.Type, path: _Path, name: str) -> Iterator[_Place]:
    """Yield every place that can be empty and is not."""
    if isinstance(kind, inspect.UnionType):
        if value is None:
            return
        if kind.includes_none and path:
            yield _Place(path, f"{name}=None", None)
        kind = _chosen(value, kind)
    if isinstance(kind, _COLLECTIONS) and value and path:
        yield _Place(path, name, {} if isinstance(value, dict) else [])
    for key, part, part_kind, part_name in _parts(value, kind, name):
        yield from _places(part, part_kind, (*path, key), part_name)


def _together(value: Any, kind: inspect.Type, path: _Path, name: str) -> Iterator[list[_Place]]:
    """Yield the lists of equal length in each struct, if there are several."""
    if isinstance(kind, inspect.UnionType):
        if value is None:
            return
        kind = _chosen(value, kind)
    by_length: dict[int, list[_Place]] = {}
    for key, part, part_kind, part_name in _parts(value, kind, name):
        if isinstance(kind, _OBJECTS) and isinstance(part, list) and part:
            by_length.setdefault(len(part), []).append(_Place((*path, key), part_name, []))
        yield from _together(part, part_kind, (*path, key), part_name)
    yield from (places for places in by_length.values() if len(places) > 1)


def _everywhere(document: Any, root: inspect.Type) -> Iterator[list[_Place]]:
    """Yield the lists of each length in the whole document, with the lists inside."""
    by_length: dict[int, list[_Place]] = {}
    for place in _places(document, root, (), ""):
        value = document
        for key in place.path:
            value = value[key]
        if place.empty != []:
            continue
        outer = by_length.setdefault(len(value), [])
        if not any(place.path[: len(other.path)] == other.path for other in outer):
            outer.append(place)
    yield from (places for places in by_length.values() if len(places) > 1)


def _parts(
    value: Any, kind: inspect.Type, name: str
) -> Iterator[tuple[Any, Any, inspect.Type, str]]:
    """Yield the parts of a value: key, value, kind and name of each."""
    if isinstance(kind, _OBJECTS):
        for index, field in enumerate(kind.fields):
            key: Any = index if _is_array(kind) else field.encode_name
            if _is_array(kind) or key in value:
                yield key, value[key], field.type, f"{name}.{field.name}".lstrip(".")
    elif isinstance(kind, _SEQUENCES):
        for index, part in enumerate(value):
            yield index, part, kind.item_type, f"{name}[]"
    elif isinstance(kind, inspect.DictType):
        for key, part in value.items():
            yield key, part, kind.value_type, f"{name}{{}}"


def _chosen(value: Any, kind: inspect.UnionType) -> inspect.Type:
    """Return the type of the value, one of a union."""
    others = [other for other in kind.types if not isinstance(other, inspect.NoneType)]
    if isinstance(value, dict):
        return next(other for other in others if isinstance(other, (*_OBJECTS, inspect.DictType)))
    if isinstance(value, list):
        return next(other for other in others if isinstance(other, _SEQUENCES) or _is_array(other))
    return next(other for other in others if not isinstance(other, (*_OBJECTS, *_COLLECTIONS)))


def _is_array(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.StructType) and kind.array_like
