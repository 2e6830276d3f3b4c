"""Where the compiled reader is, and how it is made: again whenever a source has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reusebench.system.cache import cache_root, locked, scratch_folder
from reusebench.system.package import NATIVE
from reusebench.targets.compilers import Compiler, compiler_for, fingerprint

__all__ = ["READER_PREFIX", "compile_reader", "ensure_reader"]

#: How the program's name begins, here and on boards.
READER_PREFIX = "reader-"
_SOURCES = NATIVE / "reader"
# No C library, and nothing that asks for one: neither calls to it that a compiler adds by itself,
# nor its start.
_COMPILE = (
    *(
        "-std=c11",
        "-Os",
        "-Wall",
        "-Wextra",
        "-ffreestanding",
        "-fomit-frame-pointer",
        "-fno-stack-protector",
    ),
    *("-fno-asynchronous-unwind-tables", "-fno-pie"),
)
_LINK = ("-nostdlib", "-static", "-s", "-Wl,--build-id=none")


def ensure_reader(architecture: str, show_step: Callable[[str], None]) -> Path:
    """Return the program for the architecture, compiled where it is missing; its name has the
    sources' fingerprint.
    """
    program = (
        cache_root()
        / "reader"
        / f"{READER_PREFIX}{architecture}-{fingerprint(_COMPILE + _LINK, _SOURCES)}"
    )
    with locked(program):
        if not program.is_file():
            with scratch_folder(program.parent) as space:
                compiler = compiler_for(architecture, show_step)
                show_step(f"compiling the reader for {architecture}")
                compile_reader(compiler, space).rename(program)
    return program


def compile_reader(compiler: Compiler, folder: Path) -> Path:
    """Compile the program into the folder."""
    objects = []
    for source in sorted(_SOURCES.glob("*.c")):
        objects.append(str(folder / f"{source.stem}.o"))
        compiler.compile([*_COMPILE, "-c", "-o", objects[-1], str(source)])
    program = folder / "reader"
    compiler.compile([*_LINK, "-o", str(program), *objects])
    return program
