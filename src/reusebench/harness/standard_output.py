"""Standard output of `pytest bench/`, whose errors do not end the session."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any, TextIO

__all__ = ["StandardOutput", "leave_open"]


class StandardOutput:
    """A stand-in for sys.stdout that goes silent at its first error instead of raising it."""

    def __init__(self) -> None:
        """Replace sys.stdout, and pass on to it all but `write` and `flush`."""
        #: Reason why output was given up; empty if it works.
        self.error = "" if sys.stdout else "it is closed"
        leave_open()
        self._stream: TextIO = sys.stdout
        sys.stdout = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text; after an error, write nothing."""
        if self.error:
            return len(text)
        try:
            return self._stream.write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        """Flush the real output."""
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def tell(self, storage: Path) -> None:
        """Tell the error and the storage on standard error, if there is one."""
        with contextlib.suppress(OSError):
            if sys.stderr:
                sys.stderr.write(
                    f"Standard output cannot be written ({self.error}). Results are in {storage}\n"
                )

    def _give_up(self, error: OSError) -> None:
        self.error = error.strerror or str(error)
        # Buffered text is dropped: Python would try to write it again at its end, and fail.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


def leave_open() -> None:
    """Give sys.stdout a file that goes nowhere if it is closed, which Python shows as None."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
