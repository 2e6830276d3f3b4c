"""The stored form equals schema.json: no name, type or default changes unseen.

schema.json has a line for each stored field. If a name or a meaning changes, raise the number; a
new field with a default needs none, and is only recorded: `pytest tests/storage
--update-snapshots`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import msgspec
import pytest

from reusebench.storage.board_sizes import BOARD_SIZES_SCHEMA, BoardSizes
from reusebench.storage.fit_answer import FIT_SCHEMA, FitAnswer
from reusebench.storage.recorded_program import PROGRAM_SCHEMA, Program
from reusebench.storage.result import SCHEMA, Result
from reusebench.storage.run_file import Commit, MachineInfo, _Document
from reusebench.storage.trace import ProgramTrace, Trace

_FILE = Path(__file__).with_name("schema.json")
#: Key of a form's number.
_NUMBER = "number"
#: Keys for human readers; titles may have module paths.
_FOR_PEOPLE = ("title", "description")
#: Lists of a JSON schema in any order, which depends on the version of msgspec.
_UNORDERED = ("anyOf", "enum")
_REFERENCE = "#/$defs/"

#: Key: `Structure.field`; value: its JSON schema. It also has the number of the kind.
Form = dict[str, Any]


@dataclass(frozen=True)
class _Stored:
    """One kind of stored data."""

    structures: tuple[type, ...]
    number: str
    #: Name and file of the number to raise.
    constant: str


_OF_RESULTS = "SCHEMA in storage/result.py"
_OF_PROGRAMS = "PROGRAM_SCHEMA in storage/recorded_program.py"
_STORED = {
    "results": _Stored((Result,), SCHEMA, _OF_RESULTS),
    "runs": _Stored((_Document, MachineInfo, Commit), SCHEMA, _OF_RESULTS),
    "traces": _Stored((Trace,), SCHEMA, _OF_RESULTS),
    "programs": _Stored((Program,), PROGRAM_SCHEMA, _OF_PROGRAMS),
    "traces of programs": _Stored((ProgramTrace,), PROGRAM_SCHEMA, _OF_PROGRAMS),
    "fit answers": _Stored((FitAnswer,), FIT_SCHEMA, "FIT_SCHEMA in storage/fit_answer.py"),
    "board sizes": _Stored(
        (BoardSizes,), BOARD_SIZES_SCHEMA, "BOARD_SIZES_SCHEMA in storage/board_sizes.py"
    ),
}


def _form(structures: Sequence[type], number: str) -> Form:
    """Return the form of stored data whose top level is one of these structures."""
    _, components = msgspec.json.schema_components(structures)
    names = [_short(name) for name in components]
    assert len(set(names)) == len(names), "two structures have one name"
    form: Form = {_NUMBER: number}
    for name, component in zip(names, components.values()):
        form.update(_fields(name, component))
    return dict(sorted(form.items()))


def _fields(structure: str, component: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a structure, then its other properties if it is not a plain object."""
    required = component.get("required", ())
    for field, schema in component.get("properties", {}).items():
        yield f"{structure}.{field}", {**_plain(schema), "required": field in required}
    for index, schema in enumerate(component.get("prefixItems", ())):
        yield f"{structure}[{index}]", _plain(schema)
    rest = {
        key: value
        for key, value in component.items()
        if key not in ("properties", "required", "prefixItems")
    }
    if _plain(rest) != {"type": "object"}:
        yield structure, _plain(rest)


def _plain(value: Any, key: str = "") -> Any:
    """Return a part of a JSON schema without keys for human readers, its alternatives sorted."""
    if isinstance(value, Mapping):
        return {
            name: _plain(inner, name)
            for name, inner in sorted(value.items())
            if name not in _FOR_PEOPLE
        }
    if isinstance(value, (list, tuple)):
        parts = [_plain(inner) for inner in value]
        return sorted(parts, key=json.dumps) if key in _UNORDERED else parts
    return _short(value) if key == "$ref" else value


def _short(name: str) -> str:
    """Return the name of a structure without its modules."""
    return name.removeprefix(_REFERENCE).rpartition(".")[-1]


def _present() -> dict[str, Form]:
    return {name: _form(stored.structures, stored.number) for name, stored in _STORED.items()}


