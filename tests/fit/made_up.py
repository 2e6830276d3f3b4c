"""Demands, and costs that are known in advance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reusebench.fit.layouts import ContextGroup, Demand, Form, Layout
from reusebench.fit.prediction import Prediction, frames_per_s
from reusebench.storage.measured_figure import Figure
from tests.helpers.support import models_of


def demand_of(
    streams: Sequence[int],
    contexts: int = 1,
    cores: int = 3,
    binds: bool = True,
    are_resolutions: bool = False,
) -> Demand:
    """Return a demand with a model for each number of streams."""
    models = models_of(*(f"/models/{number}" for number in range(len(streams))))
    return Demand("scripted", models, tuple(streams), contexts, cores, binds, are_resolutions)


@dataclass(frozen=True)
class MadeUpCosts:
    """Costs of forms: the first context, each additional one, and once per core."""

    sizes_of: Mapping[tuple[int, Form], tuple[int, int, int, int]]
    cores: int
    #: Key: model; value: inferences per second of one core. Empty: unknown.
    rates: Mapping[int, Figure]
    shares: Mapping[int, float]
    is_busy: bool = False

    def missing(self) -> list[Layout]:
        """Return nothing."""
        return []

    def unproven(self, layout: Layout) -> list[Layout]:  # noqa: ARG002
        """Return nothing."""
        return []

    def forms(self, model: int) -> Iterator[Form]:
        """Yield the forms with sizes."""
        yield from (form for of_model, form in self.sizes_of if of_model == model)

    def sizes(self, model: int, form: Form) -> tuple[float, ...]:
        """Return the sizes."""
        return self.sizes_of[model, form]

    def predict(self, layout: Layout) -> Prediction:
        """Return the sum of the costs."""
        internal = [0] * len(layout.groups[0].per_core)
        total = 0
        for group in layout.groups:
            first, further, of_core, io = self.sizes_of[group.model, group.form]
            total += first + further * (group.count - 1) + io * group.cores
            for core, count in enumerate(group.per_core):
                internal[core] = max(internal[core], of_core if count else 0)
        frames = frames_per_s(layout, self.shares, self.rates, self.cores) if self.rates else None
        return Prediction(
            {"other": total + sum(internal)},
            None,
            Figure(0.0, 0.0),
            None,
            Figure(total, 0.0),
            frames,
            self.is_busy,
        )

    def least_bytes(self, layout: Layout) -> None:
        """Return None."""


def layout_of(*groups: ContextGroup) -> Layout:
    """Return the layout of the groups."""
    return Layout(groups)
