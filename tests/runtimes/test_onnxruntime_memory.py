"""What reuse does to the memory of a real process with ONNX Runtime: ratios only, no figures of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from samplers.process import read_process
from scenarios.plan import Plan
from targets.base import THIS_INTERPRETER
from targets.measured_process import prepare_models
from tests.support import TIME_LIMIT_S, Watcher, make_plan, walk

_CONTEXTS = 4


class Walked:
    """PSS and the mapped files named weights.bin at each barrier of one walk with several contexts of one model."""

    def __init__(self, scenario: str, model: Path, folder: Path) -> None:
        plan = make_plan(scenario, model, contexts=_CONTEXTS, runtime="onnxruntime")
        prepared = prepare_models(THIS_INTERPRETER, plan, folder, TIME_LIMIT_S)
        assert isinstance(prepared, Plan)
        run = walk(prepared, THIS_INTERPRETER, Watcher(_look))
        assert run.failure is None
        self.prepared = prepared.models[0].prepared
        self._barriers = run.phases

    def at(self, phase: str) -> dict[str, Any]:
        """Return what was seen at the last barrier of a phase."""
        seen: dict[str, Any] = [each["seen"] for each in self._barriers if each["phase"] == phase][-1]
        return seen

    def over_baseline(self, phase: str) -> int:
        """Return the PSS over the barrier at which the runtime was imported and nothing more."""
        return int(self.at(phase)["pss_bytes"] - self.at("imported")["pss_bytes"])

    def further_context(self) -> float:
        """Return the PSS that each context after the first has added when it was made."""
        levels = [each["seen"]["pss_bytes"] for each in self._barriers if each["phase"] == "context"]
        return float(levels[-1] - levels[0]) / (_CONTEXTS - 1)

    def digests(self) -> set[str]:
        """Return the digests of all outputs."""
        steady = next(each for each in self._barriers if each["phase"] == "steady")
        return set(steady["data"]["digests"])


def _look(pid: int) -> dict[str, Any]:
    maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
    weights = {line.split(maxsplit=5)[5] for line in maps.splitlines() if line.endswith("weights.bin")}
    return {"pss_bytes": read_process(pid).pss_bytes, "weights": weights}


@pytest.fixture(scope="module")
def walks(mobile_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Walked]:
    """Return one walk of each way to have four contexts of one model."""
    folder = tmp_path_factory.mktemp("prepared")
    return {name: Walked(name, mobile_model, folder) for name in ("no_reuse_one_model", "full_dup", "shared_context")}


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
    assert full_dup.prepared is not None
    assert full_dup.at("imported")["weights"] == set()
    assert full_dup.at("steady")["weights"] == {str(Path(full_dup.prepared).with_name("weights.bin"))}
    assert full_dup.at("destroy")["weights"] == set()
    for name in ("no_reuse_one_model", "shared_context"):
        assert walks[name].prepared is None
        assert walks[name].at("steady")["weights"] == set()


def test_outputs_are_equal_in_every_scenario(walks: dict[str, Walked]) -> None:
    """All contexts of all scenarios give one and the same digest."""
    assert len(set.union(*(walked.digests() for walked in walks.values()))) == 1
