"""Effects of reuse on the memory of a real process with ONNX Runtime: ratios only.

The tests measure anonymous memory and the prepared weights. PSS would also show a process that ends
meanwhile, since its share of the runtime's pages falls to this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from reusebench.samplers.host import LOCAL_HOST
from reusebench.samplers.process_memory import read_process
from reusebench.targets.measured_process import prepare_models
from reusebench.targets.outcome import Failure
from reusebench.targets.target import THIS_INTERPRETER
from tests.helpers.forks import ONNX_FORKS
from tests.helpers.support import TIME_LIMIT_S, StubObserver, known, make_plan, models_of, walk

pytestmark = pytest.mark.process

_CONTEXTS = 4
#: Weights of MobileNetV2's last layer, from 1280 features to 1000 classes.
_FULLY_CONNECTED_BYTES = 1280 * 1000 * 4


class _Look(NamedTuple):
    """The memory of a process at a barrier, and its mapped files of weights."""

    size_bytes: int
    weights: set[Path]


def _look(pid: int) -> _Look:
    maps = [
        mapped
        for mapped in psutil.Process(pid).memory_maps()
        if mapped.path.endswith("weights.bin")
    ]
    anon_bytes = read_process(LOCAL_HOST, pid).rss_anon_bytes or 0
    return _Look(
        anon_bytes + sum(mapped.pss for mapped in maps), {Path(mapped.path) for mapped in maps}
    )


class Walked:
    """A walk with four contexts, or one of each model, and the process's memory at each barrier."""

    def __init__(
        self,
        scenario: str,
        preparations: Mapping[str, str | None],
        *models: Path,
    ) -> None:
        # The first choice of the smallest plan has outputs in an order that only NPUs have.
        choice = 1 if scenario == "lean" else 0
        plan = make_plan(
            scenario,
            *models,
            contexts=_CONTEXTS,
            runtime="onnxruntime",
            cores=1,
            choice=choice,
        )
        prepared = plan.with_prepared(preparations) if plan.models_to_prepare() else plan
        observer = StubObserver(_look)
        run = walk(prepared, THIS_INTERPRETER, observer)
        assert run.failure is None
        self.prepared = [model.prepared for model in prepared.models]
        phases = [reading.phase for reading in run.barriers]
        #: Readings at the last barrier of each phase.
        self.at: dict[str, _Look] = dict(zip(phases, observer.answers))
        levels = [
            look.size_bytes for phase, look in zip(phases, observer.answers) if phase == "context"
        ]
        #: Bytes that each context after the first added when it was made.
        self.further_context_bytes = (levels[-1] - levels[0]) / (_CONTEXTS - 1)
        self.digests: set[str] = set()
        for reading in run.barriers:
            self.digests.update(reading.data.digests)

    def over_baseline(self, phase: str = "steady") -> int:
        """Return the bytes over the barrier after the import of the runtime."""
        return self.at[phase].size_bytes - self.at["imported"].size_bytes


def _prepare(folder: Path, *models: Path) -> dict[str, str | None]:
    """Return ONNX Runtime's preparations of the models, made in another process, by digest."""
    made = prepare_models(ONNX_FORKS, "onnxruntime", models_of(*models), folder, TIME_LIMIT_S)
    assert not isinstance(made, Failure), made
    return {digest: known(preparation).path for digest, preparation in made.items()}


@pytest.fixture(scope="module")
def walks(
    mobile_resolutions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Walked]:
    """Return a walk for each way to have four contexts of one model, and two resolutions of it."""
    prepared = _prepare(tmp_path_factory.mktemp("models") / "prepared", *mobile_resolutions)
    names = (
        "no_reuse_one_model",
        "full_dup",
        "shared_context",
        "full_dup_internal_reuse",
        "external_weights",
        "lean",
    )
    walks = {name: Walked(name, prepared, mobile_resolutions[0]) for name in names}
    for name in ("shared_weights", "resolutions"):
        walks[name] = Walked(name, prepared, *mobile_resolutions)
    return walks


