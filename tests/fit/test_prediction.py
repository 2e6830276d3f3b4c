"""Predicted figures with uncertainty, and frames."""

from __future__ import annotations

import random

import pytest

from reusebench.fit.layouts import NO_REUSE, ContextGroup, Layout
from reusebench.fit.prediction import Prediction, frames_per_s
from reusebench.storage.measured_figure import Figure


def test_a_limit_is_of_npu_memory_where_there_is_any() -> None:
    """The limit applies to the peak of NPU memory; layouts are compared by steady memory.

    Without an NPU both are the memory of the process.
    """
    over_baseline = Figure(10.0, 1.0)
    baseline = Figure(40.0, 0.0)
    on_npu = Prediction({"weights": 3, "io": 4}, 9, over_baseline, None, baseline, None)
    assert (on_npu.limited, on_npu.steady) == (Figure(9, 0.0), Figure(7, 0.0))
    assert Prediction(None, None, over_baseline, None, baseline, None).limited == Figure(50.0, 1.0)


def test_a_model_alone_does_what_its_cores_do() -> None:
    """Two cores of 30 inferences per second serve 60 frames; a core without contexts adds none."""
    layout = Layout((ContextGroup(0, NO_REUSE, (2, 1, 0)),))
    frames = frames_per_s(layout, {0: 4.0}, {0: Figure(30.0, 3.0)}, 3)
    assert frames is not None
    assert (frames.median, frames.spread) == pytest.approx((60.0, 6.0))


def test_a_slow_model_on_a_core_of_its_own_leaves_the_other_s_idle() -> None:
    """With equal frames, the slow model's core decides; more cores for the other change nothing."""
    layout = Layout((ContextGroup(0, NO_REUSE, (1, 0, 0)), ContextGroup(1, NO_REUSE, (0, 1, 1))))
    frames = frames_per_s(layout, {0: 1.0, 1: 1.0}, {0: Figure(10.0), 1: Figure(100.0)}, 3)
    assert frames is not None
    assert frames.median == pytest.approx(20.0)


@pytest.mark.parametrize("seed", range(25))
def test_frames_are_the_largest_flow_from_models_to_cores(seed: int) -> None:
    """A linear program over the time on each core has the same result."""
    chance = random.Random(seed)
    cores = chance.randint(1, 4)
    models = chance.randint(1, 3)
    groups = []
    for model in range(models):
        per_core = [chance.randint(0, 1) for _ in range(cores)]
        per_core[chance.randrange(cores)] = 1
        groups.append(ContextGroup(model, NO_REUSE, tuple(per_core)))
    shares = {model: float(chance.randint(1, 4)) for model in range(models)}
    rates = {model: Figure(chance.uniform(5, 100)) for model in range(models)}
    frames = frames_per_s(Layout(tuple(groups)), shares, rates, cores)
    assert frames is not None
    assert frames.median == pytest.approx(
        sum(shares.values()) * _largest_flow(groups, shares, rates)
    )


def _largest_flow(
    groups: list[ContextGroup], shares: dict[int, float], rates: dict[int, Figure]
) -> float:
    """Return the most frames per share.

    Variables: the frames, then the time of each model on each of its cores.
    """
    models = len(groups)
    cores = len(groups[0].per_core)
    needs = []
    times = []
    for group in groups:
        row = [shares[group.model] / rates[group.model].median] + [0.0] * (models * cores)
        for core in range(cores):
            row[1 + group.model * cores + core] = -float(bool(group.per_core[core]))
        needs.append(row)
    for core in range(cores):
        row = [0.0] * (1 + models * cores)
        for model in range(models):
            row[1 + model * cores + core] = 1.0
        times.append(row)
    most = [-1.0] + [0.0] * (models * cores)
    # It takes half a second to import, in every worker.
    from scipy.optimize import linprog

    solution = linprog(most, A_ub=times, b_ub=[1.0] * cores, A_eq=needs, b_eq=[0.0] * models)
    return float(solution.x[0])
