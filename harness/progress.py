"""One line with what is measured, which repeat, and how long still; only on a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

__all__ = ["Progress"]

_WIDTH = 40


class Progress:
    """Writes to pytest's terminal, on one line that it erases again; writes nothing elsewhere."""

    def __init__(self, config: pytest.Config | None = None) -> None:
        """Begin without any knowledge of how much there is to do: see `expect`. Without a config nothing is shown."""
        plugins = config.pluginmanager if config else None
        terminal = plugins.getplugin("terminalreporter") if plugins else None
        is_terminal = sys.__stdout__ is not None and sys.__stdout__.isatty()
        self._terminal = terminal if terminal and is_terminal and terminal.verbosity >= 0 else None
        # While a test runs, pytest's capture holds the terminal's file descriptor too.
        self._capture: Any = plugins.getplugin("capturemanager") if plugins else None
        self._processes_left = 0
        self._processes_done = 0
        self._busy_s = 0.0
        self._title = ""
        self._repeats = 0
        self._repeat = 0
        self._repeat_started = 0.0

    def expect(self, processes: int) -> None:
        """Take how many processes the session will start."""
        self._processes_left = processes

    def begin(self, title: str, repeats: int) -> None:
        """Begin a configuration."""
        self._title, self._repeats, self._repeat = title, repeats, 0
        self._show("preparing")

    def step(self, repeat: int, share: float, phase: str, context: int | None) -> None:
        """Show a step of the given repeat; `share` of the process's steps is done."""
        if repeat != self._repeat:
            self._finish_repeat()
            self._repeat, self._repeat_started = repeat, time.monotonic()
        label = phase.replace("_", " ") + ("" if context is None else f" {context + 1}")
        self._show(f"repeat {repeat}/{self._repeats}  {label:<{_WIDTH // 2}}{self._time_left(share)}")

    def end(self) -> None:
        """End the configuration, whether all its repeats were made or not."""
        self._finish_repeat()
        self._processes_left -= max(0, self._repeats - self._repeat)
        self._repeat = 0
        self._write("")

    def _finish_repeat(self) -> None:
        if self._repeat:
            self._busy_s += time.monotonic() - self._repeat_started
            self._processes_done += 1
            self._processes_left -= 1

    def _time_left(self, share: float) -> str:
        if not self._processes_done:
            return ""
        seconds = self._busy_s / self._processes_done * (self._processes_left - share)
        minutes, seconds = divmod(round(max(0.0, seconds)), 60)
        return f"about {f'{minutes} min ' if minutes else ''}{seconds} s left"

    def _show(self, text: str) -> None:
        self._write(f"{self._title:<{_WIDTH}}{text}")

    def _write(self, line: str) -> None:
        if self._terminal is None:
            return
        with self._capture.global_and_fixture_disabled():
            if self._terminal.currentfspath:
                self._terminal.ensure_newline()
            self._terminal.rewrite(line, erase=True, flush=True)
            if not line:
                self._terminal.rewrite("", flush=True)
