"""Parts of a turn that adapters of language models have in common.

Runs in the measured process: standard library only, Python 3.8.
"""

from __future__ import annotations

import time
from array import array
from typing import Callable, Iterable, List, Optional, Sequence

from reusebench.measured.runtimes.base import (
    AdapterError,
    Conversation,
    Copies,
    Memory,
    NotSupported,
    Turn,
)

__all__ = ["Generated", "check_conversation", "hold_turn"]


class Generated:
    """The tokens that the last turn of one conversation generated, and its timing."""

    def __init__(self) -> None:
        self.tokens = array("i")
        self.turn: Optional[Turn] = None

    def take(self, tokens: Iterable[int]) -> None:
        """Keep the tokens of a turn."""
        self.tokens = array("i", tokens)

    def views(self) -> List[memoryview]:
        """Return the tokens as the only output."""
        return [memoryview(self.tokens)]

    def copies(self) -> Copies:
        """Return the bytes of the tokens that went in and came out."""
        if self.turn is None:
            return Copies(0, 0)
        size = self.tokens.itemsize
        given = self.turn.prompt_tokens + self.turn.generated_tokens - 1
        return Copies(size * given, size * self.turn.generated_tokens)


def check_conversation(memory: Memory, runtime: str) -> Conversation:
    """Return the conversation; raise NotSupported for requests that no language model serves."""
    if memory.conversation is None:
        raise AdapterError("conversation_missing", runtime=runtime)
    if memory.internal is not None or "internal" in memory.outside:
        raise NotSupported("conversation_no_internal", runtime=runtime)
    if "weights" in memory.outside:
        raise NotSupported("conversation_no_allocator", runtime=runtime)
    if memory.zero_copy or memory.io is not None:
        raise NotSupported("conversation_no_tensors")
    if memory.device is not None or memory.device_io:
        raise NotSupported("conversation_cpu_only", runtime=runtime)
    return memory.conversation


def hold_turn(
    generated: Sequence[Generated],
    prompt_tokens: int,
    count: int,
    step: Callable[[int], Iterable[int]],
) -> None:
    """Generate `count` tokens in each of some conversations that advance together.

    `step` is called with the number of tokens generated so far, and returns the next token of each
    conversation; its first call computes `prompt_tokens` tokens of each.
    """
    for one in generated:
        one.tokens = array("i", bytes(count * array("i").itemsize))
    begin = time.perf_counter_ns()
    first = begin
    for number in range(count):
        for one, token in zip(generated, step(number)):
            one.tokens[number] = token
        if number == 0:
            first = time.perf_counter_ns()
    end = time.perf_counter_ns()
    for one in generated:
        one.turn = Turn(prompt_tokens, first - begin, count, end - first)
