"""Mutation of JSON and bytes, with changes that a program, a disk or an attacker might make.

Hypothesis makes the values, but not the documents: those that hypothesis-jsonschema makes from the
schema take seconds each, and none passes the checks between fields, so that nothing behind the
decoder would be reached.
"""

from __future__ import annotations

import copy
import functools
import json
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Union

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

__all__ = ["FORMULA", "MARKER", "mutated_bytes", "mutated_json", "mutated_text"]

#: Name of an element that no page may have, and of a function that no cell may begin with.
MARKER = "faultmarker"
FORMULA = "faultformula"

#: A parsed JSON document.
Json = Any
#: Name or index of a value in its container.
_Key = Union[str, int]

_TEXTS = (
    "",
    " ",
    "\x00",
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m",
    "\r\n\t\x0b",
    "\u202ereversed\u2066",
    "[/]",
    "[bold red]text[/bold]",
    "[link=file:///etc/passwd]x",
    f"<{MARKER}>",
    f"</script><{MARKER} a='",
    f"\"><{MARKER} b=\"",
    f"--><![CDATA[</style></title></svg><{MARKER}>",
    f"=2+{FORMULA}(1)",
    f"+{FORMULA}(1)",
    f"-{FORMULA}(1)",
    f"@{FORMULA}(1)",
    f"\t={FORMULA}(1)",
    "| a | b |\n|---|---|",
    "{{ 7 * 7 }}{% raw %}",
    "%s%n{0}{name}",
    "../../sentinel/file",
    "../" * 40 + "etc/passwd",
    "/dev/zero",
    "/etc/passwd",
    "file:///etc/passwd",
    "nul\\..\\con",
    "\ud800",
    "a\udcff\udc80",
    "$(reboot)`reboot`;reboot",
    "a" * 300,
    "long " * 50_000,
    "\U0001f600\u0301\u200b\ufeff",
    "1970-01-01T00:00:00",
    "9999-12-31T23:59:59+23:59",
    "2026-02-30",
    "ok",
    "no_reuse",
)  # fmt: skip
_NUMBERS = (
    0,
    -1,
    1,
    2**31,
    2**53 + 1,
    2**63,
    -(2**63) - 1,
    2**64,
    10**400,
    -(10**309),
    0.0,
    -0.0,
    1e308,
    5e-324,
    0.1,
)
#: Texts that json.dumps cannot write.
_LITERALS = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e99999",
    "1" * 5000,
    "01",
    "0x1F",
    "'text'",
    "nul",
    "",
    '"\\ud800"',
    '"\\u0000"',
    '"\\x"',
    '"\n"',
    "1.",
    "[" * 10_000 + "]" * 10_000,
    '{"a":' * 10_000 + "1" + "}" * 10_000,
    "[" * 100_000,
    "[1,]",
    "//",
)
_PLACEHOLDER = "@literal {}@"

_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(_TEXTS),
    st.sampled_from(_NUMBERS),
    st.text(st.characters(codec=None), max_size=20),
)
_values = st.recursive(
    _leaves,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(_TEXTS) | st.text(max_size=8), inner, max_size=5)
    ),
    max_leaves=12,
)


@functools.lru_cache(maxsize=4)
def _made_by_hypothesis(number: int) -> list[Json]:
    """Return values of every JSON type; equal ones for equal numbers."""
    values: list[Json] = []
    keep_all = settings(
        max_examples=400,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )

    @seed(number)
    @keep_all
    @given(_values)
    def collect(value: Json) -> None:
        values.append(value)

    collect()
    return values


class _Document:
    """A JSON document while it is changed."""

    def __init__(self, content: Json, chance: random.Random, number: int) -> None:
        self.content = copy.deepcopy(content)
        self.chance = chance
        self._number = number
        self._literals: list[str] = []

    def hostile(self) -> Json:
        """Return a replacement for a value."""
        kind = self.chance.randrange(5)
        if kind == 0:
            return self.literal(self.chance.choice(_LITERALS))
        if kind == 1:
            return self.chance.choice(_NUMBERS)
        if kind == 2:
            return self.chance.choice(_TEXTS)
        return copy.deepcopy(self.chance.choice(_made_by_hypothesis(self._number)))

    def literal(self, text: str) -> str:
        """Return a placeholder for raw text in the written file."""
        self._literals.append(text)
        return _PLACEHOLDER.format(len(self._literals) - 1)

    def place(self) -> tuple[Json, _Key] | None:
        """Return a container and a name or index in it, at any depth.

        Half of the time all places are equally likely, which favours deep ones; otherwise a walk
        from the root finds one.
        """
        if self.chance.random() < 0.5:
            places = list(_places(self.content))
            return self.chance.choice(places) if places else None

        place = None
        inner = self.content
        while isinstance(inner, (dict, list)) and inner:
            key = self.chance.choice(list(_keys(inner)))
            place = (inner, key)
            inner = inner[key]
            if self.chance.random() < 0.2:
                break
        return place

    def text(self) -> str:
        """Return the text of the file, with literals in place of their placeholders."""
        text = json.dumps(self.content)
        for index, literal in enumerate(self._literals):
            text = text.replace(json.dumps(_PLACEHOLDER.format(index)), literal)
        return text


