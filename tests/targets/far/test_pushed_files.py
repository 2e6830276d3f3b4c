"""The project's files on a remote board."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reusebench.targets.errors import TargetError
from reusebench.targets.far.connection import Connection, Request
from reusebench.targets.far.process import FarProcess
from reusebench.targets.far.pushed_files import FarFiles
from tests.helpers.far_shell import connected, output_of

pytestmark = pytest.mark.process


@pytest.fixture
def connection(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Connection]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    with connected(tmp_path / "home") as connection:
        yield connection


@pytest.fixture(autouse=True)
def _home(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "a model.rknn"
    path.write_bytes(bytes(range(256)) * 20_000)
    return path


def test_a_file_is_pushed_once(connection: Connection, model: Path) -> None:
    """It keeps its name; later calls and sessions do not write it again.

    No unfinished file stays.
    """
    there = Path(FarFiles(connection).push(model))
    assert there.name == model.name
    assert there.read_bytes() == model.read_bytes()
    written = there.stat()
    assert FarFiles(connection).push(model) == str(there)
    assert there.stat() == written or there.stat().st_mtime_ns == written.st_mtime_ns
    assert [path.name for path in there.parent.parent.iterdir()] == [there.parent.name]


def test_a_file_that_changes_is_another(connection: Connection, model: Path) -> None:
    """Runs with the old content keep the old file."""
    files = FarFiles(connection)
    before = Path(files.push(model))
    model.write_bytes(b"another")
    after = Path(files.push(model))
    assert (before.stat().st_size, after.read_bytes()) == (20_000 * 256, b"another")


def test_a_file_that_changes_in_secret_is_another(connection: Connection, model: Path) -> None:
    """The change is noticed even if size and time are the same."""
    files = FarFiles(connection)
    files.push(model)
    status = model.stat()
    content = b"x" * model.stat().st_size
    model.write_bytes(content)
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert Path(files.push(model)).read_bytes() == content


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"another", "it has changed since it was first read. Run again"),
        (None, "it does not exist"),
    ],
)
def test_a_file_that_changes_while_it_is_pushed(
    connection: Connection,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | None,
    words: str,
) -> None:
    """It is refused in a sentence; the board has no file that does not match its fingerprint."""
    before = model.read_bytes()
    ask = connection.request

    def ask_and_change(request: Request) -> bytes:
        model.unlink(missing_ok=True)
        if content is not None:
            model.write_bytes(content)
        return ask(request)

    with monkeypatch.context() as patch:
        patch.setattr(connection, "request", ask_and_change)
        with pytest.raises(TargetError, match=f"^{re.escape(str(model))}: {words}"):
            FarFiles(connection).push(model)
    model.write_bytes(before)
    there = Path(FarFiles(connection).push(model))
    assert there.read_bytes() == before
    assert list(there.parent.parent.iterdir()) == [there.parent]


def test_companions_are_beside_it(connection: Connection, model: Path, tmp_path: Path) -> None:
    """Files that belong together are in one folder."""
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"")
    there = Path(FarFiles(connection).push(model, [weights]))
    assert sorted(path.name for path in there.parent.iterdir()) == [model.name, weights.name]


def test_a_tree_is_pushed_whole(connection: Connection, tmp_path: Path) -> None:
    """Files keep their relative paths, and a program can be run."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\ncat package/deep/module", encoding="utf-8")
    program.chmod(0o755)
    module = tmp_path / "module"
    module.write_text("text", encoding="utf-8")
    folder = FarFiles(connection).push_tree({"program": program, "package/deep/module": module})
    process = FarProcess(connection, ["./program"], folder, {}, False)
    assert output_of(process) == b"text"
    process.close()


def test_half_a_push_is_done_again(connection: Connection, model: Path) -> None:
    """The rest of an interrupted session is removed first."""
    there = Path(FarFiles(connection).push(model))
    left = Path(f"{there.parent}.unfinished")
    there.parent.rename(left)
    (left / model.name).write_bytes(b"half")
    (left / "stale").touch()
    assert Path(FarFiles(connection).push(model)).read_bytes() == model.read_bytes()
    assert not left.exists()
    assert not (there.parent / "stale").exists()


def test_two_sessions_on_one_board(connection: Connection, tmp_path: Path) -> None:
    """The second is told the holder and the time; the lock ends with the first session."""
    FarFiles(connection).lock()
    with connected(tmp_path / "home") as second:
        with pytest.raises(
            TargetError, match=r"is in use by \w+@\S+, process \d+, since \d{4}-\d\d-\d\d \d\d:\d\d"
        ):
            FarFiles(second).lock()
        connection.close()
        FarFiles(second).lock()


def test_cleaning_removes_what_was_pushed(connection: Connection, model: Path) -> None:
    """None of our files stays, and their sizes are reported; links are not followed."""
    files = FarFiles(connection)
    there = Path(files.push(model))
    files.lock()
    prepared = Path(files.prepared("model"), "deep", "file")
    prepared.parent.mkdir(parents=True)
    prepared.write_bytes(b"model")
    (there.parent / "link").symlink_to(model.parent)
    sizes = [path.stat().st_size for path in Path(connection.folder).rglob("*") if path.is_file()]
    assert files.clean() == sum(sizes) >= model.stat().st_size
    assert not Path(connection.folder).exists()
    assert model.exists()
    with pytest.raises(TargetError, match=r"cannot be written: No such file"):
        files.clean()


def test_what_was_prepared_is_removed(connection: Connection, model: Path) -> None:
    """Files that runtimes made in an earlier session go; pushed files stay."""
    files = FarFiles(connection)
    there = Path(files.push(model))
    files.remove_prepared()
    prepared = Path(files.prepared("model"), "deep", "file")
    prepared.parent.mkdir(parents=True)
    prepared.touch()
    files.remove_prepared()
    assert not Path(files.prepared("model")).parent.exists()
    assert there.exists()


def test_cleaning_removes_nothing_else(connection: Connection, model: Path) -> None:
    """Files of others in the folder stay."""
    files = FarFiles(connection)
    files.push(model)
    other = Path(connection.folder, "other", "file")
    other.parent.mkdir()
    other.touch()
    files.clean()
    assert [path for path in Path(connection.folder).rglob("*") if path.is_file()] == [other]


def test_a_pc_as_a_board_keeps_its_cache(
    connection: Connection, model: Path, tmp_path: Path
) -> None:
    """A user's cache of this project is no place for pushed files."""
    own = tmp_path / "home" / ".cache" / "reusebench" / "models" / "model"
    own.parent.mkdir(parents=True)
    own.touch()
    files = FarFiles(connection)
    files.push(model)
    files.clean()
    assert own.exists()
    assert own.parents[1] not in Path(connection.folder).parents
    assert own.parents[1] != Path(connection.folder)
