"""The file that the kernel executes for a command: a program, or the interpreter of a script."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reusebench.apply.elf import ElfFile, read_elf
from reusebench.apply.errors import ApplyError
from reusebench.system.files import open_regular

__all__ = ["Executable", "check_machine", "find_executable", "not_started"]

#: Exit codes of shells.
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
#: Folders of a search if there is no PATH (confstr CS_PATH).
_DEFAULT_PATH = "/bin:/usr/bin"
#: Limits of the kernel: of a script's first line, and of interpreters that are scripts.
_FIRST_LINE_BYTES = 256
_MOST_INTERPRETERS = 5
_PYTHON = re.compile(r"(python|pypy)[\d.]*t?")
#: Options of Python that take the next word.
_WITH_VALUE = "WXcm"
#: Options of Python after which its program begins.
_LAST = "cm"
#: The loaders of C libraries, by a part of the file's name.
_LOADERS = {"ld-musl": "musl", "ld-uClibc": "uclibc", "ld-linux": "glibc"}
#: Key: machine (uname -m); value: the architectures whose programs its kernel executes.
_RUN_BY = {"x86_64": ("x86_64",), "aarch64": ("aarch64", "armhf"), "armv7l": ("armhf",)}
#: Programs that the kernel executes by an emulator, by name.
_EMULATED = Path("/proc/sys/fs/binfmt_misc")
#: Names of architectures there.
_EMULATORS = {"aarch64": "aarch64", "armhf": "arm", "x86_64": "x86_64"}
_CAPABILITIES = "security.capability"


@dataclass(frozen=True)
class Executable:
    """A program, and how it is started."""

    path: Path
    #: The command line that it gets; for a script that of the interpreter.
    words: tuple[str, ...]
    #: None: no ELF file, or not readable.
    file: ElfFile | None
    #: Whether it runs with rights of its own, for which the loader drops LD_PRELOAD.
    has_rights: bool

    @property
    def architecture(self) -> str | None:
        """The architecture, if there may be a library for it."""
        return self.file.architecture if self.file else None

    @property
    def is_static(self) -> bool:
        """Whether there is no loader, and so nothing can be preloaded."""
        return self.file is not None and self.file.loader is None

    @property
    def c_library(self) -> str | None:
        """The C library by its loader: glibc, musl or uclibc; None: another one, or static."""
        loader = self.file.loader if self.file else None
        name = Path(loader or "").name
        for part, library in _LOADERS.items():
            if name.startswith(part):
                return library
        return None

    @property
    def is_linked_with_rknn(self) -> bool:
        """Whether the file itself names a library of Rockchip's."""
        return self.file is not None and any("librknn" in name for name in self.file.needed)

    def python_option(self) -> str | None:
        """Return the option by which a Python takes no hooks: E, I or S; None if it takes them."""
        if not _PYTHON.fullmatch(Path(self.words[0]).name):
            return None
        for option in _python_options(self.words[1:]):
            if option in "EIS":
                return option
        return None


def find_executable(command: Sequence[str], environment: Mapping[str, str]) -> Executable:
    """Return the file that the kernel will execute; raise ApplyError if it cannot be executed."""
    words = list(command)
    path = _find(words[0], environment)
    has_rights = _has_rights(path)
    for _ in range(_MOST_INTERPRETERS):
        interpreter = _interpreter_of(path)
        if not interpreter:
            break
        words = [*interpreter, str(path), *words[1:]]
        path = _find_interpreter(Path(interpreter[0]), path)
        if path.name == "env":
            words = _without_env(words)
            path = _find(words[0], environment)
        has_rights = _has_rights(path)  # those of a script do not count
    return Executable(path, tuple(words), _elf_of(path), has_rights)


