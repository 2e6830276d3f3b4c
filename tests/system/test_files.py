"""Safe opening of others' files, replacing of our files, printable text of others."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from reusebench.system.files import (
    open_inside,
    open_regular,
    printable,
    read_regular,
    remove_inside,
    replacing,
)
from tests.helpers.support import CHECKOUT


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    """Pipes without a writer, folders, sockets and devices are refused, also through links."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path, kind in (
            (tmp_path / "pipe", "a named pipe"),
            (tmp_path / "link", "a named pipe"),
            (tmp_path, "a folder"),
            (tmp_path / "socket", "a socket"),
            (Path("/dev/zero"), "a device"),
        ):
            with pytest.raises(OSError, match=f"it is {kind}; a regular file is needed"):
                open_regular(path)


def test_no_more_is_read_than_allowed(tmp_path: Path) -> None:
    """A file of the allowed size is read, also through a link; one byte more is refused."""
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_regular(tmp_path / "file", 4)


@pytest.mark.parametrize(
    "path", ["../outside", "/etc/passwd", "inner/../../outside", "", "linked/file", "link", "a\0b"]
)
def test_nothing_leads_out_of_a_folder(path: str, tmp_path: Path) -> None:
    """Neither a path nor a link below the folder leads out."""
    (tmp_path / "outside").write_bytes(b"")
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (tmp_path / "file").write_bytes(b"")
    (folder / "linked").symlink_to(tmp_path)
    (folder / "link").symlink_to(tmp_path / "file")
    with pytest.raises(OSError):  # noqa: PT011  as the system words it
        open_inside(folder, path)


def test_a_file_inside_is_opened(tmp_path: Path) -> None:
    """The folder itself may be a link: the user has named it."""
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "folder" / "inner" / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("folder")
    with open_inside(tmp_path / "link", "inner/file") as file:
        assert file.read() == b"content"


def test_a_replacement_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    """Nothing else is left in the folder."""
    (tmp_path / "page").write_text("old")

    def fail() -> None:
        with replacing(tmp_path / "page") as temporary:
            temporary.write_text("half of the n")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fail()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("page", "old")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, größer, 中文\u3000。", "plain, größer, 中文\u3000。"),
        ("\x1b[2J\x9b1m\x07", "\\x1b[2J\\x9b1m\\x07"),
        ("a\nb\u202ec", "a\\nb\\u202ec"),
        ("\udcff\ud800", "\\udcff\\ud800"),
    ],
)
def test_text_of_others_is_made_printable(text: str, shown: str) -> None:
    """Escape sequences, changes of writing direction, and unencodable characters become escapes."""
    assert printable(text) == shown
    assert printable(text).encode()


def test_line_breaks_stay_where_they_may() -> None:
    """The last words of a process have lines, for example."""
    assert printable("a\nb\tc\x1b", keep="\n\t") == "a\nb\tc\\x1b"


@pytest.mark.process
def test_others_may_not_write(tmp_path: Path) -> None:
    """Others may not write to files of this process, whatever the umask allows.

    Other rights that the umask denies stay denied. A program of the user's has the user's umask.
    """
    script = """
        import os, pathlib, sys
        from reusebench.system.files import keep_writing_to_user, started_umask
        os.umask(int(sys.argv[1], 8)); keep_writing_to_user()
        pathlib.Path("file").touch(); pathlib.Path("folder").mkdir()
        with started_umask(): pathlib.Path("users").touch()
        pathlib.Path("last").touch()
        for name in ("file", "folder", "users", "last"):
            print(oct(os.stat(name).st_mode & 0o777)[2:])
    """
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    modes = {}
    for umask in ("000", "002", "027"):
        (tmp_path / umask).mkdir()
        command = [sys.executable, "-c", dedent(script), umask]
        done = subprocess.run(
            command,
            cwd=tmp_path / umask,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        modes[umask] = done.stdout.split()
    assert modes == {
        "000": ["644", "755", "666", "644"],
        "002": ["644", "755", "664", "644"],
        "027": ["640", "750", "640", "640"],
    }


def test_only_what_is_inside_is_removed(tmp_path: Path) -> None:
    """A regular file or an empty folder is removed, not through a link nor outside the folder."""
    folder = tmp_path / "folder"
    outside = tmp_path / "outside"
    for path in (folder / "a" / "file", outside / "file"):
        path.parent.mkdir(parents=True)
        path.touch()
    (folder / "linked").symlink_to(outside)
    (folder / "a" / "link").symlink_to(outside / "file")
    for name in (
        "linked/file",
        "../outside/file",
        str(outside / "file"),
        "a/link",
        "linked",
        "a",
        "",
    ):
        with pytest.raises(OSError):  # noqa: PT011  each system call has its own
            remove_inside(folder, name)
    (folder / "a" / "link").unlink()
    remove_inside(folder, "a/file")
    remove_inside(folder, "a")
    assert not (folder / "a").exists()
    assert (outside / "file").exists()
