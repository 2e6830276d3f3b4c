"""The number of tokens that a cache of llama.cpp has room for."""

from __future__ import annotations

from reusebench.measured.runtimes.base import Memory

__all__ = ["cells_of"]

#: llama.cpp rounds the tokens of a cache up to a multiple of this (llama_context's constructor).
_STEP = 256


def cells_of(memory: Memory) -> int:
    """Return the number of tokens that the cache of a context has room for.

    In a unified cache the common tokens are there once.
    """
    conversation = memory.conversation
    assert conversation is not None
    if not memory.unified_cache:
        return memory.sequences * _rounded_up(conversation.tokens)
    shared = memory.shared_prompts * conversation.common
    return _rounded_up(memory.sequences * conversation.tokens - shared)


def _rounded_up(tokens: int) -> int:
    return -(-tokens // _STEP) * _STEP
