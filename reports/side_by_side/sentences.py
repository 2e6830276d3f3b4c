"""Sentences on two stacks: what each takes, why they differ, and what is not comparable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reusebench.accounting.sizes import COMPONENTS
from reusebench.reports.base.formatting import mib, milliseconds, percent
from reusebench.reports.base.statistics import Figure
from reusebench.reports.base.texts import Texts
from reusebench.reports.explanation.explained_memory import TOTAL
from reusebench.reports.explanation.plan_sharing import shared_components
from reusebench.reports.results.placements import placed
from reusebench.reports.results.rows import Row
from reusebench.reports.results.weight_copies import saved_by_sharing
from reusebench.reports.side_by_side.stacks import SideBySide, Stack
from reusebench.reports.side_by_side.table import differences_of, layout_sizes, signed
from reusebench.storage.savings import NPU


def summary_of(pair: SideBySide, texts: Texts) -> str:
    """Return the leanest layout of each stack in one line."""
    return texts(
        "side_summary", network=pair.network, chip=pair.chip, layouts=_layouts(pair, texts)
    )


def pair_sentences(pair: SideBySide, texts: Texts) -> list[str]:
    """Return the memory of one context, of a further one and of the leanest layout."""
    first, second = pair.stacks
    sentences = [
        _of_contexts(pair, texts),
        texts("side_layouts", layouts=_layouts(pair, texts)),
    ]
    if pair.has_equal_contexts:
        sentences.append(_difference(pair, texts))
    sentences += [_sharing(stack, texts) for stack in (first, second)]
    for stack in pair.stacks:
        patched = patch_sentence(stack.without_reuse, texts)
        if patched:
            sentences.append(patched)
    if all(_has_speed(stack) for stack in pair.stacks):
        sentences.append(_speed(pair, texts))
    return sentences


def patch_sentence(row: Row, texts: Texts) -> str | None:
    """Return the saving if contexts had the weights of a model in common.

    None unless the runtime is one whose source a patch could change, and if nothing is saved.
    """
    saved = saved_by_sharing(row)
    before = row.memory(NPU)
    if saved is None or before is None:
        return None
    return texts(
        "side_patch",
        runtime=texts.runtime(row.info.runtime),
        contexts=len(row.info.plan.contexts),
        before=mib(before, npu=True, spread=False),
        after=mib(Figure(before.median - saved.median), npu=True, spread=False),
        saved=mib(saved, npu=True, spread=False),
        percent=percent(saved.percent_of(before)),
    )


def not_comparable(pair: SideBySide, texts: Texts) -> list[str]:
    """Return a sentence for each thing that a reader must not compare, or only roughly."""
    return [
        *_files(pair, texts),
        *_conditions(pair, texts),
        *(sentence for stack in pair.stacks for sentence in _of_stack(stack, texts)),
    ]


def _of_contexts(pair: SideBySide, texts: Texts) -> str:
    parts = []
    for stack in pair.stacks:
        further = stack.further_context.get(TOTAL)
        parts.append(
            texts(
                "side_contexts_of" if further else "side_context_of",
                runtime=texts.runtime(stack.runtime),
                one=mib(stack.one_context[TOTAL], npu=True, spread=False),
                further=mib(further, npu=True, spread=False),
            )
        )
    return texts("side_contexts", network=pair.network, parts=texts.joined(parts))


def _layouts(pair: SideBySide, texts: Texts) -> str:
    parts = []
    for stack in pair.stacks:
        part = texts(
            "side_layout_of",
            runtime=texts.runtime(stack.runtime),
            contexts=stack.contexts,
            size=mib(stack.least.memory(NPU), npu=True, spread=False),
            scenario=texts.scenario(stack.least.scenario),
        )
        parts.append(part)
    return texts.joined(parts)


def _difference(pair: SideBySide, texts: Texts) -> str:
    """Return the difference of the leanest layouts, the largest components first."""
    first, second = pair.stacks
    sizes = differences_of(layout_sizes(first.least), layout_sizes(second.least))
    whole = sizes[TOTAL]
    assert whole is not None
    known = [(name, sizes[name]) for name in COMPONENTS if sizes.get(name)]
    changed = [(name, size) for name, size in known if size and size.median]
    changed.sort(key=lambda part: -abs(part[1].median))
    names = {"first": texts.runtime(first.runtime), "second": texts.runtime(second.runtime)}
    if not changed:
        return texts("side_equal", **names)
    parts = []
    for name, size in changed:
        component = texts(f"component_{name}").lower()
        parts.append(texts("side_part", component=component, size=signed(size)))
    return texts(
        "side_more" if whole.median >= 0 else "side_less",
        size=mib(abs(whole), npu=True, spread=False),
        parts=texts.joined(parts),
        **names,
    )


def _sharing(stack: Stack, texts: Texts) -> str:
    """Return the components that contexts of the leanest layout share by its plan."""
    runtime = texts.runtime(stack.runtime)
    if stack.waits:
        at_once = stack.least_at_once
        return texts(
            "side_waits",
            runtime=runtime,
            contexts=stack.contexts,
            size=mib(at_once.memory(NPU), npu=True, spread=False),
            scenario=texts.scenario(at_once.scenario),
        )
    shared = shared_components(stack.least.info.plan.contexts)
    if not shared:
        return texts("side_shares_nothing", runtime=runtime)
    components = [texts(f"component_{name}").lower() for name in shared]
    return texts("side_shares", runtime=runtime, components=texts.joined(components))


def _has_speed(stack: Stack) -> bool:
    row = stack.without_reuse
    return row.computes and not row.emulated and row.latency is not None


def _speed(pair: SideBySide, texts: Texts) -> str:
    parts = []
    for stack in pair.stacks:
        latency = milliseconds(stack.without_reuse.latency)
        runtime = texts.runtime(stack.runtime)
        parts.append(texts("side_speed_of", runtime=runtime, latency=latency))
    return texts("side_speed", parts=texts.joined(parts))


def _files(pair: SideBySide, texts: Texts) -> Iterator[str]:
    """Yield whether both files are of one quantised network."""
    parts = []
    for stack in pair.stacks:
        conversion = stack.model.conversion
        by = conversion.by if conversion else ""
        key = "side_converted_file" if by else "side_file"
        parts.append(
            texts(key, runtime=texts.runtime(stack.runtime), model=stack.model.name, by=by)
        )
    files = texts.joined(parts)
    if pair.is_quantised_alike:
        yield texts("side_quantised_alike", files=files)
    else:
        yield texts("side_quantised_apart", files=files)
    if not pair.has_one_source:
        yield texts("side_by_name", network=pair.network)


def _conditions(pair: SideBySide, texts: Texts) -> Iterator[str]:
    """Yield the conditions in which the two differ, or that make a figure mean little."""
    first, second = pair.stacks
    if not pair.has_equal_contexts:
        yield texts("side_other_contexts", first=first.contexts, second=second.contexts)
    if first.group.board != second.group.board:
        yield texts("side_other_boards", first=first.group.board, second=second.group.board)
    sources = {account.source for stack in pair.stacks for account in stack.without_reuse.accounts}
    if len(sources) > 1:
        yield texts("side_other_sources")
    virtual = _runtimes([stack for stack in pair.stacks if not stack.group.computes], texts)
    if virtual:
        yield texts("side_virtual", runtimes=virtual)
    emulated = _runtimes([stack for stack in pair.stacks if stack.group.emulated], texts)
    if emulated:
        yield texts("side_emulated", runtimes=emulated)
    parts = []
    for stack in pair.stacks:
        size = mib(stack.without_reuse.memory("baseline_memory_bytes"), spread=False)
        parts.append(texts("side_baseline_of", runtime=texts.runtime(stack.runtime), size=size))
    yield texts("side_baselines", parts=texts.joined(parts))


def _of_stack(stack: Stack, texts: Texts) -> Iterator[str]:
    """Yield whether its two memories add up, and the operators that stay on the CPU."""
    key = f"side_memories_{stack.runtime}"
    if key in texts.words:
        yield texts(key, runtime=texts.runtime(stack.runtime))
    model = placed(stack.without_reuse.info, stack.model.digest)
    if model and model.on_cpu:
        yield texts(
            "side_on_cpu",
            runtime=texts.runtime(stack.runtime),
            on_cpu=model.on_cpu,
            operators=model.operators,
        )


def _runtimes(stacks: Sequence[Stack], texts: Texts) -> str:
    return texts.joined(texts.runtime(stack.runtime) for stack in stacks)
