"""MegEngine Lite's adapter, on the real runtime in its own environment, where that is installed in the user's cache."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import models
from models.megengine.environment import MEGENGINE
from samplers.process import read_process
from targets.base import Target
from tests.support import CHECKOUT, StubObserver, make_plan, walk

#: The user's own, looked for before a test has a cache of its own.
_FOLDER = MEGENGINE.folder()
_PYTHON = MEGENGINE.python()
_TARGET = Target("megengine", (str(_PYTHON), "-m", "scenarios.driver"))

pytestmark = pytest.mark.skipif(
    not MEGENGINE.installed(),
    reason=f"{_FOLDER} is not there: run `reusebench models install megengine` to test it",
)

_CONTEXTS = 4
#: Of tiny at 64x64: 3 x 64 x 64 pixels in, 100 logits out, fp32.
_INPUT_BYTES, _OUTPUT_BYTES = 3 * 64 * 64 * 4, 100 * 4


@pytest.fixture(scope="module")
def mge(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return built models, by name and size, made in a cache of their own with the user's MegEngine."""
    recipes = [
        models.Recipe(*each, seed=1) for each in (("tiny", 64), ("tiny", 96), ("tiny", 640), ("mobilenet_v2", 64))
    ]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        MEGENGINE.folder().parent.mkdir(parents=True)
        MEGENGINE.folder().symlink_to(_FOLDER)
        files = models.ensure_all(".mge", recipes)
    return {f"{each.name}-{each.size}": file for each, file in zip(recipes, files)}


@pytest.fixture
def ask(mge: dict[str, Path]) -> Any:
    """Return ask(case, second model): what a case of megengine_client gives with the small model and another one."""

    def run(case: str, other: Path | None = None) -> Any:
        arguments = [case, str(mge["tiny-64"]), str(other or mge["tiny-96"])]
        command = [str(_PYTHON), "-m", "tests.runtimes.megengine_client", *arguments]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_every_mechanism_of_megengine_gives_the_same_outputs(ask: Any) -> None:
    """Whatever is shared or in place, outputs are those of a plain load bit for bit, in every inference."""
    wrong, compared, different_bytes = ask("same_outputs")
    assert (wrong, compared) == ([], 30)
    assert different_bytes > 50, "outputs that are all alike would prove nothing"


def test_another_resolution_runs_on_weights_of_the_first(ask: Any) -> None:
    """Its outputs are bit-equal to those of a network that was loaded from its own file."""
    assert ask("resolutions") == [True] * 3


def test_no_order_of_destroying_networks_crashes_or_changes_outputs(ask: Any) -> None:
    """Lenders of weights and of runtime memory go first, last or in between: whoever borrowed goes on."""
    assert ask("orders") == 0


def test_arrays_in_place_are_written_again(ask: Any) -> None:
    """The network reads and writes the application's arrays, and copies nothing."""
    assert ask("in_place") == {
        "again": True,
        "moved": False,
        "given": {"input": _INPUT_BYTES, "output": _OUTPUT_BYTES},
        "input_bytes": 0,
        "output_bytes": 0,
    }


def test_what_megengine_copies(ask: Any) -> None:
    """Inputs once, outputs twice; none of those in place; on the device the outputs once."""
    twice = 2 * _OUTPUT_BYTES
    assert ask("copies") == [[_INPUT_BYTES, twice], [0, twice], [_INPUT_BYTES, 0], [0, 0], [0, _OUTPUT_BYTES]]


def test_frames_are_written_into_megengines_input(ask: Any) -> None:
    """In every way of moving tensors the next inference reads them; on the device nothing can be written."""
    found = ask("frames")
    assert found.pop("device").startswith("NotSupported: the input stays on the device")
    assert found == {"form": [64, 64, 3, "nchw", "float32", 64 * 4], "ways": 1, "pictures": 3, "again": True}


def test_what_megengine_has_no_way_to(ask: Any, mge: dict[str, Path], tmp_path: Path) -> None:
    """It is refused with the reason; a damaged file is named."""
    damaged = tmp_path / "damaged.mge"
    damaged.write_bytes(mge["tiny-64"].read_bytes()[:-1024])
    refusals = ask("refusals", damaged)
    words = ["takes no allocator", "keeps the file's bytes itself", "mmz is a way of Rockchip's", "NVIDIA GPU"]
    words += ["a further thread needs a dup", f"{damaged} is not a MegEngine model", str(damaged)]
    assert [word for word, refusal in zip(words, refusals) if word not in refusal] == []


def test_a_destroyed_network_is_gone(ask: Any) -> None:
    """With the bytes of its file, which a reference cycle of MegEngine Lite's load() would keep."""
    assert ask("freed") is True


def _over_baseline(scenario: str, *paths: Path, cores: int = 1) -> tuple[int, set[str]]:
    """Return the PSS over the import at the end of the steady phase, trimmed, and the digests of the outputs."""
    plan = make_plan(scenario, *paths, contexts=_CONTEXTS, runtime="megengine_lite", cores=cores)
    observer = StubObserver(lambda pid: read_process(pid).pss_bytes)
    run = walk(plan, _TARGET, observer)
    assert run.failure is None, run.failure
    pss_bytes = {reading.phase: size for reading, size in zip(run.barriers, observer.answers)}
    (digests,) = (reading.data.digests for reading in run.barriers if reading.phase == "steady")
    return pss_bytes["trimmed"] - pss_bytes["imported"], set(digests)


def test_dups_hold_the_weights_once(mge: dict[str, Path]) -> None:
    """Four dups take far less than four loads, and all mechanisms together no more; outputs are the same."""
    names = ("no_reuse_one_model", "full_dup", "lean")
    (loads, *outputs), (dups, *also), (lean, *too) = (_over_baseline(name, mge["mobilenet_v2-64"]) for name in names)
    assert dups < 0.6 * loads
    assert lean < 1.1 * dups
    assert outputs == also == too


def test_one_runtime_memory_serves_models_that_run_in_turn(mge: dict[str, Path]) -> None:
    """With the largest first the smaller one's runtime memory is saved; with the largest last less, or nothing."""
    largest_first = (mge["tiny-640"], mge["tiny-640"], mge["tiny-64"])
    names = ("in_turn", "internal_reuse", "internal_reuse_last_first")
    (apart, _), (reuse, _), (last_first, _) = (_over_baseline(name, *largest_first) for name in names)
    assert reuse < 0.8 * apart
    assert reuse < last_first


def test_contexts_of_two_cores_share_runtime_memory_by_core(mge: dict[str, Path]) -> None:
    """Two run at once, each in the memory of its core, and no output differs from those of dups alone."""
    (reuse, outputs), (dups, same) = (
        _over_baseline(name, mge["tiny-640"], cores=2) for name in ("full_dup_internal_reuse", "full_dup")
    )
    assert reuse < 0.85 * dups
    assert outputs == same
