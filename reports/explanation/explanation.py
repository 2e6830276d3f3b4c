"""The explanation of a saving: what the plan predicts, what was measured, and the claim that all of
it is saved.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from reusebench.accounting.account import Account
from reusebench.accounting.sizes import COMPONENTS
from reusebench.measured.plan import SHARED_CONTEXT, Context
from reusebench.reports.base.statistics import (
    Figure,
    difference,
    known_mean,
    known_sum,
    rounded,
    rounded_spread,
    total,
)
from reusebench.reports.results.breakdown import component_memory
from reusebench.reports.results.rows import Row

#: Which memory is explained.
NPU_MEMORY = "npu"
APPLICATION_MEMORY = "application"
#: What a prediction is made from besides the plan: the baseline's account; its contexts, less what
#: is not copied any more, where none shares anything; the first two contexts of each kind; where no
#: kind has more, all contexts, so that only their adding up is tested.
ACCOUNT = "account"
BASELINE_CONTEXTS = "baseline_contexts"
FIRST_OF_KIND = "first_of_kind"
OWN_CONTEXTS = "own_contexts"
#: Of application memory: the process with the runtime imported, decoders where frames are decoded,
#: the contexts that reuse no other one, those that do, and what running at the same time takes.
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
#: Of a context: the model's digest, the mechanism, the place in a shared internal memory, what is
#: outside, what is not copied.
_Kind = tuple[str, str, str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class MeasuredMemory:
    """All memory of one configuration in bytes, measured or predicted."""

    #: NPU_MEMORY or APPLICATION_MEMORY.
    name: str
    #: By component; None if the source does not tell it apart from the others.
    sizes: dict[str, Figure | None]
    total: Figure

    @property
    def is_npu(self) -> bool:
        """Whether it is NPU memory."""
        return self.name == NPU_MEMORY

    @property
    def with_total(self) -> dict[str, Figure | None]:
        """By component and TOTAL."""
        return {**self.sizes, TOTAL: self.total}


@dataclass(frozen=True)
class Explanation:
    """One configuration against its baseline, all in bytes of the whole configuration, by component
    and in total.
    """

    #: ACCOUNT, BASELINE_CONTEXTS, FIRST_OF_KIND or OWN_CONTEXTS.
    basis: str
    baseline: MeasuredMemory
    predicted: MeasuredMemory
    measured: MeasuredMemory
    contexts: int
    #: How many of them reuse another one.
    reusing: int
    #: Components that these do not have for themselves, by the plan; empty if no account tells
    #: components apart.
    shared: tuple[str, ...]
    #: What one of these still has of its own, by component: the mean, as measured.
    own: dict[str, Figure | None]
    #: What contexts of their models take in the baseline: the mean; None if own says more, by an
    #: account.
    unshared: Figure | None

    @property
    def naive_percent(self) -> float | None:
        """The share of contexts that reuse another one, (N-1)/N; None if none does."""
        return 100 * self.reusing / self.contexts if self.reusing else None

    @property
    def naive_saved_bytes(self) -> float | None:
        """What would be saved if that share of everything were."""
        return self.baseline.total.median * self.reusing / self.contexts if self.reusing else None

    @property
    def predicted_saved(self) -> Figure:
        """The baseline's memory minus the predicted."""
        return self.baseline.total - self.predicted.total

    @property
    def measured_saved(self) -> Figure:
        """The baseline's memory minus the measured."""
        return self.baseline.total - self.measured.total

    @property
    def error(self) -> Figure:
        """The measured memory minus the predicted."""
        return self.measured.total - self.predicted.total

    @property
    def error_by_component(self) -> dict[str, Figure | None]:
        """The same of each component; None if a side does not know it."""
        return {
            name: difference(size, self.predicted.sizes[name])
            for name, size in self.measured.sizes.items()
        }

    @property
    def claim_is_reached(self) -> bool:
        """Whether the measured saving is what the claim says, as far as repeats can tell."""
        saved = self.measured_saved
        claim = self.naive_saved_bytes
        return claim is not None and saved.median + (saved.spread or 0) >= claim

    def percent(self, figure: Figure) -> Figure:
        """Return a figure in percent of the baseline's whole memory."""
        percent = figure.percent_of(self.baseline.total)
        assert percent is not None
        return percent