def test_dups_cost_clearly_less_than_loads(walks: dict[str, Walked], mobile_model: Path) -> None:
    """A load adds its weights and more, a dup a part of them, a shared context next to nothing."""
    loads, dups, shared = (
        walks[name] for name in ("no_reuse_one_model", "full_dup", "shared_context")
    )
    assert dups.over_baseline() < 0.7 * loads.over_baseline()
    assert loads.further_context_bytes > 0.9 * mobile_model.stat().st_size
    assert dups.further_context_bytes < 0.6 * loads.further_context_bytes
    assert shared.further_context_bytes < 0.2 * loads.further_context_bytes


def test_dups_share_the_fully_connected_layer(walks: dict[str, Walked]) -> None:
    """The layout of its weights for the kernel is stored and mapped: four contexts share it."""
    dups, one = (walks[name].over_baseline("trimmed") for name in ("full_dup", "shared_context"))
    assert dups - one < _FULLY_CONNECTED_BYTES


@pytest.mark.parametrize("scenario", ["no_reuse_one_model", "full_dup"])
def test_memory_comes_back(walks: dict[str, Walked], scenario: str) -> None:
    """Destroying all contexts gives back a good part of what they took."""
    assert walks[scenario].over_baseline("destroy") < 0.7 * walks[scenario].over_baseline()


def test_dups_map_one_weights_file(walks: dict[str, Walked]) -> None:
    """The prepared weights are mapped while dups live, and only then; other plans do without."""
    full_dup = walks["full_dup"]
    assert full_dup.prepared[0] is not None
    assert full_dup.at["steady"].weights == {Path(full_dup.prepared[0]).with_name("weights.bin")}
    assert full_dup.at["imported"].weights == full_dup.at["destroy"].weights == set()
    for name in ("no_reuse_one_model", "shared_context"):
        assert walks[name].prepared == [None]
        assert walks[name].at["steady"].weights == set()


def test_resolutions_hold_the_weights_once(walks: dict[str, Walked]) -> None:
    """Two names of one file have its pages in memory once, whichever session reads them."""
    shared = walks["shared_weights"]
    assert len({path.stat().st_ino for path in shared.at["steady"].weights}) == 1
    assert len(shared.digests) == 2
    assert shared.over_baseline() < 0.8 * walks["resolutions"].over_baseline()


def test_one_internal_memory_costs_less_than_four(
    wide_internal_model: Path, tmp_path: Path
) -> None:
    """On one core, sharing saves most of three of four internal memories."""
    prepared = _prepare(tmp_path / "prepared", wide_internal_model)
    reuse, dup = (
        Walked(name, prepared, wide_internal_model).over_baseline()
        for name in ("full_dup_internal_reuse", "full_dup")
    )
    assert reuse < 0.6 * dup


def test_weights_of_the_application_are_no_mapped_file(
    walks: dict[str, Walked], mobile_model: Path
) -> None:
    """Each context has a copy of them in memory that the application allocated."""
    given = walks["external_weights"]
    assert given.at["steady"].weights == set()
    assert given.further_context_bytes > 0.9 * mobile_model.stat().st_size


def test_lean_is_the_smallest(walks: dict[str, Walked]) -> None:
    """All mechanisms together take no more than dups alone, and far less than loads.

    The heap is trimmed, because what loading leaves in it differs from process to process.
    """
    lean, dups, loads = (
        walks[name].over_baseline("trimmed") for name in ("lean", "full_dup", "no_reuse_one_model")
    )
    assert lean < 1.1 * dups
    assert lean < 0.6 * loads


def test_outputs_are_equal_in_every_scenario(walks: dict[str, Walked]) -> None:
    """All contexts of one model have the same digest."""
    of_one_model = [
        walked.digests
        for name, walked in walks.items()
        if name not in ("shared_weights", "resolutions")
    ]
    assert len(set.union(*of_one_model)) == 1
    assert walks["shared_weights"].digests == walks["resolutions"].digests
