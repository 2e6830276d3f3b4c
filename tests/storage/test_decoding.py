"""Decoding of stored JSON: values out of range are refused, unprintable text is escaped."""

from __future__ import annotations

from typing import Any, Union

import msgspec
import pytest

from reusebench.measured.messages import Message
from reusebench.storage.decoding import decode_stored


class _Stored(msgspec.Struct, frozen=True):
    text: str = ""
    whole: int = 0
    number: float = 0.0
    inner: tuple[tuple[int, ...], ...] = ()
    by_name: dict[str, int] = {}
    message: Union[Message, str] = ""
    last_words: str = ""
    any: Any = None


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize(
    ("number", "is_valid"),
    [
        ('"whole": %s9223372036854775807', True),
        ('"whole": %s9223372036854775809', False),
        (f'"inner": [[1], [%s{"9" * 400}]]', False),
        ('"number": %s3.4e38', True),
        ('"number": %s1e39', False),
        (f'"number": %s1{"0" * 40}', False),
        ('"number": %s1e400', False),
        ('"number": %s1E+300', False),
        ('"number": NaN%s', False),
    ],
)
def test_numbers_are_those_that_can_be_calculated_with(
    number: str, is_valid: bool, sign: str
) -> None:
    """Whole numbers have 64 bits; others are no larger than an output of a network may be."""
    content = f"{{{number % sign}}}".encode()
    if is_valid:
        decode_stored(content, _Stored)
    else:
        with pytest.raises((msgspec.DecodeError, ValueError)):
            decode_stored(content, _Stored)


@pytest.mark.parametrize("depth", [60, 70, 10_000])
def test_depth(depth: int) -> None:
    """Deep nesting is refused, whatever the interpreter's limit; brackets in text do not count."""
    content = b'{"text": "[[[{", "any": ' + b"[" * depth + b"]" * depth + b"}"
    if depth == 60:
        assert decode_stored(content, _Stored).text == "[[[{"
    else:
        with pytest.raises((msgspec.DecodeError, RecursionError)):
            decode_stored(content, _Stored)


def test_text_is_printable() -> None:
    """Characters that move the cursor, change the direction or hide are escaped, also in keys.

    Only messages keep their lines.
    """
    hostile = "a\x1b[2J\r\n\u202eb\x7f 模型 ä"
    escaped = "a\\x1b[2J\\r\\n\\u202eb\\x7f 模型 ä"
    content = msgspec.json.encode(
        {
            "text": hostile,
            "by_name": {hostile: 1},
            "message": {"code": "x", "values": {"text": hostile}},
            "last_words": "one\n\ttwo\x07",
        }
    )
    stored = decode_stored(content, _Stored)
    assert (stored.text, stored.by_name) == (escaped, {escaped: 1})
    assert stored.message == Message("x", {"text": escaped.replace("\\n", "\n")})
    assert stored.last_words == "one\n\ttwo\\x07"
    assert decode_stored(msgspec.json.encode(stored), _Stored) == stored
