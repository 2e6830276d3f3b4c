"""The facts of a language model's file, as `reusebench models inspect` shows them."""

from __future__ import annotations

from collections.abc import Iterator

from reusebench.models.inspection.contents import GgufAdapter, GgufFacts

__all__ = ["gguf_facts", "kv_cache_table"]

_KINDS = {"model": "", "adapter": ", an adapter", "vocabulary": ", a vocabulary alone"}
#: Types of the cache that are shown; --json has all.
_SHOWN = ("f16", "q8_0", "q4_0")
_KIB = 1024
#: Tokens that a column of sizes is for.
_MANY_TOKENS = 1000


def gguf_facts(facts: GgufFacts) -> Iterator[tuple[str, str]]:
    """Yield names and texts; an empty text is not shown."""
    kind = _KINDS.get(facts.kind, f", {facts.kind}")
    yield "format", f"GGUF, version {facts.version}{kind}"
    yield "name", facts.name
    yield "architecture", facts.architecture
    yield "type", facts.file_type or ""
    if facts.adapter:
        yield "adapter", _adapter(facts.adapter)
    yield "layers", _number(facts.layers)
    yield "heads", _heads(facts)
    yield "embedding", _number(facts.embedding)
    yield "experts", _number(facts.experts)
    tokenizer = f", tokenizer {facts.tokenizer}" if facts.tokenizer else ""
    yield "vocabulary", f"{facts.vocabulary:,} tokens{tokenizer}" if facts.vocabulary else ""
    yield "context", f"{facts.context:,} tokens" if facts.context else ""
    yield "window", _window(facts)
    if facts.parts:
        missing = sum(part.size_bytes is None for part in facts.parts)
        yield "parts", f"{len(facts.parts)}{f', {missing} missing' if missing else ''}"


def kv_cache_table(facts: GgufFacts) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return rows and heads: the bytes of a token, by type of the cache."""
    heads = ("keys and values", "bytes a token", f"MiB for {_MANY_TOKENS:,} tokens")
    if facts.window_layers:
        heads = ("keys and values", "bytes a token", "after the window")
    rows: list[tuple[str, ...]] = []
    for cache in facts.kv_cache:
        if cache.type not in _SHOWN:
            continue
        last = f"{cache.bytes_per_token * _MANY_TOKENS / _KIB**2:.2f}"
        if facts.window_layers:
            last = f"{cache.bytes_per_token - cache.window_bytes_per_token:,}"
        rows.append((cache.type, f"{cache.bytes_per_token:,}", last))
    return rows, heads


def _number(number: int | None) -> str:
    return f"{number:,}" if number else ""


def _adapter(adapter: GgufAdapter) -> str:
    parts = [adapter.type or "of an unknown kind"]
    if adapter.rank:
        parts.append(f"rank {adapter.rank}")
    if adapter.alpha is not None:
        parts.append(f"alpha {adapter.alpha:g}")
    return ", ".join([*parts, f"for {adapter.pairs} matrices"])


def _heads(facts: GgufFacts) -> str:
    """Return the numbers of heads; those that differ between layers are joined by "or"."""
    if not facts.heads or not facts.kv_heads:
        return ""
    heads = " or ".join(map(str, facts.heads))
    kv_heads = " or ".join(map(str, facts.kv_heads))
    sizes = dict.fromkeys((facts.key_size, facts.value_size))
    size = " and ".join(str(size) for size in sizes)
    return f"{heads}, {kv_heads} with keys and values, of {size} values"


def _window(facts: GgufFacts) -> str:
    if not facts.window:
        return ""
    if not facts.window_layers:
        return f"{facts.window:,} tokens, in layers that the file does not tell"
    return (
        f"{facts.window:,} tokens, in {facts.window_layers} of the layers: no more are kept with"
        " the option swa_full=0"
    )
