"""Files of ours on a far board: pushed once, by what they contain, and removed on request."""

from __future__ import annotations

import contextlib
import errno
import functools
import getpass
import hashlib
import os
import posixpath
import socket
import stat
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from reusebench.system.files import open_regular
from reusebench.system.user_files import ChangedFile, FileState, UserFileError, problem_of
from reusebench.targets.errors import TargetError
from reusebench.targets.far.connection import Connection, Request
from reusebench.targets.far.host import read_request
from reusebench.targets.programs import READER

__all__ = ["FarFiles", "WatchedFile"]

# native/reader/reader.h is the other side.
_WRITE = struct.Struct("<II")
_STATUS = struct.Struct("<QQI")
_SPACE = struct.Struct("<QQ")
_CREATES = 1
_APPENDS = 2
_SYNCS = 4
#: What one request carries of a file, and how many go out before their replies are looked at.
_PART_BYTES = 48 << 10
_PARTS = 64
#: What folders and the ends of files take beside their contents, for each file.
_FILE_ROOM_BYTES = 8 << 10
_FILES = "files"
_LOCK = "lock"
_PREPARED = "prepared"
_UNFINISHED = ".unfinished"


class _Content(NamedTuple):
    """What a file has."""

    is_program: bool
    size_bytes: int
    digest: str


class WatchedFile:
    """A file that is appended to on the board; there is one at a time."""

    def __init__(self, connection: Connection, path: str) -> None:
        """Raise OSError if it cannot be watched."""
        self._connection = connection
        self._path = path
        connection.listeners["m"] = self._note
        connection.request(Request("j", os.fsencode(path), path))
        # It may have been written to between its making and its watch.
        self._has_changed = True

    def changed(self) -> bytes | None:
        """Return its content if it was written to since the last call, and at the first one;
        OSError.
        """
        if not self._has_changed:
            return None
        self._has_changed = False
        return self._connection.request(read_request(self._path))

    def _note(self, _data: bytes) -> None:
        self._has_changed = True


