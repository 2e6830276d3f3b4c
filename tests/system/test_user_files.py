"""Files that the user names: checked by the same rules, and checked for changes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from reusebench.system import user_files
from reusebench.system.user_files import (
    MOST_BYTES,
    MOST_ONNX_BYTES,
    ChangedFile,
    FileState,
    Pins,
    UserFileError,
    check_file,
)


def test_a_file_behind_links(tmp_path: Path) -> None:
    """Links are followed to the file itself."""
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert check_file(tmp_path / "link", at_most_bytes=7) == tmp_path / "file"


def test_what_cannot_be_used(tmp_path: Path) -> None:
    """Each problem has its own words, with a printable path, and nothing blocks."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "empty").touch()
    (tmp_path / "large").write_bytes(b"12345678")
    (tmp_path / "line\n").write_bytes(b"1")
    not_utf_8 = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    not_utf_8.write_bytes(b"1")
    (tmp_path / "renamed").symlink_to(not_utf_8)
    for path, problem in (
        (tmp_path / "none", "none: it does not exist"),
        (tmp_path / "empty" / "below", "it does not exist, as a part of its path is no folder"),
        (tmp_path / "pipe", "it is a named pipe; a regular file is needed"),
        (tmp_path, "it is a folder; a regular file is needed"),
        (Path("/dev/zero"), "it is a device; a regular file is needed"),
        (tmp_path / "loop", "its links lead in a circle"),
        (tmp_path / ("x" * 300), "its name is too long"),
        (tmp_path / "empty", "the file is empty"),
        (tmp_path / "large", "it has 8 bytes, and at most 7 are read"),
        (
            tmp_path / "line\n",
            r"line\n: its path has control characters, or bytes that are no UTF-8",
        ),
        (not_utf_8, r"\udcff: its path has control characters, or bytes that are no UTF-8"),
        (
            tmp_path / "renamed",
            "renamed: its path has control characters, or bytes that are no UTF-8",
        ),
        (tmp_path / "\0", r"\x00: its path has control characters"),
    ):
        with pytest.raises(UserFileError) as refusal:
            check_file(path, at_most_bytes=7)
        assert problem in str(refusal.value)
        assert str(refusal.value).isprintable()


def test_a_pinned_file_that_changes(tmp_path: Path) -> None:
    """Changed content is noticed, whether written or replaced.

    Other rights, or equal content, are no change.
    """
    model = tmp_path / "model"
    weights = tmp_path / "weights"
    model.write_bytes(b"a")
    weights.write_bytes(b"b")
    pins = Pins()
    assert pins.digest(model, weights) == hashlib.sha256(b"ab").hexdigest()
    model.chmod(0o600)
    copy = tmp_path / "copy"
    copy.write_bytes(b"b")
    copy.replace(weights)
    pins.check(model)
    before = FileState.of(weights)
    assert before is not None
    weights.write_bytes(b"c")
    os.utime(weights, ns=(before.modified_ns, before.modified_ns))
    for read in (pins.check, pins.digest):
        with pytest.raises(ChangedFile, match="model: it has changed since it was first read"):
            read(model)
    weights.write_bytes(b"b")
    pins.check(model)
    weights.unlink()
    with pytest.raises(ChangedFile):
        pins.check(model)


def test_a_file_that_is_not_there_is_not_pinned(tmp_path: Path) -> None:
    """The code that needs the file reports it; once it exists, it is pinned."""
    pins = Pins()
    file = tmp_path / "file"
    pins.check(file)
    with pytest.raises(UserFileError, match="it does not exist"):
        pins.digest(file)
    file.write_bytes(b"a")
    pins.check(file)
    file.write_bytes(b"b")
    with pytest.raises(ChangedFile):
        pins.check(file)


def test_files_without_end_are_refused_before_they_are_read(tmp_path: Path) -> None:
    """A sparse file may claim any size, alone or as the weights of a model."""
    model = tmp_path / "model"
    model.write_bytes(b"a")
    weights = tmp_path / "weights"
    for path, size in ((weights, MOST_BYTES + 1), (tmp_path / "half", MOST_BYTES)):
        with path.open("wb") as file:
            file.truncate(size)
    problem = f"weights: it has {MOST_BYTES + 1:,} bytes, and at most {MOST_BYTES:,} are read. Only"
    with pytest.raises(UserFileError, match=problem):
        check_file(weights)
    with pytest.raises(UserFileError, match=problem):
        Pins().digest(model, weights)
    problem = f"model: it has {MOST_BYTES + 1:,} bytes with its weight files"
    with pytest.raises(UserFileError, match=problem):
        Pins().digest(model, tmp_path / "half")


def test_onnx_files_that_protobuf_would_not_read_are_refused(tmp_path: Path) -> None:
    """Reading one as a message would take its size in memory, and fail."""
    model = tmp_path / "model.onnx"
    with model.open("wb") as file:
        file.truncate(MOST_ONNX_BYTES)
    assert check_file(model) == model.resolve()
    with model.open("ab") as file:
        file.write(b"x")
    with pytest.raises(UserFileError, match="A larger model has its weights in a file"):
        check_file(model)


def test_large_files_tell_how_far_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a line before the first byte is read, and none for small files."""
    monkeypatch.setattr(user_files, "_LARGE_BYTES", 3)
    lines: list[str] = []
    pins = Pins(tell=lines.append)
    for name in ("ab", "abc"):
        (tmp_path / name).write_text(name, encoding="utf-8")
        pins.digest(tmp_path / name)
    assert lines == [f"reading {tmp_path / 'abc'}: 0.0 of 0.0 GiB"]
