"""The terminal of `pytest bench/`, which may be full, closed or gone: what is measured is stored
all the same.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any, TextIO

__all__ = ["StandardOutput", "leave_open"]


class StandardOutput:
    """Standard output, which at its first error is given up in place of ending the session."""

    def __init__(self) -> None:
        """Stand in for it from now on; what else it can do is its own."""
        #: Why it was given up.
        self.error = "" if sys.stdout else "it is closed"
        leave_open()
        self._stream: TextIO = sys.stdout
        sys.stdout = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text; nothing once there was an error."""
        try:
            return len(text) if self.error else self._stream.write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        """Pass on what was written."""
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def tell(self, storage: Path) -> None:
        """Say on standard error, if there is one, why nothing more was shown, and where the results
        are.
        """
        with contextlib.suppress(OSError):
            if sys.stderr:
                sys.stderr.write(
                    f"Standard output cannot be written ({self.error}). Results are in {storage}\n"
                )

    def _give_up(self, error: OSError) -> None:
        self.error = error.strerror or str(error)
        # What is buffered goes nowhere: Python would try again at its end, and fail.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


def leave_open() -> None:
    """Have a standard output, which goes nowhere, in place of one that is closed: Python has none
    then.
    """
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
