"""Conversations of language models: the cost of a further one and of a token, by component."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reusebench.measured.plan import Conversation
from reusebench.reports.base.statistics import Figure, difference, total
from reusebench.reports.results.memory_use import page_memory
from reusebench.reports.results.rows import Row
from reusebench.scenarios.catalogue import OPTIONS, SESSIONS

#: The components of a context's memory by the runtime's own account, and the rest of the account.
WEIGHTS = "weights"
KV_CACHE = "kv_cache"
SCRATCH = "scratch"
_OTHER = "other"
SESSION_COMPONENTS = (
    WEIGHTS,
    KV_CACHE,
    SCRATCH,
    "outputs",
    "adapters",
    "prompt_state",
    _OTHER,
)
#: Figures of storage.result.Speed.
FIRST_TOKEN = "first_token_ns"
PROMPT = "prompt_tokens_per_s"
GENERATED = "generated_tokens_per_s"
ALL_GENERATED = "all_generated_tokens_per_s"
_SUFFIX = "_bytes"
_OVER_BASELINE = "application_memory_over_baseline_bytes"


@dataclass(frozen=True)
class SessionMemory:
    """The memory of one configuration by component, in bytes above the do-nothing baseline."""

    #: By the runtime's own account, over all contexts. Key: a component of SESSION_COMPONENTS; one
    #: that the runtime does not tell is missing.
    account: dict[str, Figure]
    #: As measured. Key: a kind of memory_use.PAGE_KINDS; empty if the kernel does not tell them
    #: apart.
    measured: dict[str, Figure]
    #: All measured memory.
    total: Figure
    #: Weights in the account of a context that another context has mapped from the same file: they
    #: are in memory once.
    mapped_again: Figure

    @property
    def account_total(self) -> Figure | None:
        """The sum of the account; None if the runtime gives none."""
        return total(self.account.values())

    @property
    def difference(self) -> Figure | None:
        """The measured memory minus the account, in which each mapped file counts once."""
        account = difference(self.account_total, self.mapped_again)
        return difference(self.total, account)


@dataclass(frozen=True)
class TokenCost:
    """The cost of a token: the difference of two conversations with room for more and fewer."""

    more: Row
    fewer: Row
    #: Bytes of memory for each token, as measured.
    measured: Figure
    #: Bytes of the KV cache for each token, by the account; None if the runtime tells none.
    kv_cache: Figure | None


def has_conversations(row: Row) -> bool:
    """Whether the row is of a language model."""
    return row.info.plan.conversation is not None


def conversation_of(row: Row) -> Conversation:
    """Return the conversation of a row of a language model."""
    conversation = row.info.plan.conversation
    assert conversation is not None
    return conversation


def conversation_count(row: Row) -> int:
    """Return the number of conversations: each context and each sequence holds one."""
    return len(row.info.plan.contexts)


def options_of(row: Row) -> tuple[str, ...]:
    """Return the runtime's own options, apart from one that is the scenario itself."""
    return tuple(sorted(row.options - {row.scenario}))


