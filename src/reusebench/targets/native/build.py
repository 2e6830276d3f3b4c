"""Where the compiled driver is, and how it is made: again whenever a source has changed.

Of the GNU C library there is one for each architecture. For uClibc, which RV1103's and RV1106's
boards have, it is compiled with the GNU library's headers and linked without a toolchain of
uClibc's: against the names alone that it takes, with a beginning of its own. The preload library
for it is made beside it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from reusebench.system.cache import locked, scratch_folder
from reusebench.system.package import NATIVE
from reusebench.targets.compilers import ARCHITECTURES, Compiler, compiler_for, fingerprint
from reusebench.targets.folders import root
from reusebench.targets.preload.build import preload_sources

__all__ = [
    "FORMS",
    "UCLIBC",
    "compile_native",
    "ensure_native",
    "is_built",
    "native_driver",
    "uclibc_preload",
]

#: The driver for uClibc; the others are called as their architectures.
UCLIBC = "armhf-uclibc"
FORMS = (*ARCHITECTURES, UCLIBC)

_SOURCES = NATIVE / "driver"
_UCLIBC_SOURCES = _SOURCES / "uclibc"
_DRIVER = "reusebench-driver"
_PRELOAD = "reusebench_preload.so"
_WARNINGS = ("-O2", "-Wall", "-Wextra", "-fvisibility=hidden")
_FLAGS = ("-std=c11", *_WARNINGS)
_LINKED = ("-s", "-Wl,--gc-sections")
#: Tables for exceptions, and the 64-bit times that some compilers for 32 bits choose, would name
#: functions that uClibc does not have.
_UCLIBC_FLAGS = (
    *("-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
    *("-U_FILE_OFFSET_BITS", "-U_TIME_BITS"),
)
_PRELOAD_FLAGS = ("-std=gnu11", *_WARNINGS, "-fPIC", *_UCLIBC_FLAGS)
#: uClibc's loader may know the older kind of symbol tables alone; it would then find no symbol, and
#: say nothing.
_UCLIBC_LINKED = (*_LINKED, "-nostdlib", "-Wl,--hash-style=both")
_UCLIBC_LOADER = "-Wl,--dynamic-linker=/lib/ld-uClibc.so.0"
#: The divisions that 32-bit ARM has no instructions for; both compilers have them under this name.
_DIVISIONS = "-lgcc"


def native_driver(form: str) -> Path:
    """Return where the driver of these sources is, or would be."""
    return _folder(form) / _DRIVER


def uclibc_preload() -> Path:
    """Return where the preload library for uClibc is, or would be."""
    return _folder(UCLIBC) / _PRELOAD


def is_built(form: str) -> bool:
    """Whether the driver is there, compiled from the sources as they are."""
    return native_driver(form).is_file()


def ensure_native(form: str, show_step: Callable[[str], None]) -> None:
    """Compile the driver where it is missing; raise TargetError if that fails."""
    with (
        locked(root() / "native"),
        scratch_folder(root()) as space,
    ):
        if is_built(form):
            return
        architecture = _architecture(form)
        compiler = compiler_for(architecture, show_step)
        show_step(f"compiling the driver for {form}")
        new = space / form
        new.mkdir()
        compile_native(compiler, form, new)
        _folder(form).parent.mkdir(exist_ok=True)
        new.rename(_folder(form))


def compile_native(compiler: Compiler, form: str, folder: Path) -> None:
    """Compile the driver, and what belongs to it, into the folder."""
    if form == UCLIBC:
        _compile_for_uclibc(compiler, folder)
        return
    sources = map(str, sorted(_SOURCES.glob("*.c")))
    compiler.compile(
        [*_FLAGS, *_LINKED, "-o", str(folder / _DRIVER), *sources, "-ldl", "-lpthread"]
    )


def _compile_for_uclibc(compiler: Compiler, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as space:
        names = Path(space) / "libc.so.0"
        # Its functions are no compiler's idea of them.
        options = ("-w", "-fno-builtin", "-shared", "-nostdlib", f"-Wl,-soname,{names.name}")
        compiler.compile(
            [*_UCLIBC_FLAGS, *options, "-o", str(names), str(_UCLIBC_SOURCES / "libc.c")]
        )
        driver = [*sorted(_SOURCES.glob("*.c")), _UCLIBC_SOURCES / "start.c"]
        objects = _objects(compiler, driver, (*_FLAGS, *_UCLIBC_FLAGS), Path(space) / "driver")
        program = [*_UCLIBC_LINKED, _UCLIBC_LOADER, "-o", str(folder / _DRIVER)]
        compiler.compile([*program, *objects, str(names), _DIVISIONS])
        preload = [*preload_sources(), _UCLIBC_SOURCES / "preload.c"]
        objects = _objects(compiler, preload, _PRELOAD_FLAGS, Path(space) / "preload")
        compiler.compile(
            [*_UCLIBC_LINKED, "-shared", "-o", str(folder / _PRELOAD), *objects, _DIVISIONS]
        )


def _objects(
    compiler: Compiler, sources: list[Path], flags: tuple[str, ...], folder: Path
) -> list[str]:
    """Compile each source by itself: without the C library zig's compiler would find no headers
    either.
    """
    folder.mkdir()
    objects = []
    for source in sources:
        objects.append(str(folder / f"{source.stem}.o"))
        compiler.compile([*flags, "-c", "-o", objects[-1], str(source)])
    return objects


def _architecture(form: str) -> str:
    return form.partition("-")[0]


def _folder(form: str) -> Path:
    options = (*_FLAGS, *_LINKED, *_PRELOAD_FLAGS, *_UCLIBC_LINKED)
    digest = fingerprint(options, _SOURCES, _UCLIBC_SOURCES, preload_sources()[0].parent)
    return root() / "native" / f"{form}-{digest}"
