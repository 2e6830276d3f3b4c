"""Compaction: the runs of a storage and their traces as xz, and back, one file at a time.

The new form is written beside the old one, synchronised, read back and compared. Then it gets its
name, and the old one is removed. Whatever ends this, each run is there in a form that is whole, and
the next call goes on.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reusebench.storage.compacted import (
    UNFINISHED_FORM,
    compacted_name,
    decoded,
    encoded,
    is_compacted,
    plain_name,
    plain_trace_name,
)
from reusebench.storage.maintenance.exclusion import excluding_others
from reusebench.storage.maintenance.inventory import LEFT_AFTER_S, trace_folders
from reusebench.storage.run_file import MOST_RUN_BYTES, StoredRun, read_run_file
from reusebench.storage.trace import TRACE_NAME, is_trace
from reusebench.system.files import UNFINISHED, folder_inside

__all__ = ["Changed", "FormChange"]

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Left(Exception):
    """The file stays as it is, for this reason."""


@dataclass
class Changed:
    """The files that got another form, or would get it, and their sizes."""

    files: int = 0
    before_bytes: int = 0
    after_bytes: int = 0

    def __add__(self, other: Changed) -> Changed:
        """Return both together."""
        return Changed(
            self.files + other.files,
            self.before_bytes + other.before_bytes,
            self.after_bytes + other.after_bytes,
        )


@dataclass
class FormChange:
    """The change of the files of a storage to one form, compacted or plain."""

    storage: Path
    is_compaction: bool
    #: Whether new forms are only made in memory, for their sizes.
    is_dry_run: bool = False
    #: Key: a file that stays as it is; value: the reason.
    left: dict[Path, str] = field(default_factory=dict)
    #: Folders in which no killed process has left a file.
    _clean: set[str] = field(default_factory=set)

    def change(self, path: Path) -> Changed:
        """Change the traces of a finished run, and then its file.

        Since the file comes last, a compacted run has only compacted traces, and is passed over.
        Raises OSError if the storage cannot be written, as when the disk is full.
        """
        changed = Changed()
        if self.is_compaction and is_compacted(path.name):
            return changed
        run = read_run_file(path)
        if not isinstance(run, StoredRun) or not run.is_finished:
            self.left[path] = "it was changed meanwhile"
            return changed
        for folder in sorted(trace_folders(run)):
            for name in self._traces_in(folder):
                changed += self._change(f"{folder}/{name}", plain_trace_name(name))
        plain = plain_name(run.path.name)
        # Both forms are there if an earlier change was killed.
        name = plain if self.is_compaction else compacted_name(plain)
        relative = run.path.with_name(name).relative_to(self.storage).as_posix()
        return changed + self._change(relative, plain)

    def _traces_in(self, folder: str) -> Iterator[str]:
        """Yield the names of the traces in this folder inside the storage."""
        try:
            with folder_inside(self.storage, f"{folder}/*") as (descriptor, _):
                names = _names(descriptor)
        except OSError:  # removed, or a link
            return
        for name in names:
            if TRACE_NAME.fullmatch(name) and is_trace(self.storage, f"{folder}/{name}"):
                yield name

    def _change(self, relative: str, plain: str) -> Changed:
        """Change the file at this path inside the storage, if it has the other form.

        `plain` is its name in the plain form.
        """
        if is_compacted(relative) == self.is_compaction:
            return Changed()
        try:
            with folder_inside(self.storage, relative) as (folder, name):
                self._remove_left(folder, relative.rpartition("/")[0])
                new_name = compacted_name(plain) if self.is_compaction else plain
                return self._change_in(folder, name, new_name)
        except FileNotFoundError:  # removed by another command
            pass
        except _Left as error:
            self.left[self.storage / relative] = str(error)
        return Changed()

    def _remove_left(self, folder: int, relative: str) -> None:
        """Remove unfinished forms that a killed process has left in the folder."""
        if relative in self._clean or self.is_dry_run:
            return
        with excluding_others(self.storage) as is_alone:
            for name in filter(UNFINISHED_FORM.fullmatch, _names(folder)):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                is_old = time.time() - status.st_mtime > LEFT_AFTER_S
                if stat.S_ISREG(status.st_mode) and (is_alone or is_old):
                    os.unlink(name, dir_fd=folder)
        self._clean.add(relative)

    def _change_in(self, folder: int, name: str, new_name: str) -> Changed:
        content, status = _read(folder, name)
        plain = _decoded(name, content)
        new = encoded(new_name, plain)
        if self.is_compaction and len(new) >= len(content):
            return Changed()
        if not self.is_dry_run:
            with excluding_others(self.storage):
                if not _is_same(status, os.stat(name, dir_fd=folder, follow_symlinks=False)):
                    raise _Left("it was changed meanwhile")
                if not _is_there(folder, new_name, plain):
                    _write(folder, new_name, new, plain, status)
                os.fsync(folder)
                os.unlink(name, dir_fd=folder)
        return Changed(1, len(content), len(new))


def _read(folder: int, name: str) -> tuple[bytes, os.stat_result]:
    """Return the content of a regular file, and its status."""
    descriptor = os.open(name, _READ, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _Left("it is no regular file")
        return file.read(MOST_RUN_BYTES + 1), status


def _decoded(name: str, content: bytes) -> bytes:
    """Return the content that the file stands for; raise _Left if it is damaged or too large."""
    try:
        return decoded(name, content, MOST_RUN_BYTES)
    except ValueError as error:
        raise _Left(str(error)) from None
    except OSError as error:
        raise _Left(error.strerror) from None


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries)


def _is_same(status: os.stat_result, other: os.stat_result) -> bool:
    return (status.st_ino, status.st_size, status.st_mtime_ns) == (
        other.st_ino,
        other.st_size,
        other.st_mtime_ns,
    )


def _is_there(folder: int, name: str, plain: bytes) -> bool:
    """Whether the file stands for these bytes, as a killed process has left it; False if missing.

    Raises _Left if it stands for others: two forms of one file differ, and both stay.
    """
    try:
        content, _ = _read(folder, name)
        is_equal = decoded(name, content, MOST_RUN_BYTES) == plain
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        is_equal = False
    if not is_equal:
        raise _Left(f"{name} is beside it and differs: move away the one that is wrong")
    return True


def _write(folder: int, name: str, content: bytes, plain: bytes, like: os.stat_result) -> None:
    """Write a file that stands for `plain`, whole or not at all.

    It has the time, rights and owner of the file that it replaces.
    """
    temporary = f".{name}.{os.getpid()}{UNFINISHED}"
    descriptor = os.open(temporary, _CREATE, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
            with suppress(PermissionError):  # only root may give files away
                os.fchown(descriptor, like.st_uid, like.st_gid)
            os.utime(descriptor, ns=(like.st_atime_ns, like.st_mtime_ns))
            os.fsync(descriptor)
        written, _ = _read(folder, temporary)
        if _decoded(name, written) != plain:
            raise _Left("its other form differs from it when it is read back")
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
