"""Processes that end with this one, however it ends, together with their descendants.

The kernel kills the process itself, even if it is stopped or busy, but not its descendants. Their
process groups are killed by a shell that waits for the end of a pipe.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Union

from reusebench.system.interrupts import forwarded, uninterrupted

__all__ = ["end", "end_with", "run", "run_in_terminal", "start", "watch_ends"]

_PRCTL = ctypes.CDLL(None).prctl
#: Linux, sys/prctl.h. It survives the execution of another program, unless that program has rights
#: of its own.
_PR_SET_PDEATHSIG = 1
#: Each line has all current groups; the last line counts.
_WATCHMAN = """
exec 3<&0
{ while read -r line; do groups=$line; done
[ -z "$groups" ] || kill -s KILL -- $groups; } <&3 3<&- &
"""

#: Time for a program to exit when it is asked to.
_LEAVE_S = 3.0

_Words = Sequence[Union[str, Path]]


def end_with(parent: int) -> None:
    """Have the kernel kill this process when the thread that made it ends.

    Exits now if that has already ended.
    """
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def start(
    command: _Words,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    errors: IO[bytes] | None = None,
    kept_open: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program with pipes to its standard input and output, to be passed to `end`.

    `errors` receives standard error; the program keeps the descriptors `kept_open`. The calling
    thread must not end before the program. The program has its own session: Ctrl-C reaches only
    this process, which then ends everything in order.
    """
    return _begin(
        os.setsid,
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        bufsize=0,
        pass_fds=kept_open,
    )


def run_in_terminal(command: _Words, output: IO[str] | None = None) -> int:
    """Run a program that writes to the terminal or to `output`; return its return code.

    Ctrl-C, SIGTERM and SIGHUP are forwarded. Interrupted is raised when the program has ended in
    its own way.
    """
    with forwarded() as forward_to:
        process = _begin(os.setpgrp, command, stdin=subprocess.DEVNULL, stdout=output)
        try:
            forward_to(process.send_signal)
            return process.wait()
        finally:
            end(process)


def run(
    command: _Words,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    time_limit_s: float | None = None,
    errors: int = subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return its output.

    Processes that it left behind in its session are killed. Raises subprocess.TimeoutExpired.
    `errors` may be subprocess.STDOUT.
    """
    process = _begin(
        os.setsid,
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        encoding="utf-8",
        errors="replace",
    )
    try:
        output, words = process.communicate(timeout=time_limit_s)
    except BaseException:
        process.terminate()  # it may have files to remove
        # Its pipes are not waited for: its descendants may hold them open.
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LEAVE_S)
        raise
    finally:
        end(process)
    return subprocess.CompletedProcess(command, process.returncode, output, words)


def end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Kill the rest of the process and its group, wait for it, and close its pipes."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            with suppress(BrokenPipeError):  # it has ended before reading everything
                pipe.close()
    process.wait()
    _WATCH.remove(process.pid)


def watch_ends() -> None:
    """Start the shell now, before system memory is read, which includes the shell's."""
    _WATCH.start()


def _begin(apart: Callable[[], None], command: _Words, **options: Any) -> subprocess.Popen[Any]:
    """Start a program in its own session or group."""

    def begin() -> None:
        end_with(parent)
        apart()

    parent = os.getpid()
    _WATCH.start()
    process = None
    try:
        with uninterrupted():  # Python swallows exceptions in its fork callbacks
            process = subprocess.Popen(command, preexec_fn=begin, **options)
            _WATCH.add(process.pid)
    except KeyboardInterrupt:
        if process:
            end(process)
        raise
    return process


class _Watch:
    """The shell, which outlives this process by a moment.

    It is no child of this process, since a recorder waits for all its children.
    """

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._pipe: int | None = None

    def start(self) -> int:
        """Start the shell if it is not running, and return the pipe to it."""
        if self._pipe is None:
            reading, self._pipe = os.pipe()
            subprocess.run(
                ["/bin/sh", "-c", _WATCHMAN],
                cwd="/",
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                check=True,
            )
            os.close(reading)
        return self._pipe

    def add(self, group: int) -> None:
        self._groups.add(group)
        self._tell()

    def remove(self, group: int) -> None:
        self._groups.discard(group)
        self._tell()

    def _tell(self) -> None:
        line = " ".join(f"-{group}" for group in self._groups).encode() + b"\n"
        pipe = self.start()
        try:
            os.write(pipe, line)
        except BrokenPipeError:  # somebody has killed the shell
            os.close(pipe)
            self._pipe = None
            os.write(self.start(), line)


_WATCH = _Watch()
