"""A clock that moves on once a measured process has come to some point, so no test waits."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from reusebench.targets import conversation, measured_process
from tests.helpers.support import StubObserver


class Clock(StubObserver):
    """An observer for whom an hour passes once a file has a line.

    It then makes a file `passed` next to it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, file: Path, line: str) -> None:
        super().__init__()
        self._file = file
        self._line = line
        self._passed_s = 0.0
        clock = SimpleNamespace(monotonic=self._now, monotonic_ns=lambda: round(self._now() * 1e9))
        for module in (conversation, measured_process):
            monkeypatch.setattr(module, "time", clock)

    def _now(self) -> float:
        return time.monotonic() + self._passed_s

    def sample(self) -> None:
        """Let the hour pass if the line has come."""
        if self._file.exists() and self._line in self._file.read_text().splitlines():
            self._passed_s = 3600.0
            self._file.with_name("passed").touch()