# A page asks for it several times, and in each language.
@functools.lru_cache(maxsize=4096)
def explain(row: Row) -> Explanation | None:
    """Return the explanation; None if there is no baseline, or one of the two was not measured.

    Nor what another option comes to: nothing of the plan says that. Nor where the baseline lacks a
    model or a component, as it may in a file of somebody else's.
    """
    baseline = row.baseline
    if (
        baseline is None
        or not row.measured
        or not baseline.measured
        or row.options != baseline.options
    ):
        return None
    # Another source of accounts tells other components apart.
    sources, others = ({account.source for account in one.accounts} for one in (row, baseline))
    by_account = len(sources) == 1 and sources == others
    memory, predict = (
        (_npu_memory, _by_account) if by_account else (_application_memory, _by_contexts)
    )
    measured = memory(row)
    before = memory(baseline)
    if measured is None or before is None or measured.sizes.keys() != before.sizes.keys():
        return None
    if not set(_digests(row)) <= set(_digests(baseline)):
        return None
    contexts = row.info.plan.contexts
    # Of fewer contexts than the baseline's nobody claims anything.
    as_many = len(contexts) == len(baseline.info.plan.contexts)
    reusing = [index for index, reuses in enumerate(_reuses(contexts)) if reuses and as_many]
    return Explanation(
        basis=ACCOUNT if by_account else _basis(row),
        baseline=before,
        predicted=predict(row, baseline),
        measured=measured,
        contexts=len(contexts),
        reusing=len(reusing),
        shared=_shared(contexts) if by_account else (),
        own=_own_by_account(row, reusing) if by_account else _own_by_contexts(row, reusing),
        unshared=None if by_account else _in_baseline(row, baseline, reusing),
    )


def measured_memory(row: Row) -> MeasuredMemory | None:
    """Return the memory that the row was measured with: of the NPU by its account, else of the
    application.
    """
    return (_npu_memory(row) or _application_memory(row)) if row.measured else None


def explanation_records(row: Row) -> list[dict[str, Any]]:
    """Return a row in EXPLANATION_COLUMNS for each component and for the total; none where nothing
    is explained.
    """
    explanation = explain(row)
    if explanation is None:
        return []
    baseline = explanation.baseline.with_total
    predicted = explanation.predicted.with_total
    errors = {**explanation.error_by_component, TOTAL: explanation.error}
    saved = explanation.naive_saved_bytes
    # The whole memory that the claim leaves.
    naive_bytes = None if saved is None else round(explanation.baseline.total.median - saved)
    return [
        {
            "component": name,
            "baseline_bytes": rounded(baseline[name]),
            "predicted_bytes": rounded(predicted[name]),
            "measured_bytes": rounded(measured),
            "measured_spread_bytes": rounded_spread(measured),
            "error_bytes": rounded(errors[name]),
            "naive_bytes": naive_bytes if name == TOTAL else None,
            "basis": explanation.basis,
        }
        for name, measured in explanation.measured.with_total.items()
    ]


# The plan.


def _roles(contexts: Sequence[Context]) -> list[str]:
    """Return each context's place in a shared internal memory: "none", "first" or "further"."""
    return _places([context.internal for context in contexts])


def _places(numbers: Iterable[int | None]) -> list[str]:
    """Return the place in a shared memory of each of its users, by its number: "none", "first" or
    "further".
    """
    before: set[int] = set()
    places = []
    for number in numbers:
        if number is None:
            places.append("none")
        else:
            places.append("further" if number in before else "first")
            before.add(number)
    return places


def _reuses(contexts: Sequence[Context]) -> list[bool]:
    """Return of each context whether it reuses another one, or an internal memory that another one
    has already.
    """
    return [
        context.source is not None or role == "further"
        for context, role in zip(contexts, _roles(contexts))
    ]


def _shares(contexts: Sequence[Context]) -> list[bool]:
    """Return of each context whether it reuses another one, or is reused."""
    sources = {context.source for context in contexts}
    shared = {
        context.internal for context, role in zip(contexts, _roles(contexts)) if role == "further"
    }
    return [
        reuses or index in sources or context.internal in shared
        for index, (context, reuses) in enumerate(zip(contexts, _reuses(contexts)))
    ]


def _shared(contexts: Sequence[Context]) -> tuple[str, ...]:
    """Return the components that contexts have of another one."""
    if any(context.mechanism == SHARED_CONTEXT for context in contexts):
        return COMPONENTS
    weights = any(context.source is not None for context in contexts)
    io = "further" in _places([context.io for context in contexts])
    return ("weights",) * weights + ("internal",) * ("further" in _roles(contexts)) + ("io",) * io