def _keys(container: Json) -> Iterable[Any]:
    return container if isinstance(container, dict) else range(len(container))


def _places(content: Json) -> Iterator[tuple[Json, _Key]]:
    for key in _keys(content):
        yield content, key
        inner = content[key]
        if isinstance(inner, (dict, list)):
            yield from _places(inner)


# Changes


def _replace(document: _Document, container: Json, key: _Key) -> None:
    container[key] = document.hostile()


def _remove(_document: _Document, container: Json, key: _Key) -> None:
    del container[key]


def _rename(document: _Document, container: Json, key: _Key) -> None:
    if isinstance(container, dict):
        container[document.chance.choice(_TEXTS)] = container.pop(key)
    else:
        document.chance.shuffle(container)


def _repeat(document: _Document, container: Json, key: _Key) -> None:
    """Repeat a name, or an item of a list many times."""
    if isinstance(container, list):
        container.extend([container[int(key)]] * document.chance.choice((1, 3, 1000)))
        return
    # The literal ends with a second value of the same name.
    value = json.dumps(container[key])
    second_value = json.dumps(document.chance.choice(_TEXTS))
    container[key] = document.literal(f"{value}, {json.dumps(key)}: {second_value}")


def _empty(_document: _Document, container: Json, key: _Key) -> None:
    value = container[key]
    container[key] = {} if value is None else type(value)()


def _as_another_type(document: _Document, container: Json, key: _Key) -> None:
    value = container[key]
    container[key] = document.chance.choice(
        ([value], {"value": value}, str(value)[:1000], bool(value), None)
    )


def _nudge(document: _Document, container: Json, key: _Key) -> None:
    """Change a number or a text, but not its type."""
    value = container[key]
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        container[key] = document.hostile()
    elif isinstance(value, str):
        container[key] = document.chance.choice(
            (value + document.chance.choice(_TEXTS), document.chance.choice(_TEXTS) + value)
        )
    else:
        container[key] = document.chance.choice((-value, value + 1, value * 2**40, value // 3, 0))


def _swap(document: _Document, container: Json, key: _Key) -> None:
    """Exchange a value with the value at another place."""
    other = document.place()
    if other is None:
        return
    other_container, other_key = other
    value = copy.deepcopy(container[key])
    container[key] = copy.deepcopy(other_container[other_key])
    other_container[other_key] = value


def _resize(document: _Document, container: Json, key: _Key) -> None:
    """Change the length of a list; several lists of a document must have equal lengths."""
    value = container[key]
    if isinstance(value, list) and document.chance.random() < 0.5:
        container[key] = value[: len(value) // 2]
    else:
        container[key] = [value, value]


#: Changes; frequent ones are listed twice.
_CHANGES: tuple[Callable[[_Document, Json, _Key], None], ...] = (
    _replace,
    _replace,
    _remove,
    _rename,
    _repeat,
    _empty,
    _as_another_type,
    _nudge,
    _nudge,
    _swap,
    _resize,
)


def mutated_json(content: Json, chance: random.Random, number: int) -> tuple[bytes, str]:
    """Return the document with one to three changes, and a description of them.

    `number` selects the values of hypothesis.
    """
    document = _Document(content, chance, number)
    names = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        place = document.place()
        if place is None:
            break
        change = chance.choice(_CHANGES)
        names.append(f"{change.__name__.strip('_')} {str(place[1])[:40]!r}")
        change(document, *place)
    return document.text().encode("utf-8", "surrogatepass"), ", ".join(names)


def mutated_bytes(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    """Return the bytes with some changed, removed or inserted, and a description of the change."""
    kind = chance.choice(("flip", "cut", "insert", "zero", "repeat", "splice"))
    at = chance.randrange(max(1, len(content)))
    length = min(chance.choice((1, 1, 4, 64, 4096)), len(content) - at)
    if kind == "flip":
        changed = bytearray(content)
        for _ in range(chance.choice((1, 1, 8, 64))):
            if changed:
                changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        return bytes(changed), kind

    piece = content[at : at + length]
    replacements = {
        "cut": b"",
        "insert": piece + chance.randbytes(length),
        "zero": bytes(length),
        "repeat": piece * chance.choice((2, 100)),
        "splice": chance.choice(_TEXTS).encode("utf-8", "surrogatepass"),
    }
    rest = content[at + length :]
    if kind == "cut" and chance.random() < 0.5:
        rest = b""
    return content[:at] + replacements[kind] + rest, f"{kind} at {at}"


def mutated_text(chance: random.Random) -> str:
    """Return a text that may break the place that shows it."""
    return chance.choice(_TEXTS)
