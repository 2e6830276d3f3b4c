"""Conversations whose memory and speed are known in advance."""

from __future__ import annotations

from dataclasses import replace

from reusebench.fit.sessions.layouts import CONTEXTS, SessionDemand
from reusebench.fit.sessions.sample import Sample
from reusebench.fit.sessions.study import Case, SessionStudy
from reusebench.measured.plan import Conversation, Plan
from tests.helpers.support import models_of

OPTIONS = ("cache_type=q8_0", "cache_type=q4_0", "n_ubatch=128", "flash_attn=0")

BASE = 40_000
WEIGHTS = 100_000
#: Bytes that the runtime keeps for a context, and for a sequence.
OF_CONTEXT = 5_000
OF_SEQUENCE = 300
#: Bytes of a token: in the cache, and of scratch that it adds.
KV = {None: 100, "q8_0": 50, "q4_0": 25}
SCRATCH = 3
#: Nanoseconds of a token, and what each token before it adds.
TOKEN_NS = 1_000_000
EARLIER_NS = 1_000


def demand_of(
    sessions: int = 4, tokens: int = 4096, prompt: int = 4080, common: int = 0
) -> SessionDemand:
    """Return a demand of conversations that fill their room."""
    conversation = Conversation(tokens, prompt, tokens - prompt, common)
    return SessionDemand("llama_cpp", models_of("/model.gguf")[0], sessions, conversation, OPTIONS)


def kv_bytes(case: Case) -> int:
    """Return the size of all caches of a case."""
    tokens = case.sessions * case.conversation.tokens
    if case.layout.kind == "shared_prompt":
        tokens -= (case.sessions - 1) * case.conversation.common
    return tokens * KV[case.layout.cache_type]


def peak_bytes(case: Case) -> int:
    """Return the memory of the process over its base."""
    total = WEIGHTS + kv_bytes(case)
    if case.layout.kind == CONTEXTS:
        return total + case.sessions * (OF_CONTEXT + SCRATCH * case.depth)
    pool = case.layout.pool_tokens(case.sessions, case.conversation)
    return total + OF_CONTEXT + (case.sessions - 1) * OF_SEQUENCE + SCRATCH * pool


def token_ns(case: Case) -> float:
    """Return the time in which an inference generates a token, or one for each sequence."""
    pool = case.layout.pool_tokens(case.sessions, case.conversation)
    sequences = 1 if case.layout.kind == CONTEXTS else case.sessions
    return TOKEN_NS + sequences * EARLIER_NS * pool


def sample_of(case: Case) -> Sample:
    """Return the figures of a case."""
    memory = peak_bytes(case)
    return Sample(
        base_bytes=BASE,
        steady_bytes=memory,
        last_bytes=OF_CONTEXT + SCRATCH * case.depth + kv_bytes(case) // case.sessions,
        loaded_bytes=WEIGHTS + kv_bytes(case) // case.sessions,
        load_transient_bytes=50_000,
        run_transient_bytes=0,
        accounts=_accounts(case),
        token_ns=token_ns(case),
        prompt_tokens_per_s=100.0,
        digests=frozenset({"same" if case.layout.cache_type is None else "other"}),
    )


def _accounts(case: Case) -> tuple[dict[str, int], ...]:
    if case.layout.kind != CONTEXTS:
        return ({"kv_cache_bytes": kv_bytes(case)}, *[{}] * (case.sessions - 1))
    return ({"kv_cache_bytes": kv_bytes(case) // case.sessions},) * case.sessions


def measured_study(demand: SessionDemand, *failing: str) -> SessionStudy:
    """Return a study whose first cases were measured; those of a kind in `failing` failed."""
    study = SessionStudy(demand)
    for case in study.plain_cases():
        if case.layout.kind not in failing:
            study.samples[_key(study, case)] = sample_of(case)
    return study


def _key(study: SessionStudy, case: Case) -> Plan:
    return replace(study.plan(case), scenario="", baseline=None)
