"""The model files in the cache: whole, built once, by another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

import models
from cache import CacheError
from models.built_files import cached_path, ensure, fill, is_intact
from models.errors import ModelError
from models.recipe import EMISSION_VERSION, Recipe

_ROOT = Path(models.__file__).parent.parent
_TINY = Recipe("tiny", 64, 1)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "reusebench" / "models"


def _python(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_file_name_says_what_the_file_is(cache: Path) -> None:
    """Network, size, seed and the version of the emitted bytes stand in the name."""
    assert cached_path(Recipe("yolov5s", 320, 7)) == cache / f"yolov5s-320-seed7-v{EMISSION_VERSION}.onnx"


def test_ensure_builds_once_and_again_after_damage(cache: Path) -> None:
    """A missing file is built, a whole one is used as it is, and an empty, cut or grown one is built anew."""
    path = ensure(_TINY)
    assert path == cached_path(_TINY)
    onnx.checker.check_model(onnx.load(path))
    whole, built_ns = path.read_bytes(), path.stat().st_mtime_ns

    assert ensure(_TINY) == path
    assert path.stat().st_mtime_ns == built_ns

    for damaged in (b"", whole[:-1]):
        path.write_bytes(damaged)
        assert ensure(_TINY) == path
        assert path.read_bytes() == whole
    assert sorted(each.name for each in cache.iterdir()) == sorted([".lock", f".{path.name}.size", path.name])


def test_ensure_imports_neither_numpy_nor_onnx() -> None:
    """A process that had a model built maps no library of the measured process."""
    harness = _python(
        "import sys, models; models.ensure_all('.onnx', [models.Recipe('tiny', 32, 0)]);"
        "print([name for name in ('numpy', 'onnx', 'google.protobuf', 'onnxruntime') if name in sys.modules])"
    )
    assert harness.communicate() == ("[]\n", "")
    assert is_intact(cached_path(Recipe("tiny", 32, 0)))


_ENSURE = (
    "from models.built_files import ensure; from models.recipe import Recipe; print(ensure(Recipe('tiny', 64, 1)))"
)


def test_two_processes_at_once_get_the_same_whole_file() -> None:
    """Two harnesses that start together both return the file, and it is whole."""
    code = "import models; print(*models.ensure_all('.onnx', [models.Recipe('tiny', 64, 1)]))"
    both = [_python(code) for _ in range(2)]
    results = [(*each.communicate(), each.returncode) for each in both]
    assert results == [(f"{cached_path(_TINY)}\n", "", 0)] * 2
    onnx.checker.check_model(onnx.load(cached_path(_TINY)))


# Builds slowly in two halves, and says on standard output that it does.
_FILL_SLOWLY = """
import time
from models.built_files import fill
from models.recipe import Recipe

def build(path):
    path.write_bytes(b"first half, ")
    print("building", flush=True)
    time.sleep({seconds})
    path.write_bytes(b"first half, second half")

fill(Recipe("tiny", 64, 1), build)
"""


def test_the_second_process_waits_and_does_not_build() -> None:
    """Of two processes that fill the cache at once, one builds; meanwhile nobody sees half a file."""
    both = [_python(_FILL_SLOWLY.format(seconds=0.3)) for _ in range(2)]
    while any(each.poll() is None for each in both):
        assert not cached_path(_TINY).exists() or cached_path(_TINY).read_bytes() == b"first half, second half"
        time.sleep(0.01)
    assert sorted(each.communicate() for each in both) == [("", ""), ("building\n", "")]
    assert cached_path(_TINY).read_bytes() == b"first half, second half"


def _write_whole(path: Path) -> None:
    path.write_bytes(b"whole")


def test_a_killed_build_leaves_nothing_in_the_way(cache: Path) -> None:
    """After a build was killed half-way there is no model file, and the next build succeeds and tidies up."""
    killed = _python(_FILL_SLOWLY.format(seconds=60))
    assert killed.stdout is not None
    assert killed.stdout.readline() == "building\n"
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not cached_path(_TINY).exists()
    assert any(each.name.endswith(".unfinished") for each in cache.iterdir())

    fill(_TINY, _write_whole)
    assert cached_path(_TINY).read_bytes() == b"whole"
    assert not any(each.name.endswith(".unfinished") for each in cache.iterdir())


def test_a_failed_build_is_reported_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the building process said reaches the caller of ensure, with the command to try by hand."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(
        CacheError, match=r"-m commands models build tiny --size 64 --seed 1` failed \(exit code 2\): Error: cannot"
    ):
        ensure(_TINY)


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (("vgg", 64, 0), "unknown network 'vgg'; valid: "),
        (("yolov5s", 100, 0), "cannot be made for size 100; valid: "),
        (("tiny", 64, -1), "seed -1 is not valid; valid: "),
        (("tiny", 64, 2**32), "seed 4294967296 is not valid; valid: "),
    ],
)
def test_an_invalid_recipe_is_refused_before_anything_runs(
    recipe: tuple[str, int, int], words: str, cache: Path
) -> None:
    """Name, size and seed are checked in the calling process; nothing is made in the cache."""
    with pytest.raises(ModelError, match=words):
        ensure(Recipe(*recipe))
    assert not cache.exists()