def _digests(row: Row) -> list[str]:
    """Return the digest of each context's model."""
    return [row.info.models[context.model].digest for context in row.info.plan.contexts]


# NPU memory, by the account.


def _npu_memory(row: Row) -> MeasuredMemory | None:
    memory = component_memory(row)
    return (
        MeasuredMemory(NPU_MEMORY, memory.sizes, memory.total) if memory and memory.total else None
    )


def _by_account(row: Row, baseline: Row) -> MeasuredMemory:
    """Return what the plan takes if a context takes of each component what its model takes in the
    baseline.
    """
    repeats = [_predicted(row, baseline, account) for account in baseline.accounts]
    sizes = {name: Figure.of(repeat[name] for repeat in repeats) for name in COMPONENTS}
    whole = Figure.of(known_sum(repeat.values()) for repeat in repeats)
    assert whole is not None
    return MeasuredMemory(NPU_MEMORY, sizes, whole)


def _predicted(row: Row, baseline: Row, account: Account) -> _Sizes:
    means = {
        name: _means(_digests(baseline), [context.size_bytes(name) for context in account.contexts])
        for name in COMPONENTS
    }
    # A further thread on a context adds nothing.
    pairs = list(zip(row.info.plan.contexts, _digests(row)))
    made = [(context, digest) for context, digest in pairs if context.mechanism != SHARED_CONTEXT]
    sizes = {name: known_sum(means[name][digest] for _, digest in made) for name in COMPONENTS}
    sizes["weights"] = known_sum(
        means["weights"][digest] for context, digest in made if context.source is None
    )
    digests = [digest for _, digest in made]
    sizes["internal"] = _of_shared(
        [context.internal for context, _ in made], digests, means["internal"]
    )
    sizes["io"] = _of_shared([context.io for context, _ in made], digests, means["io"])
    sizes["other"] = known_sum([sizes["other"], account.unattributed_bytes])
    return sizes


def _of_shared(
    numbers: Sequence[int | None], digests: Sequence[str], means: Mapping[str, float | None]
) -> float | None:
    """Return the sum of what contexts need of these models: those of one number share as much as
    the largest needs.
    """
    needs: dict[object, list[float]] = {}
    for index, (number, digest) in enumerate(zip(numbers, digests)):
        size = means[digest]
        if size is not None:
            needs.setdefault(("alone", index) if number is None else number, []).append(size)
    return known_sum(map(max, needs.values()))


def _own_by_account(row: Row, indices: Sequence[int]) -> dict[str, Figure | None]:
    def of_repeat(account: Account, name: str) -> float | None:
        return known_mean(account.contexts[index].size_bytes(name) for index in indices)

    return {
        name: Figure.of(of_repeat(account, name) for account in row.accounts) for name in COMPONENTS
    }


# Application memory, by what contexts added at their barriers.


@dataclass(frozen=True)
class _Repeat:
    import_bytes: int
    #: What each context added.
    contexts_bytes: Sequence[int]
    whole_bytes: int
    #: None if nothing is decoded.
    decoders_bytes: int | None

    @property
    def at_once_bytes(self) -> int:
        """What is there beside the import, the decoders and what each context added alone."""
        return (
            self.whole_bytes
            - self.import_bytes
            - sum(self.contexts_bytes)
            - (self.decoders_bytes or 0)
        )


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


def _application_memory(row: Row) -> MeasuredMemory | None:
    repeats = _repeats(row)
    reuses = _reuses(row.info.plan.contexts)
    whole = Figure.of(repeat.whole_bytes for repeat in repeats)
    sizes = {
        "import": Figure.of(repeat.import_bytes for repeat in repeats),
        **_decoders(repeats),
        "loaded": Figure.of(_sum_where(reuses, False, repeat.contexts_bytes) for repeat in repeats),
        "reusing": Figure.of(_sum_where(reuses, True, repeat.contexts_bytes) for repeat in repeats),
        "at_once": Figure.of(repeat.at_once_bytes for repeat in repeats),
    }
    return MeasuredMemory(APPLICATION_MEMORY, sizes, whole) if whole else None


def _decoders(repeats: Sequence[_Repeat]) -> dict[str, Figure | None]:
    """Return the memory of decoders; nothing where nothing is decoded."""
    figure = Figure.of(repeat.decoders_bytes for repeat in repeats)
    return {"decoders": figure} if figure else {}


