"""`.mge` files from a scripted MegEngine: the description, the cache, what MegEngine is told, and how it fails."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
from cache import CacheError
from models.built_files import cached_path, fill
from models.conversion.description import describe
from models.errors import ModelError
from models.megengine.emitter import MegEngineConverter
from models.megengine.environment import MEGENGINE
from models.networks.layers import Activation, Convolution, GlobalAveragePool
from models.networks.network import Network
from models.networks.weights import draw_weights
from models.recipe import MegEngineRecipe, Recipe
from tests.models.megengine.scripted_megengine import install_scripted_megengine

_CHECKOUT = Path(models.__file__).parent.parent
_TINY = Recipe("tiny", 64, 1)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a cache of its own, and a folder for temporary files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "cache" / "reusebench" / "models"


@pytest.fixture
def megengine() -> Path:
    """Install the scripted MegEngine."""
    return install_scripted_megengine()


def test_a_file_name_says_what_the_file_is() -> None:
    """Network, size, seed, MegEngine's version and those of emitter and conversion stand in the name."""
    recipe = MegEngineRecipe(Recipe("yolov5s", 640, 7))
    assert recipe.file_name == "yolov5s-640-seed7-megengine1.13.0-v1.1.mge"


def test_a_description_has_all_of_the_network(tmp_path: Path) -> None:
    """Input, layers with their kinds and fields, outputs, and the weights of that seed as fp32 arrays."""
    layers = (Convolution("c", "images", 4, kernel=3, activation=Activation.SILU), GlobalAveragePool("g", "c"))
    network = Network("test", 32, 48, layers, ("g", "c"))
    describe(network, 7, tmp_path)
    assert json.loads((tmp_path / "network.json").read_text()) == {
        "input": {"name": "images", "shape": [1, 3, 32, 48]},
        "layers": [
            {
                "kind": "Convolution",
                "name": "c",
                "source": "images",
                "channels": 4,
                "kernel": 3,
                "stride": 1,
                "padding": 0,
                "groups": 1,
                "activation": "silu",
            },
            {"kind": "GlobalAveragePool", "name": "g", "source": "c"},
        ],
        "outputs": ["g", "c"],
    }
    (drawn,) = draw_weights(network, 7)
    with np.load(tmp_path / "weights.npz") as stored:
        assert stored["c.weight"].tobytes() == drawn.weight.tobytes()
        assert stored["c.bias"].tobytes() == drawn.bias.tobytes()


def _ensured(recipe: Recipe) -> Path:
    (path,) = models.ensure_all(".mge", [recipe])
    return path


def _written(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.usefixtures("megengine")
def test_megengine_dumps_by_its_own_defaults() -> None:
    """Names are the network's, and no layout is chosen in place of the runtime."""
    written = _written(_ensured(Recipe("frame", 36, 1)))
    assert written["trace"] == {"symbolic": True, "capture_as_const": True}
    assert written["dump"] == {"arg_names": ["images"], "output_names": ["colours"]}
    image, weight, bias = [1, 3, 36, 64], [3, 3, 1, 1], [1, 3, 1, 1]
    assert written["outputs"] == [["conv2d", image, weight, bias, 1, 0, {"groups": 1}]]


@pytest.mark.usefixtures("megengine")
def test_a_network_is_optimised_until_a_further_pass_changes_nothing() -> None:
    """So that a runtime which optimises it once more computes the same."""
    assert _written(_ensured(Recipe("frame", 36, 1)))["passes"] == 3


def test_one_process_makes_all_that_is_missing(megengine: Path) -> None:
    """MegEngine is started once for several files, in the order asked for, and not at all when all are there."""
    recipes = [Recipe("frame", 45, 1), Recipe("frame", 36, 1), Recipe("frame", 45, 1)]
    paths = models.ensure_all(".mge", recipes)
    assert paths == [cached_path(MegEngineRecipe(recipe)) for recipe in recipes]
    assert [_written(path)["outputs"][0][1][2:] for path in paths] == [[45, 80], [36, 64], [45, 80]]
    assert models.ensure_all(".mge", recipes) == paths
    assert (megengine / "starts").read_text() == "started\n"


def _write(path: Path) -> None:
    path.write_bytes(b"mge")


def test_a_cached_file_needs_no_megengine() -> None:
    """What was made on this machine before, or copied to it, is used without MegEngine."""
    fill(MegEngineRecipe(_TINY), _write)
    assert not MEGENGINE.installed()
    assert _ensured(_TINY).read_bytes() == b"mge"


def test_a_missing_megengine_is_said_before_anything_is_built(cache: Path) -> None:
    """The error has the command to run and the folder."""
    with pytest.raises(
        ModelError, match=r"\.mge files .*1\.13\.0, which is not in /.*`reusebench models install megengine`"
    ):
        _ensured(_TINY)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("raise", r"MegEngine could not make tiny-64-.*\.mge: building the network failed: assertion failed$"),
        ("die", r"its process \(killed by SIGKILL\) failed: half a wo$"),
    ],
)
@pytest.mark.usefixtures("megengine")
def test_a_failed_conversion_is_reported_with_its_words(
    what: str, words: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception and a crash of MegEngine are each an error of one line; nothing is left behind."""
    monkeypatch.setenv("SCRIPTED_MEGENGINE", what)
    with pytest.raises(ModelError, match=words) as caught:
        _ensured(_TINY)
    assert "\n" not in str(caught.value)
    assert [each.name for each in cache.iterdir()] == [".lock"]
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.usefixtures("megengine")
def test_a_description_that_is_not_there_is_said(tmp_path: Path) -> None:
    """The step and the system's words are in the error."""
    with (
        MegEngineConverter() as converter,
        pytest.raises(ModelError, match=r"reading the description failed: .*No such file"),
    ):
        converter.convert(MegEngineRecipe(_TINY), tmp_path / "nowhere", tmp_path / "out.mge")


@pytest.mark.usefixtures("megengine")
def test_a_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no temporary folder can be made, the error is a sentence about the file."""
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    with pytest.raises(CacheError, match=r"cannot write .*\.mge: No such file or directory"):
        _ensured(_TINY)


@pytest.mark.usefixtures("megengine")
def test_making_a_file_imports_no_library_of_the_measured_process() -> None:
    """A harness that had a `.mge` file made has not mapped numpy."""
    code = (
        "import sys, models; models.ensure_all('.mge', [models.Recipe('tiny', 64, 1)]);"
        "print([name for name in ('numpy', 'onnx') if name in sys.modules])"
    )
    harness = subprocess.run([sys.executable, "-c", code], cwd=_CHECKOUT, capture_output=True, text=True, check=False)
    assert (harness.stdout, harness.stderr) == ("[]\n", "")
