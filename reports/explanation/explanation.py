"""The explanation of a saving: what the plan predicts, what was measured, and the claim that all of it is saved."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from accounting.account import Account
from accounting.sizes import COMPONENTS, ContextMemory
from reports.base.statistics import Figure, difference
from reports.results.memory import component_memory
from reports.results.rows import Row
from scenarios.plan import SHARED_CONTEXT, Context

#: Which memory is explained.
NPU, APPLICATION = "npu", "application"
#: What a prediction is made from besides the plan: the baseline's account; its contexts, less what is not copied any
#: more, where none shares anything;
#: the first two contexts of each kind; where no kind has more, all contexts, so that only their adding up is tested.
ACCOUNT, BASELINE_CONTEXTS, FIRST_OF_KIND, OWN_CONTEXTS = (
    "account",
    "baseline_contexts",
    "first_of_kind",
    "own_contexts",
)
#: Of application memory: the process with the runtime imported, decoders where frames are decoded, the contexts that
#: reuse no other one, those that do, and what running at the same time takes.
APPLICATION_COMPONENTS = ("import", "decoders", "loaded", "reusing", "at_once")
#: What stands for all components together.
TOTAL = "total"
#: Of the exported table, after the identity of the configuration.
EXPLANATION_COLUMNS = (
    "component",
    "baseline_bytes",
    "predicted_bytes",
    "measured_bytes",
    "measured_spread_bytes",
    "error_bytes",
    "naive_bytes",
    "basis",
)

_Sizes = dict[str, Optional[float]]
#: Of a context: the model's digest, the mechanism, the place in a shared internal memory, what is outside, what is not
#: copied.
_Kind = tuple[str, str, str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Memory:
    """All memory of one configuration in bytes."""

    #: NPU or APPLICATION.
    name: str
    #: By component; None where the source does not tell it apart from the others.
    sizes: dict[str, Figure | None]
    total: Figure


@dataclass(frozen=True)
class Explanation:
    """One configuration against its baseline, all in bytes of the whole configuration, by component and in total."""

    #: ACCOUNT, FIRST_OF_KIND or OWN_CONTEXTS.
    basis: str
    #: NPU or APPLICATION.
    memory: str
    baseline: dict[str, Figure | None]
    predicted: dict[str, Figure | None]
    measured: dict[str, Figure | None]
    baseline_total: Figure
    predicted_total: Figure
    measured_total: Figure
    contexts: int
    #: How many of them reuse another one.
    reusing: int
    #: Components that these do not have for themselves, by the plan; empty where no account tells components apart.
    shared: tuple[str, ...]
    #: What one of these still has of its own, by component: the mean, as measured.
    own: dict[str, Figure | None]
    #: What contexts of their models take in the baseline: the mean; None where own says more, by an account.
    unshared: Figure | None

    @property
    def naive_percent(self) -> float | None:
        """The share of contexts that reuse another one, (N-1)/N; None where none does."""
        return 100 * self.reusing / self.contexts if self.reusing else None

    @property
    def naive_saved_bytes(self) -> float | None:
        """What would be saved if that share of everything were."""
        return self.baseline_total.median * self.reusing / self.contexts if self.reusing else None

    @property
    def predicted_saved(self) -> Figure:
        """The baseline's memory minus the predicted."""
        return _difference(self.baseline_total, self.predicted_total)

    @property
    def measured_saved(self) -> Figure:
        """The baseline's memory minus the measured."""
        return _difference(self.baseline_total, self.measured_total)

    @property
    def error(self) -> Figure:
        """The measured memory minus the predicted."""
        return _difference(self.measured_total, self.predicted_total)

    @property
    def error_by_component(self) -> dict[str, Figure | None]:
        """The same of each component; None where a side does not know it."""
        return {name: difference(self.measured[name], self.predicted[name]) for name in self.measured}

    @property
    def claim_is_reached(self) -> bool:
        """Whether the measured saving is what the claim says, as far as repeats can tell."""
        saved, claim = self.measured_saved, self.naive_saved_bytes
        return claim is not None and saved.median + (saved.spread or 0) >= claim

    def percent(self, figure: Figure) -> float:
        """Return a figure in percent of the baseline's whole memory."""
        return 100 * figure.median / self.baseline_total.median