class FarFiles:
    """Our folder on a board. Every method raises ConnectionLost, and TargetError with what to
    do.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.folder = connection.folder
        self._pushed: set[str] = set()

    def push(self, path: Path, companions: Sequence[Path] = ()) -> str:
        """Return where a file is on the board; what is missing is pushed."""
        return posixpath.join(
            self.push_tree({file.name: file for file in (path, *companions)}), path.name
        )

    def push_tree(self, files: Mapping[str, Path]) -> str:
        """Return the folder on the board that has these files under these relative paths."""
        try:
            contents = {name: _content_of(file, FileState.of(file)) for name, file in files.items()}
            folder = posixpath.join(self.folder, _FILES, _fingerprint_of(contents))
            if folder not in self._pushed:
                if not self._exists(folder):
                    self._push(files, contents, folder)
                self._pushed.add(folder)
        except UserFileError as error:
            raise TargetError(str(error)) from None
        return folder

    def lock(self) -> None:
        """Hold the board until the connection ends; TargetError with who holds it, where another
        session does.
        """
        path = posixpath.join(self.folder, _LOCK)
        try:
            self._ask("l", path)
        except BlockingIOError:
            holder = self._connection.request(read_request(path)).decode(errors="replace").strip()
            raise TargetError(
                f"{self._connection.name} is in use by {holder or 'another session'}, and two would"
                " measure each other; wait until it has ended"
            ) from None
        except OSError as error:
            raise self._cannot_write(path, error) from None
        who = (
            f"{getpass.getuser()}@{socket.gethostname()}, process {os.getpid()}, since"
            f" {time.strftime('%F %T %Z')}"
        )
        self._write(path, who.encode() + b"\n", 0o666)

    def free_bytes(self) -> int:
        """Return the room that is left."""
        return int(_SPACE.unpack(self._ask("f", self.folder))[1])

    def prepared(self, name: str) -> str:
        """Return a folder for what a runtime makes of models there, for this session alone."""
        return posixpath.join(self.folder, _PREPARED, name)

    def remove_prepared(self) -> None:
        """Remove what an earlier session has left of that."""
        folder = posixpath.join(self.folder, _PREPARED)
        try:
            if self._exists(folder):
                self._remove([folder])
        except OSError as error:
            raise self._cannot_write(folder, error) from None

    def watch(self, path: str) -> WatchedFile:
        """Make a file of the user's, or empty it, and watch it; OSError."""
        self._write(path, b"", 0o666)
        return WatchedFile(self._connection, path)

    def clean(self) -> int:
        """Remove what was pushed, the reader's program too, and nothing else; return how many bytes
        it had.
        """
        self._pushed.clear()
        try:
            names = self._names(self.folder)
            ours = [
                name
                for name in names
                if name in (_FILES, _LOCK, _PREPARED) or name.startswith(f"{READER.name}-")
            ]
            freed_bytes = self._remove(posixpath.join(self.folder, name) for name in ours)
            if len(ours) == len(names):
                self._ask("d", self.folder)
        except OSError as error:
            raise self._cannot_write(self.folder, error) from None
        return freed_bytes

    def _push(
        self, files: Mapping[str, Path], contents: Mapping[str, _Content], folder: str
    ) -> None:
        """Write the files beside the folder's place, and move them there whole."""
        needed_bytes = sum(content.size_bytes + _FILE_ROOM_BYTES for content in contents.values())
        free_bytes = self.free_bytes()
        if needed_bytes > free_bytes:
            raise self._no_room(files, needed_bytes, free_bytes)
        new = folder + _UNFINISHED
        try:
            # What a session left that was cut off.
            if self._exists(new):
                self._remove([new])
            for name in sorted({posixpath.dirname(posixpath.join(new, name)) for name in files}):
                self._make_folders(name)
            for name, file in files.items():
                self._push_file(file, contents[name], posixpath.join(new, name))
            self._connection.request(
                Request("v", os.fsencode(new) + b"\0" + os.fsencode(folder), folder)
            )
        except (OSError, UserFileError) as error:
            with contextlib.suppress(OSError):
                self._remove([new])
            if isinstance(error, UserFileError):
                raise
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self._no_room(files, needed_bytes, free_bytes) from None
            raise self._cannot_write(folder, error) from None

    def _push_file(self, file: Path, content: _Content, path: str) -> None:
        """Write the file; raise ChangedFile where it is not what lies under its fingerprint."""
        digest = hashlib.sha256()
        requests = [_write_request(path, b"", _CREATES, 0o755 if content.is_program else 0o644)]
        for part in _parts(file):
            digest.update(part)
            requests.append(_write_request(path, part, _APPENDS, 0))
            if len(requests) == _PARTS:
                self._do(requests)
        requests.append(_write_request(path, b"", _APPENDS | _SYNCS, 0))
        self._do(requests)
        if digest.hexdigest() != content.digest:
            raise ChangedFile(file)

    def _do(self, requests: list[Request]) -> None:
        """Have the requests done, and begin a new list; raise the first error."""
        replies = self._connection.requests(requests)
        requests.clear()
        for reply in replies:
            if isinstance(reply, OSError):
                raise reply

    def _write(self, path: str, data: bytes, mode: int) -> None:
        self._connection.request(_write_request(path, data, _CREATES, mode))

    def _make_folders(self, folder: str) -> None:
        """Make the folder and what is missing above it, below ours."""
        if folder != self.folder:
            self._make_folders(posixpath.dirname(folder))
            with contextlib.suppress(FileExistsError):
                self._ask("m", folder)

    def _remove(self, paths: Iterable[str]) -> int:
        """Remove files and folders with all in them; return the bytes of the files."""
        freed_bytes = 0
        paths = list(paths)
        statuses = self._connection.requests(
            [Request("s", os.fsencode(path), path) for path in paths]
        )
        # Removing is tried first: a link is removed, and not followed.
        removals = self._connection.requests(
            [Request("d", os.fsencode(path), path) for path in paths]
        )
        for path, status, removal in zip(paths, statuses, removals):
            if isinstance(removal, OSError):
                if removal.errno != errno.ENOTEMPTY:
                    raise removal
                freed_bytes += self._remove(
                    posixpath.join(path, name) for name in self._names(path)
                )
                self._ask("d", path)
            elif not isinstance(status, OSError):
                _, size_bytes, mode = _STATUS.unpack(status)
                freed_bytes += size_bytes if stat.S_ISREG(mode) else 0
        return freed_bytes

    def _names(self, folder: str) -> list[str]:
        return [os.fsdecode(name) for name in self._ask("n", folder).split(b"\0")[:-1]]

    def _exists(self, path: str) -> bool:
        try:
            self._ask("s", path)
        except FileNotFoundError:
            return False
        return True

    def _ask(self, kind: str, path: str) -> bytes:
        return self._connection.request(Request(kind, os.fsencode(path), path))

    def _no_room(
        self, files: Mapping[str, Path], needed_bytes: int, free_bytes: int
    ) -> TargetError:
        first = next(iter(files))
        what = first if len(files) == 1 else f"{first} and {len(files) - 1} files more"
        return TargetError(
            f"{self._connection.name} has no room for {what}: {needed_bytes / 2**20:.1f} MiB are"
            f" needed in {self.folder}, {free_bytes / 2**20:.1f} MiB are free. `reusebench board"
            " clean` removes what was pushed before; or give a folder on another disk"
        )

    def _cannot_write(self, path: str, error: OSError) -> TargetError:
        return TargetError(
            f"{self._connection.name}: {path} cannot be written: {error.strerror}; give a folder"
            " that is writable there, or log in as a user who may write to it"
        )


def _write_request(path: str, data: bytes, flags: int, mode: int) -> Request:
    return Request("w", _WRITE.pack(flags, mode) + os.fsencode(path) + b"\0" + data, path)


def _parts(file: Path) -> Iterator[bytes]:
    """Yield what is in a file; raise UserFileError if it cannot be read."""
    try:
        with open_regular(file) as source:
            while part := source.read(_PART_BYTES):
                yield part
    except OSError as error:
        raise UserFileError(file, problem_of(error)) from None


def _fingerprint_of(contents: Mapping[str, _Content]) -> str:
    """Return the fingerprint of files and their names."""
    digest = hashlib.sha256()
    for name in sorted(contents):
        digest.update(f"{name}\0{contents[name].is_program}\0{contents[name].digest}\n".encode())
    return digest.hexdigest()[:32]


@functools.lru_cache(maxsize=1024)
def _content_of(file: Path, _state: FileState | None) -> _Content:
    """Return what a file has, which is read again when its state is another one; raise
    UserFileError.
    """
    digest = hashlib.sha256()
    size_bytes = 0
    for part in _parts(file):
        digest.update(part)
        size_bytes += len(part)
    try:
        is_program = bool(file.stat().st_mode & stat.S_IXUSR)
    except OSError:
        raise ChangedFile(file) from None
    return _Content(is_program, size_bytes, digest.hexdigest())