def session_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of conversations, apart from variants by options."""
    return [row for row in rows if has_conversations(row) and row.question != OPTIONS]


def is_alike(row: Row, other: Row) -> bool:
    """Whether two rows have the same models and the same conversation, whatever their options."""
    return _models(row) == _models(other) and conversation_of(row) == conversation_of(other)


def has_other_tokens(row: Row, other: Row) -> bool:
    """Whether two measured rows of the same models generated different tokens."""
    return _models(row) == _models(other) and row.info.output_digests != other.info.output_digests


def speed_figure(row: Row, name: str) -> Figure | None:
    """Return a figure of storage.result.Speed over the repeats; None if it is not known."""
    return Figure.of(getattr(row.info.speed, name)) if row.measured else None


def session_memory(row: Row) -> SessionMemory | None:
    """Return the memory of a row by component; None if it was not measured."""
    whole = row.memory(_OVER_BASELINE)
    pages = page_memory(row)
    if whole is None or pages is None:
        return None
    sizes: dict[str, int] = {}
    for account in row.info.runtime_accounts:
        for name, size_bytes in account.items():
            component = name[: -len(_SUFFIX)]
            if component not in SESSION_COMPONENTS:
                component = _OTHER
            sizes[component] = sizes.get(component, 0) + size_bytes
    account_figures = {}
    for component in SESSION_COMPONENTS:
        if component in sizes:
            account_figures[component] = _exact(sizes[component])
    mapped_again = _exact(_mapped_again_bytes(row, pages.over.get("file")))
    return SessionMemory(account_figures, pages.over, whole, mapped_again)


def _mapped_again_bytes(row: Row, files: Figure | None) -> int:
    """Return the weights that several contexts have mapped from one file, apart from the first.

    Weights are mapped if most of them, of each file once, are pages of files.
    """
    weights_by_model: dict[int, int] = {}
    again_bytes = 0
    for context, account in zip(row.info.plan.contexts, row.info.runtime_accounts):
        size_bytes = account.get(f"{WEIGHTS}{_SUFFIX}", 0)
        if size_bytes and context.model in weights_by_model:
            again_bytes += size_bytes
        elif size_bytes:
            weights_by_model[context.model] = size_bytes
    is_mapped = files is not None and files.median > sum(weights_by_model.values()) / 2
    return again_bytes if is_mapped else 0


def _exact(size_bytes: float) -> Figure:
    """Return a figure of an account, which does not differ between repeats."""
    return Figure(size_bytes, 0.0)


def component_bytes(row: Row, component: str) -> Figure | None:
    """Return the size of a component by the account; None if the runtime does not tell it."""
    memory = session_memory(row)
    return memory.account.get(component) if memory else None


def further_conversation(row: Row, rows: Sequence[Row]) -> Figure | None:
    """Return the bytes of memory of each conversation after the first.

    Contexts: the mean of what each after the first added. Sequences, whose memory is their
    context's: the memory above that of one conversation alone, which has to be among `rows`; None
    if it is not.
    """
    further = conversation_count(row) - 1
    if further < 1 or not row.measured:
        return None
    if has_sequences(row):
        alone = one_conversation(row, rows)
        before = alone.memory(_OVER_BASELINE) if alone else None
        more = difference(row.memory(_OVER_BASELINE), before)
        return more.scaled(1 / further) if more else None
    means = []
    for added in row.info.memory.context_memory_bytes:
        means.append(sum(added[1:]) / further if added else None)
    return Figure.of(means)


def has_sequences(row: Row) -> bool:
    """Whether conversations of the row are sequences over a context."""
    plan = row.info.plan
    return any(plan.sequences_over(index) for index in range(len(plan.contexts)))


def one_conversation(row: Row, rows: Iterable[Row]) -> Row | None:
    """Return the row of one conversation alone that is like those of this row."""
    for other in session_rows(rows):
        is_alone = other.measured and conversation_count(other) == 1
        if is_alone and is_alike(other, row) and options_of(other) == options_of(row):
            return other
    return None


def token_costs(rows: Iterable[Row]) -> list[TokenCost]:
    """Return the cost of a token for each model and its options, from the two conversations that
    differ most.
    """
    alike: dict[object, list[Row]] = {}
    for row in session_rows(rows):
        if row.measured and row.question == SESSIONS and conversation_count(row) == 1:
            alike.setdefault((_models(row), options_of(row)), []).append(row)
    costs = []
    for candidates in alike.values():
        fewer = min(candidates, key=lambda row: conversation_of(row).tokens)
        more = max(candidates, key=lambda row: conversation_of(row).tokens)
        cost = _token_cost(more, fewer)
        if cost:
            costs.append(cost)
    return costs


def _token_cost(more: Row, fewer: Row) -> TokenCost | None:
    tokens = conversation_of(more).tokens - conversation_of(fewer).tokens
    measured = difference(more.memory(_OVER_BASELINE), fewer.memory(_OVER_BASELINE))
    if tokens < 1 or measured is None:
        return None
    kv_cache = difference(component_bytes(more, KV_CACHE), component_bytes(fewer, KV_CACHE))
    per_token = kv_cache.scaled(1 / tokens) if kv_cache else None
    return TokenCost(more, fewer, measured.scaled(1 / tokens), per_token)


def _models(row: Row) -> tuple[str, ...]:
    return tuple(model.digest for model in row.info.models)
