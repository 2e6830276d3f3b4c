"""A remote board as a machine: its drivers, its Python and its files."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from reusebench.measured.plan import Model, Plan
from reusebench.models.weight_files import weight_files
from reusebench.samplers.host import FileStatus, Host, read_text
from reusebench.system.package import MEASURED, PACKAGE, START
from reusebench.targets.boards import Board
from reusebench.targets.errors import NotStarted, TargetError
from reusebench.targets.far.connection import Connection, connect
from reusebench.targets.far.host import FarHost
from reusebench.targets.far.process import FarProcess
from reusebench.targets.far.program import FarProgram
from reusebench.targets.far.pushed_files import FarFiles, WatchedFile
from reusebench.targets.machine import Reach
from reusebench.targets.outcome import Ending
from reusebench.targets.process import DriverProcess

__all__ = ["Done", "FarMachine", "FarPython"]

_UCLIBC_LOADER = "/lib/ld-uClibc.so.0"

#: Prints facts about an interpreter that can run the driver, one a line; fails in any other.
_PROBE = """
import ctypes, platform, struct, sys
assert sys.version_info >= (3, 8)
print(sys.executable, platform.python_version(), sep="\\n")
print(platform.machine(), struct.calcsize("P"), sep="\\n")
"""
_FINDS_MODULE = (
    "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
)
_64_BIT = 8
#: Time after a loss in which the board may come back.
_RETURN_S = 90.0
#: Pause between attempts to reconnect.
_PAUSE_S = 2.0
_TIME_LIMIT_S = 120.0


class Done(NamedTuple):
    """The result of a program."""

    ending: Ending
    output: bytes
    #: The end of standard error.
    last_words: str


@dataclass(frozen=True)
class FarPython:
    """An interpreter on the board that can run the driver."""

    path: str
    version: str
    #: "aarch64", "armhf" or "x86_64", otherwise the board's own name for it.
    architecture: str


class FarMachine:
    """A board, connected when it is first needed and again after a lost connection."""

    def __init__(self, name: str, board: Board, show_step: Callable[[str], None]) -> None:
        """`name` is the user's name for the board; `show_step` shows steps that take long."""
        self.name = name
        self.address = board.address
        self.host: Host = FarHost(lambda: self.connection)
        self._board = board
        self.show_step = show_step
        self._connection: Connection | None = None
        self._files: FarFiles | None = None
        self._python: FarPython | None = None
        self._has_looked_for_python = False
        #: Whether the prepared files of earlier sessions have been removed.
        self._is_cleared = False

    @property
    def connection(self) -> Connection:
        """The connection, with which this session holds the board.

        After a loss, the board may be restarting, or an old reader may hold it that has not noticed
        the loss. Both pass, so connecting is tried again for a while.
        """
        if self._connection is None:
            self._connect()
        elif self._connection.is_lost:
            self.close()
            given_up_s = time.monotonic() + _RETURN_S
            while self._connection is None:
                try:
                    self._connect()
                except TargetError:
                    if time.monotonic() > given_up_s:
                        raise
                    time.sleep(_PAUSE_S)
        assert self._connection is not None
        return self._connection

    def _connect(self) -> None:
        connection = connect(self._board.address, self.show_step, self._board.folder)
        try:
            self._files = FarFiles(connection)
            self._files.lock()
            if not self._is_cleared:  # this session's prepared files survive a loss
                self._files.remove_prepared()
                self._is_cleared = True
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    @property
    def files(self) -> FarFiles:
        """The files on the board."""
        assert self.connection
        assert self._files is not None
        return self._files

    @property
    def architecture(self) -> str:
        """CPU architecture of the board's programs."""
        return self.connection.architecture

    def close(self) -> None:
        """End the reader and all processes that it has started."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def start(
        self,
        command: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        keeps_ledger: bool,
        reach: Reach,  # noqa: ARG002  the files have been pushed
    ) -> DriverProcess:
        """Start a program."""
        return FarProcess(self.connection, command, str(folder), environment, keeps_ledger)

    def start_program(
        self, command: Sequence[str], environment: Mapping[str, str], has_marks: bool
    ) -> FarProgram:
        """Start a program of the user's; NotStarted."""
        return FarProgram(self.connection, command, environment, has_marks)

    def watch(self, path: str) -> WatchedFile:
        """Create or empty a file, and watch it; OSError."""
        return self.files.watch(path)

    def wait_for_event(self, limit_s: float) -> None:
        """Wait up to `limit_s` for an event of a program or a watched file."""
        self.connection.wait_for_event(limit_s)

    def run(self, *command: str) -> Done:
        """Run a program to its end; raise TargetError if it takes too long."""
        process = self.start(command, Path("/"), {}, keeps_ledger=False, reach=Reach())
        output = b""
        piece = None
        try:
            while piece := process.receive(_TIME_LIMIT_S):
                output += piece
            if piece is None:
                raise TargetError(
                    f"{self.name}: `{command[0]}` does not end within {_TIME_LIMIT_S:g} s"
                )
            return Done(process.ending(), output, process.last_words())
        finally:
            process.close()

    def plan_there(self, plan: Plan) -> Plan:
        """Push the missing files of the plan; return the plan with their paths on the board."""
        schedule = plan.schedule
        if schedule is not None and schedule.video is not None:
            video = replace(schedule.video, path=self.push(schedule.video.path))
            schedule = replace(schedule, video=video)
        models = tuple(self.model_there(model) for model in plan.models)
        return replace(plan, models=models, schedule=schedule)

    def model_there(self, model: Model) -> Model:
        """Push the model's files; its prepared files were made on the board."""
        path = self.path_there(model.path)
        weightless = self.path_there(model.weightless) if model.weightless else None
        inputs = []
        for tensor in model.inputs:
            if tensor.file:
                tensor = replace(tensor, file=self.push(tensor.file))
            inputs.append(tensor)
        return replace(model, path=path, weightless=weightless, inputs=tuple(inputs))

    def path_there(self, path: str) -> str:
        """Push a model together with its separate weight files."""
        return self.files.push(Path(path), weight_files(Path(path)))

    def push(self, path: str) -> str:
        """Push a file, and return its path on the board."""
        return self.files.push(Path(path))

    def folder_there(self, folder: Path) -> str:
        """Return a folder of this session."""
        return self.files.prepared(folder.name)

    def may_open(self, path: str) -> bool:
        """Whether the rights of a file let the board's user read and write it."""
        done = self.run("sh", "-c", 'test -r "$1" && test -w "$1"', "sh", path)
        return done.ending.exit_code == 0

    def has_uclibc(self) -> bool:
        """Whether the C library is uClibc rather than glibc; Rockchip's runtime exists for both."""
        (status,) = self.host.statuses([_UCLIBC_LOADER])
        return isinstance(status, FileStatus)

    def variable(self, name: str) -> str:
        """Return a variable of the environment in which programs start; empty if it is not set."""
        environment = read_text(self.host, "/proc/self/environ") or ""
        for variable in environment.split("\0"):
            key, _, value = variable.partition("=")
            if key == name:
                return value
        return ""

    def reader_bytes(self) -> int:
        """Return the RSS of the reader and of its keeper process."""
        pages = 0
        for pid in (self.connection.reader_pid, self.connection.keeper_pid):
            pages += int(self.host.read(f"/proc/{pid}/statm").split()[1])
        return pages * self.host.page_bytes

    def python(self) -> FarPython | None:
        """Return the board's Python; None if none of its Pythons runs the driver."""
        if not self._has_looked_for_python:
            self._python = self._probe(self._board.python or "python3")
            self._has_looked_for_python = True
        return self._python

    def _probe(self, name: str) -> FarPython | None:
        try:
            done = self.run(name, "-c", _PROBE)
        except NotStarted:
            return None
        if done.ending.exit_code:
            return None
        lines = done.output.decode(errors="replace").split("\n")
        path, version, machine, pointer_bytes = lines[:4]
        architecture = machine if int(pointer_bytes) == _64_BIT else "armhf"
        return FarPython(path, version, architecture)

    def has_module(self, python: FarPython, module: str) -> bool:
        """Whether the interpreter finds the module, without importing it."""
        return self.run(python.path, "-c", _FINDS_MODULE, module).ending.exit_code == 0

    def push_driver(self, python: FarPython) -> str:
        """Push and compile the Python files of the measured process; return its start script."""
        root = PACKAGE.parent
        sources = sorted(MEASURED.rglob("*.py"))
        files = {str(source.relative_to(root)): source for source in sources}
        folder = self.files.push_tree(files)
        start = posixpath.join(folder, START.relative_to(root))
        # Otherwise the first measured process would compile them, which takes memory.
        if "__pycache__" not in self.host.names(posixpath.dirname(start)):
            self.run(python.path, "-m", "compileall", "-q", folder)
        return start
