"""Where the compiled preload library is, and how it is made: again whenever a source has
changed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reusebench.system.cache import locked, scratch_folder
from reusebench.system.package import NATIVE
from reusebench.targets.compilers import Compiler, compiler_for, fingerprint
from reusebench.targets.folders import root

__all__ = [
    "compile_preload",
    "ensure_preload",
    "is_built",
    "preload_library",
    "preload_sources",
    "uclibc_folder",
]

_SOURCES = NATIVE / "preload"
#: Not part of the library: the stand-in for uClibc that librknnmrt needs beside it.
_UCLIBC = "uclibc.c"
_NAME = "reusebench_preload.so"
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-s")
#: Only hooks are seen from outside.
_HIDDEN = "-fvisibility=hidden"
#: librknnmrt was made for this architecture alone.
_UCLIBC_ARCHITECTURES = ("armhf",)


def preload_library(architecture: str) -> Path:
    """Return where the library of these sources is, or would be."""
    return _folder(architecture) / _NAME


def uclibc_folder(architecture: str) -> Path:
    """Return the folder with the libc.so.0 that librknnmrt asks for."""
    return _folder(architecture) / "uclibc"


def is_built(architecture: str) -> bool:
    """Whether the library is there, compiled from the sources as they are."""
    return preload_library(architecture).is_file()


def ensure_preload(architecture: str, show_step: Callable[[str], None]) -> None:
    """Compile the library for the architecture where it is missing."""
    with (
        locked(root() / "preload"),
        scratch_folder(root()) as space,
    ):
        if is_built(architecture):
            return
        compiler = compiler_for(architecture, show_step)
        _install(architecture, compiler, space, show_step)


def compile_preload(compiler: Compiler, library: Path, *definitions: str) -> None:
    """Compile the library to that path; `definitions` are further arguments, such as
    -DVARIABLES='"OTHER"'.
    """
    sources = map(str, preload_sources())
    compiler.compile(
        [*_FLAGS, _HIDDEN, *definitions, "-o", str(library), *sources, "-ldl", "-lpthread"]
    )


def preload_sources() -> list[Path]:
    """Return the C files of the library."""
    return [path for path in sorted(_SOURCES.glob("*.c")) if path.name != _UCLIBC]


def _install(
    architecture: str, compiler: Compiler, space: Path, show_step: Callable[[str], None]
) -> None:
    show_step(f"compiling the preload library for {architecture}")
    new = space / architecture
    folder = _folder(architecture)
    new.mkdir()
    compile_preload(compiler, new / _NAME)
    if architecture in _UCLIBC_ARCHITECTURES:
        library = new / "uclibc" / "libc.so.0"
        library.parent.mkdir()
        name = f"-Wl,-soname,{library.name}"
        compiler.compile([*_FLAGS, name, "-o", str(library), str(_SOURCES / _UCLIBC), "-lm"])
    folder.parent.mkdir(exist_ok=True)
    # Older ones stay: a process that is just starting may be about to load one, and would run
    # unguarded without it.
    new.rename(folder)


def _folder(architecture: str) -> Path:
    return root() / "preload" / f"{architecture}-{fingerprint(_FLAGS, _SOURCES)}"