# A page asks for it several times, and in each language.
@functools.lru_cache(maxsize=4096)
def explain(row: Row) -> Explanation | None:
    """Return the explanation; None where there is no baseline, or one of the two was not measured."""
    baseline = row.baseline
    if baseline is None or not row.measured or not baseline.measured:
        return None
    accounts = _have_accounts_alike(row, baseline)
    memory, predict = (_npu_memory, _by_account) if accounts else (_application_memory, _by_contexts)
    own, other = memory(row), memory(baseline)
    if own is None or other is None:
        return None
    return _explanation(ACCOUNT if accounts else _basis(row), row, baseline, own, other, predict(row, baseline))


def measured_memory(row: Row) -> Memory | None:
    """Return the memory that the row was measured with: of the NPU by its account, else of the application."""
    return (_npu_memory(row) or _application_memory(row)) if row.measured else None


def explanation_rows(row: Row) -> list[dict[str, Any]]:
    """Return a row in EXPLANATION_COLUMNS for each component and for the total; none where nothing is explained."""
    explanation = explain(row)
    if explanation is None:
        return []
    baseline = {**explanation.baseline, TOTAL: explanation.baseline_total}
    predicted = {**explanation.predicted, TOTAL: explanation.predicted_total}
    measured = {**explanation.measured, TOTAL: explanation.measured_total}
    errors = {**explanation.error_by_component, TOTAL: explanation.error}
    return [
        {
            "component": name,
            "baseline_bytes": _whole(baseline[name]),
            "predicted_bytes": _whole(predicted[name]),
            "measured_bytes": _whole(measured[name]),
            "measured_spread_bytes": _whole_spread(measured[name]),
            "error_bytes": _whole(errors[name]),
            "naive_bytes": _naive_bytes(explanation) if name == TOTAL else None,
            "basis": explanation.basis,
        }
        for name in measured
    ]


def _explanation(basis: str, row: Row, baseline: Row, own: Memory, other: Memory, predicted: Memory) -> Explanation:
    contexts = row.info.plan.contexts
    # Of fewer contexts than the baseline's nobody claims anything.
    as_many = len(contexts) == len(baseline.info.plan.contexts)
    reusing = [place for place, reuses in enumerate(_reuses(contexts)) if reuses and as_many]
    return Explanation(
        basis=basis,
        memory=own.name,
        baseline=other.sizes,
        predicted=predicted.sizes,
        measured=own.sizes,
        baseline_total=other.total,
        predicted_total=predicted.total,
        measured_total=own.total,
        contexts=len(contexts),
        reusing=len(reusing),
        shared=_shared(contexts) if basis == ACCOUNT else (),
        own=_own_by_account(row, reusing) if basis == ACCOUNT else _own_by_contexts(row, reusing),
        unshared=None if basis == ACCOUNT else _in_baseline(row, baseline, reusing),
    )


# The plan.


def _roles(contexts: Sequence[Context]) -> list[str]:
    """Return each context's place in a shared internal memory: "none", "first" or "further"."""
    numbers: set[int] = set()
    roles = []
    for context in contexts:
        if context.internal is None:
            roles.append("none")
        else:
            roles.append("further" if context.internal in numbers else "first")
            numbers.add(context.internal)
    return roles


def _reuses(contexts: Sequence[Context]) -> list[bool]:
    """Return of each context whether it reuses another one, or an internal memory that another one has already."""
    return [context.source is not None or role == "further" for context, role in zip(contexts, _roles(contexts))]


