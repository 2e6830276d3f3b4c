"""Valid JSON and bytes made invalid, or hostile: each change is one that a program, a disk or an
attacker makes.
"""

from __future__ import annotations

import copy
import functools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Union

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

__all__ = ["FORMULA", "MARKER", "mutated_bytes", "mutated_json", "mutated_text"]

#: Of an element that no page may have, and of a formula that no cell may begin with.
MARKER = "faultmarker"
FORMULA = "faultformula"

#: A parsed JSON document, and the names and indexes to something in it.
Json = Any
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
#: What json.dumps cannot write.
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
_PLACE = "@literal {}@"

_leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(_TEXTS) | st.sampled_from(_NUMBERS)
    | st.text(st.characters(codec=None), max_size=20)
)  # fmt: skip
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
    """Return values of every JSON type; the same ones for the same number."""
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
    """JSON that is being changed."""

    def __init__(self, content: Json, chance: random.Random, number: int) -> None:
        self.content = copy.deepcopy(content)
        self.chance = chance
        self._number = number
        self._literals: list[str] = []

    def hostile(self) -> Json:
        """Return something that may stand where a value stood."""
        kind = self.chance.randrange(5)
        if kind == 0:
            return self.literal(self.chance.choice(_LITERALS))
        if kind == 1:
            return self.chance.choice(_NUMBERS)
        return copy.deepcopy(
            self.chance.choice(_TEXTS if kind == 2 else _made_by_hypothesis(self._number))
        )

    def literal(self, text: str) -> str:
        """Return what stands for a text of JSON that is written as it is."""
        self._literals.append(text)
        return _PLACE.format(len(self._literals) - 1)

    def place(self) -> tuple[Json, _Key] | None:
        """Return a container and a name or index in it; those that are deep down are as likely as
        those above.
        """
        if self.chance.random() < 0.5:
            places = list(_places(self.content))
            return self.chance.choice(places) if places else None
        place = None
        inner = self.content
        while isinstance(inner, (dict, list)) and inner:
            key = self.chance.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
            place = (inner, key)
            inner = inner[key]
            if self.chance.random() < 0.2:
                break
        return place

    def text(self) -> str:
        """Return it as it is written to a file."""
        text = json.dumps(self.content)
        for index, literal in enumerate(self._literals):
            text = text.replace(json.dumps(_PLACE.format(index)), literal)
        return text


def _places(content: Json) -> Iterator[tuple[Json, _Key]]:
    for key, inner in content.items() if isinstance(content, dict) else enumerate(content):
        yield content, key
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
    """Have the name twice, or the item many times."""
    if isinstance(container, list):
        container.extend([container[int(key)]] * document.chance.choice((1, 3, 1000)))
        return
    value = json.dumps(container[key])
    # A second value of the same name: what follows a literal's comma is in the text as it stands.
    container[key] = document.literal(
        f"{value}, {json.dumps(key)}: {json.dumps(document.chance.choice(_TEXTS))}"
    )


def _empty(_document: _Document, container: Json, key: _Key) -> None:
    container[key] = type(container[key])() if container[key] is not None else {}


def _as_another_type(document: _Document, container: Json, key: _Key) -> None:
    value = container[key]
    container[key] = document.chance.choice(
        ([value], {"value": value}, str(value)[:1000], bool(value), None)
    )


def _nudge(document: _Document, container: Json, key: _Key) -> None:
    """Change a number or a text a little, so that it keeps its type."""
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
    """Exchange it with a value of another place."""
    other = document.place()
    if other is not None and other[1] in (
        other[0] if isinstance(other[0], dict) else range(len(other[0]))
    ):
        first = copy.deepcopy(container[key])
        second = copy.deepcopy(other[0][other[1]])
        container[key], other[0][other[1]] = second, first


def _resize(document: _Document, container: Json, key: _Key) -> None:
    """Change how long a list is, of those whose lengths belong together."""
    value = container[key]
    container[key] = (
        value[: len(value) // 2]
        if isinstance(value, list) and document.chance.random() < 0.5
        else [value, value]
    )


_CHANGES: tuple[Callable[[_Document, Json, _Key], None], ...] = (
    _replace, _replace, _remove, _rename, _repeat, _empty, _as_another_type, _nudge, _nudge, _swap, _resize
)  # fmt: skip


def mutated_json(content: Json, chance: random.Random, number: int) -> tuple[bytes, str]:
    """Return the document with one to three changes, and what they are; `number` selects the values
    of hypothesis.
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
    """Return the bytes with some of them changed, left out or inserted, and what was done."""
    kind = chance.choice(("flip", "cut", "insert", "zero", "repeat", "splice"))
    at = chance.randrange(max(1, len(content)))
    length = min(chance.choice((1, 1, 4, 64, 4096)), len(content) - at)
    if kind == "flip":
        changed = bytearray(content)
        for _ in range(chance.choice((1, 1, 8, 64))):
            if changed:
                changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        return bytes(changed), kind
    between = {
        "cut": b"",
        "insert": content[at : at + length] + chance.randbytes(length),
        "zero": bytes(length),
        "repeat": content[at : at + length] * chance.choice((2, 100)),
        "splice": chance.choice(_TEXTS).encode("utf-8", "surrogatepass"),
    }[kind]
    rest = b"" if kind == "cut" and chance.random() < 0.5 else content[at + length :]
    return content[:at] + between + rest, f"{kind} at {at}"


def mutated_text(chance: random.Random) -> str:
    """Return a text that is hostile to where it is shown."""
    return chance.choice(_TEXTS)
