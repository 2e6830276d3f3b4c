"""Stored runs of language models made from chosen figures, by the code that stores measured ones.

The model has 30 layers with 3 heads of 64 for keys and values, and 110 MiB of weights, which are
mapped from its file: in memory once, however often the file is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from reusebench.measured.plan import LOAD, Conversation, Plan
from reusebench.samplers.readings import ProcessMemory
from reusebench.scenarios.catalogue import (
    ADAPTERS,
    MERGED,
    Parameters,
    find_scenario,
    scenarios_of,
)
from reusebench.storage.result import Result
from tests.reports.stored import (
    MIB,
    MODELS,
    changed,
    result,
    with_memory,
    with_speed,
    with_steady,
    write_run,
)

__all__ = [
    "ALL_PER_S",
    "CONVERSATION",
    "KV_TOKEN_BYTES",
    "SESSIONS",
    "session_results",
    "sessions_result",
    "sessions_run",
]

SESSIONS = 4
CONVERSATION = Conversation(tokens=2048, prompt=512, generated=64, common=384)
#: Bytes of the KV cache for each token, by the value of the option cache_type.
KV_TOKEN_BYTES = {"f16": 30 * 2 * 3 * 64 * 2, "q4_0": 30 * 2 * 3 * 64 * 18 // 32}
WEIGHTS = 110 * MIB
SCRATCH = 18 * MIB
OUTPUTS = MIB // 4
ADAPTER_BYTES = 2 * MIB
#: Memory that no account tells of.
REST = MIB
#: Tokens a second that all conversations generate, by scenario.
ALL_PER_S = {
    "sessions_loaded": 80.0,
    "sessions_contexts": 81.0,
    "sessions_sequences": 120.0,
    "sessions_unified": 118.0,
    "sessions_shared_prompt": 150.0,
    "sessions_restored_prompt": 95.0,
    "session": 40.0,
    "session_shorter": 40.5,
    "sessions_merged": 78.0,
    "sessions_adapters": 70.0,
}
_MS = 1_000_000


def sessions_result(
    storage: Path,
    scenario: str,
    *,
    conversation: Conversation = CONVERSATION,
    options: Sequence[str] = (),
    spread: float = 0.1,
    run: str = "run1",
) -> Result:
    """Return a result of three repeats, with the account of the runtime and figures of speed."""
    plan = _plan(scenario, conversation, options)
    accounts = [_account(plan, index) for index in range(len(plan.contexts))]
    costs = [sum(account.values()) + REST for account in accounts]
    is_mapped_again = [
        index > 0 and context.mechanism == LOAD and context.model == 0
        for index, context in enumerate(plan.contexts)
    ]
    costs = [cost - WEIGHTS * is_mapped for cost, is_mapped in zip(costs, is_mapped_again)]
    costs = [0 if not account else cost for cost, account in zip(costs, accounts)]
    repeats = []
    for offset in (-spread, 0.0, spread):
        repeats.append([round(cost + offset * MIB) for cost in costs])
    info = result(
        storage,
        scenario,
        repeats,
        models=plan.models,
        plan=plan,
        streams=1,
        contexts=SESSIONS,
        run=run,
        digest="q4" * 4 if options else "00000001",
    )
    info = changed(info, runtime="llama_cpp", cores=1, runtime_accounts=tuple(accounts))
    for name in ("kv_cache_bytes", "scratch_bytes"):
        size = sum(account.get(name, 0) for account in accounts)
        info = with_memory(info, **{name: [size] * 3})
    files = WEIGHTS * len({plan.contexts[index].model for index, one in enumerate(accounts) if one})
    if scenario == "sessions_adapters":
        files = WEIGHTS
    info = with_steady(info, lambda _, process: _mapped(process, files))
    return _with_turns(info, scenario)


def session_results(storage: Path, *, run: str = "run1") -> list[Result]:
    """Return the results of every scenario, then of two with a q4_0 cache, and of options."""
    infos = []
    for scenario in scenarios_of("sessions"):
        infos.append(sessions_result(storage, scenario, run=run))
    for option in ("default_options", "cache_type=q4_0"):
        infos.append(sessions_result(storage, option, run=run))
    return infos


def quantised_results(storage: Path, *, run: str = "run2") -> list[Result]:
    """Return the results of a session with --session-option cache_type=q4_0."""
    names = ("sessions_loaded", "sessions_contexts", "sessions_shared_prompt", "session")
    return [sessions_result(storage, name, options=("cache_type=q4_0",), run=run) for name in names]


def sessions_run(storage: Path, number: int = 1) -> Path:
    """Write a run of every scenario, and one with a smaller cache before it; return the newer."""
    write_run(storage, quantised_results(storage), number, at="2026-01-02T03:04:05")
    return write_run(storage, session_results(storage), number + 1, at="2026-01-02T04:04:05")


def _plan(scenario: str, conversation: Conversation, options: Iterable[str]) -> Plan:
    found = find_scenario(scenario)
    models = MODELS[:3] if found.model_set in (ADAPTERS, MERGED) else MODELS[:1]
    parameters = Parameters(
        "llama_cpp", models, 1, SESSIONS, cores=1, rounds=2, conversation=conversation
    )
    (plan,) = found.plans(parameters)
    contexts = []
    for context in plan.contexts:
        if context.source is None:
            context = replace(context, options=(*context.options, *options))
        contexts.append(context)
    return replace(plan, contexts=tuple(contexts))


def _account(plan: Plan, index: int) -> dict[str, int]:
    """Return the account of a context; a sequence has none, its context has its memory."""
    context = plan.contexts[index]
    conversation = plan.conversation
    assert conversation is not None
    if context.mechanism in ("sequence", "shared_prompt"):
        return {}
    sequences = plan.sequences_over(index)
    tokens = conversation.tokens * (1 + len(sequences))
    if any(plan.contexts[other].mechanism == "shared_prompt" for other in sequences):
        tokens -= conversation.common * len(sequences)
    is_small = "cache_type=q4_0" in plan.options_of(index)
    account = {
        "weights_bytes": WEIGHTS if context.source is None else 0,
        "kv_cache_bytes": tokens * KV_TOKEN_BYTES["q4_0" if is_small else "f16"],
        "scratch_bytes": SCRATCH + len(sequences) * MIB // 2,
        "outputs_bytes": OUTPUTS * (1 + len(sequences)),
    }
    if context.mechanism == "adapter":
        account["adapters_bytes"] = ADAPTER_BYTES
    if context.mechanism == "restored_prompt":
        account["prompt_state_bytes"] = conversation.common * KV_TOKEN_BYTES["f16"]
    return account


def _mapped(process: ProcessMemory, files: int) -> ProcessMemory:
    """Return the reading with this number of bytes as pages of files."""
    assert process.pss_anon_bytes is not None
    assert process.pss_file_bytes is not None
    return msgspec.structs.replace(
        process,
        pss_anon_bytes=process.pss_anon_bytes - files,
        pss_file_bytes=process.pss_file_bytes + files,
    )


def _with_turns(info: Result, scenario: str) -> Result:
    all_per_s = ALL_PER_S.get(scenario, 41.0)
    is_shared = "prompt" in scenario
    return with_speed(
        info,
        throughput_per_s=[(all_per_s + offset) / 64 for offset in (-0.1, 0, 0.1)],
        first_token_ns=[(120 if is_shared else 480) * _MS + offset for offset in (-_MS, 0, _MS)],
        prompt_tokens_per_s=[1066.0, 1067.0, 1068.0],
        generated_tokens_per_s=[39.9, 40.0, 40.1],
        all_generated_tokens_per_s=[all_per_s - 0.1, all_per_s, all_per_s + 0.1],
    )
