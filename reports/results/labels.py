"""What groups are called beside each other: runtime, version and target, and what else tells two of
them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reusebench.reports.base.formatting import EMPTY, to_the_minute
from reusebench.reports.base.texts import Texts
from reusebench.reports.results.rows import Group

__all__ = ["driver_label", "group_id", "labels_of"]

#: What a label says beyond runtime, version and target, in this order, where groups that it must
#: tell apart differ.
_FACTS: tuple[Callable[[Group, Texts], str], ...] = (
    lambda group, _: group.board,
    lambda group, texts: driver_label(group, texts),
    lambda group, texts: texts(
        "label_plans" if group.is_of_plans else "label_streams",
        streams=group.info.streams,
        contexts=group.info.contexts,
    ),
    lambda group, texts: texts("label_cores", cores=group.info.cores),
    lambda group, _: group.info.models[0].name,
    lambda group, texts: texts("label_run", run=group.newest.file_name.partition("_")[0]),
    lambda group, _: to_the_minute(group.newest.recorded_at),
)


def driver_label(group: Group, texts: Texts) -> str:
    """Return what the measured process is written in."""
    if group.info.driver == "c":
        return texts("label_driver_c")
    return texts("label_python", python=group.info.python_version or EMPTY)


def group_id(number: int) -> str:
    """Return what the page's elements and the files of figures call a group, by its place."""
    return f"g{number}"


def labels_of(groups: Sequence[Group], texts: Texts) -> list[str]:
    """Return the shortest label of each group that no other has, where there is one."""
    names = []
    for group in groups:
        runtime = texts.runtime(group.info.runtime)
        version = group.short_version or EMPTY
        names.append(
            texts("runtime_on_target", runtime=runtime, version=version, target=group.info.target)
        )
    for fact in _FACTS:
        facts_of: dict[str, set[str]] = {}
        for group, name in zip(groups, names):
            facts_of.setdefault(name, set()).add(fact(group, texts))
        names = [
            texts("label_with", label=name, fact=fact(group, texts))
            if len(facts_of[name]) > 1
            else name
            for group, name in zip(groups, names)
        ]
    return names
