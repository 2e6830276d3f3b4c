"""A board in a namespace: a small armhf Linux with BusyBox, under qemu, whose shell stands for the
board's.

Its programs run as they would on a board: the kernel starts the emulator for them, registered in a
user namespace of the board's own (kernel 6.7 or newer). It has its own processes and mounts; its
root is the user of the tests.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from reusebench.system.cache import cache_root, locked
from reusebench.targets.compilers import compiler_for
from reusebench.targets.errors import TargetError
from reusebench.targets.programs import PRELOAD, uclibc_stand_in
from reusebench.targets.rknn_library import find_libraries
from reusebench.targets.vboard.catalogue import rknn_system
from reusebench.targets.vboard.emulator import ensure_emulator, find_emulator
from tests.helpers.debian_packages import unpacked_packages
from tests.helpers.support import TIME_LIMIT_S, known
from tests.helpers.uclibc import find_uclibc

__all__ = ["GLIBC", "NPU_VARIABLES", "PYTHON", "UCLIBC", "Board", "running_board"]

_ARCHITECTURE = "armhf"
#: Prefix of the variables that set up the board's NPU (native/preload/preload.h).
NPU_VARIABLES = "BOARDNPU"
#: Parts of a board apart from BusyBox: Debian's C library, the same and Python, or uClibc.
GLIBC = "glibc"
PYTHON = "python"
UCLIBC = "uclibc"
# The user's cache, read during collection, before tests have caches of their own.
_LIBRARY_FOLDER = cache_root() / "rknn"

#: Folder of Rockchip's libraries in the SDK of small boards.
_LIBRARIES = "oem/usr/lib"
_FOLDERS = (
    "bin",
    "dev",
    "etc",
    "mnt",
    _LIBRARIES,
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "tmp",
    "userdata",
)
_FOLDERS_OF_LIBRARIES = ("lib", "usr/lib/arm-linux-gnueabihf")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

#: A program for 32-bit Arm: what of an ELF header is compared, and with what. F: the emulator is
#: opened here and now. P: it gets argument 0 as it was, which BusyBox goes by.
_FORMAT = (
    r":arm:M::\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x28\x00"
    r":\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:{emulator}:FP"
)
#: The work of a boot loader and a kernel. $1: the root, $2: the format of the board's programs.
_BOOT = """
set -e
PATH=$PATH:/usr/sbin:/sbin
mount --bind "$1" "$1"
cd "$1"
mount -t proc none proc
mount --rbind /sys sys
for folder in dev tmp run; do mount -t tmpfs none $folder; done
for device in null zero full random urandom tty; do
  : > dev/$device; mount --bind /dev/$device dev/$device
done
mkdir dev/shm run/formats
: > dev/rknpu
mount -t binfmt_misc none run/formats
printf %s "$2" > run/formats/register
pivot_root . mnt
exec /bin/sh -c 'umount -l /mnt; echo up; exec /sbin/init'
"""
_NAMESPACES = ("--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child")
#: The init of BusyBox does nothing then but to wait for processes whose parents have ended.
_INITTAB = "::sysinit:/bin/true\n"
_SHELL = """\
#!/bin/sh
exec nsenter --target "$(cat {folder}/init)" --user --mount --pid --preserve-credentials \
  /usr/bin/env -i HOME=/root PATH={path} {variables} /bin/sh "$@"
