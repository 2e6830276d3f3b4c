"""The cache of model files: whole files, built once, by another process."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

import models
from models.cache import cache_root, cached_path, fill, is_intact, run_in_another_process, written_whole
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


def test_the_cache_root_follows_the_xdg_specification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$XDG_CACHE_HOME is used if it is absolute, and ~/.cache otherwise."""
    assert cache_root() == tmp_path / "cache" / "reusebench"
    monkeypatch.setenv("HOME", "/home/somebody")
    for unset in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert cache_root() == Path("/home/somebody/.cache/reusebench")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == Path("/home/somebody/.cache/reusebench")


def test_a_file_name_says_what_the_file_is(cache: Path) -> None:
    """Network, size, seed and the version of the emitted bytes stand in the name."""
    assert cached_path(Recipe("yolov5s", 320, 7)) == cache / f"yolov5s-320-seed7-v{EMISSION_VERSION}.onnx"


def test_ensure_builds_once_and_again_after_damage(cache: Path) -> None:
    """A missing file is built, a whole one is used as it is, and an empty, cut or grown one is built anew."""
    path = models.ensure("tiny", 64, 1)
    assert path == cached_path(_TINY)
    onnx.checker.check_model(onnx.load(path))
    whole, built_ns = path.read_bytes(), path.stat().st_mtime_ns

    assert models.ensure("tiny", 64, 1) == path
    assert path.stat().st_mtime_ns == built_ns

    for damaged in (b"", whole[:-1]):
        path.write_bytes(damaged)
        assert models.ensure("tiny", 64, 1) == path
        assert path.read_bytes() == whole
    assert sorted(each.name for each in cache.iterdir()) == sorted([".lock", f".{path.name}.size", path.name])


def test_ensure_imports_neither_numpy_nor_onnx() -> None:
    """A process that had a model built maps no library of the measured process."""
    harness = _python(
        "import sys, models; models.ensure('tiny', 32, 0);"
        "print([name for name in ('numpy', 'onnx', 'google.protobuf', 'onnxruntime') if name in sys.modules])"
    )
    assert harness.communicate() == ("[]\n", "")
    assert is_intact(cached_path(Recipe("tiny", 32, 0)))


def test_two_processes_at_once_get_the_same_whole_file() -> None:
    """Two harnesses that start together both return the file, and it is whole."""
    both = [_python("import models; print(models.ensure('tiny', 64, 1))") for _ in range(2)]
    results = [(*each.communicate(), each.returncode) for each in both]
    assert results == [(f"{cached_path(_TINY)}\n", "", 0)] * 2
    onnx.checker.check_model(onnx.load(cached_path(_TINY)))


# Builds slowly in two halves, and says on standard output that it does.
_FILL_SLOWLY = """
import time
from models.cache import fill
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


def _write_half(path: Path) -> None:
    with written_whole(path) as temporary:
        temporary.write_bytes(b"ne")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """When writing fails half-way, the file is as it was before and nothing lies beside it."""
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    with pytest.raises(ModelError, match=r"model\.onnx: No space left on device; choose a folder"):
        _write_half(path)
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]


def test_what_is_not_a_file_is_not_replaced(tmp_path: Path) -> None:
    """A pipe or a device such as /dev/null is refused as output, and stays what it is."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ModelError, match="not a regular file"), written_whole(pipe):
        pytest.fail("the writing must not begin")
    assert pipe.is_fifo()


def test_a_failed_build_is_reported_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the building process said reaches the caller of ensure, with the command to try by hand."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(
        ModelError, match=r"-m commands models build tiny --size 64 --seed 1` failed \(exit code 2\): Error: cannot"
    ):
        models.ensure("tiny", 64, 1)


def test_a_killed_build_is_reported_with_its_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that the kernel killed, as it does when memory runs out, names the signal."""
    (tmp_path / "killed.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setattr("models.cache._CHECKOUT", tmp_path)
    with pytest.raises(ModelError, match=r"-m killed` failed \(killed by SIGKILL\): it printed nothing"):
        run_in_another_process("killed")


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
        models.ensure(*recipe)
    assert not cache.exists()
