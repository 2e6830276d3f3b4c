"""The campaign `machines`: a user's first commands on machines that lack something or are full."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.faults.after import after_session, is_whole_page, keep_sandbox, stored_names
from benchmarks.faults.samples import Samples, record_command, reusebench, session_command
from benchmarks.faults.sandbox import CHECKOUT, Sandbox, compile_preloaded
from benchmarks.faults.trial import Answer, Kind, Trial, Wrong

__all__ = ["FALSE_CLOCK", "MACHINES", "Machine", "Machines"]

_COMMAND_LIMIT_S = 180.0
#: Command for a mount namespace. A normal user becomes root in a user namespace, if the kernel
#: allows it.
_OWN_MOUNTS = (
    ("unshare", "--mount")
    if os.geteuid() == 0
    else ("unshare", "--user", "--map-root-user", "--mount")
)
_COMMANDS = ("doctor", "record", "report", "session")
_GROUPS = Path("/sys/fs/cgroup")
FALSE_CLOCK = Path(__file__).with_name("false_clock.c")


@dataclass(frozen=True)
class Machine:
    """A machine with a fault: a way to start commands, and their expected ends."""

    name: str
    #: Script of a shell, in which "$@" is the command.
    script: str = 'exec "$@"'
    #: Command that starts the shell.
    before: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    #: Expected exit codes of commands that do not work as usual.
    codes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: Memory limit of the control group that runs the command; None: no limit.
    memory_bytes: int | None = None

    def ends_well(self, command: str, code: int) -> bool:
        """Whether the command may end with this code."""
        return code in self.codes.get(command, (0,))


def _mounted(name: str, mount: str, *more: str, **codes: tuple[int, ...]) -> Machine:
    return Machine(name, f'{mount} && exec "$@"', (*_OWN_MOUNTS, *more), codes=codes)


def _address_space(mib: int, **codes: tuple[int, ...]) -> Machine:
    return Machine(
        f"an address space of {mib} MiB", f'ulimit -v {mib << 10} && exec "$@"', codes=codes
    )


#: The machines; docs/evidence/faults.md has their results.
MACHINES = (
    Machine("nothing odd"),
    _mounted("no /sys", "mount -t tmpfs none /sys"),
    _mounted("no /proc/vmstat", "mount --bind /dev/null /proc/vmstat"),
    _mounted("no /proc/stat", "mount --bind /dev/null /proc/stat"),
    _mounted("no /proc/pressure", "mount -t tmpfs none /proc/pressure"),
    _mounted("no /proc/meminfo", "mount --bind /dev/null /proc/meminfo", record=(2,), session=(4,)),
    _mounted(
        "hidepid=2", "mount -t proc -o hidepid=2 none /proc", "--pid", "--fork", "--kill-child"
    ),
    _mounted("a /dev/shm that cannot be written to", "mount -t tmpfs -o ro none /dev/shm"),
    Machine(
        "a home that cannot be written to",
        'mount -t tmpfs -o ro none "$HOME" && exec "$@"',
        _OWN_MOUNTS,
        {"XDG_CACHE_HOME": ""},
    ),
    Machine(
        "an ASCII locale", variables={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    ),
    # pytest prints its own error in a session.
    Machine(
        "no working folder",
        'cd "$(mktemp -d)" && rmdir "$PWD" && exec "$@"',
        codes={**dict.fromkeys(_COMMANDS, (2,)), "session": (1,)},
    ),
    Machine(
        "standard output on a full disk",
        'exec "$@" >/dev/full',
        codes={"doctor": (2,), "report": (2,), "session": (1,)},
    ),
    Machine(
        "standard output that is closed",
        'exec "$@" >&-',
        codes={**dict.fromkeys(_COMMANDS, (2,)), "session": (1,)},
    ),
    Machine("one core", 'exec taskset -c 0 "$@"'),
    Machine("64 file descriptors", 'ulimit -n 64 && exec "$@"'),
    Machine("files of at most 512 KiB", 'ulimit -f 1000 && exec "$@"'),
    _address_space(800),
    _address_space(500, report=(0, 2), session=(0, 1)),
    _address_space(350, report=(2,), session=(0, 1)),
    Machine("512 MiB of memory", memory_bytes=512 << 20),
    Machine("a clock at 1970", variables={"FAULTS_CLOCK_S": "90000"}),
    Machine(
        "a clock that jumps by three days",
        variables={"FAULTS_CLOCK_S": "1800000000", "FAULTS_JUMP_S": "259200"},
    ),
)


@dataclass(frozen=True)
class Machines:
    """The campaign; each input is a machine and a command."""

    samples: Samples
    seed: int
    keep: Path
    time_limit_s: float = 400.0

    def try_input(self, index: int, folder: Path) -> Trial:
        """Run the command on the machine and check its end."""
        place, number = divmod(index % (len(MACHINES) * len(_COMMANDS)), len(_COMMANDS))
        machine = MACHINES[place]
        name = _COMMANDS[number]
        sandbox = Sandbox(folder / str(index)).make()
        variables = dict(machine.variables)
        if "FAULTS_CLOCK_S" in variables:
            variables["LD_PRELOAD"] = str(compile_preloaded(FALSE_CLOCK, folder))
        with _group(machine.memory_bytes) as joining:
            before = (*machine.before, "sh", "-c", joining + machine.script, "sh")
            if not _is_possible(before, folder):
                shutil.rmtree(sandbox.folder)
                return Trial(index, f"{machine.name}: not possible here", Answer.PASSED_OVER)
            code = sandbox.run(self._command(name, sandbox), _COMMAND_LIMIT_S, variables, before)
        wrongs = [
            *_end_wrongs(machine, name, code, sandbox),
            *after_session(sandbox, self.samples),
        ]
        answer = Answer.REFUSED if code else Answer.SURVIVED
        trial = Trial(index, f"{name} with {machine.name}", answer, tuple(wrongs))
        keep_sandbox(sandbox, trial, self.keep / "machines")
        return trial

    def _command(self, name: str, sandbox: Sandbox) -> list[str]:
        if name == "session":
            return session_command(self.samples.model, sandbox.storage, "-k", "no_reuse]")
        if name == "record":
            return record_command(sandbox)
        if name == "report":
            out = str(sandbox.disk / "out")
            return reusebench(
                "report", "--lang", "zh-CN", "--storage", str(self.samples.storage), "--output", out
            )
        return reusebench(name)


#: Name of the stored result, by command.
_STORED = {"record": "program", "session": "no_reuse"}


def _end_wrongs(machine: Machine, name: str, code: int | None, sandbox: Sandbox) -> Iterator[Wrong]:
    """Yield the faults in the end of a command."""
    output = sandbox.output()
    about = f"{name} with {machine.name}"
    if code is None:
        yield Wrong(Kind.HANG, f"{about}: no end", output)
    elif not machine.ends_well(name, code):
        yield Wrong(Kind.FALSE, f"{about}: exit code {code}", output)
    elif code and not output.strip():
        yield Wrong(Kind.FALSE, f"{about}: exit code {code} and no word", output)
    elif code == 0 and name == "report":
        page = sandbox.disk / "out" / "index.html"
        if not page.is_file() or not is_whole_page(page):
            yield Wrong(Kind.LOST, f"{about}: the page is not whole", output)
    elif code == 0 and name in _STORED and _STORED[name] not in stored_names(sandbox.storage):
        yield Wrong(Kind.LOST, f"{about}: nothing is stored", output)


@contextmanager
def _group(memory_bytes: int | None) -> Iterator[str]:
    """Make a control group with this memory limit; yield the shell code that joins it, if any."""
    if memory_bytes is None:
        yield ""
        return
    parent = _GROUPS
    limit = "memory.max"
    if (_GROUPS / "memory").is_dir():  # version 1
        parent = _GROUPS / "memory"
        limit = "memory.limit_in_bytes"
    folder = parent / f"reusebench-faults-{os.getpid()}"
    with suppress(OSError):  # only root can; otherwise joining fails too
        folder.mkdir()
        (folder / limit).write_text(str(memory_bytes))
    yield f'echo $$ > "{folder}/cgroup.procs" && '
    with suppress(OSError):
        folder.rmdir()


@functools.cache
def _is_possible(before: tuple[str, ...], folder: Path) -> bool:
    """Whether commands can be started this way, shown by one that makes a file."""
    file = folder / "possible"
    home = folder / "home"
    file.unlink(missing_ok=True)
    home.mkdir(exist_ok=True)
    command = [
        *before,
        sys.executable,
        "-c",
        "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()",
        str(file),
    ]
    # Another home: the machine may hide the user's, and the interpreter may be in it.
    environment = {**os.environ, "HOME": str(home)}
    nowhere = subprocess.DEVNULL
    subprocess.run(
        command, cwd=CHECKOUT, env=environment, stdout=nowhere, stderr=nowhere, check=False
    )
    return file.exists()
