"""Conversations in words: the cost of a further one, how it becomes less, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reusebench.reports.base.formatting import mib, milliseconds, per_second, whole
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Row
from reusebench.reports.results.sessions import (
    ALL_GENERATED,
    FIRST_TOKEN,
    conversation_of,
    further_conversation,
    has_conversations,
    has_other_tokens,
    is_alike,
    options_of,
    session_rows,
    speed_figure,
)

#: The option by which every runtime names the type of its cache.
CACHE_TYPE = "cache_type"
#: Ways to hold a further conversation, in the order in which one is taken as the plain one.
_PLAINEST = ("sessions_contexts", "sessions_loaded", "sessions_sequences")


@dataclass(frozen=True)
class FurtherCost:
    """The cost of a further conversation in one configuration."""

    row: Row
    size: Figure


def scenario_in_words(row: Row, texts: Texts, rows: Iterable[Row] = ()) -> str:
    """Return the scenario's title; of conversations with the runtime's own options that not every
    row of the scenario among `rows` has.
    """
    name = texts.scenario(row.scenario)
    if not has_conversations(row):
        return name
    named = [other for other in rows if other.scenario == row.scenario]
    differing = []
    for option in options_of(row):
        if not all(option in options_of(other) for other in named):
            differing.append(option)
    if not differing:
        return name
    return texts("scenario_with_options", scenario=name, options=texts.joined(differing))


def further_costs(rows: Sequence[Row]) -> tuple[FurtherCost, FurtherCost | None] | None:
    """Return the cost with a context for each conversation, and the least of all other ways.

    The first is without options of the runtime; without such contexts it is that of loading the
    model again, or else of sequences. The second is None if no other way takes measurably less.
    None if no cost is known.
    """
    costs = []
    for row in session_rows(rows):
        # Adapters and merged models are other conversations, with models of their own.
        size = further_conversation(row, rows) if len(row.info.models) == 1 else None
        if size:
            costs.append(FurtherCost(row, size))
    if not costs:
        return None
    plain = min(costs, key=lambda cost: _distance_from_plain(cost.row))
    less = []
    for cost in costs:
        saved = plain.size - cost.size
        if is_alike(cost.row, plain.row) and saved.median > 0 and saved.exceeds_spread:
            less.append(cost)
    return plain, min(less, key=lambda cost: cost.size.median, default=None)


def _distance_from_plain(row: Row) -> tuple[int, int, int]:
    """Return the sort key of ways, the plainest first."""
    position = _PLAINEST.index(row.scenario) if row.scenario in _PLAINEST else len(_PLAINEST)
    return len(options_of(row)), -conversation_of(row).tokens, position


def further_sentence(rows: Sequence[Row], texts: Texts) -> str:
    """Return the cost of a further conversation, and the least; empty if that is not known."""
    known = further_costs(rows)
    if known is None:
        return ""
    plain, least = known
    tokens = whole(conversation_of(plain.row).tokens)
    size = mib(plain.size, spread=False)
    if least is None:
        return texts("further_costs", tokens=tokens, size=size)
    return texts(
        "further_costs_less",
        tokens=tokens,
        size=size,
        least=mib(least.size, spread=False),
        ways=_ways(least.row, plain.row, texts),
    )


def _ways(row: Row, plain: Row, texts: Texts) -> str:
    """Return the options and the mechanism that the plain row does not have, after "with"."""
    ways = []
    for option in options_of(row):
        if option in options_of(plain):
            continue
        name, _, value = option.partition("=")
        ways.append(texts("way_cache_type", value=value) if name == CACHE_TYPE else option)
    if row.scenario != plain.scenario:
        ways.append(texts(f"way_{row.scenario}"))
    return texts("ways_separator").join(ways)


def least_sentence(rows: Sequence[Row], texts: Texts) -> str:
    """Return the speed of the least way, and whether its tokens are other ones.

    Empty if no way takes less.
    """
    known = further_costs(rows)
    if known is None or known[1] is None:
        return ""
    plain, least = known[0].row, known[1].row
    facts = _speed_facts(least, plain, texts)
    if has_other_tokens(least, plain):
        facts.append(texts("least_other_tokens"))
    ways = _ways(least, plain, texts)
    plain_name = texts.scenario(plain.scenario)
    return texts("least_costs", ways=ways, plain=plain_name, facts=texts.joined(facts))


def _speed_facts(least: Row, plain: Row, texts: Texts) -> list[str]:
    """Return the speed of the least way and of the plain one, or that it is not known."""
    if least.is_disturbed or plain.is_disturbed:
        return [texts("least_speed_disturbed")]
    facts = []
    rates = speed_figure(least, ALL_GENERATED), speed_figure(plain, ALL_GENERATED)
    if all(rates):
        own, before = map(per_second, rates)
        facts.append(texts("least_generates", own=own, before=before))
    first_tokens = speed_figure(least, FIRST_TOKEN), speed_figure(plain, FIRST_TOKEN)
    if all(first_tokens):
        own, before = map(milliseconds, first_tokens)
        facts.append(texts("least_first_token", own=own, before=before))
    return facts or [texts("least_speed_not_measured")]
