"""The program that is recorded: started here, or running already."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from reusebench.recorder.errors import RecordError
from reusebench.samplers.host import LOCAL_HOST, Host, read_text
from reusebench.samplers.system import oom_kills
from reusebench.system.files import started_umask

__all__ = ["Ending", "RecordedProgram", "RunningProgram", "StartedProgram", "command_of"]

#: prctl(2): processes below this one whose parent ends become its children, and not those of init.
_PR_SET_CHILD_SUBREAPER = 36
#: What Python ignores and a program expects to end it.
_RESET = (signal.SIGPIPE, signal.SIGXFSZ)


@dataclass(frozen=True)
class Ending:
    """How the program ended; both None: not known, or it runs on."""

    exit_code: int | None = None
    signal_number: int | None = None
    #: Whether the kernel has killed a process for memory since the start.
    memory_ran_out: bool = False

    @classmethod
    def of(cls, code: int, memory_ran_out: bool) -> Ending:
        """Take the code as subprocess gives it: below 0 it is the signal."""
        return cls(None, -code, memory_ran_out) if code < 0 else cls(code, None, memory_ran_out)

    @property
    def shell_code(self) -> int:
        """The exit code that a shell gives; 0 where it is not known."""
        return 128 + self.signal_number if self.signal_number else self.exit_code or 0


class RecordedProgram(Protocol):
    """A program that the recorder reads."""

    #: The process below which those of the program are.
    root: int
    #: Whether the root is one of them.
    with_root: bool
    #: Whether what is pressed in this terminal reaches it by itself.
    shares_terminal: bool
    ending: Ending

    def has_ended(self) -> bool:
        """Whether the program, with all that it left behind, has ended."""

    def has_left(self) -> bool:
        """Whether the program itself has ended and left processes behind."""

    def peak_bytes(self) -> int | None:
        """Return the highest RSS that any of its processes that have ended ever had, as the kernel
        counted it.
        """

    def send(self, number: int) -> None:
        """Send it a signal."""

    def kill(self, pids: Iterable[int]) -> None:
        """Kill it, and its processes, which are these."""

    def close(self) -> None:
        """Release what belongs to it."""


class StartedProgram:
    """A program that was started here. Also those of its processes that leave it stay below this
    one.
    """

    with_root = False
    shares_terminal = True

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        actions: Sequence[tuple[Any, ...]] = (),
    ) -> None:
        """Start it, with standard input, output, error and all else that was handed down to this
        process.

        Raise RecordError if that cannot be, with the exit code that shells give for it.
        """
        self.root = os.getpid()
        self.ending = Ending()
        self._oom_kills = oom_kills(LOCAL_HOST)
        _adopt_orphans(True)
        try:
            variables = {**os.environ, **environment}
            with started_umask():
                words = list(command)
                self.pid = os.posix_spawnp(
                    command[0], words, variables, file_actions=actions, setsigdef=_RESET
                )
        except OSError as error:
            _adopt_orphans(False)
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                reason = "there is no such command. Give its path, or a name that is in PATH"
                raise RecordError(
                    f"{command[0]}: {reason}. Nothing was stored", exit_code=127
                ) from None
            raise RecordError(
                f"{command[0]}: it cannot be executed ({error.strerror}). A program needs"
                " permission (chmod +x), and must be made for this machine, or be a script whose"
                " first line is #!INTERPRETER. Nothing was stored",
                exit_code=126,
            ) from None
        self._runs = True
        self._peak_bytes = 0

    def has_ended(self) -> bool:
        """Wait for whatever has ended, and return whether nothing is left."""
        try:
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if not pid:
                    return False
                self._peak_bytes = max(self._peak_bytes, usage.ru_maxrss * 1024)
                if pid == self.pid:
                    self._runs = False
                    self.ending = Ending.of(
                        os.waitstatus_to_exitcode(status), oom_kills(LOCAL_HOST) > self._oom_kills
                    )
        except ChildProcessError:
            _adopt_orphans(False)
            return True

    def has_left(self) -> bool:
        """Whether the program itself has ended."""
        return not self._runs

    def peak_bytes(self) -> int | None:
        """Return it where it is known: the kernel's figure begins with what this process had when
        it made the other.
        """
        own_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return self._peak_bytes if self._peak_bytes > own_bytes else None

    def send(self, number: int) -> None:
        """Send the program a signal, unless it has ended."""
        if self._runs:
            os.kill(self.pid, number)

    def kill(self, pids: Iterable[int]) -> None:
        """Kill it, and its processes."""
        self.send(signal.SIGKILL)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue

    def close(self) -> None:
        """Do nothing: the processes that it has left run on."""


class RunningProgram:
    """A program that was running already, until its first process ends."""

    with_root = True
    shares_terminal = False

    def __init__(self, host: Host, pid: int) -> None:
        """Raise RecordError if there is none."""
        self.root = pid
        self.ending = Ending()
        self._host = host
        if not self._is_alive():
            raise _no_process(pid)

    def has_ended(self) -> bool:
        """Whether it has ended."""
        return not self._is_alive()

    def has_left(self) -> bool:
        """Return False: nothing but the program is waited for."""
        return False

    def peak_bytes(self) -> int | None:
        """Return None: only the process that started it can ask the kernel."""
        return None

    def send(self, number: int) -> None:
        """Send it nothing: it is not ours to end."""

    def kill(self, pids: Iterable[int]) -> None:
        """Leave it alone, too."""

    def close(self) -> None:
        """Do nothing."""

    def _is_alive(self) -> bool:
        """Whether there is such a process, and not only its end, which nobody has waited for."""
        stat = read_text(self._host, f"/proc/{self.root}/stat")
        return stat is not None and stat.rpartition(")")[2].split()[0] not in "ZX"


def command_of(host: Host, pid: int) -> list[str]:
    """Return the command line of a running process; its name where it has none."""
    line, name = (read_text(host, f"/proc/{pid}/{file}") for file in ("cmdline", "comm"))
    if line is None or name is None:
        raise _no_process(pid)
    return line.rstrip("\0").split("\0") if line else [name.rstrip("\n")]


def _no_process(pid: int) -> RecordError:
    return RecordError(
        f"there is no process {pid}. `ps -e` lists those that run, `pidof NAME` finds one by its"
        " name"
    )


def _adopt_orphans(yes: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)
