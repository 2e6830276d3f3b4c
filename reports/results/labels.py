"""The labels of groups that are shown together: runtime, version, place, and what differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reusebench.reports.base.formatting import EMPTY, to_the_minute
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Group

__all__ = ["driver_label", "group_id", "labels_of", "runtime_in_words"]


def driver_label(group: Group, texts: Texts) -> str:
    """Return the language of the driver, which the measured process is written in."""
    if group.info.driver == "c":
        return texts("label_driver_c")
    return texts("label_python", python=group.info.python_version or EMPTY)


def group_id(number: int) -> str:
    """Return a group's id in elements of the page and in names of figures, by its position."""
    return f"g{number}"


def labels_of(groups: Sequence[Group], texts: Texts) -> list[str]:
    """Return the shortest label of each group that is unique, as far as there is one."""
    labels = []
    for group in groups:
        runtime = f"{texts.runtime(group.info.runtime)} {group.short_version or EMPTY}"
        labels.append(runtime_in_words(runtime, group.info.target, texts))
    for fact in _FACTS:
        labels = _with_fact(labels, [fact(group, texts) for group in groups], texts)
    return labels


def runtime_in_words(runtime: str, target: str, texts: Texts) -> str:
    """Return the runtime with the place where it ran; this machine's own Python is no place."""
    kind, _, place = target.partition(":")
    if target == "python":
        return runtime
    key = f"on_{kind}" if f"on_{kind}" in texts.words else "on_target"
    return texts(key, runtime=runtime, place=place or kind)


def _with_fact(labels: Sequence[str], facts: Sequence[str], texts: Texts) -> list[str]:
    """Return the labels, with its fact added to each that stands for groups with several facts."""
    facts_by_label: dict[str, set[str]] = {}
    for label, fact in zip(labels, facts):
        facts_by_label.setdefault(label, set()).add(fact)

    longer = []
    for label, fact in zip(labels, facts):
        is_ambiguous = len(facts_by_label[label]) > 1
        longer.append(texts("label_with", label=label, fact=fact) if is_ambiguous else label)
    return longer


def _counts(group: Group, texts: Texts) -> str:
    key = "label_plans" if group.is_of_plans else "label_streams"
    return texts(key, streams=group.info.streams, contexts=group.info.contexts)


#: Facts that a label has in addition, in this order, as long as groups with that label differ.
_FACTS: tuple[Callable[[Group, Texts], str], ...] = (
    lambda group, _: group.board,
    driver_label,
    _counts,
    lambda group, texts: texts("label_cores", cores=group.info.cores),
    lambda group, _: group.info.models[0].name,
    lambda group, texts: texts("label_run", run=group.newest.file_name.partition("_")[0]),
    lambda group, _: to_the_minute(group.newest.recorded_at),
)
