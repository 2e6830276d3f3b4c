"""A board far away as a machine: what its drivers, its Python and its files are there."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from reusebench.measured.plan import Model, Plan
from reusebench.models.weight_files import weight_files
from reusebench.samplers.host import Host, read_text
from reusebench.system.package import MEASURED, PACKAGE, START
from reusebench.targets.boards import Board
from reusebench.targets.errors import NotStarted, TargetError
from reusebench.targets.far.connection import Connection, connect
from reusebench.targets.far.files import FarFiles, WatchedFile
from reusebench.targets.far.host import FarHost
from reusebench.targets.far.process import FarProcess
from reusebench.targets.far.program import FarProgram
from reusebench.targets.machine import Reach
from reusebench.targets.outcome import Ending
from reusebench.targets.process import DriverProcess

__all__ = ["Done", "FarMachine", "FarPython"]

_UCLIBC_LOADER = "/lib/ld-uClibc.so.0"

#: What an interpreter that can run the driver says of itself, a line each; any other fails.
_PROBE = """
import ctypes, platform, struct, sys
assert sys.version_info >= (3, 8)
print(sys.executable, platform.python_version(), platform.machine(), struct.calcsize("P"), sep="\\n")
"""
_FINDS_MODULE = (
    "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
)
_64_BIT = 8
#: How long a board may be away, and how often it is tried.
_RETURN_S = 90.0
_PAUSE_S = 2.0
_TIME_LIMIT_S = 120.0


class Done(NamedTuple):
    """A program that has ended."""

    ending: Ending
    output: bytes
    #: The end of standard error.
    last_words: str


@dataclass(frozen=True)
class FarPython:
    """An interpreter on the board that can run the driver."""

    path: str
    version: str
    #: "aarch64", "armhf" or "x86_64"; another one has a name of its own.
    architecture: str


class FarMachine:
    """A board beyond a connection, which is made when it is first needed, and made again when it
    was lost.
    """

    def __init__(self, name: str, board: Board, show_step: Callable[[str], None]) -> None:
        """`name` is what the user calls it; show_step shows what takes long."""
        self.name = name
        self.address = board.address
        self.host: Host = FarHost(lambda: self.connection)
        self._board = board
        self.show_step = show_step
        self._connection: Connection | None = None
        self._files: FarFiles | None = None
        self._python: FarPython | None = None
        self._has_looked_for_python = False
        #: Whether what an earlier session has prepared there is removed.
        self._is_cleared = False

    @property
    def connection(self) -> Connection:
        """The connection, with which this session holds the board.

        Where it was lost, the board may be starting again, or a reader that has not noticed yet may
        hold it: both end.
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
            if not self._is_cleared:  # what this session has prepared serves it after a loss, too
                self._files.remove_prepared()
                self._is_cleared = True
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    @property
    def files(self) -> FarFiles:
        """What is put on the board."""
        assert self.connection
        assert self._files is not None
        return self._files

    @property
    def architecture(self) -> str:
        """Of its programs."""
        return self.connection.architecture

    def close(self) -> None:
        """End the reader, and with it all that it has started."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def start(
        self,
        command: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        keeps_ledger: bool,
        reach: Reach,  # noqa: ARG002  they have been pushed
    ) -> DriverProcess:
        """Start a program."""
        return FarProcess(self.connection, command, str(folder), environment, keeps_ledger)

    def start_program(
        self, command: Sequence[str], environment: Mapping[str, str], has_marks: bool
    ) -> FarProgram:
        """Start a program of the user's; NotStarted."""
        return FarProgram(self.connection, command, environment, has_marks)

    def watch(self, path: str) -> WatchedFile:
        """Make a file, or empty it, and watch it; OSError."""
        return self.files.watch(path)

    def wait_for_event(self, limit_s: float) -> None:
        """Wait until a program or a watched file has something to tell, or so long."""
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
        """Push the files of the plan that are not there yet."""
        schedule = plan.schedule
        if schedule is not None and schedule.video is not None:
            schedule = replace(
                schedule, video=replace(schedule.video, path=self.push(schedule.video.path))
            )
        return replace(plan, models=tuple(map(self.model_there, plan.models)), schedule=schedule)

    def model_there(self, model: Model) -> Model:
        """Push the model's files; what was prepared of it was made there."""
        inputs = [
            replace(tensor, file=self.push(tensor.file)) if tensor.file else tensor
            for tensor in model.inputs
        ]
        weightless = self.path_there(model.weightless) if model.weightless else None
        return replace(
            model, path=self.path_there(model.path), weightless=weightless, inputs=tuple(inputs)
        )

    def path_there(self, path: str) -> str:
        """Push a model with the files beside it that have its weights."""
        return self.files.push(Path(path), weight_files(Path(path)))

    def push(self, path: str) -> str:
        """Push a file, and return its path there."""
        return self.files.push(Path(path))

    def folder_there(self, folder: Path) -> str:
        """Return a folder of this session."""
        return self.files.prepared(folder.name)

    def has_uclibc(self) -> bool:
        """Whether its C library is uClibc, and not glibc: Rockchip's runtime is made for these
        two.
        """
        (inode,) = self.host.inodes([_UCLIBC_LOADER])
        return isinstance(inode, int)

    def variable(self, name: str) -> str:
        """Return a variable of the environment that programs are started with; empty if there is
        none.
        """
        for text in (read_text(self.host, "/proc/self/environ") or "").split("\0"):
            if text.startswith(f"{name}="):
                return text.partition("=")[2]
        return ""

    def reader_bytes(self) -> int:
        """Return what the reader takes of the board's memory, with the process that watches over it
        (RSS).
        """
        pages = 0
        for pid in (self.connection.reader_pid, self.connection.keeper_pid):
            pages += int(self.host.read(f"/proc/{pid}/statm").split()[1])
        return pages * self.host.page_bytes

    def python(self) -> FarPython | None:
        """Return the board's Python; None if it has none that runs the driver."""
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
        path, version, machine, pointer_bytes = done.output.decode(errors="replace").split("\n")[:4]
        return FarPython(path, version, machine if int(pointer_bytes) == _64_BIT else "armhf")

    def has_module(self, python: FarPython, module: str) -> bool:
        """Whether the interpreter finds the module, which is not imported."""
        return self.run(python.path, "-c", _FINDS_MODULE, module).ending.exit_code == 0

    def push_driver(self, python: FarPython) -> str:
        """Push all that the measured process runs in Python, have it compiled, and return the
        script that starts it.
        """
        root = PACKAGE.parent
        sources = sorted(MEASURED.rglob("*.py"))
        folder = self.files.push_tree({str(source.relative_to(root)): source for source in sources})
        start = posixpath.join(folder, START.relative_to(root))
        # Otherwise the first measured process would compile it, which takes memory.
        if "__pycache__" not in self.host.names(posixpath.dirname(start)):
            self.run(python.path, "-m", "compileall", "-q", folder)
        return start
