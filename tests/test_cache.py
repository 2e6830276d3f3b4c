"""The user's cache: where it is, whole files, and processes that make them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from cache import CacheError, cache_root, locked, make_folder, run_in_another_process, written_whole


def test_the_cache_root_follows_the_xdg_specification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    """When writing fails half-way, the file is as it was before and nothing lies beside it."""
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    with pytest.raises(CacheError, match=r"model\.onnx: No space left on device; choose a folder"):
        _write_half(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_not_a_file_is_not_replaced(tmp_path: Path) -> None:
    """A pipe or a device such as /dev/null is refused as output, and stays what it is."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(CacheError, match="not a regular file"), written_whole(pipe):
        pytest.fail("the writing must not begin")
    assert pipe.is_fifo()


def test_a_folder_is_locked_for_one_process_at_a_time(tmp_path: Path) -> None:
    """Another one cannot have the lock meanwhile, and can afterwards."""
    path = tmp_path / "models" / ".lock"
    with locked(tmp_path / "models" / "a.onnx"), path.open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with path.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        # As the kernel does when memory runs out.
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", r"\(killed by SIGKILL\): it printed nothing"),
        ("import sys; sys.exit('first\\nlast')", r"\(exit code 1\): last$"),
    ],
)
def test_a_failed_build_is_reported(code: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its exit code or signal, and with the last line of its errors."""
    (tmp_path / "failing.py").write_text(code)
    monkeypatch.setattr("cache._CHECKOUT", tmp_path)
    with pytest.raises(CacheError, match=f"-m failing` failed {words}"):
        run_in_another_process("failing")


def test_the_cache_is_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is made of the user's models is in it; folders above it, and elsewhere, are as the umask has them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make_folder(cache_root() / "prepared")
    make_folder(tmp_path / "elsewhere")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (cache_root(), tmp_path / "elsewhere", tmp_path / "cache")]
    assert modes[0] == 0o700
    assert modes[1] == modes[2] != 0o700
