"""Scores by which the kernel, when memory runs out, kills the measured process first."""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["OomScores"]

#: The highest score. Children of the process inherit it.
_FIRST = "1000"
#: The lowest score but one. With the lowest the harness would never be killed, and the machine
#: might hang instead.
_LAST = "-999"


class OomScores:
    """The scores of a measured process and of the harness, set until `restore`."""

    def __init__(self, pid: int) -> None:
        """Make process `pid` the first to be killed and the harness, if permitted, the last."""
        self._own: str | None = None
        # The process may have gone, only root may lower a score, and not every /proc has these
        # files. The measurement works without.
        with contextlib.suppress(OSError):
            _score(str(pid)).write_text(_FIRST)
        with contextlib.suppress(OSError):
            own = _score("self").read_text()
            _score("self").write_text(_LAST)
            self._own = own

    def restore(self) -> None:
        """Give the harness its old score again, which its other children inherit."""
        if self._own is not None:
            with contextlib.suppress(OSError):
                _score("self").write_text(self._own)


def _score(process: str) -> Path:
    return Path("/proc", process, "oom_score_adj")
