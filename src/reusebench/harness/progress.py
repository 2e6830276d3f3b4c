"""The progress of a session in the terminal: a line for each finished configuration.

If standard output is a terminal, one more line tells the current step and the time left. It is
erased again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pytest

__all__ = ["Output", "Progress", "TerminalOutput"]

#: Width of a runtime and the title of a scenario together, with a blank.
_WIDTH = 43


class Output(Protocol):
    """Where the lines of a session go."""

    def live(self, line: str) -> None:
        """Write over the last line; erase it if the line is empty."""

    def result(self, title: str, text: str) -> None:
        """Show the text of a configuration that has ended."""

    def note(self, line: str) -> None:
        """Write a line of its own."""


class TerminalOutput:
    """pytest's terminal, if it shows anything."""

    def __init__(self, config: pytest.Config) -> None:
        self._terminal: Any = None
        #: pytest's capture, which holds the terminal's file descriptor while a test runs.
        self._capture: Any = None
        #: Whether lines take the place of pytest's files and dots. With -v, pytest itself has a
        #: line for each test.
        self.replaces_dots = False
        self._is_live = sys.__stdout__ is not None and sys.__stdout__.isatty()
        plugins = config.pluginmanager
        terminal: Any = plugins.getplugin("terminalreporter")
        if terminal is None or terminal.verbosity < 0:
            return
        self._terminal = terminal
        self._capture = plugins.getplugin("capturemanager")
        self.replaces_dots = terminal.verbosity == 0
        if self.replaces_dots:
            terminal.showfspath = False

    def live(self, line: str) -> None:
        """Write over the last line; erase it if the line is empty."""
        if self._terminal is None or not self._is_live:
            return
        with self._capture.global_and_fixture_disabled():
            if self._terminal.currentfspath:
                self._terminal.ensure_newline()
            self._terminal.rewrite(line, erase=True, flush=True)
            if not line:
                self._terminal.rewrite("", flush=True)

    def result(self, title: str, text: str) -> None:
        """Show the text of a configuration that has ended."""
        self._write_line(f"{title:<{_WIDTH - 1}} {text}")

    def note(self, line: str) -> None:
        """Write a line of its own."""
        if self._terminal is not None:
            with self._capture.global_and_fixture_disabled():
                self._terminal.ensure_newline()
        self._write_line(line)

    def _write_line(self, line: str) -> None:
        if self._terminal is not None:
            with self._capture.global_and_fixture_disabled():
                self._terminal.write_line(line)
                self._terminal.flush()


class Progress:
    """The progress of a session, and the time left."""

    def __init__(self, output: Output | None = None) -> None:
        """Begin without an estimate of the time left; without an output, show nothing."""
        self._output = output
        #: Expected time of the processes to come, by configuration.
        self._expected_s: dict[str, float] = {}
        #: Time that the processes until now took, and that they were expected to take.
        self._taken_s = 0.0
        self._foreseen_s = 0.0
        #: The configuration that is being measured.
        self._title = ""
        self._repeats = 0
        self._process_s = 0.0
        self._repeat = 0
        self._repeat_started = 0.0

    def expect(self, expected_s: Mapping[str, float]) -> None:
        """Set the expected time of the processes of each configuration, by its title."""
        self._expected_s = dict(expected_s)

    def prepare(self, title: str) -> None:
        """Show that the models of a configuration are prepared."""
        width = _WIDTH // 2 + len("repeat 1/2  ")
        self._show(title, f"{'preparing':<{width}}{self._time_left(0)}")

    def begin(self, title: str, repeats: int, expected_s: float) -> None:
        """Begin a configuration of at least `repeats` processes that take `expected_s` together."""
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
        label = phase.replace("_", " ")
        if context is not None:
            label = f"{label} {context + 1}"
        time_left = self._time_left(share)
        self._show(self._title, f"repeat {repeat}{of_repeats}  {label:<{_WIDTH // 2}}{time_left}")

    def end(self) -> None:
        """End the configuration, even if some of its repeats were not made."""
        self._finish_repeat()
        self._expected_s.pop(self._title)
        self._repeat = 0
        self._write("")

    def result(self, title: str, text: str) -> None:
        """Show the text of a configuration that has ended; nothing if it is empty."""
        self._expected_s.pop(title, None)
        self._write("")
        if self._output is not None and text:
            self._output.result(title, text)

    def note(self, line: str) -> None:
        """Write a line of its own, such as one on a file that takes long to read."""
        self._write("")
        if self._output is not None:
            self._output.note(line)

    def _finish_repeat(self) -> None:
        if self._repeat:
            self._taken_s += time.monotonic() - self._repeat_started
            self._foreseen_s += self._process_s
            self._expected_s[self._title] -= self._process_s

    def _time_left(self, share: float) -> str:
        """Return the time left: the expected time, corrected by how wrong it was until now."""
        if not self._expected_s:
            return ""
        pace = self._taken_s / self._foreseen_s if self._foreseen_s else 1.0
        seconds = pace * (sum(self._expected_s.values()) - share * self._process_s)
        minutes, seconds = divmod(round(max(0.0, seconds)), 60)
        if minutes:
            return f"about {minutes} min {seconds} s left"
        return f"about {seconds} s left"

    def _show(self, title: str, text: str) -> None:
        self._write(f"{title:<{_WIDTH - 1}} {text}")

    def _write(self, line: str) -> None:
        if self._output is not None:
            self._output.live(line)