"""


class Board:
    """A board that can be switched on and off."""

    def __init__(self, folder: Path, emulator: Path) -> None:
        self.root = folder / "root"
        #: A program that is a shell on the board, for anything that starts one: pipe:, sshd, adbd.
        self.shell = folder / "board-sh"
        self._init = folder / "init"
        self._emulator = emulator
        self._power: subprocess.Popen[str] | None = None

    def switch_on(self) -> None:
        """Boot; skip the test if this machine does not allow it."""
        boot = ["unshare", *_NAMESPACES, "sh", "-c", _BOOT, "sh", str(self.root)]
        self._power = subprocess.Popen(
            [*boot, _FORMAT.format(emulator=self._emulator)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if known(self._power.stdout).readline() != "up\n":
            _, errors = self._power.communicate(timeout=TIME_LIMIT_S)
            pytest.skip(
                "no namespace for a board of another architecture here (Linux 6.7 has them):"
                f" {errors.strip()}"
            )
        (init,) = psutil.Process(self._power.pid).children()
        self._init.write_text(f"{init.pid}\n", encoding="ascii")
        while self.processes():  # what init itself starts at first
            time.sleep(0.01)

    def is_off(self) -> bool:
        """Whether its first process has ended, and so all others."""
        return known(self._power).poll() is not None

    def switch_off(self) -> None:
        """End everything on the board at once, as when its power fails; it may be off already."""
        if not self.is_off():
            os.kill(self.init, signal.SIGKILL)
        known(self._power).communicate(timeout=TIME_LIMIT_S)

    @property
    def init(self) -> int:
        """Return the board's first process."""
        return int(self._init.read_text(encoding="ascii"))

    def run(self, script: str) -> str:
        """Return the output of a script on the board; it must succeed."""
        done = subprocess.run(
            [self.shell, "-c", script],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIME_LIMIT_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def processes(self) -> dict[int, list[str]]:
        """Return the commands of all processes on the board but the first, by their ids outside."""
        own = _namespace(self.init)
        commands = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.pid != self.init and _namespace(process.pid) == own:
                    commands[process.pid] = process.cmdline()
        return commands


@contextmanager
def running_board(folder: Path, kind: str = GLIBC, chip: str | None = None) -> Iterator[Board]:
    """Run a board of that kind, with that chip's NPU and Rockchip's library if one is given.

    Skips the test if the board cannot be made or run; without the library if this machine has none.
    """
    try:
        ensure_emulator(_ARCHITECTURE, lambda _: None)
        rknn_system(_ARCHITECTURE).ensure(None, lambda _: None)
        npu = None if chip is None or kind == UCLIBC else _npu()
    except TargetError as error:
        pytest.skip(str(error))
    emulator = find_emulator(_ARCHITECTURE)
    if emulator is None:
        pytest.skip(f"this machine runs {_ARCHITECTURE} programs itself")
    board = Board(folder, emulator)
    _make_root(board.root, kind, emulator)
    if npu is not None:
        _add_npu(board.root, npu)
    if chip is not None:
        _add_library(board.root, chip, kind)
    # No second copy of the preload library is compiled for uClibc: the one that keeps the ledger
    # plays the NPU as well.
    playing = "REUSEBENCH" if kind == UCLIBC else NPU_VARIABLES
    variables = f"LD_LIBRARY_PATH=/{_LIBRARIES} {playing}_BOARD={chip or ''}"
    board.shell.write_text(
        _SHELL.format(folder=folder, path=_PATH, variables=variables), encoding="utf-8"
    )
    board.shell.chmod(0o755)
    board.switch_on()
    try:
        yield board
    finally:
        board.switch_off()


def _make_root(root: Path, kind: str, emulator: Path) -> None:
    if kind == PYTHON:
        shutil.copytree(rknn_system(_ARCHITECTURE).folder, root, symlinks=True)
        (root / "usr/bin/python3").symlink_to(rknn_system(_ARCHITECTURE).python().name)
    elif kind == UCLIBC:
        uclibc = find_uclibc()
        if uclibc is None:
            pytest.skip("no uClibc in the user's cache (python -m tests.helpers.uclibc builds it)")
        shutil.copytree(uclibc, root / "lib", symlinks=True)
    else:
        libraries = rknn_system(_ARCHITECTURE).folder
        for folder in _FOLDERS_OF_LIBRARIES:
            shutil.copytree(libraries / folder, root / folder, symlinks=True)
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    busybox = unpacked_packages(_ARCHITECTURE, "busybox-static", follow=False) / "bin" / "busybox"
    shutil.copy(busybox, root / "bin" / "busybox")
    applets = subprocess.run(
        [emulator, busybox, "--list-full"], capture_output=True, text=True, check=True
    ).stdout
    for applet in applets.splitlines():
        path = root / applet
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.symlink_to("/bin/busybox")
    (root / "etc" / "inittab").write_text(_INITTAB, encoding="ascii")
    (root / "etc" / "passwd").write_text("root::0:0:root:/root:/bin/sh\n", encoding="ascii")


def _npu() -> Path:
    """Return the library that plays the board's NPU, which is the preload library with variables of
    its own.
    """
    library = PRELOAD.path(_ARCHITECTURE)
    npu = library.with_name("board_npu.so")
    PRELOAD.ensure(_ARCHITECTURE, lambda _: None)
    with locked(npu), tempfile.TemporaryDirectory(dir=npu.parent) as space:
        if not npu.exists():
            compiler = compiler_for(_ARCHITECTURE, lambda _: None)
            definition = f'-DVARIABLES="{NPU_VARIABLES}"'
            PRELOAD.compile(compiler, _ARCHITECTURE, Path(space), definition)
            (Path(space) / library.name).rename(npu)
    return npu


def _add_npu(root: Path, npu: Path) -> None:
    """Have every program on the board find the NPU's driver below all else that is preloaded."""
    shutil.copy(npu, root / _LIBRARIES / npu.name)
    (root / "etc" / "ld.so.preload").write_text(f"/{_LIBRARIES}/{npu.name}\n", encoding="ascii")


def _add_library(root: Path, chip: str, kind: str) -> None:
    fitting = [
        library
        for library in find_libraries([_LIBRARY_FOLDER] if _LIBRARY_FOLDER.is_dir() else [])
        if library.architecture == _ARCHITECTURE and chip in library.chips()
    ]
    for library in fitting[-1:]:
        shutil.copy(library.path, root / _LIBRARIES / f"{library.kind}.so")
        # librknnmrt was linked against uClibc.
        if kind != UCLIBC:
            shutil.copy(uclibc_stand_in(_ARCHITECTURE), root / _FOLDERS_OF_LIBRARIES[-1])


def _namespace(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/pid").readlink())
