"""Whom the kernel ends where memory runs out: the measured process first, the harness last."""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["OomScores"]

#: The highest score; whatever the process starts inherits it.
_FIRST = "1000"
#: The lowest but one: with the lowest it would never be ended, and the machine might hang in place
#: of that.
_LAST = "-999"


class OomScores:
    """From its making on, until restored."""

    def __init__(self, pid: int) -> None:
        """Let this process be the first victim, and the harness, where it may, the last."""
        self._own: str | None = None
        # A poor /proc has no such files, the process may have gone, only root may lower a score:
        # all goes on without.
        with contextlib.suppress(OSError):
            _score(str(pid)).write_text(_FIRST)
        with contextlib.suppress(OSError):
            own = _score("self").read_text()
            _score("self").write_text(_LAST)
            self._own = own

    def restore(self) -> None:
        """Let the harness have its own score again, which what it starts for other work
        inherits.
        """
        if self._own is not None:
            with contextlib.suppress(OSError):
                _score("self").write_text(self._own)


def _score(process: str) -> Path:
    return Path("/proc", process, "oom_score_adj")
