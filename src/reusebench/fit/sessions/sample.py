"""The figures of one measured plan of conversations, from the barriers of its process."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reusebench.targets.barriers import BarrierReading

__all__ = ["KV_CACHE", "SCRATCH", "WEIGHTS", "Account", "Sample", "sample_of", "total"]

#: Components of accounts.
KV_CACHE = "kv_cache_bytes"
SCRATCH = "scratch_bytes"
WEIGHTS = "weights_bytes"

Account = Mapping[str, int]


@dataclass(frozen=True)
class Sample:
    """The memory and speed of one process. Memory is all pages of the process, each once."""

    #: With the runtime imported, before the first context.
    base_bytes: int
    #: In the steady state, over the base.
    steady_bytes: int
    #: Added by the last conversation, up to its first inference.
    last_bytes: int
    #: After the first context was made, over the base.
    loaded_bytes: int
    #: What making the first context took for a while, over what stayed.
    load_transient_bytes: int
    #: The most that a later step took for a while.
    run_transient_bytes: int
    #: The runtime's own account of each context.
    accounts: tuple[Account, ...]
    #: Median time to generate a token; all sequences of a context generate one in this time.
    token_ns: float
    #: Median speed of computing a prompt.
    prompt_tokens_per_s: float
    #: Checksums of the tokens that conversations generated, each once.
    digests: frozenset[str]

    @property
    def kv_bytes(self) -> int:
        """The caches of all contexts, by the runtime's account."""
        return total(self.accounts, KV_CACHE)

    @property
    def rest_bytes(self) -> int:
        """The steady state over the base without caches."""
        return self.steady_bytes - self.kv_bytes


def total(accounts: Sequence[Account], component: str) -> int:
    """Return the sum of a component over contexts."""
    return sum(account.get(component, 0) for account in accounts)


def sample_of(barriers: Sequence[BarrierReading]) -> Sample:
    """Return the figures of a process that has come to its end."""
    by_phase: dict[str, list[BarrierReading]] = {}
    for barrier in barriers:
        by_phase.setdefault(barrier.phase, []).append(barrier)
    base_bytes = _memory(by_phase["imported"][0])
    steady = by_phase["steady"][0]
    loaded = by_phase["context"][0]
    inferred = by_phase["first_inference"]
    last_bytes = 0
    for before, after in zip(barriers, barriers[1:]):
        is_last = after.context == len(inferred) - 1
        if is_last and after.phase in ("context", "first_inference"):
            last_bytes += _memory(after) - _memory(before)
    turns = [turn for of_context in steady.data.turns for turn in of_context]
    prompts = [turn.prompt_tokens / turn.first_token_ns * 1e9 for turn in turns]
    token_times = [
        turn.generation_ns / (turn.generated_tokens - 1)
        for turn in turns
        if turn.generated_tokens > 1
    ]
    return Sample(
        base_bytes=base_bytes,
        steady_bytes=_memory(steady) - base_bytes,
        last_bytes=last_bytes,
        loaded_bytes=_memory(loaded) - base_bytes,
        load_transient_bytes=_transient(loaded),
        run_transient_bytes=max(map(_transient, [*inferred, steady])),
        accounts=tuple(barrier.data.account for barrier in inferred),
        token_ns=statistics.median(token_times),
        prompt_tokens_per_s=statistics.median(prompts),
        digests=frozenset([barrier.data.digest for barrier in inferred]) | {*steady.data.digests},
    )


def _memory(barrier: BarrierReading) -> int:
    process = barrier.process
    if process.distinct_bytes is None:
        return process.pss_bytes
    return process.distinct_bytes


def _transient(barrier: BarrierReading) -> int:
    """Return the most that memory was above that at the barrier, during its step."""
    process = barrier.process
    return max(0, (process.peak_rss_bytes or 0) - process.rss_bytes)
