"""uClibc for a board of the tests, built from Debian's source package in a few minutes:

    python -m tests.helpers.uclibc

It needs make and Debian's compiler for armhf (apt install make gcc-arm-linux-gnueabihf). Tests find
it in the user's cache, as they find another one that somebody has put there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from reusebench.system.cache import cache_root, locked
from reusebench.targets.errors import TargetError
from reusebench.targets.rknn_library import architecture_of_this_python
from tests.helpers.debian_packages import fetched_packages

__all__ = ["find_uclibc"]

# The user's cache, read during collection, before tests have caches of their own.
_FOLDER = cache_root() / "uclibc-armhf"
_LOADER = "ld-uClibc.so.0"
_LIBRARY = "libc.so.0"

_TRIPLE = "arm-linux-gnueabihf"
#: Configuration of Rockchip's SDK for RV1106, for its library and our driver; otherwise defaults.
_CONFIGURATION = """\
ARCH_LITTLE_ENDIAN=y
ARCH_WANTS_LITTLE_ENDIAN=y
CONFIG_ARM_EABI=y
UCLIBC_HAS_THREADS_NATIVE=y
DO_C99_MATH=y
DO_XSI_MATH=y
UCLIBC_HAS_WCHAR=y
UCLIBC_HAS_GLIBC_CUSTOM_STREAMS=y
RUNTIME_PREFIX="/"
DEVEL_PREFIX="/usr/"
CROSS_COMPILER_PREFIX="{triple}-"
KERNEL_HEADERS="{headers}"
"""
_NOT_WANTED = ("HAS_NO_THREADS", "ARCH_WANTS_BIG_ENDIAN", "ARCH_BIG_ENDIAN", "LDSO_CACHE_SUPPORT")
#: Its loader, as the SDK's, knows the older kind of symbol tables alone; Debian's compiler makes
#: the other.
_TABLES = "UCLIBC_EXTRA_LDFLAGS=-Wl,--hash-style=sysv"


def find_uclibc() -> Path | None:
    """Return the folder with its loader and its library for armhf; None if there is none."""
    return _FOLDER if (_FOLDER / _LOADER).exists() and (_FOLDER / _LIBRARY).exists() else None


def _build() -> None:
    """Build it into the user's cache; raise TargetError with what is missing, or what failed."""
    compiler = shutil.which(f"{_TRIPLE}-gcc")
    if compiler is None or shutil.which("make") is None:
        raise TargetError(
            f"uClibc is built by make and {_TRIPLE}-gcc (Debian: apt install make gcc-{_TRIPLE})"
        )
    headers = Path(compiler).parent.parent / _TRIPLE / "include"
    (archive,) = fetched_packages(architecture_of_this_python() or "", "uclibc-source").glob(
        "usr/src/*.tar.*"
    )
    with (
        locked(_FOLDER),
        tempfile.TemporaryDirectory(dir=_FOLDER.parent, prefix=".uclibc-") as space,
    ):
        shutil.unpack_archive(archive, space)
        (source,) = Path(space).iterdir()
        _make(source, "defconfig")
        configuration = source / ".config"
        lines = [
            line
            for line in configuration.read_text().splitlines()
            if not line.startswith(_NOT_WANTED)
        ]
        wanted = _CONFIGURATION.format(triple=_TRIPLE, headers=headers)
        unwanted = [f"# {name} is not set" for name in _NOT_WANTED]
        configuration.write_text("\n".join([*lines, *unwanted, wanted]))
        _make(source, "oldconfig")
        _make(source, f"-j{os.cpu_count()}")
        _FOLDER.mkdir(exist_ok=True)
        for library in (source / "lib").glob("*uClibc*.so*"):
            shutil.copy(library, _FOLDER)
        shutil.copy(source / "lib" / _LIBRARY, _FOLDER)


def _make(source: Path, target: str) -> None:
    made = subprocess.run(
        ["make", "-C", source, "ARCH=arm", _TABLES, target],
        input="\n" * 1000,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise TargetError(
            f"uClibc could not be built (make {target}): {made.stderr.strip()[-1000:]}"
        )


if __name__ == "__main__":
    try:
        _build()
    except TargetError as error:
        sys.exit(str(error))
