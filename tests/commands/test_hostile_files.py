"""Every command that reads stored files, with files that nobody should have: named, left out, the
others are shown.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.support import Reusebench
from tests.reports.stored import even, full_run, result, write_run

pytestmark = pytest.mark.process

_COMMANDS = (
    ("runs", "list"),
    ("runs", "prune", "--keep", "9", "--dry-run"),
    ("report", "--format", "csv", "--output", "out"),
    ("history", "--format", "csv", "--output", "out"),
    ("export", "1", "--format", "csv", "--metric", "latency"),
    ("compare", "1", "2"),
)
_HOSTILE = "[/][red]\x1b[2J=1\u202e"


def _document(path: Path, **changes: Any) -> bytes:
    return json.dumps({**json.loads(path.read_bytes()), **changes}).encode()


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage of two runs that can be read and many files that cannot."""
    storage = tmp_path_factory.mktemp("storage")
    good = full_run(storage)
    write_run(storage, [result(storage, "no_reuse", even(3))], 2)
    bad = [
        b'{"machine_info":' + b"[" * 10_000,
        _document(good, commit_info=[]),
        _document(good, commit_info="x"),
        _document(good, commit_info=1),
        _document(good, datetime="0001-01-01T00:00:00+12:00"),
        good.read_bytes().replace(b'"elapsed_s":', b'"elapsed_s":1e400,"x":', 1),
        good.read_bytes().replace(b'"elapsed_s":', b'"elapsed_s":NaN,"x":', 1),
        good.read_bytes().replace(b"board-123456", b"\\ud800"),
    ]
    for number, content in enumerate(bad, start=3):
        good.with_name(f"{number:04}_bad.json").write_bytes(content)
    os.mkfifo(good.with_name("0099_\x1b[2J.json"))
    return storage


@pytest.mark.parametrize("command", _COMMANDS, ids=" ".join)
def test_bad_files_are_named(
    storage: Path,
    command: tuple[str, ...],
    reusebench: Reusebench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each with its reason, once, and without its escape sequences; the exit code is 1."""
    monkeypatch.chdir(tmp_path)
    done = reusebench(*command, "--storage", storage)
    assert done.exit_code == 1, done
    warnings = [line for line in done.err.splitlines() if line.startswith(f"Warning: {storage}")]
    assert len(warnings) == 9
    assert (
        "0099_\\x1b[2J.json: cannot be read (it is a named pipe; a regular file is needed)"
        in done.err
    )
    assert "\x1b" not in done.out + done.err
    assert done.out


def test_text_of_others(tmp_path: Path, reusebench: Reusebench) -> None:
    """A name in a stored file is shown as it is, with what is not printable escaped, and calculated
    by nobody.
    """
    path = full_run(tmp_path)
    hostile = json.dumps(f"={_HOSTILE}")[1:-1].encode()
    content = path.read_bytes().replace(b"model-a", hostile).replace(b"board-123456", hostile)
    path.write_bytes(content.replace(b"full_dup", b"[/]dup"))
    words = ("--storage", tmp_path, "--output", tmp_path / "out", "--format", "html")
    done = reusebench("report", "--details", *words)
    assert done.exit_code == 0, done.err
    assert "\x1b" not in done.out
    assert "[/]dup" in done.out
    assert "=[/][red]\\x1b[2J=1\\u202e" in (tmp_path / "out" / "index.html").read_text(
        encoding="utf-8"
    )
    done = reusebench("export", "--format", "csv", "--storage", tmp_path)
    assert ",'=[/][red]\\x1b[2J=1\\u202e," in done.out
    assert ",=" not in done.out


def test_a_page_that_cannot_be_written(
    tmp_path: Path, reusebench: Reusebench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If writing fails, the old file stays as it was, and no partial file is left."""
    full_run(tmp_path)
    arguments = ("report", "--storage", tmp_path, "--output", tmp_path / "out", "--format", "html")
    assert reusebench(*arguments).exit_code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def fill(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fill)
    done = reusebench(*arguments)
    assert (done.exit_code, done.out) == (2, "")
    assert "cannot write the report" in done.err
    assert "No space left on device" in done.err
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_a_storage_that_may_not_be_read(tmp_path: Path, reusebench: Reusebench) -> None:
    """The folder is named; it does not count as a storage without results."""
    storage = tmp_path / "storage"
    full_run(storage)
    (tmp_path / "loop").symlink_to("loop")
    done = reusebench("report", "--storage", tmp_path / "loop")
    assert (done.exit_code, "cannot be read (Too many levels of symbolic links)" in done.err) == (
        2,
        True,
    )
    for command in ("report", "history", "export --format csv", "runs list"):
        done = reusebench(*command.split(), "--storage", tmp_path / "none")
        assert (done.exit_code, "no storage at" in done.err) == (2, True), done
