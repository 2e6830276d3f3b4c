"""The file to which a measured process on this machine writes its ledger of NPU buffers."""

from __future__ import annotations

import os

from reusebench.system.cache import OwnFolder

__all__ = ["MOST_BYTES", "LedgerFile"]

#: The most that is read. 100,000 contexts made and destroyed in one process write half of it.
MOST_BYTES = 128 * 2**20
#: Its name in a folder of its own.
_NAME = "ledger.jsonl"


class LedgerFile:
    """A file that is made and opened before the process starts.

    It is read by the descriptor: what the process puts in the place of the file is never opened.
    """

    def __init__(self) -> None:
        """Make the file; raise CacheError if that fails."""
        self._folder = OwnFolder()
        self.path = self._folder.path / _NAME
        flags = os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self.path, flags, 0o600)

    def is_too_large(self) -> bool:
        """Whether it has more than any ledger has."""
        return os.fstat(self._descriptor).st_size > MOST_BYTES

    def content(self) -> bytes:
        """Return the lines so far; one byte more than MOST_BYTES if it is too large."""
        content = b""
        while len(content) <= MOST_BYTES:
            chunk = os.pread(self._descriptor, MOST_BYTES + 1 - len(content), len(content))
            if not chunk:
                break
            content += chunk
        return content

    def close(self) -> None:
        """Close the file and remove its folder."""
        os.close(self._descriptor)
        self._folder.close()
