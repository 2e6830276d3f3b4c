"""Weights that contexts of one model hold again, in runtimes whose source a patch could change."""

from __future__ import annotations

from reusebench.measured.runtimes import RUNTIMES
from reusebench.reports.base.statistics import Figure, known_sum, total
from reusebench.reports.results.rows import Row

#: Runtimes whose contexts share no weights today, with a driver whose source is open.
_PATCHABLE = tuple(entry.name for entry in RUNTIMES if entry.open_driver)
#: Components that are equal in all contexts of a model.
_CONSTANTS = ("weights", "biases")


def weight_copies(row: Row) -> dict[str, Figure]:
    """Return the constants in NPU memory that another context of the same model has already.

    Key: component. Empty if the runtime's source is not open, without an account, and if contexts
    have nothing twice.
    """
    if row.info.runtime not in _PATCHABLE or not row.measured:
        return {}
    models = [context.model for context in row.info.plan.contexts]
    further = [index for index, model in enumerate(models) if model in models[:index]]
    copies = {}
    for name in _CONSTANTS:
        repeats = []
        for account in row.accounts:
            sizes: list[float | None] = [account.contexts[i].size_bytes(name) for i in further]
            repeats.append(known_sum(sizes))
        size = Figure.of(repeats)
        if size and size.median > 0:
            copies[name] = size
    return copies


def saved_by_sharing(row: Row) -> Figure | None:
    """Return the size of all copies; None if there are none."""
    return total(weight_copies(row).values())