def _shares(contexts: Sequence[Context]) -> list[bool]:
    """Return of each context whether it reuses another one, or is reused."""
    sources = {context.source for context in contexts}
    shared = {context.internal for context, role in zip(contexts, _roles(contexts)) if role == "further"}
    return [
        reuses or place in sources or context.internal in shared
        for place, (context, reuses) in enumerate(zip(contexts, _reuses(contexts)))
    ]


def _shared(contexts: Sequence[Context]) -> tuple[str, ...]:
    """Return the components that contexts have of another one."""
    if any(context.mechanism == SHARED_CONTEXT for context in contexts):
        return COMPONENTS
    weights = any(context.source is not None for context in contexts)
    return ("weights",) * weights + ("internal",) * ("further" in _roles(contexts))


def _digests(row: Row) -> list[str]:
    """Return the digest of each context's model."""
    plan = row.info.plan
    return [plan.models[context.model].digest for context in plan.contexts]


# NPU memory, by the account.


def _have_accounts_alike(row: Row, baseline: Row) -> bool:
    """Whether both have an account, of one source: another one tells other components apart."""
    sources, others = ({account.source for account in accounts} for accounts in (row.accounts, baseline.accounts))
    return len(sources) == 1 and sources == others


def _npu_memory(row: Row) -> Memory | None:
    memory = component_memory(row)
    return Memory(NPU, memory.sizes, memory.total) if memory and memory.total else None


def _by_account(row: Row, baseline: Row) -> Memory:
    """Return what the plan takes if a context takes of each component what its model takes in the baseline."""
    repeats = [_predicted(row, baseline, account) for account in baseline.accounts]
    sizes = {name: Figure.of(repeat[name] for repeat in repeats) for name in COMPONENTS}
    total = Figure.of(_sum(repeat.values()) for repeat in repeats)
    assert total is not None
    return Memory(NPU, sizes, total)


def _predicted(row: Row, baseline: Row, account: Account) -> _Sizes:
    means = _means_by_model(_digests(baseline), account.contexts)
    # A further thread on a context adds nothing.
    pairs = zip(row.info.plan.contexts, _digests(row))
    made = [(context, means[digest]) for context, digest in pairs if context.mechanism != SHARED_CONTEXT]
    sizes = {name: _sum(of_context[name] for _, of_context in made) for name in COMPONENTS}
    sizes["weights"] = _sum(of_context["weights"] for context, of_context in made if context.source is None)
    sizes["internal"] = _internal_bytes([(context.internal, of_context["internal"]) for context, of_context in made])
    sizes["other"] = _sum([sizes["other"], account.unattributed_bytes])
    return sizes


def _means_by_model(digests: Sequence[str], contexts: Sequence[ContextMemory]) -> dict[str, _Sizes]:
    """Return what a context of each model has on average, by component."""
    of_models: dict[str, list[ContextMemory]] = {}
    for digest, context in zip(digests, contexts):
        of_models.setdefault(digest, []).append(context)
    return {
        digest: {name: _mean(context.size_bytes(name) for context in of_model) for name in COMPONENTS}
        for digest, of_model in of_models.items()
    }


def _internal_bytes(members: Sequence[tuple[int | None, float | None]]) -> float | None:
    """Return the sum where the contexts of one number share one memory, of the size of their largest."""
    alone = [size for number, size in members if number is None]
    shared: dict[int, list[float]] = {}
    for number, size in members:
        if number is not None and size is not None:
            shared.setdefault(number, []).append(size)
    return _sum([*alone, *map(max, shared.values())])


def _own_by_account(row: Row, places: Sequence[int]) -> dict[str, Figure | None]:
    def of_repeat(account: Account, name: str) -> float | None:
        return _mean(account.contexts[place].size_bytes(name) for place in places)

    return {name: Figure.of(of_repeat(account, name) for account in row.accounts) for name in COMPONENTS}


# Application memory, by what contexts added at their barriers.


