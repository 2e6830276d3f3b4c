"""The project's files on a remote board: pushed once per content, removed on request."""

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
from reusebench.targets.errors import NotMeasurable, TargetError
from reusebench.targets.far.connection import Connection, Request
from reusebench.targets.far.host import read_request
from reusebench.targets.programs import READER

__all__ = ["FarFiles", "WatchedFile", "holder_name"]

# native/reader/reader.h is the other side.
_WRITE = struct.Struct("<II")
_STATUS = struct.Struct("<QQIIIQ")
_SPACE = struct.Struct("<QQ")
_CREATES = 1
_APPENDS = 2
_SYNCS = 4
#: Bytes of a file in one request.
_PART_BYTES = 48 << 10
#: Requests that are sent before their replies are read.
_MOST_REQUESTS = 64
#: Room for folders and padding, per file.
_FILE_ROOM_BYTES = 8 << 10
_FILES = "files"
_LOCK = "lock"
_PREPARED = "prepared"
_UNFINISHED = ".unfinished"


def holder_name(pid: int) -> str:
    """Return the name of a process of this user and machine, as the holder of a board."""
    return f"{getpass.getuser()}@{socket.gethostname()}, process {pid}"


class _Content(NamedTuple):
    """A file's content, as far as it matters for pushing."""

    is_program: bool
    size_bytes: int
    digest: str


class WatchedFile:
    """A file on the board to which a program appends; one at a time can be watched."""

    def __init__(self, connection: Connection, path: str) -> None:
        """Raise OSError if the file cannot be watched."""
        self._connection = connection
        self._path = path
        connection.listeners["m"] = self._note
        connection.request(Request("j", os.fsencode(path), path))
        # The file may have been written to between its creation and this watch.
        self._has_changed = True

    def changed(self) -> bytes | None:
        """Return the content if it has changed since the last call, and at the first; OSError."""
        if not self._has_changed:
            return None
        self._has_changed = False
        return self._connection.request(read_request(self._path))

    def _note(self, _data: bytes) -> None:
        self._has_changed = True


