"""`.rknn` files from a scripted toolkit: the cache, the process that converts, and how it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from cache import CacheError
from models.built_files import cached_path, fill, is_intact
from models.errors import ModelError
from models.recipe import Recipe, RknnRecipe
from models.rknn.emitter import RknnConverter
from models.rknn.toolkit import TOOLKIT
from tests.models.rknn.scripted_toolkit import install_scripted_toolkit
from tests.support import CHECKOUT

_SOURCE = Recipe("tiny", 64, 1)
_RECIPE = RknnRecipe(_SOURCE, "rk3588")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a cache of its own, and a folder for temporary files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "cache" / "reusebench" / "models"


@pytest.fixture
def toolkit() -> Path:
    """Install the scripted toolkit, and the ONNX file, which it does not read."""
    fill(_SOURCE, _write_onnx)
    return install_scripted_toolkit()


def _write_onnx(path: Path) -> None:
    path.write_bytes(b"onnx")


def _ensured(*recipes: RknnRecipe) -> list[Path]:
    with RknnConverter() as converter:
        return converter.ensure_all(recipes)


def _ensure() -> Path:
    (path,) = _ensured(_RECIPE)
    return path


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.usefixtures("toolkit")
def test_the_toolkit_is_told_what_the_recipe_says() -> None:
    """Chip, weights, the scale of uint8 pixels, INT8, and the ONNX file of the same recipe reach the toolkit."""
    recipe = RknnRecipe(_SOURCE, "rk3588", weightless=True)
    (path,) = _ensured(recipe)
    assert path == cached_path(recipe)
    told = _read(path)
    told.pop("calibration")
    assert told == {
        "pixels": 3 * 64 * 64,
        "target_platform": "rk3588",
        "remove_weight": True,
        "mean_values": [[0, 0, 0]],
        "std_values": [[255, 255, 255]],
        "do_quantization": True,
        "onnx": str(cached_path(_SOURCE)),
    }
    assert not _read(*_ensured(RknnRecipe(_SOURCE, "rv1106")))["remove_weight"]


@pytest.mark.usefixtures("toolkit")
def test_all_are_calibrated_with_the_same_image() -> None:
    """Models of one size see equal noise, whatever their seed and chip: it is no difference between them."""
    fill(Recipe("tiny", 64, 2), _write_onnx)
    recipes = [_RECIPE, RknnRecipe(Recipe("tiny", 64, 2), "rk3588"), RknnRecipe(_SOURCE, "rv1103")]
    assert len({_read(path)["calibration"] for path in _ensured(*recipes)}) == 1


@pytest.mark.usefixtures("toolkit")
def test_a_network_that_is_not_square_is_calibrated_with_an_image_of_its_shape() -> None:
    """The image has the height and the width of the network's input."""
    fill(Recipe("frame", 36, 1), _write_onnx)
    assert _read(*_ensured(RknnRecipe(Recipe("frame", 36, 1), "rk3588")))["pixels"] == 3 * 36 * 64


def test_one_process_makes_all_that_is_missing(toolkit: Path) -> None:
    """The toolkit is started once for several files, in the order asked for, and not at all when all are there."""
    recipes = [RknnRecipe(_SOURCE, name) for name in ("rk3588", "rv1106", "rk3588", "rk3566")]
    paths = _ensured(*recipes)
    assert [_read(path)["target_platform"] for path in paths] == ["rk3588", "rv1106", "rk3588", "rk3566"]
    assert _ensured(*recipes) == paths
    assert (toolkit / "starts").read_text() == "started\n"


@pytest.mark.usefixtures("toolkit")
def test_a_damaged_file_is_made_anew(cache: Path) -> None:
    """A cut file is converted again; nothing but the files and their size records is left in the cache."""
    path = _ensure()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert _ensure().read_bytes() == whole
    onnx = cached_path(_SOURCE)
    expected = {".lock", onnx.name, path.name, f".{onnx.name}.size", f".{path.name}.size"}
    assert {each.name for each in cache.iterdir()} == expected


def test_a_cached_file_needs_no_toolkit() -> None:
    """What was made on this machine before, or copied to it, is used without the toolkit."""
    fill(_RECIPE, _write_onnx)
    assert not TOOLKIT.installed()
    assert _ensure().read_bytes() == b"onnx"