def _by_contexts(row: Row, baseline: Row) -> MeasuredMemory:
    """Return what the plan takes if contexts that share nothing are as in the baseline, and others
    as the first ones.

    The import, and what running at the same time takes, are the baseline's.
    """
    before = _repeats(baseline)
    stand_ins = _stand_ins(row)
    alone = [_unshared_bytes(row, baseline, repeat) for repeat in before]
    added = [
        [repeat.contexts_bytes[index] for index in stand_ins.values()] for repeat in _repeats(row)
    ]
    all_reuse = _reuses(row.info.plan.contexts)
    reuses = [all_reuse[index] for index in stand_ins]
    sizes: dict[str, Figure | None] = {
        "import": Figure.of(repeat.import_bytes for repeat in before),
        **_decoders(before),
        "loaded": total(
            [Figure.of(alone), Figure.of(_sum_where(reuses, False, repeat) for repeat in added)]
        ),
        "reusing": Figure.of(_sum_where(reuses, True, repeat) for repeat in added),
        "at_once": Figure.of(repeat.at_once_bytes for repeat in before),
    }
    kept = Figure.of(_kept_bytes(repeat) + size for repeat, size in zip(before, alone))
    whole = total([kept, Figure.of(map(sum, added))])
    assert whole is not None
    return MeasuredMemory(APPLICATION_MEMORY, sizes, whole)


def _kept_bytes(repeat: _Repeat) -> int:
    """Return what is there whatever contexts there are."""
    return repeat.import_bytes + (repeat.decoders_bytes or 0) + repeat.at_once_bytes


def _unshared_bytes(row: Row, baseline: Row, repeat: _Repeat) -> float:
    """Return what contexts that share nothing take if each is as its model's in the baseline.

    What is copied stands in memory twice. So a context has as much less as its inference copies
    less.
    """
    own, before = _copied_bytes(row, baseline)
    uncopied = [added - copied for added, copied in zip(repeat.contexts_bytes, before)]
    means = _means(_digests(baseline), uncopied)
    planned = zip(_digests(row), own, _shares(row.info.plan.contexts))
    return sum((means[digest] or 0) + copied for digest, copied, shares in planned if not shares)


def _copied_bytes(row: Row, baseline: Row) -> tuple[list[int], list[int]]:
    """Return what an inference of each context copies, and of the baseline's; nothing where either
    was not counted.
    """
    own, before = (
        [copies.input_bytes + copies.output_bytes for copies in info.copies or ()]
        for info in (row.info, baseline.info)
    )
    if own and before:
        return own, before
    return [0] * len(row.info.plan.contexts), [0] * len(baseline.info.plan.contexts)


def _stand_ins(row: Row) -> dict[int, int]:
    """Return for each context that shares the one whose figure it takes: the first of its kind, or
    the second.

    The first of a kind is often unlike all others: pages of libraries and of the allocator are
    first touched there.
    """
    contexts = row.info.plan.contexts
    indices_of_kind: dict[_Kind, list[int]] = {}
    for index, (kind, shares) in enumerate(zip(_kinds(row), _shares(contexts))):
        if shares:
            indices_of_kind.setdefault(kind, []).append(index)
    stand_ins = {}
    for indices in indices_of_kind.values():
        for number, index in enumerate(indices):
            stand_ins[index] = indices[min(number, 1)]
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
    return FIRST_OF_KIND if any(index != own for own, index in stand_ins.items()) else OWN_CONTEXTS


def _own_by_contexts(row: Row, indices: Sequence[int]) -> dict[str, Figure | None]:
    means = (
        known_mean(repeat.contexts_bytes[index] for index in indices) for repeat in _repeats(row)
    )
    return {"reusing": Figure.of(means)}


def _in_baseline(row: Row, baseline: Row, indices: Sequence[int]) -> Figure | None:
    """Return the mean of what contexts of the models of these added in the baseline."""
    repeats = [_means(_digests(baseline), repeat.contexts_bytes) for repeat in _repeats(baseline)]
    digests = _digests(row)
    return Figure.of(known_mean(means[digests[index]] for index in indices) for means in repeats)


def _means(digests: Iterable[str], sizes: Iterable[float | None]) -> dict[str, float | None]:
    """Return the mean by model of what is known."""
    of_models: dict[str, list[float | None]] = {}
    for digest, size in zip(digests, sizes):
        of_models.setdefault(digest, []).append(size)
    return {digest: known_mean(of_model) for digest, of_model in of_models.items()}


def _sum_where(flags: Iterable[bool], wanted: bool, sizes: Iterable[int]) -> int:
    return sum(size for flag, size in zip(flags, sizes) if flag == wanted)
