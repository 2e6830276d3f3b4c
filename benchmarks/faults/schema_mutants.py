"""Mutants of every kind of stored value, changed by their own types."""

from __future__ import annotations

import functools
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.mutants import Mutant
from benchmarks.faults.schema_mutation import Change, FieldValues, Json, changed, changes
from tests.reports.stored_kinds import KINDS, StoredValue

__all__ = ["schema_mutant"]

#: One input in this number has two changes.
_PAIR_EVERY = 5


@dataclass(frozen=True)
class _Kinds:
    """The storages of all kinds, with the values to change."""

    values: tuple[tuple[str, StoredValue], ...]
    others: FieldValues


@functools.lru_cache(maxsize=1)
def _kinds(folder: Path) -> _Kinds:
    """Return the kinds; each process writes them once, and equal ones."""
    values = []
    others = FieldValues()
    for kind, write in KINDS.items():
        for value in write(folder / kind):
            values.append((kind, value))
            others.add(value.value_in(value.document()), value.kind)
    return _Kinds(tuple(values), others)


def _changes(folder: Path, number: int, seed: int) -> list[Change]:
    """Return all changes of a value, in an order of the seed."""
    kinds = _kinds(folder)
    _, value = kinds.values[number]
    all_changes = changes(value.value_in(value.document()), value.kind, kinds.others)
    random.Random(f"{seed} {number}").shuffle(all_changes)
    return all_changes


def schema_mutant(folder: Path, index: int, name: str, seed: int) -> Mutant:
    """Return the mutant of this index: the values take turns, and each has its changes in order.

    Each turn has another order of the values, since every n-th input has pages or figures too.
    When a value has no more changes of a single place, pairs of them follow.
    """
    kinds = _kinds(folder)
    which, place = divmod(index, len(kinds.values))
    order = list(range(len(kinds.values)))
    random.Random(f"{seed} {which}").shuffle(order)
    number = order[place]
    kind, value = kinds.values[number]
    all_changes = _changes(folder, number, seed)
    document = value.document()
    content = value.value_in(document)
    chance = random.Random(f"{seed} {index}")
    chosen = [all_changes[which % len(all_changes)]]
    if which >= len(all_changes) or index % _PAIR_EVERY == 0:
        chosen.append(chance.choice(all_changes))
    content, about = _with_all(content, chosen)
    written = value.content(value.put(document, content))

    def write(storage: Path) -> None:
        _write_kind(folder / kind, value.file, written, storage, index, name)

    return Mutant(f"{kind}: {about}", name, write, is_of_schema=True)


def _with_all(content: Json, chosen: list[Change]) -> tuple[Json, str]:
    """Return the content with the changes whose places are still there, and their description."""
    words = []
    for change in chosen:
        try:
            content = changed(content, change)
        except (KeyError, IndexError, TypeError):
            continue
        words.append(change.about)
    return content, "; ".join(words)


def _write_kind(
    source: Path, mutated: Path, content: bytes, storage: Path, index: int, name: str
) -> None:
    """Copy the storage of a kind; the mutated file, or the run of a mutated trace, has the name."""
    runs = sorted(source.glob("[!ft]*/0*.json"))
    named = mutated if mutated in runs else runs[-1]
    for number, run in enumerate(runs):
        relative = run.relative_to(source).with_name(f"{9100 + number}_other.json")
        if run == named:
            relative = relative.with_name(f"{index % 9000 + 2:04}_{name}.json")
        target = storage / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run, target)
        if run == mutated:
            target.write_bytes(content)
    for part in ("traces", "fit"):
        if (source / part).exists():
            shutil.copytree(source / part, storage / part, dirs_exist_ok=True)
    if mutated not in runs:
        (storage / mutated.relative_to(source)).write_bytes(content)
