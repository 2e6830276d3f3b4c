"""The C programs of native/, their compilation and their paths in the cache.

A program is compiled once for each form, mostly an architecture with the GNU C library. Its folder
is named after a fingerprint of sources and options, so a changed source gives another folder. The
old one stays: a process that is just starting may be about to load a library from it.

Boards with an RV1103 or RV1106 have uClibc, for which no toolchain is needed: code is compiled with
the headers of the GNU C library and linked against the names that it takes from libc.so.0 (libc.c)
and with its own start (start.c), both in native/driver/uclibc.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reusebench.system.cache import cache_root, locked, scratch_folder
from reusebench.system.package import NATIVE

if TYPE_CHECKING:
    from reusebench.targets.compilers import Compiler

__all__ = [
    "APPLY",
    "DRIVER",
    "PRELOAD",
    "READER",
    "SANDBOX",
    "UCLIBC",
    "Binary",
    "NativeProgram",
    "uclibc_preload",
    "uclibc_stand_in",
]

#: The form for uClibc; all others are architectures.
UCLIBC = "armhf-uclibc"


@dataclass(frozen=True)
class Binary:
    """An executable or shared library, linked from C sources that are compiled one by one.

    Zig's compiler would find no headers if one command compiled and linked without the C library.
    """

    #: Relative to the folder of its program.
    path: str
    #: Patterns relative to native/.
    sources: tuple[str, ...]
    compile_options: tuple[str, ...]
    link_options: tuple[str, ...] = ()
    #: Paths of earlier binaries of the program that it is linked against.
    linked_against: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    def source_files(self) -> list[Path]:
        """Return the C files."""
        files: list[Path] = []
        for pattern in self.sources:
            files += sorted(NATIVE.glob(pattern))
        return files

    def compile(self, compiler: Compiler, folder: Path, *options: str) -> None:
        """Compile it below `folder` with additional `options`; raise TargetError if that fails."""
        output = folder / self.path
        output.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as space:
            objects = []
            for number, source in enumerate(self.source_files()):
                objects.append(f"{space}/{number}.o")
                arguments = ["-c", "-o", objects[-1], str(source)]
                compiler.compile([*self.compile_options, *options, *arguments])

            others = [str(folder / path) for path in self.linked_against]
            arguments = ["-o", str(output), *objects, *others, *self.libraries]
            compiler.compile([*self.link_options, *arguments])


@dataclass(frozen=True)
class NativeProgram:
    """A program or library of native/, with the binaries that belong to it."""

    #: Its folders in the cache begin with this.
    name: str
    #: Name in messages, such as "compiling the driver for armhf".
    title: str
    #: Path of its main binary.
    main: str
    binaries: tuple[Binary, ...]
    #: Form to the binaries that it has in place of `binaries`.
    other_binaries: Mapping[str, tuple[Binary, ...]] = field(default_factory=dict)
    #: The folder of the cache that it is in. Virtual boards are copied from machine to machine with
    #: the programs that they need.
    cache_folder: str = "vboard"

    def folder(self, form: str) -> Path:
        """Return the folder that the program is in once it is compiled from these sources."""
        name = f"{self.name}-{form}-{self._fingerprint(form)}"
        return cache_root() / self.cache_folder / name

    def path(self, form: str) -> Path:
        """Return the path of the main binary, which exists once it is compiled."""
        return self.folder(form) / self.main

    def is_built(self, form: str) -> bool:
        """Whether the program is compiled from the sources as they are now."""
        return self.path(form).is_file()

    def ensure(self, form: str, show_step: Callable[[str], None]) -> None:
        """Compile the program unless that is done; raise TargetError if it fails."""
        if self.is_built(form):
            return
        folder = self.folder(form)
        with locked(folder), scratch_folder(folder.parent) as space:
            if self.is_built(form):  # by another process, while this one waited
                return
            # Not at the top: a program that is compiled already is found sooner.
            from reusebench.targets import compilers

            architecture = form.partition("-")[0]
            compiler = compilers.compiler_for(architecture, show_step)
            show_step(f"compiling {self.title} for {form}")
            new = space / "new"
            new.mkdir()
            self.compile(compiler, form, new)
            new.rename(folder)

    def compile(self, compiler: Compiler, form: str, folder: Path, *options: str) -> None:
        """Compile the program into `folder`, with additional `options` for each source."""
        for binary in self._binaries(form):
            binary.compile(compiler, folder, *options)

    def _binaries(self, form: str) -> tuple[Binary, ...]:
        return self.other_binaries.get(form, self.binaries)

    def _fingerprint(self, form: str) -> str:
        binaries = self._binaries(form)
        digest = hashlib.sha256(repr(binaries).encode())
        folders: set[Path] = set()
        for binary in binaries:
            folders.update(file.parent for file in binary.source_files())
        for folder in sorted(folders):
            for file in sorted(folder.glob("*.[ch]")):
                digest.update(file.name.encode() + b"\0" + file.read_bytes())
        return digest.hexdigest()[:16]


_WARNINGS = ("-O2", "-Wall", "-Wextra")
#: Only hooks are visible from outside.
_HIDDEN = "-fvisibility=hidden"

SANDBOX = NativeProgram(
    "sandbox",
    "the sandbox",
    "sandbox",
    (Binary("sandbox", ("sandbox/*.c",), ("-std=gnu11", *_WARNINGS), ("-s",)),),
)

#: No C library. The options also keep out calls to one that a compiler adds by itself.
READER = NativeProgram(
    "reader",
    "the reader",
    "reader",
    (
        Binary(
            "reader",
            ("reader/*.c",),
            (
                "-std=c11",
                "-Os",
                "-Wall",
                "-Wextra",
                "-ffreestanding",
                "-fomit-frame-pointer",
                "-fno-stack-protector",
                "-fno-asynchronous-unwind-tables",
                "-fno-pie",
            ),
            ("-nostdlib", "-static", "-s", "-Wl,--build-id=none"),
        ),
    ),
    cache_folder="reader",
)

_PRELOAD_LIBRARY = "reusebench_preload.so"
_PRELOAD_SOURCES = "preload/*.c"
_PRELOAD_OPTIONS = ("-std=gnu11", *_WARNINGS, "-fPIC", _HIDDEN)
_STAND_IN = "uclibc/libc.so.0"
_PRELOAD_BINARY = Binary(
    _PRELOAD_LIBRARY,
    (_PRELOAD_SOURCES,),
    _PRELOAD_OPTIONS,
    ("-shared", "-s"),
    libraries=("-ldl", "-lpthread"),
)
_STAND_IN_BINARY = Binary(
    _STAND_IN,
    ("preload/uclibc/libc.c",),
    ("-std=gnu11", *_WARNINGS, "-fPIC"),
    ("-shared", "-s", "-Wl,-soname,libc.so.0"),
    libraries=("-lm",),
)

PRELOAD = NativeProgram(
    "preload",
    "the preload library",
    _PRELOAD_LIBRARY,
    (_PRELOAD_BINARY,),
    # librknnmrt is made for this architecture alone.
    {"armhf": (_PRELOAD_BINARY, _STAND_IN_BINARY)},
)

_DRIVER_PROGRAM = "reusebench-driver"
_DRIVER_SOURCES = "driver/*.c"
_DRIVER_OPTIONS = ("-std=c11", *_WARNINGS, _HIDDEN)
_STRIPPED = ("-s", "-Wl,--gc-sections")
#: Tables for exceptions, and the 64-bit times that some compilers for 32 bits choose, would name
#: functions that uClibc does not have.
_UCLIBC_OPTIONS = (
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-U_FILE_OFFSET_BITS",
    "-U_TIME_BITS",
)
#: If uClibc's loader knows only the older kind of symbol table, it finds no symbol in the newer
#: one and says nothing.
_UCLIBC_LINK = (*_STRIPPED, "-nostdlib", "-Wl,--hash-style=both")
_UCLIBC_LOADER = "-Wl,--dynamic-linker=/lib/ld-uClibc.so.0"
#: The divisions that 32-bit ARM has no instructions for; both compilers have them under this name.
_DIVISIONS = "-lgcc"
#: Only linked against. The functions in it do not have the types that compilers expect.
_UCLIBC_NAMES = Binary(
    "names/libc.so.0",
    ("driver/uclibc/libc.c",),
    (*_UCLIBC_OPTIONS, "-w", "-fno-builtin", "-fPIC"),
    ("-shared", "-nostdlib", "-Wl,-soname,libc.so.0"),
)

DRIVER = NativeProgram(
    "driver",
    "the driver",
    _DRIVER_PROGRAM,
    (
        Binary(
            _DRIVER_PROGRAM,
            (_DRIVER_SOURCES,),
            _DRIVER_OPTIONS,
            _STRIPPED,
            libraries=("-ldl", "-lpthread"),
        ),
    ),
    {
        UCLIBC: (
            _UCLIBC_NAMES,
            Binary(
                _DRIVER_PROGRAM,
                (_DRIVER_SOURCES, "driver/uclibc/start.c"),
                (*_DRIVER_OPTIONS, *_UCLIBC_OPTIONS),
                (*_UCLIBC_LINK, _UCLIBC_LOADER),
                linked_against=(_UCLIBC_NAMES.path,),
                libraries=(_DIVISIONS,),
            ),
            Binary(
                _PRELOAD_LIBRARY,
                (_PRELOAD_SOURCES, "driver/uclibc/preload.c"),
                (*_PRELOAD_OPTIONS, *_UCLIBC_OPTIONS),
                (*_UCLIBC_LINK, "-shared"),
                libraries=(_DIVISIONS,),
            ),
        )
    },
)

_APPLY_LIBRARY = "reusebench_apply.so"
_APPLY_SOURCES = "apply/*.c"
#: All that it takes from uClibc: a name that is missing there fails when it is linked, and not in
#: a user's program.
_APPLY_UCLIBC_NAMES = replace(_UCLIBC_NAMES, sources=("apply/uclibc/names.c",))

#: Also for x86-64, which has no NPU: with a double of Rockchip's library it is tried there.
APPLY = NativeProgram(
    "apply",
    "the library of apply",
    _APPLY_LIBRARY,
    (
        Binary(
            _APPLY_LIBRARY,
            (_APPLY_SOURCES, "apply/glibc/*.c"),
            _PRELOAD_OPTIONS,
            ("-shared", *_STRIPPED),
            libraries=("-ldl", "-lpthread"),
        ),
    ),
    {
        UCLIBC: (
            _APPLY_UCLIBC_NAMES,
            Binary(
                _APPLY_LIBRARY,
                (_APPLY_SOURCES, "apply/uclibc/library.c", "driver/uclibc/preload.c"),
                (*_PRELOAD_OPTIONS, "-Os", *_UCLIBC_OPTIONS),
                (*_UCLIBC_LINK, "-shared", "-Wl,-z,defs"),
                linked_against=(_APPLY_UCLIBC_NAMES.path,),
                libraries=(_DIVISIONS,),
            ),
        )
    },
    cache_folder="apply",
)


def uclibc_preload() -> Path:
    """Return the path of the preload library for uClibc, which is compiled with the driver."""
    return DRIVER.folder(UCLIBC) / _PRELOAD_LIBRARY


def uclibc_stand_in(architecture: str) -> Path:
    """Return the path of the libc.so.0 that librknnmrt asks for, to use with the GNU C library."""
    return PRELOAD.folder(architecture) / _STAND_IN