@dataclass(frozen=True)
class _Repeat:
    import_bytes: int
    #: What each context added.
    contexts_bytes: Sequence[int]
    whole_bytes: int
    #: None where nothing is decoded.
    decoders_bytes: int | None

    @property
    def at_once_bytes(self) -> int:
        """What is there beside the import, the decoders and what each context added alone."""
        return self.whole_bytes - self.import_bytes - sum(self.contexts_bytes) - (self.decoders_bytes or 0)


def _repeats(row: Row) -> list[_Repeat]:
    memory = row.info.memory
    repeats = []
    for imported, contexts, whole, decoders in zip(
        memory.baseline_memory_bytes,
        memory.context_memory_bytes,
        memory.application_memory_bytes,
        memory.decoder_memory_bytes or (None,) * len(memory.baseline_memory_bytes),
    ):
        if imported is not None and contexts is not None and whole is not None:
            repeats.append(_Repeat(imported, contexts, whole, decoders))
    return repeats


def _application_memory(row: Row) -> Memory | None:
    repeats, reuses = _repeats(row), _reuses(row.info.plan.contexts)
    total = Figure.of(repeat.whole_bytes for repeat in repeats)
    sizes = {
        "import": Figure.of(repeat.import_bytes for repeat in repeats),
        **_decoders(repeats),
        "loaded": Figure.of(_sum_where(reuses, False, repeat.contexts_bytes) for repeat in repeats),
        "reusing": Figure.of(_sum_where(reuses, True, repeat.contexts_bytes) for repeat in repeats),
        "at_once": Figure.of(repeat.at_once_bytes for repeat in repeats),
    }
    return Memory(APPLICATION, sizes, total) if total else None


def _decoders(repeats: Sequence[_Repeat]) -> dict[str, Figure | None]:
    """Return the memory of decoders; nothing where nothing is decoded."""
    figure = Figure.of(repeat.decoders_bytes for repeat in repeats)
    return {"decoders": figure} if figure else {}


def _by_contexts(row: Row, baseline: Row) -> Memory:
    """Return what the plan takes if contexts that share nothing are as in the baseline, and others as the first ones.

    The import, and what running at the same time takes, are the baseline's.
    """
    before, stand_ins = _repeats(baseline), _stand_ins(row)
    alone = [_unshared_bytes(row, baseline, repeat) for repeat in before]
    added = [[repeat.contexts_bytes[place] for place in stand_ins.values()] for repeat in _repeats(row)]
    all_reuse = _reuses(row.info.plan.contexts)
    reuses = [all_reuse[place] for place in stand_ins]
    sizes: dict[str, Figure | None] = {
        "import": Figure.of(repeat.import_bytes for repeat in before),
        **_decoders(before),
        "loaded": _total([Figure.of(alone), Figure.of(_sum_where(reuses, False, repeat) for repeat in added)]),
        "reusing": Figure.of(_sum_where(reuses, True, repeat) for repeat in added),
        "at_once": Figure.of(repeat.at_once_bytes for repeat in before),
    }
    kept = Figure.of(_kept_bytes(repeat) + size for repeat, size in zip(before, alone))
    return Memory(APPLICATION, sizes, _total([kept, Figure.of(map(sum, added))]))


def _kept_bytes(repeat: _Repeat) -> int:
    """Return what is there whatever contexts there are."""
    return repeat.import_bytes + (repeat.decoders_bytes or 0) + repeat.at_once_bytes


def _unshared_bytes(row: Row, baseline: Row, repeat: _Repeat) -> float:
    """Return what contexts that share nothing take if each is as its model's in the baseline.

    What is copied stands in memory twice. So a context has as much less as its inference copies less.
    """
    own, before = _copied_bytes(row, baseline)
    uncopied = [added - copied for added, copied in zip(repeat.contexts_bytes, before)]
    means = _means(_digests(baseline), uncopied)
    planned = zip(_digests(row), own, _shares(row.info.plan.contexts))
    return sum(means[digest] + copied for digest, copied, shares in planned if not shares)


