"""The operators of each model by the device that runs them, and the memory of crossing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reusebench.reports.base.statistics import Figure
from reusebench.reports.results.model_names import short_name
from reusebench.reports.results.rows import Group, Row
from reusebench.storage.result import Placement, Result

#: Columns of the exported table; new ones come at the end.
PLACEMENT_COLUMNS = (
    "runtime",
    "runtime_version",
    "target",
    "chip",
    "model",
    "npu_operators",
    "cpu_operators",
    "partitions",
    "crossing_bytes",
    "io_bytes",
    "npu_names",
    "cpu_names",
)


@dataclass(frozen=True)
class PlacedModel:
    """One model, and a context of it whose NPU memory is known."""

    name: str
    placement: Placement
    #: NPU memory of one context: input and output, to which the crossing belongs; None without an
    #: account that tells it apart.
    io: Figure | None

    @property
    def on_npu(self) -> int:
        """The number of operators that the NPU runs."""
        return sum(self.placement.npu.values())

    @property
    def on_cpu(self) -> int:
        """The number of operators that stay on the CPU."""
        return sum(self.placement.cpu.values())

    @property
    def operators(self) -> int:
        """The number of all operators."""
        return self.on_npu + self.on_cpu


def placed_models(group: Group) -> list[PlacedModel]:
    """Return each model of the group whose operators are known by device.

    Seeds of a built-in network are one model if their operators are placed alike.
    """
    models: dict[tuple[str, str], PlacedModel] = {}
    for row in group.rows:
        for index, model in enumerate(row.info.models):
            placement = row.info.placements.get(model.digest)
            if placement:
                name = short_name(model.name)
                placed_model = PlacedModel(name, placement, _io(row, index))
                models.setdefault((name, repr(placement)), placed_model)
    return list(models.values())


def placed(info: Result, digest: str) -> PlacedModel | None:
    """Return a model of a result; None if its operators are not known by device."""
    placement = info.placements.get(digest)
    return PlacedModel("", placement, None) if placement else None


def placement_records(group: Group) -> list[dict[str, Any]]:
    """Return a record in PLACEMENT_COLUMNS for each model."""
    info = group.info
    return [
        {
            "runtime": info.runtime,
            "runtime_version": info.runtime_version,
            "target": info.target,
            "chip": info.chip,
            "model": model.name,
            "npu_operators": model.on_npu,
            "cpu_operators": model.on_cpu,
            "partitions": model.placement.partitions,
            "crossing_bytes": model.placement.crossing_bytes,
            "io_bytes": round(model.io.median) if model.io else None,
            "npu_names": _names(model.placement.npu),
            "cpu_names": _names(model.placement.cpu),
        }
        for model in placed_models(group)
    ]


def _io(row: Row, model: int) -> Figure | None:
    """Return the input and output of the first context of a model."""
    indices = _contexts(row, model)
    if not (row.measured and indices):
        return None
    return Figure.of(account.contexts[indices[0]].io_bytes for account in row.accounts)


def _contexts(row: Row, model: int) -> Sequence[int]:
    contexts = row.info.plan.contexts
    return [index for index, context in enumerate(contexts) if context.model == model]


def most_frequent_first(operators: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return (name, number), the most frequent first."""
    return sorted(operators.items(), key=lambda operator: (-operator[1], operator[0]))


def _names(operators: Mapping[str, int]) -> str:
    return " ".join(f"{name}={count}" for name, count in most_frequent_first(operators))
