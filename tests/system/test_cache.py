"""The user's cache: its place, whole files, and the processes that make them."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from reusebench.system.cache import (
    CacheError,
    OwnFolder,
    cache_root,
    locked,
    make_folder,
    remove_leftovers,
    run_in_another_process,
    written_whole,
)
from reusebench.system.interrupts import Interrupted, handle_signals
from tests.helpers.support import CHECKOUT


def test_the_cache_root_follows_the_xdg_specification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """$XDG_CACHE_HOME is used if it is absolute, and ~/.cache otherwise."""
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "reusebench"
    for unset in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert cache_root() == Path("/home/somebody/.cache/reusebench")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == Path("/home/somebody/.cache/reusebench")


def _write_half(path: Path) -> None:
    with written_whole(path) as temporary:
        temporary.write_bytes(b"ne")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """If writing fails halfway, the old file stays, and no other file."""
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    with pytest.raises(CacheError, match=r"model\.onnx: No space left on device; choose a folder"):
        _write_half(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def _make_what_fails(path: Path) -> None:
    with locked(path):
        (path.parent / "missing" / "new").mkdir()


def test_a_failure_in_the_cache_has_its_reason(tmp_path: Path) -> None:
    """An OSError while the lock is held becomes an error with its reason; the lock is released."""
    path = tmp_path / "programs" / "compiled"
    for _ in range(2):
        with pytest.raises(
            CacheError, match=r"cannot write .*compiled: No such file or directory; choose a folder"
        ):
            _make_what_fails(path)


def test_only_files_are_replaced(tmp_path: Path) -> None:
    """A pipe or a device such as /dev/null is refused as output, and stays what it is."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(CacheError, match="not a regular file"), written_whole(pipe):
        pytest.fail("the writing must not begin")
    assert pipe.is_fifo()


def test_a_folder_is_locked_for_one_process_at_a_time(tmp_path: Path) -> None:
    """Another process cannot take the lock meanwhile, and can afterwards."""
    path = tmp_path / "models" / ".lock"
    with (
        locked(tmp_path / "models" / "a.onnx"),
        path.open() as lock,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with path.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        # The kernel does the same when memory runs out.
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            r"\(killed by SIGKILL\): it printed nothing",
        ),
        ("import sys; sys.exit('first\\nlast')", r"\(exit code 1\): last$"),
    ],
)
@pytest.mark.process
def test_a_failed_build_is_reported(
    code: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the exit code or signal, and the last line of standard error."""
    (tmp_path / "failing.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(CacheError, match=rf"start\.py failing` failed {words}"):
        run_in_another_process("failing")


def test_the_cache_is_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The cache, which has files made of the user's models, is private.

    Folders above it and elsewhere follow the umask.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_folder(cache_root() / "prepared")
    make_folder(tmp_path / "elsewhere")
    modes = [
        stat.S_IMODE(path.stat().st_mode)
        for path in (cache_root(), tmp_path / "elsewhere", tmp_path / "cache")
    ]
    assert modes[0] == 0o700
    assert modes[1] == modes[2] != 0o700


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test its own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "reusebench"


def _removed(dry_run: bool = False) -> dict[Path, int]:
    return {leftover.path: leftover.size_bytes for leftover in remove_leftovers(dry_run)}


#: Makes everything that a killed process can leave, and is killed.
_KILLED = """
import os, signal
from reusebench.system.cache import OwnFolder, cache_root, locked, scratch_folder, written_whole

folder = OwnFolder("prepared")
(folder.path / "onnxruntime").mkdir()
(folder.path / "onnxruntime" / "weights").write_bytes(bytes(1000))
(folder.path / "link").symlink_to("/")
model = cache_root() / "models" / "a.onnx"
with locked(model), written_whole(model) as temporary, scratch_folder(model.parent):
    temporary.write_bytes(bytes(500))
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.process
def test_leftovers_of_killed_processes_are_removed(root: Path) -> None:
    """Temporary folders and half files are removed, and listed with their sizes.

    A dry run lists the same and removes nothing.
    """
    (root / "prepared" / "tmpaaaaaaaa").mkdir(parents=True)  # from 0.1.0, without locks
    done = subprocess.run([sys.executable, "-c", _KILLED], cwd=CHECKOUT, check=False)
    assert done.returncode == -9
    left = _removed(dry_run=True)
    assert sorted(left.values()) == [0, 0, 500, 1000]
    assert all(path.exists() for path in left)
    assert _removed() == left
    assert not any(path.exists() for path in left)
    assert _removed() == {}


def test_owned_folders_stay(root: Path) -> None:
    """Concurrent sessions leave each other's files alone; an owner removes its own."""
    folder = OwnFolder("prepared")
    assert folder.path.stat().st_mode & 0o777 == 0o700
    model = root / "models" / "a.onnx"
    with locked(model), written_whole(model) as temporary, OwnFolder() as other:
        assert _removed() == {}
        assert temporary.exists()
        assert other.is_dir()
    folder.close()
    assert not folder.path.exists()
    assert not other.exists()


def test_a_signal_leaves_no_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However early a signal comes, it is raised once the folder has an owner or is removed."""
    make = tempfile.mkdtemp
    remove = shutil.rmtree

    def made(**options: Any) -> str:
        path: str = make(**options)
        signal.raise_signal(signal.SIGTERM)
        return path

    def removed(path: Path, **options: Any) -> None:
        signal.raise_signal(signal.SIGTERM)
        remove(path, **options)

    handle_signals()
    monkeypatch.setattr(tempfile, "mkdtemp", made)
    with pytest.raises(Interrupted):
        OwnFolder()
    assert list((root / "temporary").iterdir()) == []
    monkeypatch.setattr(tempfile, "mkdtemp", make)
    folder = OwnFolder()
    monkeypatch.setattr(shutil, "rmtree", removed)
    with pytest.raises(Interrupted):
        folder.close()
    assert not folder.path.exists()


def test_foreign_paths_stay(root: Path, tmp_path: Path) -> None:
    """Other names, links to folders elsewhere, and the cache's own files stay."""
    elsewhere = tmp_path / "elsewhere" / "tmpaaaaaaaa"
    elsewhere.mkdir(parents=True)
    (root / "models").mkdir(parents=True)
    (root / "temporary" / "mine").mkdir(parents=True)
    (root / "temporary" / "tmpbbbbbbbb").symlink_to(elsewhere)
    (root / "prepared").symlink_to(elsewhere.parent)
    for name in (".a.onnx.unfinished", "a.1.unfinished", ".a.onnx.size", "a.onnx"):
        (root / "models" / name).touch()
    assert _removed() == {}
    assert elsewhere.exists()


def test_no_cache_has_no_leftovers(root: Path) -> None:
    """No cache is made for that."""
    assert _removed() == {}
    assert not root.exists()
