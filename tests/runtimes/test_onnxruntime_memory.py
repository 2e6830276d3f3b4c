"""What reuse does to the memory of a real process with ONNX Runtime: ratios only, no figures of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from samplers.process import read_process
from scenarios.plan import Plan
from targets.base import THIS_INTERPRETER
from targets.measured_process import prepare_models
from tests.support import TIME_LIMIT_S, StubObserver, make_plan, walk

_CONTEXTS = 4


class Walked:
    """One walk with four contexts, and what there was of the process at each barrier."""

    def __init__(self, scenario: str, folder: Path, *models: Path, cores: int = 2) -> None:
        plan = make_plan(scenario, *models, contexts=_CONTEXTS, runtime="onnxruntime", cores=cores)
        prepared = prepare_models(THIS_INTERPRETER, plan, folder, TIME_LIMIT_S)
        assert isinstance(prepared, Plan)
        observer = StubObserver(_look)
        run = walk(prepared, THIS_INTERPRETER, observer)
        assert run.failure is None
        self.prepared = [model.prepared for model in prepared.models]
        self._looks: list[tuple[str, _Look]] = [
            (reading.phase, look) for reading, look in zip(run.barriers, observer.answers)
        ]
        #: Of all outputs.
        self.digests = {digest for reading in run.barriers for digest in reading.data.digests}

    def at(self, phase: str) -> _Look:
        """Return what there was at the last barrier of a phase."""
        return dict(self._looks)[phase]

    def over_baseline(self, phase: str) -> int:
        """Return the PSS over the barrier at which the runtime was imported and nothing more."""
        return self.at(phase).pss_bytes - self.at("imported").pss_bytes

    def further_context(self) -> float:
        """Return the PSS that each context after the first has added when it was made."""
        levels = [look.pss_bytes for phase, look in self._looks if phase == "context"]
        return (levels[-1] - levels[0]) / (_CONTEXTS - 1)


class _Look(NamedTuple):
    """What there is of a process: its PSS, and the paths and inodes of its mapped files named weights.bin."""

    pss_bytes: int
    weights: set[tuple[str, str]]


def _look(pid: int) -> _Look:
    maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
    mappings = [line.split(maxsplit=5) for line in maps.splitlines() if line.endswith("weights.bin")]
    return _Look(read_process(pid).pss_bytes, {(fields[5], fields[4]) for fields in mappings})


@pytest.fixture(scope="module")
def walks(mobile_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Walked]:
    """Return one walk of each way to have four contexts of one model."""
    folder = tmp_path_factory.mktemp("prepared")
    names = ("no_reuse_one_model", "full_dup", "shared_context", "full_dup_internal_reuse", "external_weights", "lean")
    return {name: Walked(name, folder / name, mobile_model, cores=1) for name in names}


def test_dups_cost_clearly_less_than_loads(walks: dict[str, Walked]) -> None:
    """Four contexts by dup hold the weights once, by load four times."""
    assert walks["full_dup"].over_baseline("steady") < 0.7 * walks["no_reuse_one_model"].over_baseline("steady")


def test_every_load_holds_the_weights_again(walks: dict[str, Walked], mobile_model: Path) -> None:
    """A further context by load costs its weights and more, by dup a part of them, and shared next to nothing."""
    weights_bytes = mobile_model.stat().st_size
    assert walks["no_reuse_one_model"].further_context() > 0.9 * weights_bytes
    assert walks["full_dup"].further_context() < 0.6 * walks["no_reuse_one_model"].further_context()
    assert walks["shared_context"].further_context() < 0.2 * walks["no_reuse_one_model"].further_context()


@pytest.mark.parametrize("scenario", ["no_reuse_one_model", "full_dup"])
def test_memory_comes_back(walks: dict[str, Walked], scenario: str) -> None:
    """Destroying all contexts gives back a good part of what they took."""
    assert walks[scenario].over_baseline("destroy") < 0.7 * walks[scenario].over_baseline("steady")


def test_dups_map_one_weights_file(walks: dict[str, Walked]) -> None:
    """The prepared weights are mapped while dups live, and only then; other plans do without."""
    full_dup = walks["full_dup"]
    assert full_dup.prepared[0] is not None
    assert full_dup.at("imported").weights == set()
    mapped = {path for path, _ in full_dup.at("steady").weights}
    assert mapped == {str(Path(full_dup.prepared[0]).with_name("weights.bin"))}
    assert full_dup.at("destroy").weights == set()
    for name in ("no_reuse_one_model", "shared_context"):
        assert walks[name].prepared == [None]
        assert walks[name].at("steady").weights == set()


def test_resolutions_map_one_weights_file(tiny_resolutions: tuple[Path, Path], tmp_path: Path) -> None:
    """Two names of one file: its pages are in memory once, whichever session reads them."""
    walked = Walked("shared_weights", tmp_path, *tiny_resolutions)
    assert len({inode for _, inode in walked.at("steady").weights}) == 1
    assert len(walked.digests) == 2


def test_resolutions_cost_less_with_shared_weights(mobile_resolutions: tuple[Path, Path], tmp_path: Path) -> None:
    """Two resolutions hold the weights once."""
    shared, loaded = (
        Walked(name, tmp_path / name, *mobile_resolutions).over_baseline("steady")
        for name in ("shared_weights", "resolutions")
    )
    assert shared < 0.8 * loaded


def test_one_internal_memory_costs_less_than_four(wide_internal_model: Path, tmp_path: Path) -> None:
    """On one core four dups that share it take less than four with their own, by most of three internal memories."""
    reuse, dup = (
        Walked(name, tmp_path / name, wide_internal_model, cores=1).over_baseline("steady")
        for name in ("full_dup_internal_reuse", "full_dup")
    )
    assert reuse < 0.6 * dup


def test_weights_of_the_application_are_no_mapped_file(walks: dict[str, Walked], mobile_model: Path) -> None:
    """Each context has a copy of them in memory that the application allocated."""
    given = walks["external_weights"]
    assert given.at("steady").weights == set()
    assert given.further_context() > 0.9 * mobile_model.stat().st_size


def test_lean_is_the_smallest(walks: dict[str, Walked]) -> None:
    """All mechanisms together take no more than dups alone, and far less than loads."""
    lean = walks["lean"].over_baseline("steady")
    assert lean < 1.1 * walks["full_dup"].over_baseline("steady")
    assert lean < 0.6 * walks["no_reuse_one_model"].over_baseline("steady")


def test_outputs_are_equal_in_every_scenario(walks: dict[str, Walked]) -> None:
    """All contexts of all scenarios give one and the same digest."""
    assert len(set.union(*(walked.digests for walked in walks.values()))) == 1
