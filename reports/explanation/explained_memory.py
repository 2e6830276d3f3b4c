"""The memory that is explained: of the NPU or the application, measured or predicted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reusebench.reports.base.statistics import Figure, known_mean
from reusebench.reports.results.rows import Row

NPU_MEMORY = "npu"
APPLICATION_MEMORY = "application"
#: The key of the sum of all components.
TOTAL = "total"


@dataclass(frozen=True)
class ExplainedMemory:
    """All memory of one configuration in bytes, measured or predicted."""

    #: NPU_MEMORY or APPLICATION_MEMORY.
    name: str
    #: Key: component. None if the source does not tell the component apart from the others.
    sizes: dict[str, Figure | None]
    total: Figure

    @property
    def is_npu(self) -> bool:
        """Whether it is NPU memory."""
        return self.name == NPU_MEMORY

    @property
    def with_total(self) -> dict[str, Figure | None]:
        """The sizes by component, and by TOTAL."""
        return {**self.sizes, TOTAL: self.total}


def model_digests(row: Row) -> list[str]:
    """Return the digest of each context's model."""
    return [row.info.models[context.model].digest for context in row.info.plan.contexts]


def means_by_model(
    digests: Iterable[str],
    sizes: Iterable[float | None],
) -> dict[str, float | None]:
    """Return the mean of the known sizes of each model's contexts. Key: the model's digest."""
    sizes_by_model: dict[str, list[float | None]] = {}
    for digest, size in zip(digests, sizes):
        sizes_by_model.setdefault(digest, []).append(size)
    return {digest: known_mean(model_sizes) for digest, model_sizes in sizes_by_model.items()}
