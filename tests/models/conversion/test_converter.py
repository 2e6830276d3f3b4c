"""Files from scripted libraries: the cache, the converting process, and its failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from reusebench import models
from reusebench.models.built_files import cached_path, fill, is_intact
from reusebench.models.errors import ModelError
from reusebench.models.megengine.environment import MEGENGINE, MegEngineConverter
from reusebench.models.recipe import Recipe, RknnRecipe
from reusebench.models.rknn.toolkit import TOOLKIT
from reusebench.system.cache import CacheError, remove_leftovers
from tests.helpers.support import CHECKOUT, TIME_LIMIT_S
from tests.models.megengine.scripted_megengine import install_scripted_megengine
from tests.models.rknn.scripted_toolkit import install_scripted_toolkit

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("model_cache")]

_SMALL = Recipe("frame", 36, 1)
_LARGE = Recipe("frame", 45, 1)
_CHIP = {".rknn": "rk3588", ".mge": None}
_INSTALL = {".rknn": install_scripted_toolkit, ".mge": install_scripted_megengine}
_BOTH = pytest.mark.parametrize("kind", [".rknn", ".mge"])


def _ensure(kind: str, *recipes: Recipe) -> list[Path]:
    return models.ensure_all(kind, recipes, _CHIP[kind])


def _cached(kind: str, recipe: Recipe) -> Path:
    return cached_path(
        RknnRecipe(recipe, "rk3588") if kind == ".rknn" else MegEngineConverter.recipe(recipe)
    )


def _written(path: Path) -> Any:
    return json.loads(path.read_text())


@_BOTH
def test_one_process_makes_all_that_is_missing(kind: str) -> None:
    """The library starts once for several files, in recipe order, and never if all are cached."""
    folder = _INSTALL[kind]()
    recipes = (_LARGE, _SMALL, _LARGE)
    paths = _ensure(kind, *recipes)
    assert paths == [_cached(kind, recipe) for recipe in recipes]
    assert paths[0].read_bytes() != paths[1].read_bytes()
    assert _ensure(kind, *recipes) == paths
    assert (folder / "starts").read_text() == "started\n"


def test_a_damaged_file_is_made_anew(model_cache: Path, onnx_file: Recipe) -> None:
    """A cut file is converted again; nothing but the files and their size records is left in the
    cache.
    """
    install_scripted_toolkit()
    (path,) = _ensure(".rknn", onnx_file)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert _ensure(".rknn", onnx_file)[0].read_bytes() == whole
    onnx = cached_path(onnx_file)
    expected = {".lock", onnx.name, path.name, f".{onnx.name}.size", f".{path.name}.size"}
    assert {file.name for file in model_cache.iterdir()} == expected


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (
            ".rknn",
            (
                r"\.rknn files .*2\.5\.0, which is not in /.*run `reusebench models install"
                r" rknn-toolkit` once"
            ),
        ),
        (
            ".mge",
            r"\.mge files .*1\.13\.0, which is not in /.*`reusebench models install megengine`",
        ),
    ],
)
def test_a_library_that_is_not_installed(kind: str, sentence: str, model_cache: Path) -> None:
    """The error comes before anything is built, with the command to run; a cached file needs no
    library.
    """
    assert not TOOLKIT.installed()
    assert not MEGENGINE.installed()
    with pytest.raises(ModelError, match=sentence):
        _ensure(kind, _SMALL)
    assert not model_cache.exists()
    recipe = RknnRecipe(_SMALL, "rk3588") if kind == ".rknn" else MegEngineConverter.recipe(_SMALL)
    fill(recipe, lambda path: path.write_bytes(b"copied"))
    assert _ensure(kind, _SMALL)[0].read_bytes() == b"copied"


@pytest.mark.parametrize(
    ("kind", "behaviour", "sentence"),
    [
        (
            ".rknn",
            "refuse",
            r"make tiny-64-seed1-rk3588-.*\.rknn: build failed: build: rv9999 cannot do that!$",
        ),
        (".rknn", "raise", r"build failed: IndexError: out of range$"),
        (".rknn", "die", r"its process \(killed by SIGKILL\) failed: half a wo$"),
        (
            ".mge",
            "raise",
            (
                r"^MegEngine could not make tiny-64-.*\.mge: building the network failed: assertion"
                r" failed$"
            ),
        ),
        (".mge", "die", r"its process \(killed by SIGKILL\) failed: half a wo$"),
    ],
)
def test_a_failed_conversion(
    kind: str,
    behaviour: str,
    sentence: str,
    onnx_file: Recipe,
    model_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A return code, an exception and a crash of the library are one line each; nothing is left
    behind.
    """
    _INSTALL[kind]()
    monkeypatch.setenv("SCRIPTED_TOOLKIT" if kind == ".rknn" else "SCRIPTED_MEGENGINE", behaviour)
    with pytest.raises(ModelError, match=sentence) as error:
        _ensure(kind, onnx_file)
    assert "\n" not in str(error.value)
    made = _cached(kind, onnx_file)
    assert list(made.parent.glob(f"*{made.name}*")) == []
    assert list((model_cache.parent / "temporary").iterdir()) == []


