"""Tokens on their way into a llama_context, and the tokens that follow from them."""

from __future__ import annotations

import ctypes
import time
from typing import Any, List, NamedTuple, Sequence

from reusebench.measured.runtimes.base import AdapterError, OutOfMemory
from reusebench.measured.runtimes.llama_cpp.library import Library

__all__ = ["Batch", "Entry", "Next"]

#: Return values of llama_decode() (llama.h).
_NO_ROOM = 1
_NO_MEMORY = -2


class Entry(NamedTuple):
    """One token for the context to compute."""

    token: int
    position: int
    sequence: int
    #: Whether the token that follows from it is wanted.
    is_last: bool = False


class Next(NamedTuple):
    """The most likely token after an entry."""

    token: int
    at_ns: int


class Batch:
    """The memory of a llama_batch, for one context."""

    def __init__(self, library: Library, context: Any, entries: int) -> None:
        """`entries` are the most that are ever given; the context takes n_batch at once."""
        self._library = library
        self._api = library.api
        self._context = context
        self._sampler = self._api.llama_sampler_init_greedy()
        size = min(entries, self._api.llama_n_batch(context))
        self._size = size
        self._tokens = (ctypes.c_int32 * size)()
        self._positions = (ctypes.c_int32 * size)()
        self._sequences = (ctypes.c_int32 * size)()
        self._wanted = (ctypes.c_int8 * size)()
        # Each entry belongs to one sequence: the pointers never change.
        self._counts = (ctypes.c_int32 * size)(*[1] * size)
        pointer = ctypes.POINTER(ctypes.c_int32)
        item = ctypes.sizeof(ctypes.c_int32)
        begin = ctypes.addressof(self._sequences)
        addresses = (ctypes.c_void_p * size)(*range(begin, begin + size * item, item))
        self._pointers = addresses
        self._batch = self._api.llama_batch()
        self._batch.token = self._tokens
        self._batch.pos = self._positions
        self._batch.n_seq_id = self._counts
        self._batch.seq_id = ctypes.cast(addresses, ctypes.POINTER(pointer))
        self._batch.logits = self._wanted

    def close(self) -> None:
        """Free the sampler."""
        self._api.llama_sampler_free(self._sampler)

    def compute(self, entries: Sequence[Entry]) -> List[Next]:
        """Compute the entries in as few calls as the context allows; return the tokens wanted."""
        found: List[Next] = []
        for start in range(0, len(entries), self._size):
            part = entries[start : start + self._size]
            self._decode(part)
            for index, entry in enumerate(part):
                if entry.is_last:
                    token = self._api.llama_sampler_sample(self._sampler, self._context, index)
                    found.append(Next(token, time.perf_counter_ns()))
        return found

    def _decode(self, entries: Sequence[Entry]) -> None:
        count = len(entries)
        tokens, positions, sequences, wanted = zip(*entries)
        self._tokens[:count] = tokens
        self._positions[:count] = positions
        self._sequences[:count] = sequences
        self._wanted[:count] = wanted
        self._batch.n_tokens = count
        self._library.forget_words()
        code = self._api.llama_decode(self._context, self._batch)
        if code == _NO_ROOM:
            raise AdapterError("llama_cpp_cache_full", tokens=positions[-1] + 1)
        if code != 0:
            kind = OutOfMemory if code == _NO_MEMORY else AdapterError
            raise kind("llama_cpp_decode_failed", code=code, error=self._library.reason())
