"""The program that is recorded: started by the recorder, or already running."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from reusebench.accounting.ledger import Ledger
from reusebench.recorder.errors import RecordError
from reusebench.samplers.host import LOCAL_HOST, Host, read_text
from reusebench.samplers.system_memory import oom_kills
from reusebench.system.files import started_umask
from reusebench.targets.outcome import Ending

__all__ = [
    "AS_IT_IS",
    "ProgramEnding",
    "RecordedProgram",
    "RunningProgram",
    "Start",
    "StartedProgram",
    "command_of",
]

#: prctl(2): orphaned descendants become children of this process instead of init's.
_PR_SET_CHILD_SUBREAPER = 36
#: Signals that Python ignores and that programs expect to end them.
_RESET_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
_STDOUT, _STDERR = 1, 2
_S = 10**9


@dataclass(frozen=True)
class Start:
    """The way in which a program is started, apart from its command line."""

    #: Variables that are added to its environment.
    variables: Mapping[str, str] = field(default_factory=dict)
    #: Files for its standard output and standard error, which are emptied; None: this process's.
    output: Path | None = None
    errors: Path | None = None


AS_IT_IS = Start()


@dataclass(frozen=True)
class ProgramEnding:
    """The ending of a recorded program; both None if it is unknown or the program still runs."""

    exit_code: int | None = None
    signal_number: int | None = None
    #: Whether the kernel has killed a process for memory since the start.
    memory_ran_out: bool = False
    #: Whether that happened to a process that the program left behind.
    child_ran_out: bool = False

    @classmethod
    def of(cls, ending: Ending) -> ProgramEnding:
        """Return the ending of a process."""
        if ending.exit_code < 0:
            return cls(signal_number=-ending.exit_code, memory_ran_out=ending.memory_ran_out)
        return cls(exit_code=ending.exit_code, memory_ran_out=ending.memory_ran_out)

    @property
    def shell_code(self) -> int:
        """The exit code that a shell gives; 0 if it is unknown."""
        if self.signal_number:
            return 128 + self.signal_number
        return self.exit_code or 0


class RecordedProgram(Protocol):
    """A program that the recorder reads."""

    #: Process whose descendants are the program's processes.
    root: int
    #: Whether the root is one of the program's processes.
    with_root: bool
    #: Whether keys pressed in this terminal, such as Ctrl-C, reach the program directly.
    shares_terminal: bool
    ending: ProgramEnding

    def has_ended(self) -> bool:
        """Whether the program and all processes that it left behind have ended."""

    def has_left_processes(self) -> bool:
        """Whether the program itself has ended and left processes behind."""

    def peak_bytes(self) -> int | None:
        """Return the highest RSS of any ended process of the program, as the kernel counted it."""

    def cpu_ns(self) -> int | None:
        """Return the CPU time of its ended processes; None if it is unknown."""

    def ledger(self) -> Ledger | None:
        """Return the ledger of its NPU buffers so far; None if none is kept."""

    def send(self, number: int) -> None:
        """Send signal `number` to the program."""

    def kill(self, pids: Iterable[int]) -> None:
        """Kill the program and its processes `pids`."""

    def close(self) -> None:
        """Release the program's resources."""


