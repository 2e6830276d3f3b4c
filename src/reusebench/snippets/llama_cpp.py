"""Plans in Python for llama.cpp, with the calls of measured/runtimes/llama_cpp in their order."""

from __future__ import annotations

from typing import Any, Optional

from reusebench.measured.plan import (
    ADAPTER,
    CREATE_MEM,
    DUP,
    LOAD,
    RESTORED_PROMPT,
    SEQUENCE,
    SHARED_PROMPT,
    Context,
    Plan,
)
from reusebench.measured.runtimes.base import Memory, NotSupported
from reusebench.measured.runtimes.llama_cpp.cells import cells_of
from reusebench.measured.runtimes.llama_cpp.options import CACHE_TYPES, FLASH, read_options
from reusebench.snippets.base import Snippet, common_values, own_files_of, render
from reusebench.snippets.indices import Indices

__all__ = ["write"]

_WORDS = {
    DUP: "a context over the model of another one",
    SEQUENCE: "a sequence in the context of another one",
    SHARED_PROMPT: "a sequence over the common tokens of another one (llama_memory_seq_cp)",
    RESTORED_PROMPT: "a context with the saved state of the common tokens",
    ADAPTER: "an adapter over the model of another one",
}
_OF_CONTEXTS = (LOAD, DUP, RESTORED_PROMPT, ADAPTER)


def write(plan: Plan, _chip: Optional[str] = None) -> Snippet:
    """Return the program; raise NotSupported if there can be none."""
    if plan.conversation is None:
        raise NotSupported("conversation_missing", runtime="llama.cpp")
    for context in plan.contexts:
        _check(plan, context)
    indices = Indices(len(plan.contexts), divide="//")
    return Snippet("python", render("llama_cpp.py.j2", indices, _values(plan, indices)))


def _check(plan: Plan, context: Context) -> None:
    """Raise NotSupported for contexts that the adapter refuses too."""
    if context.mechanism not in (LOAD, *_WORDS):
        raise NotSupported("no_code_of_mechanism", mechanism=context.mechanism)
    if context.outside or context.zero_copy or context.internal is not None:
        raise NotSupported("llama_cpp_no_shared_scratch")
    if context.device is not None or context.device_io or context.allocator != CREATE_MEM:
        raise NotSupported("conversation_cpu_only", runtime="llama.cpp")
    shares = context.mechanism == SHARED_PROMPT and context.source is not None
    if shares and not plan.contexts[context.source or 0].unified_cache:
        raise NotSupported("llama_cpp_prompt_needs_unified")


def _values(plan: Plan, indices: Indices) -> dict[str, Any]:
    """Return the values for the template."""
    conversation = plan.conversation
    assert conversation is not None
    files, file_of = own_files_of(plan, ".gguf")
    contexts = [i for i, one in enumerate(plan.contexts) if one.mechanism in _OF_CONTEXTS]
    loaded = [i for i in contexts if plan.contexts[i].mechanism == LOAD]
    entries = []
    for i in contexts:
        context = plan.contexts[i]
        sequences = [plan.contexts[other].mechanism for other in plan.sequences_over(i)]
        memory = Memory(
            conversation=conversation,
            sequences=1 + len(sequences),
            unified_cache=context.unified_cache,
            shared_prompts=sequences.count(SHARED_PROMPT),
        )
        owner = i if context.source is None else context.source
        entry: dict[str, Any] = {"model": loaded.index(owner), "tokens": cells_of(memory)}
        if sequences:
            entry["sequences"] = memory.sequences
            entry["unified"] = context.unified_cache
        sharing = [n for n, one in enumerate(sequences, start=1) if one == SHARED_PROMPT]
        if sharing:
            entry["sharing"] = sharing
        if context.mechanism == RESTORED_PROMPT:
            entry["restores"] = contexts.index(owner)
        if context.mechanism == ADAPTER:
            entry["adapter"] = file_of[i]
        entries.append(entry)
    chosen = dict.fromkeys(plan.options_of(i) for i in loaded)
    if len(chosen) > 1:
        raise NotSupported("llama_cpp_no_code_of_options")
    mechanisms = {context.mechanism for context in plan.contexts}
    return {
        **common_values(plan, indices, "llama.cpp", _WORDS, "scratch memory"),
        "files": files,
        "loaded": [file_of[i] for i in loaded],
        "entries": entries,
        "conversation": conversation,
        "options": _options(next(iter(chosen))),
        "has_sequences": bool({SEQUENCE, SHARED_PROMPT} & mechanisms),
        "has_shared": SHARED_PROMPT in mechanisms,
        "has_restored": RESTORED_PROMPT in mechanisms,
        "has_adapters": ADAPTER in mechanisms,
    }


def _options(chosen: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the lines that set the parameters of a model and of a context."""
    options = read_options(chosen)
    model = []
    if not options.use_extra_bufts:
        model.append("params.use_extra_bufts = False")
    mode = {(False, False): "NONE", (False, True): "MLOCK", (True, True): "MMAP_MLOCK"}
    way = mode.get((options.use_mmap, options.use_mlock))
    if way:
        model.append(f"params.load_mode = llama.LLAMA_LOAD_MODE_{way}")
    context = []
    for name, value in (("k", options.cache_type_k), ("v", options.cache_type_v)):
        if value != "f16":
            context.append(f"params.type_{name} = {CACHE_TYPES[value]}  # {value}")
    if options.flash_attn != "auto":
        context.append(f"params.flash_attn_type = {FLASH[options.flash_attn]}")
    if not options.swa_full:
        context.append("params.swa_full = False")
    for name in ("n_batch", "n_ubatch"):
        number = getattr(options, name)
        if number is not None:
            context.append(f"params.{name} = {number}")
    threads = options.n_threads or "len(os.sched_getaffinity(0))"
    context.append(f"params.n_threads = params.n_threads_batch = {threads}")
    return {"model": model, "context": context}
