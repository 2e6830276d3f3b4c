"""The words on what was compared: the runs of both sides, and what is on one side only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from reusebench.reports.compare.changes import CONFIDENCE, Change, Changes, Differing, Unmeasured
from reusebench.storage.runs import Run

#: Limit of the lines of a list, and of the names in a line; the others are counted.
_MOST_LISTED = 20
_MOST_NAMED = 4
#: Limit of the runs and boards of a side that are named.
_MOST_RUNS = 3


def side(runs: Sequence[Run]) -> str:
    """Return the names of the runs, date and commit of the newest, and the boards."""
    newest = max(runs, key=lambda run: run.order)
    words = f"{_first_of(list(dict.fromkeys(map(str, runs))))}, {newest.moment}"
    if newest.commit:
        words += f", commit {newest.short_commit}"
    boards = list(dict.fromkeys(board for run in runs for board in run.boards))
    return f"{words}, {'board' if len(boards) == 1 else 'boards'} {_first_of(boards)}"


def _first_of(names: Sequence[str]) -> str:
    words = ", ".join(names[:_MOST_RUNS])
    more = len(names) - _MOST_RUNS
    return f"{words} and {more} more" if more > 0 else words


def remarks(changes: Changes) -> Iterator[str]:
    """Yield the meaning of the tables, and the configurations that are not in them."""
    if changes.rows:
        count = len(changes.rows)
        rows = "this row" if count == 1 else f"all {count} rows together"
        yield (
            f"base, head: median (repeats). change: of the means. interval: {CONFIDENCE:.0%} for"
            f" {rows}. smallest: the smallest change that these repeats could have shown."
        )
        yield noise(changes.rows)
    yield from exceptions(changes)
    yield from on_one_side(changes.unmeasured)


def exceptions(changes: Changes) -> Iterator[str]:
    """Yield what is not compared, or not as it should be."""
    short = []
    for subject, signs in changes.short.items():
        evidence = "; ".join(map(str, signs))
        short.append(f"memory was short, so that figures are too small: {subject}: {evidence}")
    yield from _listed(short)

    if changes.recounted:
        yield (
            "not compared: application memory of"
            f" {', '.join(map(str, changes.recounted[:3]))}"
            f"{' and others' if len(changes.recounted) > 3 else ''}: one side counts pages, the"
            " other PSS, which depends on other processes. `--metric application_pss` compares the"
            " PSS of both"
        )
    yield from _listed(
        [f"compared although they differ: {words}" for words in _differing(changes.across)]
    )
    yield from refusals(changes)


def refusals(changes: Changes) -> Iterator[str]:
    """Yield the configurations whose conditions differ, and the options that compare them."""
    options: dict[str, None] = {}
    for differing in changes.differing:
        options.update((f"--across {name}", None) for name in differing.conditions)
    yield from _listed([f"not compared: {words}" for words in _differing(changes.differing)])
    if options:
        yield f"To compare them all the same: {' '.join(options)}"


def on_one_side(unmeasured: Iterable[Unmeasured]) -> Iterator[str]:
    """Yield a line for each that failed on one side, and one for each side with all the others."""
    lines = []
    only: dict[str, list[Unmeasured]] = {"base": [], "head": []}
    for each in unmeasured:
        if each.base and each.head:
            lines.append(f"{each.subject}: {each.base} in the base, {each.head} in the head")
        else:
            only["base" if each.base else "head"].append(each)
    yield from _listed(lines)
    namesakes = set.intersection(*(set(map(_name, lonely)) for lonely in only.values()))
    for name, lonely in only.items():
        if lonely:
            yield f"only in the {name}: {_summed_up(lonely, namesakes)}"


def _name(unmeasured: Unmeasured) -> tuple[str, str]:
    configuration = unmeasured.subject.configuration
    return configuration.runtime, configuration.name


def _summed_up(lonely: Sequence[Unmeasured], namesakes: Collection[tuple[str, str]]) -> str:
    """Return the first names of each runtime, and the number of the others; those that are on the
    other side too, with other contexts or tokens, are told in full.
    """
    names: dict[str, dict[str, None]] = {}
    for each in lonely:
        configuration = each.subject.configuration
        name = configuration.name
        if _name(each) in namesakes:
            name = f"{name} ({configuration.detail}, {', '.join(configuration.models)})"
        name = each.subject.named(name)
        names.setdefault(configuration.runtime, {})[name] = None
    parts = []
    for runtime, members in names.items():
        shown = ", ".join(list(members)[:_MOST_NAMED])
        more = len(members) - _MOST_NAMED
        parts.append(f"{runtime} {shown}{f' and {more} more' if more > 0 else ''}")
    return "; ".join(parts)


def noise(rows: Sequence[Change]) -> str:
    """Return the sentence on the source of the noise, which limits the changes to be seen."""
    runs = [change.difference.noise.runs for change in rows]
    if not any(runs):
        return (
            "The noise is known from these runs alone, with what is known of each figure in"
            " general: 5 earlier runs of the same configuration in the storage would show smaller"
            " changes."
        )
    least = min(filter(None, runs))
    most = max(runs)
    count = str(most) if least == most else f"{least} to {most}"
    alone = f"; in {runs.count(0)} rows from these runs alone" if 0 in runs else ""
    return f"The noise is known from {count} earlier runs{alone}."


def _differing(compared: Iterable[Differing]) -> list[str]:
    """Return the differences of each configuration; many with the same differences are counted."""
    members: dict[str, list[Differing]] = {}
    for differing in compared:
        members.setdefault(_conditions(differing), []).append(differing)

    lines = []
    for conditions, same in members.items():
        if len(same) > _MOST_NAMED:
            lines.append(f"{len(same)} such as {same[0].subject}: {conditions}")
        else:
            lines += [f"{differing.subject}: {conditions}" for differing in same]
    return lines


def _conditions(differing: Differing) -> str:
    changes = []
    for name, (base, head) in differing.conditions.items():
        changes.append(f"{name} {base or 'unknown'} -> {head or 'unknown'}")
    return "; ".join(changes)


def _listed(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_MOST_LISTED]
    if len(lines) > _MOST_LISTED:
        yield f"and {len(lines) - _MOST_LISTED} more like these"