def check_machine(executable: Executable) -> None:
    """Raise ApplyError if the program is for another machine, and nothing here emulates it."""
    architecture, machine = executable.architecture, os.uname().machine
    if architecture is None or architecture in _RUN_BY.get(machine, (architecture,)):
        return
    if any(_EMULATED.glob(f"*{_EMULATORS[architecture]}*")):
        return
    raise ApplyError(
        f"{executable.path} is for {architecture}, and this machine is {machine}. Run it on its"
        " board, or with --target vboard:CHIP on the virtual one",
        _NOT_EXECUTABLE,
    )


def not_started(program: str, number: int) -> ApplyError:
    """Return the error for a program that the kernel does not execute, by its errno."""
    if number in (errno.ENOENT, errno.ENOTDIR):
        return _not_found(program)
    return ApplyError(
        f"{program}: it cannot be executed ({os.strerror(number)}). A program must be made for"
        " this machine, or be a script whose first line is #!INTERPRETER",
        _NOT_EXECUTABLE,
    )


def _not_found(program: str) -> ApplyError:
    return ApplyError(
        f"{program}: there is no such command. Give its path, or a name that is in PATH",
        _NOT_FOUND,
    )


def _find(program: str, environment: Mapping[str, str]) -> Path:
    """Return the program's path, as execvp finds it."""
    places = [""]
    if "/" not in program:
        places = environment.get("PATH", _DEFAULT_PATH).split(os.pathsep)
    found = None
    for place in places:
        path = Path(place, program)
        if program and path.exists():
            found = found or path
            if path.is_file() and os.access(path, os.X_OK):
                return path
    if found is None:
        raise _not_found(program)
    if found.is_dir():
        raise ApplyError(f"{found} is a folder. Give a program in it", _NOT_EXECUTABLE)
    raise ApplyError(
        f"{found}: it may not be executed. Allow it (chmod +x), or give its interpreter before it",
        _NOT_EXECUTABLE,
    )


def _find_interpreter(path: Path, script: Path) -> Path:
    if not path.exists():
        raise ApplyError(
            f"{script}: its interpreter {path} is not there. Install it, or write another one in"
            " the first line",
            _NOT_FOUND,
        )
    return path


def _interpreter_of(path: Path) -> list[str]:
    """Return interpreter and option of a script's first line; empty if it is no script."""
    try:
        with open_regular(path) as file:
            line = file.read(_FIRST_LINE_BYTES).partition(b"\n")[0]
    except OSError:
        return []
    if not line.startswith(b"#!"):
        return []
    return os.fsdecode(line[2:].strip()).split(None, 1)


def _without_env(words: Sequence[str]) -> list[str]:
    """Return the command line that env starts: without options and variables."""
    rest = list(words[1:])
    if rest and rest[0].startswith(("-S", "--split-string=")):
        rest[:1] = rest[0].removeprefix("-S").removeprefix("--split-string=").split()
    while rest and (rest[0].startswith("-") or "=" in rest[0]):
        del rest[0]
    return rest or ["env"]


def _python_options(words: Sequence[str]) -> Iterator[str]:
    """Yield the letters of the options before Python's program."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word in ("-", "--"):
            return
        if word.startswith("--"):
            continue
        for place, letter in enumerate(word[1:], start=1):
            yield letter
            if letter in _LAST:
                return
            if letter in _WITH_VALUE:
                if place == len(word) - 1:
                    next(rest, None)
                break


def _elf_of(path: Path) -> ElfFile | None:
    try:
        return read_elf(path)
    except OSError:  # this user may execute the file and not read it
        return None


def _has_rights(path: Path) -> bool:
    """Whether the file gives rights that this process does not have."""
    status = path.stat()
    is_other_user = status.st_mode & 0o4000 and status.st_uid != os.geteuid()
    is_other_group = status.st_mode & 0o2000 and status.st_gid != os.getegid()
    if is_other_user or is_other_group:
        return True
    try:
        return os.geteuid() != 0 and _CAPABILITIES in os.listxattr(path)
    except OSError:  # a file system without attributes
        return False