def _difference(name: str, recorded: Form, present: Form) -> str | None:
    """Return the differing fields of one kind of data, with the remedy; None if it is equal."""
    names = sorted({*recorded, *present})
    differing = [field for field in names if recorded.get(field) != present.get(field)]
    if not differing:
        return None
    fields = ", ".join(field for field in differing if field != _NUMBER)
    if not fields:
        return f"{name}: the number {present[_NUMBER]} is not recorded."
    if _NUMBER in differing:
        return f"{name}: {fields}."
    return f"{name}: {fields}. If a name or a meaning changes, raise {_STORED[name].constant}."


def _text(forms: Mapping[str, Form]) -> str:
    """Return the text of the file, with a line for each field."""
    parts = []
    for name, form in forms.items():
        lines = [f"    {json.dumps(field)}: {json.dumps(schema)}" for field, schema in form.items()]
        parts.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def test_the_stored_form_is_as_recorded(request: pytest.FixtureRequest) -> None:
    """All fields, types, defaults and numbers are as recorded; --update-snapshots records them."""
    present = _present()
    if request.config.getoption("--update-snapshots", default=False):
        _FILE.write_text(_text(present), encoding="utf-8")
    recorded = json.loads(_FILE.read_text(encoding="utf-8"))
    assert list(recorded) == list(present)
    sentences = [_difference(name, recorded[name], form) for name, form in present.items()]
    differences = "\n".join(filter(None, sentences))
    if differences:
        pytest.fail(
            f"The stored form differs from {_FILE.name}.\n{differences}\n"
            "Then record it: pytest tests/storage --update-snapshots",
            pytrace=False,
        )


# Differences


class Memory(msgspec.Struct):
    """A stored structure."""

    pss_bytes: int
    npu_bytes: Union[int, str, None] = None


class Row(msgspec.Struct, array_like=True):
    """A structure that is stored as a list."""

    at_ns: int
    memory: Memory


def _changed(**changes: Any) -> Form:
    """Return the form of the structures with other fields."""
    return {**_form((Row,), "1"), **changes}


@pytest.mark.parametrize(
    ("present", "sentence"),
    [
        ({}, None),
        (
            {"Memory.npu_kept_bytes": {}, "Memory.pss_bytes": {"type": "number"}},
            (
                "results: Memory.npu_kept_bytes, Memory.pss_bytes. If a name or a meaning changes,"
                " raise SCHEMA in storage/result.py."
            ),
        ),
        ({"Row[0]": {"type": "string"}, "number": "2"}, "results: Row[0]."),
        ({"number": "2"}, "results: the number 2 is not recorded."),
    ],
)
def test_what_differs_is_named(present: Form, sentence: str | None) -> None:
    """The sentence names the fields, and a number that must be raised, or was raised alone."""
    assert _difference("results", _form((Row,), "1"), _changed(**present)) == sentence


def test_a_field_that_has_gone_is_named() -> None:
    """A removed field is as much a change as a new one."""
    present = _changed()
    del present["Memory.npu_bytes"]
    assert "results: Memory.npu_bytes." in str(_difference("results", _form((Row,), "1"), present))


def test_words_for_people_and_order_are_no_difference() -> None:
    """Docstrings, module paths and the order of alternatives may change; types and defaults may
    not.
    """
    one = {
        "description": "One.",
        "anyOf": [{"type": "null"}, {"$ref": "#/$defs/a.b.Cpu"}],
        "default": None,
    }
    other = {"anyOf": [{"$ref": "#/$defs/Cpu", "title": "Cpu"}, {"type": "null"}], "default": None}
    assert _plain(one) == _plain(other)
    assert _plain(one) != _plain({**other, "default": 0})


def test_the_form_has_a_line_for_each_field() -> None:
    """Fields of nested structures, and items of lists, have a line each."""
    form = _form((Row,), "1")
    assert list(form) == [
        "Memory.npu_bytes",
        "Memory.pss_bytes",
        "Row",
        "Row[0]",
        "Row[1]",
        "number",
    ]
    assert form["Memory.pss_bytes"] == {"type": "integer", "required": True}
    assert form["Row[1]"] == {"$ref": "Memory"}
    text = _text({"rows": form})
    assert json.loads(text) == {"rows": form}
    assert len(text.splitlines()) == len(form) + 4
