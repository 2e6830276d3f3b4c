"""Application memory: the growth by each context, and its prediction from similar contexts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reusebench.reports.base.statistics import Figure, known_mean, total
from reusebench.reports.explanation.explained_memory import (
    APPLICATION_MEMORY,
    ExplainedMemory,
    means_by_model,
    model_digests,
)
from reusebench.reports.explanation.plan_sharing import internal_roles, reuses, shares
from reusebench.reports.results.rows import Row
from reusebench.storage.result import Result

#: Components of application memory: the process with the runtime imported, decoders if frames are
#: decoded, the contexts that reuse no other one, those that do, and the growth when all run at the
#: same time.
APPLICATION_COMPONENTS = ("import", "decoders", "loaded", "reusing", "at_once")
#: The basis of a prediction, apart from the plan. BASELINE_CONTEXTS: the baseline's contexts, less
#: the bytes that are not copied any more, if no context shares anything. FIRST_OF_KIND: the first
#: two contexts of each kind. OWN_CONTEXTS: all contexts, if no kind has more than two; then only
#: their sum is tested.
BASELINE_CONTEXTS = "baseline_contexts"
FIRST_OF_KIND = "first_of_kind"
OWN_CONTEXTS = "own_contexts"

#: The kind of a context: the model's digest, the mechanism, the role in a shared internal memory,
#: the memories outside, and the tensors that are not copied.
_Kind = tuple[str, str, str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class _Repeat:
    """Application memory of one repeat."""

    import_bytes: int
    #: The growth by each context.
    contexts_bytes: Sequence[int]
    whole_bytes: int
    #: None if nothing is decoded.
    decoders_bytes: int | None

    @property
    def at_once_bytes(self) -> int:
        """The growth after import, decoders and each context alone."""
        before = self.import_bytes + (self.decoders_bytes or 0) + sum(self.contexts_bytes)
        return self.whole_bytes - before

    @property
    def kept_bytes(self) -> int:
        """The memory that does not depend on the contexts."""
        return self.import_bytes + (self.decoders_bytes or 0) + self.at_once_bytes


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


def application_memory(row: Row) -> ExplainedMemory | None:
    """Return the application memory by component; None if no repeat has all its figures."""
    repeats = _repeats(row)
    whole = Figure.of(repeat.whole_bytes for repeat in repeats)
    if whole is None:
        return None
    contexts = [repeat.contexts_bytes for repeat in repeats]
    loaded, reusing = _sums(reuses(row.info.plan.contexts), contexts)
    sizes = _sizes(repeats, Figure.of(loaded), Figure.of(reusing))
    return ExplainedMemory(APPLICATION_MEMORY, sizes, whole)


def predict_application_memory(row: Row, baseline: Row) -> ExplainedMemory:
    """Return the plan's memory if contexts are like similar ones.

    Contexts that share nothing are like the baseline's, others like the first of their kind. The
    import, and the growth when all run at the same time, are the baseline's.
    """
    before = _repeats(baseline)
    alone = [_unshared_bytes(row, baseline, repeat) for repeat in before]
    stand_ins = _stand_ins(row)
    sharing = []
    for repeat in _repeats(row):
        sharing.append([repeat.contexts_bytes[index] for index in stand_ins.values()])
    reuses_by_index = reuses(row.info.plan.contexts)
    loaded, reusing = _sums([reuses_by_index[index] for index in stand_ins], sharing)
    all_loaded = total([Figure.of(alone), Figure.of(loaded)])
    sizes = _sizes(before, all_loaded, Figure.of(reusing))

    kept = Figure.of(repeat.kept_bytes + size for repeat, size in zip(before, alone))
    whole = total([kept, Figure.of(map(sum, sharing))])
    assert whole is not None
    return ExplainedMemory(APPLICATION_MEMORY, sizes, whole)


def _sizes(
    repeats: Sequence[_Repeat],
    loaded: Figure | None,
    reusing: Figure | None,
) -> dict[str, Figure | None]:
    """Return all components: `loaded` and `reusing`, and the others from the repeats."""
    sizes = {"import": Figure.of(repeat.import_bytes for repeat in repeats)}
    decoders = Figure.of(repeat.decoders_bytes for repeat in repeats)
    if decoders:
        sizes["decoders"] = decoders
    sizes["loaded"] = loaded
    sizes["reusing"] = reusing
    sizes["at_once"] = Figure.of(repeat.at_once_bytes for repeat in repeats)
    return sizes


def _sums(
    reuse_flags: Sequence[bool],
    repeats: Iterable[Sequence[int]],
) -> tuple[list[int], list[int]]:
    """Return, for each repeat, the sum of the contexts that are loaded, and of those that reuse."""
    loaded = []
    reusing = []
    for sizes in repeats:
        loaded_sum = 0
        reusing_sum = 0
        for size, is_reusing in zip(sizes, reuse_flags):
            if is_reusing:
                reusing_sum += size
            else:
                loaded_sum += size
        loaded.append(loaded_sum)
        reusing.append(reusing_sum)
    return loaded, reusing


def _unshared_bytes(row: Row, baseline: Row, repeat: _Repeat) -> float:
    """Return the memory of contexts that share nothing, if each is like its model's baseline.

    Memory has copied data twice. So a context that copies less takes less by as many bytes.
    """
    copied = _copied_bytes(row.info)
    baseline_copied = _copied_bytes(baseline.info)
    if not copied or not baseline_copied:
        copied = [0] * len(row.info.plan.contexts)
        baseline_copied = [0] * len(baseline.info.plan.contexts)

    uncopied = [size - copies for size, copies in zip(repeat.contexts_bytes, baseline_copied)]
    means = means_by_model(model_digests(baseline), uncopied)
    unshared: float = 0
    for digest, copies, is_shared in zip(
        model_digests(row),
        copied,
        shares(row.info.plan.contexts),
    ):
        if not is_shared:
            unshared += (means[digest] or 0) + copies
    return unshared


def _copied_bytes(info: Result) -> list[int]:
    """Return the bytes that an inference of each context copies; empty if not counted."""
    return [copies.input_bytes + copies.output_bytes for copies in info.copies or ()]


def _stand_ins(row: Row) -> dict[int, int]:
    """Return the first or second context of its kind for each context that shares.

    The first of a kind stands in for itself, the second for all others. The first is often unlike
    them: it is the first to touch pages of libraries and of the allocator.
    """
    contexts = row.info.plan.contexts
    indices_by_kind: dict[_Kind, list[int]] = {}
    for index, (kind, is_shared) in enumerate(zip(_kinds(row), shares(contexts))):
        if is_shared:
            indices_by_kind.setdefault(kind, []).append(index)

    stand_ins = {}
    for indices in indices_by_kind.values():
        for number, index in enumerate(indices):
            stand_ins[index] = indices[min(number, 1)]
    return dict(sorted(stand_ins.items()))


def _kinds(row: Row) -> list[_Kind]:
    """Return the properties that each context's memory depends on, as far as the plan tells."""
    contexts = row.info.plan.contexts
    return [
        (digest, context.mechanism, role, context.outside, context.zero_copy)
        for digest, context, role in zip(model_digests(row), contexts, internal_roles(contexts))
    ]


def prediction_basis(row: Row) -> str:
    """Return BASELINE_CONTEXTS, FIRST_OF_KIND or OWN_CONTEXTS."""
    stand_ins = _stand_ins(row)
    if not stand_ins:
        return BASELINE_CONTEXTS
    if any(index != stand_in for index, stand_in in stand_ins.items()):
        return FIRST_OF_KIND
    return OWN_CONTEXTS


def own_application_memory(row: Row, indices: Sequence[int]) -> dict[str, Figure | None]:
    """Return the mean growth by the contexts with these indices."""
    means = []
    for repeat in _repeats(row):
        means.append(known_mean(repeat.contexts_bytes[index] for index in indices))
    return {"reusing": Figure.of(means)}


def unshared_memory(row: Row, baseline: Row, indices: Sequence[int]) -> Figure | None:
    """Return the mean growth in the baseline, for the models of the contexts with these indices."""
    digests = model_digests(row)
    baseline_digests = model_digests(baseline)
    means = []
    for repeat in _repeats(baseline):
        by_model = means_by_model(baseline_digests, repeat.contexts_bytes)
        means.append(known_mean(by_model[digests[index]] for index in indices))
    return Figure.of(means)
