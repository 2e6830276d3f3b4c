"""What the terminal shows while a session measures: a line for each finished configuration, and on
a terminal a line with what is going on and how long still, which is erased again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

__all__ = ["Progress"]

#: Of a runtime's and a scenario's names together, and a blank.
_WIDTH = 45


class Progress:
    """Writes to pytest's terminal."""

    def __init__(self, config: pytest.Config | None = None) -> None:
        """Begin without any knowledge of how much there is to do: see `expect`. Without a config
        nothing is shown.
        """
        plugins = config.pluginmanager if config else None
        terminal = plugins.getplugin("terminalreporter") if plugins else None
        self._terminal = terminal if terminal and terminal.verbosity >= 0 else None
        #: Whether `result` shows what pytest's files and dots would; with -v pytest has a line for
        #: each test itself.
        self.replaces_dots = self._terminal is not None and self._terminal.verbosity == 0
        if self._terminal is not None and self.replaces_dots:
            self._terminal.showfspath = False
        self._is_live = sys.__stdout__ is not None and sys.__stdout__.isatty()
        # While a test runs, pytest's capture holds the terminal's file descriptor too.
        self._capture: Any = plugins.getplugin("capturemanager") if plugins else None
        #: What the processes to come are expected to take, in seconds, by configuration.
        self._expected_s: dict[str, float] = {}
        #: What those that have ended took, and were expected to take.
        self._taken_s = self._foreseen_s = 0.0
        self._title = ""
        self._repeats = 0
        self._process_s = 0.0
        self._repeat = 0
        self._repeat_started = 0.0

    def expect(self, expected_s: Mapping[str, float]) -> None:
        """Take how long the processes of each configuration, by its title, are expected to take, in
        seconds.
        """
        self._expected_s = dict(expected_s)

    def prepare(self, what: str) -> None:
        """Show what is made before the next configuration."""
        self._show(what, f"{'preparing':<{_WIDTH // 2 + len('repeat 1/2  ')}}{self._time_left(0)}")

    def begin(self, title: str, repeats: int, expected_s: float) -> None:
        """Begin a configuration of at least so many processes, which are expected to take so long
        together.
        """
        self._title = title
        self._repeats = repeats
        self._process_s = expected_s / repeats
        self._repeat = 0
        self._expected_s[title] = expected_s
        self.prepare(title)

    def step(self, repeat: int, share: float, phase: str, context: int | None) -> None:
        """Show a step of the given repeat; `share` of the process's steps is done."""
        if repeat != self._repeat:
            self._finish_repeat()
            self._repeat = repeat
            self._repeat_started = time.monotonic()
            if repeat > self._repeats:
                self._expected_s[self._title] += self._process_s
        of_repeats = f"/{self._repeats}" if repeat <= self._repeats else ", since they differ"
        label = phase.replace("_", " ") + ("" if context is None else f" {context + 1}")
        self._show(
            self._title,
            f"repeat {repeat}{of_repeats}  {label:<{_WIDTH // 2}}{self._time_left(share)}",
        )

    def end(self) -> None:
        """End the configuration, whether all its repeats were made or not."""
        self._finish_repeat()
        self._expected_s.pop(self._title)
        self._repeat = 0
        self._write("")

    def result(self, title: str, text: str) -> None:
        """Show what came of a configuration, which has ended however it has; nothing if there is no
        text.
        """
        self._expected_s.pop(title, None)
        self._write("")
        if self._terminal is not None and text:
            with self._capture.global_and_fixture_disabled():
                self._terminal.write_line(f"{title:<{_WIDTH - 1}} {text}")
                self._terminal.flush()

    def _finish_repeat(self) -> None:
        if self._repeat:
            self._taken_s += time.monotonic() - self._repeat_started
            self._foreseen_s += self._process_s
            self._expected_s[self._title] -= self._process_s

    def _time_left(self, share: float) -> str:
        """Return how long still: what is expected, by how much longer than expected it took so
        far.
        """
        if not self._expected_s:
            return ""
        pace = self._taken_s / self._foreseen_s if self._foreseen_s else 1.0
        seconds = pace * (sum(self._expected_s.values()) - share * self._process_s)
        minutes, seconds = divmod(round(max(0.0, seconds)), 60)
        return f"about {f'{minutes} min ' if minutes else ''}{seconds} s left"

    def _show(self, title: str, text: str) -> None:
        self._write(f"{title:<{_WIDTH - 1}} {text}")

    def _write(self, line: str) -> None:
        """Write over the line that was written last."""
        if self._terminal is None or not self._is_live:
            return
        with self._capture.global_and_fixture_disabled():
            if self._terminal.currentfspath:
                self._terminal.ensure_newline()
            self._terminal.rewrite(line, erase=True, flush=True)
            if not line:
                self._terminal.rewrite("", flush=True)
