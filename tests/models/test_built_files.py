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

from reusebench.models.built_files import cached_path, ensure, fill, is_intact
from reusebench.models.errors import ModelError
from reusebench.models.recipe import Recipe
from reusebench.system.cache import CacheError
from tests.helpers.support import CHECKOUT

_TINY = Recipe("tiny", 64, 1)


pytestmark = [pytest.mark.process, pytest.mark.usefixtures("model_cache")]


def _python(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_file_is_built_once_and_again_after_damage(model_cache: Path) -> None:
    """A missing file is built, a whole one is used as it is, and an empty, cut or grown one is
    built anew.
    """
    path = ensure(_TINY)
    assert path == cached_path(_TINY) == model_cache / "tiny-64-seed1-v1.onnx"
    onnx.checker.check_model(onnx.load(path))
    whole = path.read_bytes()
    built_ns = path.stat().st_mtime_ns
    assert ensure(_TINY) == path
    assert path.stat().st_mtime_ns == built_ns
    for damaged in (b"", whole[:-1], whole + b"0"):
        path.write_bytes(damaged)
        assert not is_intact(path)
    assert ensure(_TINY) == path
    assert path.read_bytes() == whole
    assert sorted(file.name for file in model_cache.iterdir()) == sorted(
        [".lock", f".{path.name}.size", path.name]
    )


# Builds slowly in two halves, and prints that it does.
_FILL_SLOWLY = """
import time
from reusebench.models.built_files import fill
from reusebench.models.recipe import Recipe

def build(path):
    path.write_bytes(b"first half, ")
    print("building", flush=True)
    time.sleep({seconds})
    path.write_bytes(b"first half, second half")

fill(Recipe("tiny", 64, 1), build)
"""


def test_the_second_process_waits_and_does_not_build() -> None:
    """If two processes fill the cache at once, one builds, and nobody reads half a file."""
    processes = [_python(_FILL_SLOWLY.format(seconds=0.3)) for _ in range(2)]
    path = cached_path(_TINY)
    while any(process.poll() is None for process in processes):
        assert not path.exists() or path.read_bytes() == b"first half, second half"
        time.sleep(0.01)
    assert sorted(process.communicate() for process in processes) == [("", ""), ("building\n", "")]
    assert path.read_bytes() == b"first half, second half"


def test_a_killed_build_leaves_nothing_in_the_way(model_cache: Path) -> None:
    """After a build was killed half-way there is no model file, and the next build succeeds and
    tidies up.
    """
    killed = _python(_FILL_SLOWLY.format(seconds=60))
    assert killed.stdout is not None
    assert killed.stdout.readline() == "building\n"
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not cached_path(_TINY).exists()
    assert list(model_cache.glob(".*.unfinished"))
    fill(_TINY, lambda path: path.write_bytes(b"whole"))
    assert cached_path(_TINY).read_bytes() == b"whole"
    assert not list(model_cache.glob(".*.unfinished"))


def test_a_failed_build_is_reported_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller of ensure gets the building process's output, and the command to try by hand."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(
        CacheError,
        match=(
            r"start\.py reusebench models build tiny --height 64 --seed 1` failed \(exit code 2\):"
            r" Error: cannot"
        ),
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
def test_an_invalid_recipe_is_refused(recipe: tuple[str, int, int], words: str) -> None:
    """Name, size and seed are checked when it is made."""
    with pytest.raises(ModelError, match=words):
        Recipe(*recipe)