class FarFiles:
    """The project's folder on a board.

    Every method raises ConnectionLost, and TargetError with what to do.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.folder = connection.folder
        self._pushed: set[str] = set()

    def push(self, path: Path, companions: Sequence[Path] = ()) -> str:
        """Return the path of a file on the board, pushing it if it is missing."""
        files = {file.name: file for file in (path, *companions)}
        return posixpath.join(self.push_tree(files), path.name)

    def push_tree(self, files: Mapping[str, Path]) -> str:
        """Return the folder on the board with these files under these relative paths."""
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
        """Hold the board until the connection ends.

        Raises TargetError, with the name of the holder, if another session holds it.
        """
        path = posixpath.join(self.folder, _LOCK)
        try:
            self._ask("l", path)
        except BlockingIOError:
            reply = self._connection.request(read_request(path))
            holder = reply.decode(errors="replace").strip()
            raise NotMeasurable(
                f"{self._connection.name} is in use by {holder or 'another session'}, and two"
                " sessions would measure each other; wait until it has ended"
            ) from None
        except OSError as error:
            raise self._cannot_write(path, error) from None
        holder = f"{holder_name(os.getpid())}, since {time.strftime('%F %T %Z')}"
        self._write(path, holder.encode() + b"\n", 0o666)

    def free_bytes(self) -> int:
        """Return the free space."""
        return int(_SPACE.unpack(self._ask("f", self.folder))[1])

    def prepared(self, name: str) -> str:
        """Return this session's folder for files that a runtime makes of models on the board."""
        return posixpath.join(self.folder, _PREPARED, name)

    def remove_prepared(self) -> None:
        """Remove the prepared folders of earlier sessions."""
        folder = posixpath.join(self.folder, _PREPARED)
        try:
            if self._exists(folder):
                self._remove([folder])
        except OSError as error:
            raise self._cannot_write(folder, error) from None

    def watch(self, path: str) -> WatchedFile:
        """Create or empty a file of the user's, and watch it; OSError."""
        self._write(path, b"", 0o666)
        return WatchedFile(self._connection, path)

    def clean(self) -> int:
        """Remove all pushed files and the reader's program, nothing else; return their size."""
        self._pushed.clear()
        try:
            names = self._names(self.folder)
            ours = [name for name in names if _is_ours(name)]
            freed_bytes = self._remove(posixpath.join(self.folder, name) for name in ours)
            if len(ours) == len(names):
                self._ask("d", self.folder)
        except OSError as error:
            raise self._cannot_write(self.folder, error) from None
        return freed_bytes

    def _push(
        self, files: Mapping[str, Path], contents: Mapping[str, _Content], folder: str
    ) -> None:
        """Write the files to a temporary folder, and rename it when it is complete."""
        needed_bytes = sum(content.size_bytes + _FILE_ROOM_BYTES for content in contents.values())
        free_bytes = self.free_bytes()
        if needed_bytes > free_bytes:
            raise self._no_room(files, needed_bytes, free_bytes)
        new = folder + _UNFINISHED
        try:
            # An interrupted session has left it.
            if self._exists(new):
                self._remove([new])
            paths = {name: posixpath.join(new, name) for name in files}
            for parent in sorted(set(map(posixpath.dirname, paths.values()))):
                self._make_folders(parent)
            for name, file in files.items():
                self._push_file(file, contents[name], paths[name])
            renaming = os.fsencode(new) + b"\0" + os.fsencode(folder)
            self._connection.request(Request("v", renaming, folder))
        except (OSError, UserFileError) as error:
            with contextlib.suppress(OSError):
                self._remove([new])
            if isinstance(error, UserFileError):
                raise
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self._no_room(files, needed_bytes, free_bytes) from None
            raise self._cannot_write(folder, error) from None

    def _push_file(self, file: Path, content: _Content, path: str) -> None:
        """Write the file; raise ChangedFile if its content no longer matches its fingerprint."""
        digest = hashlib.sha256()
        mode = 0o755 if content.is_program else 0o644
        requests = [_write_request(path, b"", _CREATES, mode)]
        for part in _parts(file):
            digest.update(part)
            requests.append(_write_request(path, part, _APPENDS, 0))
            if len(requests) == _MOST_REQUESTS:
                self._send_all(requests)
        requests.append(_write_request(path, b"", _APPENDS | _SYNCS, 0))
        self._send_all(requests)
        if digest.hexdigest() != content.digest:
            raise ChangedFile(file)

    def _send_all(self, requests: list[Request]) -> None:
        """Send the requests and clear the list; raise the first error."""
        replies = self._connection.requests(requests)
        requests.clear()
        for reply in replies:
            if isinstance(reply, OSError):
                raise reply

    def _write(self, path: str, data: bytes, mode: int) -> None:
        self._connection.request(_write_request(path, data, _CREATES, mode))

    def _make_folders(self, folder: str) -> None:
        """Make the folder and its missing parents, below the project's folder."""
        if folder != self.folder:
            self._make_folders(posixpath.dirname(folder))
            with contextlib.suppress(FileExistsError):
                self._ask("m", folder)

    def _remove(self, paths: Iterable[str]) -> int:
        """Remove files and folders with their content; return the size of the files."""
        freed_bytes = 0
        paths = list(paths)
        statuses = self._ask_all("s", paths)
        # Removal is tried first: a link is removed rather than followed.
        removals = self._ask_all("d", paths)
        for path, status, removal in zip(paths, statuses, removals):
            if isinstance(removal, OSError):
                if removal.errno != errno.ENOTEMPTY:
                    raise removal
                content = [posixpath.join(path, name) for name in self._names(path)]
                freed_bytes += self._remove(content)
                self._ask("d", path)
            elif not isinstance(status, OSError):
                _, size_bytes, mode, *_ = _STATUS.unpack(status)
                if stat.S_ISREG(mode):
                    freed_bytes += size_bytes
        return freed_bytes

    def _names(self, folder: str) -> list[str]:
        reply = self._ask("n", folder)
        return [os.fsdecode(name) for name in reply.split(b"\0")[:-1]]

    def _exists(self, path: str) -> bool:
        try:
            self._ask("s", path)
        except FileNotFoundError:
            return False
        return True

    def _ask(self, kind: str, path: str) -> bytes:
        return self._connection.request(Request(kind, os.fsencode(path), path))

    def _ask_all(self, kind: str, paths: Sequence[str]) -> list[bytes | OSError]:
        return self._connection.requests([Request(kind, os.fsencode(path), path) for path in paths])

    def _no_room(
        self, files: Mapping[str, Path], needed_bytes: int, free_bytes: int
    ) -> TargetError:
        first = next(iter(files))
        what = first if len(files) == 1 else f"{first} and {len(files) - 1} more files"
        return TargetError(
            f"{self._connection.name} has no room for {what}: {needed_bytes / 2**20:.1f} MiB are"
            f" needed in {self.folder}, {free_bytes / 2**20:.1f} MiB are free. `reusebench board"
            " clean` removes the files of earlier sessions; or give a folder on another disk"
        )

    def _cannot_write(self, path: str, error: OSError) -> TargetError:
        return TargetError(
            f"{self._connection.name}: {path} cannot be written: {error.strerror}; give a folder"
            " that is writable there, or log in as a user who may write to it"
        )


def _is_ours(name: str) -> bool:
    """Whether the project made this name in its folder."""
    return name in (_FILES, _LOCK, _PREPARED) or name.startswith(f"{READER.name}-")


def _write_request(path: str, data: bytes, flags: int, mode: int) -> Request:
    return Request("w", _WRITE.pack(flags, mode) + os.fsencode(path) + b"\0" + data, path)


def _parts(file: Path) -> Iterator[bytes]:
    """Yield the content of a file; raise UserFileError if it cannot be read."""
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
    """Return a file's content, read again when its state has changed; raise UserFileError."""
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