def test_a_missing_toolkit_is_said_before_anything_is_built(cache: Path) -> None:
    """The error has the command to run and the folder; not even the ONNX file is made."""
    with pytest.raises(ModelError, match=r"not in /.*rknn-toolkit2.*run `reusebench models install rknn-toolkit` once"):
        _ensure()
    assert not cache.exists()


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("refuse", r"could not make tiny-64-seed1-rk3588-.*\.rknn: build failed: build: rv9999 cannot do that!$"),
        ("raise", r"build failed: IndexError: out of range$"),
        ("die", r"its process \(killed by SIGKILL\) failed: half a wo$"),
    ],
)
@pytest.mark.usefixtures("toolkit")
def test_a_failed_conversion_is_reported_with_its_last_words(
    what: str, words: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A return code, an exception and a crash of the toolkit are each an error of one line; nothing is left behind."""
    monkeypatch.setenv("SCRIPTED_TOOLKIT", what)
    with pytest.raises(ModelError, match=words) as caught:
        _ensure()
    assert "\n" not in str(caught.value)
    assert not list(cache.glob("*rk3588*"))
    assert not list(cache.glob(".*rk3588*"))
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.usefixtures("toolkit")
def test_what_was_made_before_a_failure_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several files those before the failed one are in the cache, whole."""
    path = _ensure()
    monkeypatch.setenv("SCRIPTED_TOOLKIT", "refuse")
    with pytest.raises(ModelError, match="rv1106"):
        _ensured(_RECIPE, RknnRecipe(_SOURCE, "rv1106"))
    assert is_intact(path)


@pytest.mark.usefixtures("toolkit")
def test_an_interrupted_conversion_leaves_nothing(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C kills the toolkit's process at once and removes half-written files; the next try succeeds."""
    monkeypatch.setenv("SCRIPTED_TOOLKIT", "interrupt")
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _ensure()
    assert time.monotonic() - begin < 30
    assert not list(cache.glob(".*unfinished"))
    assert list((tmp_path / "temporary").iterdir()) == []

    monkeypatch.delenv("SCRIPTED_TOOLKIT")
    assert is_intact(_ensure())


# Is killed as soon as the scripted toolkit interrupts it.
_KILLED_CALLER = """
import signal, models
signal.signal(signal.SIGINT, lambda *_: signal.raise_signal(signal.SIGKILL))
models.ensure_all('.rknn', [models.Recipe('tiny', 64, 1)], 'rk3588')
"""


def _runs(process: int) -> bool:
    """Whether the process runs: one that ended and waits to be reaped has no command line."""
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    except FileNotFoundError:
        return False


@pytest.mark.usefixtures("toolkit")
def test_the_toolkit_dies_with_its_caller(tmp_path: Path) -> None:
    """When the harness is killed, no conversion goes on unseen."""
    environment = {**os.environ, "SCRIPTED_TOOLKIT": "interrupt", "TMPDIR": str(tmp_path / "temporary")}
    caller = subprocess.run([sys.executable, "-c", _KILLED_CALLER], cwd=CHECKOUT, env=environment, check=False)
    assert caller.returncode == -signal.SIGKILL
    (process,) = (int(each.read_text()) for each in (tmp_path / "temporary").glob("*/process"))
    deadline = time.monotonic() + 30
    while _runs(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(process)


@pytest.mark.usefixtures("toolkit")
def test_a_full_disk_is_reported(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no temporary folder can be made, the error is a sentence about the file."""
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    with pytest.raises(CacheError, match=r"cannot write .*\.rknn: No such file or directory"):
        _ensure()
    assert not list(cache.glob("*rk3588*"))


@pytest.mark.usefixtures("toolkit")
def test_making_a_file_imports_no_library_of_the_measured_process() -> None:
    """A harness that had a `.rknn` file made maps neither numpy nor onnx."""
    code = (
        "import sys, models; models.ensure_all('.rknn', [models.Recipe('tiny', 64, 1)], 'rk3588');"
        "print([name for name in ('numpy', 'onnx', 'google.protobuf') if name in sys.modules])"
    )
    harness = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (harness.stdout, harness.stderr) == ("[]\n", "")
