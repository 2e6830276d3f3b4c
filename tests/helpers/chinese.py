"""Faults of Chinese texts that their characters show."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["not_chinese", "with_foreign_punctuation"]

_CHARACTER = re.compile(r"[\u3400-\u9fff]")
_FOREIGN = re.compile(r"[\u3400-\u9fff][,:;?()]|[,:;?()][\u3400-\u9fff]")
#: Names and units, which are the same in every language.
_NAMES = {
    "CMA",
    "CPU",
    "CUDA",
    "MiB",
    "NPU",
    "PSS",
    "Python",
    "RSS",
    "USS",
    "dup",
    "malloc_trim",
    "ms",
}


def with_foreign_punctuation(texts: Iterable[str]) -> list[str]:
    """Return the texts with ASCII punctuation next to a Chinese character."""
    return [text for text in texts if _FOREIGN.search(text)]


def not_chinese(texts: Iterable[str]) -> list[str]:
    """Return the texts with English words but without any Chinese character."""
    return [text for text in texts if not _CHARACTER.search(text) and _words(text) - _NAMES]


def _words(text: str) -> set[str]:
    """Return the words of two letters or more, without fields."""
    return set(re.findall(r"[A-Za-z_]{2,}", re.sub(r"\{.*?\}", "", text)))