class StartedProgram:
    """A program that was started here. Its orphaned processes stay below this process."""

    with_root = False
    shares_terminal = True

    def __init__(
        self,
        command: Sequence[str],
        start: Start = AS_IT_IS,
        actions: Sequence[tuple[Any, ...]] = (),
    ) -> None:
        """Start the program with this process's standard input and inherited descriptors.

        Raises RecordError, with the exit code that shells give, if that fails.
        """
        self.root = os.getpid()
        self.ending = ProgramEnding()
        self._oom_kills_before = oom_kills(LOCAL_HOST)
        _adopt_orphans(True)
        try:
            with started_umask():
                self.pid = os.posix_spawnp(
                    command[0],
                    list(command),
                    {**os.environ, **start.variables},
                    file_actions=[*actions, *_output_actions(start)],
                    setsigdef=_RESET_SIGNALS,
                )
        except OSError as error:
            _adopt_orphans(False)
            raise _not_started(command[0], error) from None
        self._is_running = True
        self._peak_bytes = 0
        self._cpu_s = 0.0
        self._child_ran_out = False

    def has_ended(self) -> bool:
        """Wait for every process that has ended; return whether none remains."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                _adopt_orphans(False)
                return True
            if not pid:
                return False
            self._peak_bytes = max(self._peak_bytes, usage.ru_maxrss * 1024)
            self._cpu_s += usage.ru_utime + usage.ru_stime
            memory_ran_out = oom_kills(LOCAL_HOST) > self._oom_kills_before
            exit_code = os.waitstatus_to_exitcode(status)
            if pid == self.pid:
                self._is_running = False
                self.ending = ProgramEnding.of(Ending(exit_code, memory_ran_out))
            elif memory_ran_out and exit_code == -signal.SIGKILL:
                self._child_ran_out = True
            self.ending = replace(self.ending, child_ran_out=self._child_ran_out)

    def has_left_processes(self) -> bool:
        """Whether the program itself has ended."""
        return not self._is_running

    def peak_bytes(self) -> int | None:
        """Return the peak, or None if it is unknown.

        The kernel's figure for a child starts at the RSS that this process had when it forked.
        """
        own_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return self._peak_bytes if self._peak_bytes > own_bytes else None

    def cpu_ns(self) -> int | None:
        """Return the time, which the kernel counts with that of children waited for."""
        return round(self._cpu_s * _S)

    def ledger(self) -> Ledger | None:
        """Return None: a program of this machine keeps no ledger."""
        return None

    def send(self, number: int) -> None:
        """Send signal `number` to the program, unless it has ended."""
        if self._is_running:
            os.kill(self.pid, number)

    def kill(self, pids: Iterable[int]) -> None:
        """Kill the program and its processes `pids`."""
        self.send(signal.SIGKILL)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue

    def close(self) -> None:
        """Do nothing: processes that the program left behind run on."""


class RunningProgram:
    """A program that was already running, until its first process ends."""

    with_root = True
    shares_terminal = False

    def __init__(self, host: Host, pid: int) -> None:
        """Raise RecordError if there is no such process."""
        self.root = pid
        self.ending = ProgramEnding()
        self._host = host
        if self.has_ended():
            raise _no_process(pid)

    def has_ended(self) -> bool:
        """Whether the process has ended; a zombie counts as ended."""
        stat = read_text(self._host, f"/proc/{self.root}/stat")
        if stat is None:
            return True
        state = stat.rpartition(")")[2].split()[0]
        return state in "ZX"

    def has_left_processes(self) -> bool:
        """Return False: only the program itself is waited for."""
        return False

    def peak_bytes(self) -> int | None:
        """Return None: only the parent of a process can ask the kernel."""
        return None

    def cpu_ns(self) -> int | None:
        """Return None: only the parent of a process can ask the kernel."""
        return None

    def ledger(self) -> Ledger | None:
        """Return None: it keeps no ledger."""
        return None

    def send(self, number: int) -> None:
        """Do nothing: the program is not ours to end."""

    def kill(self, pids: Iterable[int]) -> None:
        """Do nothing: the program is not ours to end."""

    def close(self) -> None:
        """Do nothing."""


def command_of(host: Host, pid: int) -> list[str]:
    """Return the command line of a running process, or its name if the command line is empty."""
    command_line = read_text(host, f"/proc/{pid}/cmdline")
    name = read_text(host, f"/proc/{pid}/comm")
    if command_line is None or name is None:
        raise _no_process(pid)
    if command_line:
        return command_line.rstrip("\0").split("\0")
    return [name.rstrip("\n")]


def _no_process(pid: int) -> RecordError:
    return RecordError(
        f"there is no process {pid}. `ps -e` lists the running processes, `pidof NAME` finds one"
        " by its name"
    )


def _output_actions(start: Start) -> Iterator[tuple[Any, ...]]:
    """Yield the file actions that open the files as standard output and standard error."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    for stream, path in ((_STDOUT, start.output), (_STDERR, start.errors)):
        if path is not None:
            yield (os.POSIX_SPAWN_OPEN, stream, os.fspath(path), flags, 0o600)


def _not_started(program: str, error: OSError) -> RecordError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return RecordError(
            f"{program}: there is no such command. Give its path, or a name that is in PATH."
            " Nothing was stored",
            exit_code=127,
        )
    return RecordError(
        f"{program}: it cannot be executed ({error.strerror}). A program needs permission"
        " (chmod +x), and must be made for this machine, or be a script whose first line is"
        " #!INTERPRETER. Nothing was stored",
        exit_code=126,
    )


def _adopt_orphans(yes: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)