def _copied_bytes(row: Row, baseline: Row) -> tuple[list[int], list[int]]:
    """Return what an inference of each context copies, and of the baseline's; nothing where either was not counted."""
    own, before = (
        [copies.input_bytes + copies.output_bytes for copies in info.copies or ()] for info in (row.info, baseline.info)
    )
    if own and before:
        return own, before
    return [0] * len(row.info.plan.contexts), [0] * len(baseline.info.plan.contexts)


def _stand_ins(row: Row) -> dict[int, int]:
    """Return for each context that shares the one whose figure it takes: the first of its kind, or the second.

    The first of a kind is often unlike all others: pages of libraries and of the allocator are first touched there.
    """
    contexts = row.info.plan.contexts
    places_of_kind: dict[_Kind, list[int]] = {}
    for place, (kind, shares) in enumerate(zip(_kinds(row), _shares(contexts))):
        if shares:
            places_of_kind.setdefault(kind, []).append(place)
    stand_ins = {}
    for places in places_of_kind.values():
        for number, place in enumerate(places):
            stand_ins[place] = places[min(number, 1)]
    return dict(sorted(stand_ins.items()))


def _kinds(row: Row) -> list[_Kind]:
    """Return what each context's figures depend on, as far as the plan says."""
    contexts = row.info.plan.contexts
    return [
        (digest, context.mechanism, role, context.outside, context.zero_copy)
        for digest, context, role in zip(_digests(row), contexts, _roles(contexts))
    ]


def _basis(row: Row) -> str:
    stand_ins = _stand_ins(row)
    if not stand_ins:
        return BASELINE_CONTEXTS
    return FIRST_OF_KIND if any(place != own for own, place in stand_ins.items()) else OWN_CONTEXTS


def _own_by_contexts(row: Row, places: Sequence[int]) -> dict[str, Figure | None]:
    means = (_mean(repeat.contexts_bytes[place] for place in places) for repeat in _repeats(row))
    return {"reusing": Figure.of(means)}


def _in_baseline(row: Row, baseline: Row, places: Sequence[int]) -> Figure | None:
    """Return the mean of what contexts of the models of these added in the baseline."""
    repeats = [_means(_digests(baseline), repeat.contexts_bytes) for repeat in _repeats(baseline)]
    return Figure.of(_mean(means[_digests(row)[place]] for place in places) for means in repeats)


def _means(digests: Iterable[str], sizes: Iterable[int]) -> dict[str, float]:
    """Return the mean by model."""
    of_models: dict[str, list[int]] = {}
    for digest, size in zip(digests, sizes):
        of_models.setdefault(digest, []).append(size)
    return {digest: statistics.fmean(of_model) for digest, of_model in of_models.items()}


# Sums of what is known.


def _sum(sizes: Iterable[float | None]) -> float | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _sum_where(flags: Iterable[bool], wanted: bool, sizes: Iterable[int]) -> int:
    return sum(size for flag, size in zip(flags, sizes) if flag == wanted)


def _mean(sizes: Iterable[float | None]) -> float | None:
    known = [size for size in sizes if size is not None]
    return statistics.fmean(known) if known else None


def _total(figures: Iterable[Figure | None]) -> Figure:
    """Return the sum; the spreads add, since each may lie at the end of its range."""
    known = [figure for figure in figures if figure is not None]
    spreads = [figure.spread for figure in known]
    spread = None if None in spreads else sum(filter(None, spreads))
    return Figure(sum(figure.median for figure in known), spread)


def _difference(greater: Figure, smaller: Figure) -> Figure:
    figure = difference(greater, smaller)
    assert figure is not None
    return figure


def _whole(figure: Figure | None) -> int | None:
    return round(figure.median) if figure else None


def _whole_spread(figure: Figure | None) -> int | None:
    return round(figure.spread) if figure and figure.spread is not None else None


def _naive_bytes(explanation: Explanation) -> int | None:
    """Return the whole memory that the claim leaves."""
    saved = explanation.naive_saved_bytes
    return None if saved is None else round(explanation.baseline_total.median - saved)