def test_a_description_that_is_not_there(tmp_path: Path) -> None:
    """The error has the folder and the system's reason."""
    install_scripted_megengine()
    with (
        MegEngineConverter() as converter,
        pytest.raises(ModelError, match=r"reading .*/nowhere failed: No such file"),
    ):
        converter.convert(
            MegEngineConverter.recipe(_SMALL), tmp_path / "nowhere", tmp_path / "out.mge"
        )


def test_files_made_before_a_failure_stay(
    onnx_file: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files before the failed one are complete in the cache."""
    install_scripted_toolkit()
    (path,) = _ensure(".rknn", onnx_file)
    monkeypatch.setenv("SCRIPTED_TOOLKIT", "refuse")
    with pytest.raises(ModelError, match="frame-36"):
        _ensure(".rknn", onnx_file, _SMALL)
    assert is_intact(path)


def test_an_interrupted_conversion_leaves_nothing(
    onnx_file: Recipe, model_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C kills the toolkit's process at once and removes half-written files; the next try
    succeeds.
    """
    install_scripted_toolkit()
    monkeypatch.setenv("SCRIPTED_TOOLKIT", "interrupt")
    with pytest.raises(KeyboardInterrupt):
        _ensure(".rknn", onnx_file)
    assert not list(model_cache.glob(".*unfinished"))
    assert list((model_cache.parent / "temporary").iterdir()) == []
    monkeypatch.delenv("SCRIPTED_TOOLKIT")
    assert is_intact(_ensure(".rknn", onnx_file)[0])


# A process that is killed when the scripted toolkit interrupts it.
_KILLED_CALLER = """
import signal
from reusebench import models
signal.signal(signal.SIGINT, lambda *_: signal.raise_signal(signal.SIGKILL))
models.ensure_all('.rknn', [models.Recipe('tiny', 64, 1)], 'rk3588')
"""


@pytest.mark.usefixtures("onnx_file")
def test_the_library_dies_with_its_caller(model_cache: Path) -> None:
    """When the harness is killed, no conversion goes on unseen, and the next session removes its
    files.
    """
    install_scripted_toolkit()
    environment = {**os.environ, "SCRIPTED_TOOLKIT": "interrupt"}
    caller = subprocess.run(
        [sys.executable, "-c", _KILLED_CALLER], cwd=CHECKOUT, env=environment, check=False
    )
    assert caller.returncode == -signal.SIGKILL
    (process,) = (file.read_text() for file in (model_cache.parent / "temporary").glob("*/process"))

    def runs() -> bool:
        """Whether the process runs; a zombie has no command line."""
        try:
            return bool(Path(f"/proc/{process}/cmdline").read_bytes())
        except FileNotFoundError:
            return False

    deadline = time.monotonic() + TIME_LIMIT_S
    while runs() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not runs()
    left = {leftover.path.parent for leftover in remove_leftovers()}
    assert left == {model_cache, model_cache.parent / "temporary"}


@_BOTH
def test_no_folder_for_temporary_files(kind: str, onnx_file: Recipe, model_cache: Path) -> None:
    """If no file can be made, as on a full disk, the error names the file."""
    _INSTALL[kind]()
    (model_cache.parent / "temporary").touch()
    with pytest.raises(CacheError, match=r"cannot write .*temporary: File exists"):
        _ensure(kind, onnx_file)
    assert not _cached(kind, onnx_file).exists()


def test_the_harness_imports_no_library_of_the_measured_process() -> None:
    """A process that had files of every kind made has mapped neither numpy nor onnx nor a
    runtime.
    """
    install_scripted_toolkit()
    install_scripted_megengine()
    code = (
        "import sys; from reusebench import models; recipes = [models.Recipe('tiny', 32,"
        " 0)];models.ensure_all('.onnx', recipes); models.ensure_all('.mge',"
        " recipes);models.ensure_all('.rknn', recipes, 'rk3588');print([name for name in ('numpy',"
        " 'onnx', 'google.protobuf', 'onnxruntime') if name in sys.modules])"
    )
    harness = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert (harness.stdout, harness.stderr) == ("[]\n", "")
    assert all(
        is_intact(path)
        for path in (cached_path(Recipe("tiny", 32, 0)), _cached(".mge", Recipe("tiny", 32, 0)))
    )
