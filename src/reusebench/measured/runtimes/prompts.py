"""The prompt of every conversation: the same tokens in every runtime.

Runs in the measured process: standard library only, Python 3.8.
"""

from __future__ import annotations

from typing import List

from reusebench.measured.runtimes.base import input_pattern

__all__ = ["prompt_tokens"]

_BYTES_PER_TOKEN = 3


def prompt_tokens(count: int, vocabulary: int) -> List[int]:
    """Return the tokens of a prompt; `vocabulary` is the number of tokens that the model knows.

    They are noise between an eighth and half of the vocabulary: special tokens are at its beginning
    or its end, and not all runtimes tell which. Example::

        prompt_tokens(2, 259)  # [91, 77]
    """
    first = vocabulary // 8
    span = max(1, vocabulary // 2 - first)
    pattern = input_pattern()
    tokens = []
    for number in range(count):
        value = 0
        for offset in range(_BYTES_PER_TOKEN):
            value = value << 8 | pattern[(number * _BYTES_PER_TOKEN + offset) % len(pattern)]
        tokens.append(first + value % span)
    return tokens
