"""MegEngine Lite's adapter, on the real runtime in its environment in the user's cache."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reusebench import models
from reusebench.models.megengine.environment import MEGENGINE
from reusebench.samplers.host import LOCAL_HOST
from reusebench.samplers.process_memory import read_process
from reusebench.system.package import python_command
from reusebench.targets.target import Target
from tests.helpers.support import CHECKOUT, StubObserver, make_plan, walk

#: The user's own folder; the tests have a cache of their own.
_FOLDER = MEGENGINE.folder()
_PYTHON = MEGENGINE.python()
_TARGET = Target("megengine", tuple(python_command(python=str(_PYTHON))))

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not MEGENGINE.installed(),
        reason=f"{_FOLDER} is not there: run `reusebench models install megengine` to test it",
    ),
]

#: Sizes of tiny at 64x64: 3 x 64 x 64 pixels in, 100 logits out, fp32.
_INPUT_BYTES = 3 * 64 * 64 * 4
_OUTPUT_BYTES = 100 * 4


@pytest.fixture(scope="module")
def mge(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return built models, by name and size, made with the user's MegEngine in another cache."""
    sizes = (("tiny", 64), ("tiny", 96), ("tiny", 320), ("mobilenet_v2", 64))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        MEGENGINE.folder().parent.mkdir(parents=True)
        MEGENGINE.folder().symlink_to(_FOLDER)
        files = models.ensure_all(
            ".mge", [models.Recipe(name, size, seed=1) for name, size in sizes]
        )
    return {f"{name}-{size}": file for (name, size), file in zip(sizes, files)}


@pytest.fixture(scope="module")
def damaged(mge: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model that is cut short."""
    path = tmp_path_factory.mktemp("models") / "damaged.mge"
    path.write_bytes(mge["tiny-64"].read_bytes()[:-1024])
    return path


@pytest.fixture(scope="module")
def results(mge: dict[str, Path], damaged: Path) -> dict[str, Any]:
    """Return the results of megengine_client, by the names of its functions."""
    command = [str(_PYTHON), "-m", "tests.measured.runtimes.megengine_client"]
    command += map(str, (mge["tiny-64"], mge["tiny-96"], damaged))
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    values: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return values


def test_outputs_are_the_same_whatever_is_shared(results: dict[str, Any]) -> None:
    """Outputs are those of a plain load, bit for bit, in whatever order contexts go."""
    wrong, compared, different_bytes = results["same_outputs"]
    assert (wrong, compared) == ([], 33)
    assert different_bytes > 50, "outputs that are all alike would prove nothing"
    assert results["resolutions"] == [True] * 3
    assert results["orders"] == 0


def test_what_megengine_copies(results: dict[str, Any]) -> None:
    """Inputs are copied once, outputs twice, tensors in place never; on the device outputs once."""
    twice = 2 * _OUTPUT_BYTES
    assert results["copies"] == [
        [_INPUT_BYTES, twice],
        [0, twice],
        [_INPUT_BYTES, 0],
        [0, 0],
        [0, _OUTPUT_BYTES],
    ]
    given = {"input": _INPUT_BYTES, "output": _OUTPUT_BYTES}
    copied = {"input_bytes": 0, "output_bytes": 0}
    assert results["in_place"] == {
        "again": True,
        "moved": False,
        "shared": True,
        "given": given,
        **copied,
    }


def test_frames_are_written_into_megengines_input(results: dict[str, Any]) -> None:
    """The next inference reads them, however tensors move; on the device nothing can be written."""
    frames = dict(results["frames"])
    assert frames.pop("device").startswith("NotSupported: the input stays on the device")
    assert frames == {
        "form": [64, 64, 3, "nchw", "float32", 64 * 4],
        "ways": 1,
        "pictures": 3,
        "again": True,
    }


def test_what_megengine_refuses(results: dict[str, Any], damaged: Path) -> None:
    """The reason is given, and a damaged file is named."""
    words = [
        "takes no allocator",
        "keeps the file's bytes itself",
        "mmz is a way of Rockchip's",
        "NVIDIA GPU",
    ]
    words += ["another thread needs a dup", f"{damaged} is not a MegEngine model", str(damaged)]
    assert [word for word, refusal in zip(words, results["refusals"]) if word not in refusal] == []


def test_a_destroyed_network_is_gone(results: dict[str, Any]) -> None:
    """Its file's bytes go too, which a reference cycle of MegEngine Lite's load() would keep."""
    assert results["freed"] is True


def _walked(scenario: str, *paths: Path, cores: int = 1) -> tuple[int, set[str]]:
    """Return the anonymous memory of the trimmed steady phase over the import, and the digests.

    MegEngine keeps weights and runtime memory there. PSS would also show a process that ends
    meanwhile: its share of the library's pages, some 25 MiB, falls to this one.
    """
    # The first choice of the smallest plan has outputs in an order that only NPUs have.
    choice = 1 if scenario == "lean" else 0
    plan = make_plan(
        scenario,
        *paths,
        contexts=4,
        runtime="megengine_lite",
        cores=cores,
        choice=choice,
    )
    observer = StubObserver(lambda pid: read_process(LOCAL_HOST, pid).rss_anon_bytes)
    run = walk(plan, _TARGET, observer)
    assert run.failure is None, run.failure
    anon_bytes = {reading.phase: size for reading, size in zip(run.barriers, observer.answers)}
    (digests,) = (reading.data.digests for reading in run.barriers if reading.phase == "steady")
    return anon_bytes["trimmed"] - anon_bytes["imported"], set(digests)


def test_dups_hold_the_weights_once(mge: dict[str, Path]) -> None:
    """Four dups take far less than four loads, and all mechanisms together no more."""
    names = ("no_reuse_one_model", "full_dup", "lean")
    (loads, outputs), (dups, of_dups), (lean, of_lean) = (
        _walked(name, mge["mobilenet_v2-64"]) for name in names
    )
    assert dups < 0.6 * loads
    assert lean < 1.1 * dups
    assert outputs == of_dups == of_lean


def test_one_runtime_memory_serves_models_that_run_in_turn(mge: dict[str, Path]) -> None:
    """The smaller model's runtime memory is saved if the largest comes first."""
    largest_first = (mge["tiny-320"], mge["tiny-320"], mge["tiny-64"])
    names = ("in_turn", "internal_reuse", "internal_reuse_last_first")
    (apart, _), (reuse, _), (last_first, _) = (_walked(name, *largest_first) for name in names)
    assert reuse < 0.8 * apart
    assert reuse < last_first


def test_contexts_of_two_cores_share_runtime_memory_by_core(mge: dict[str, Path]) -> None:
    """Two infer at once, each in the memory of its core, with the outputs of dups alone."""
    names = ("full_dup_internal_reuse", "full_dup")
    (reuse, outputs), (dups, of_dups) = (_walked(name, mge["tiny-320"], cores=2) for name in names)
    assert reuse < 0.85 * dups
    assert outputs == of_dups
