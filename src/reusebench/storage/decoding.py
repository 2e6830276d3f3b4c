"""Stored JSON into typed structures, with numbers in a safe range and printable text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sized
from typing import Any, Optional, TypeVar

import msgspec

from reusebench.system.files import printable

__all__ = ["MOST_BYTES", "check_lengths", "decode_stored"]

#: Limit of a stored file that is no run, unpacked; a larger one is damaged. The longest trace has
#: 5 MB.
MOST_BYTES = 32 * 2**20
#: Bound of whole numbers: 64 bits with a sign.
_MOST_WHOLE = 2**63
#: Bound of other numbers: outputs of networks are stored too, and have 32 bits.
_MOST = 3.5e38
#: Limit of nesting of lists and objects; ours are 12 deep.
_MOST_DEPTH = 64
#: Keys of text that may have several lines: output of a process, and messages of libraries.
_MULTILINE_KEYS = ("last_words", "message")
_DELETE = b"\x7f"
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_DIGITS_AS_0 = bytes.maketrans(b"123456789", b"000000000")
#: Numbers with fewer digits than this, and with a short exponent, are in range.
_LONG_NUMBER = b"0" * 19
_HIGH_EXPONENT = re.compile(rb"[eE]\+?\d{2,}[,}\]\s]")

_Stored = TypeVar("_Stored")


def decode_stored(content: bytes | msgspec.Raw, kind: type[_Stored]) -> _Stored:
    """Return the stored object; raise DecodeError, ValueError or RecursionError if it is damaged.

    Control characters in its text are escaped; messages keep their lines.
    """
    content = bytes(content)
    stored = msgspec.json.decode(content, type=kind)
    if _is_plain(content):
        return stored
    return msgspec.convert(_checked(msgspec.to_builtins(stored), ""), type=kind)


def _is_plain(content: bytes) -> bool:
    """Whether the bytes alone show that nothing must be escaped or refused, as in nearly all files.

    It saves the slow walk through all values.
    """
    return (
        content.isascii()
        and b"\\" not in content
        and _DELETE not in content
        and _LONG_NUMBER not in content.translate(_DIGITS_AS_0)
        and not _HIGH_EXPONENT.search(content)
        and _is_flat(content)
    )


def _is_flat(content: bytes) -> bool:
    """Whether brackets, those in text included, are not nested too deep."""
    brackets = content.translate(None, _NO_BRACKETS)
    for _ in range(_MOST_DEPTH):
        if not brackets:
            return True
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return not brackets


def _checked(value: Any, key: str, depth: int = 0, keep: str = "") -> Any:
    """Return the value with printable text, the characters of `keep` as they are.

    Raises ValidationError if it is nested too deep, or has a number out of range.
    """
    if isinstance(value, str):
        return printable(value, keep)

    if depth > _MOST_DEPTH:
        raise msgspec.ValidationError(f"{key}: more than {_MOST_DEPTH} nested levels")
    if isinstance(value, dict):
        checked = {}
        for name, inner in value.items():
            kept = "\n\t" if name in _MULTILINE_KEYS else keep
            shown = printable(name) if isinstance(name, str) else name
            checked[shown] = _checked(inner, name, depth + 1, kept)
        return checked
    if isinstance(value, (list, tuple)):
        return [_checked(inner, key, depth + 1, keep) for inner in value]

    if isinstance(value, float) and not (math.isfinite(value) and abs(value) <= _MOST):
        raise msgspec.ValidationError(f"{key}: {value} is not a valid figure")
    if isinstance(value, int) and not -_MOST_WHOLE <= value < _MOST_WHOLE:
        raise msgspec.ValidationError(
            f"{key}: a whole number of more than 64 bits is not a valid figure"
        )
    return value


def check_lengths(what: str, lists: Iterable[Optional[Sized]], *valid: int) -> None:
    """Raise ValueError, which a decoder takes for damage, if a list has no valid length."""
    lengths = {len(values) for values in lists if values is not None}
    if not lengths <= set(valid):
        raise ValueError(
            f"{what} has lists of {sorted(lengths)} values, valid: {sorted(set(valid))}"
        )
