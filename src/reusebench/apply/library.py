"""The library for RKNN: the path by which the loader finds it.

The GNU loader puts the processor's name in place of $PLATFORM. So the programs that a program
starts get the library of their own architecture, or a placeholder, and no error is printed. Other
loaders find no file of that name, and say nothing; uClibc's gets the path itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from reusebench.apply.errors import ApplyError
from reusebench.apply.placeholder import placeholder
from reusebench.system.cache import CacheError, locked, scratch_folder
from reusebench.targets.errors import TargetError
from reusebench.targets.programs import APPLY, UCLIBC

__all__ = ["PLATFORM", "compiled_library", "lay_out", "library_path"]

#: What the loader replaces.
PLATFORM = "$PLATFORM"
#: Key: architecture; value: the names that the loader may put there.
_PLATFORMS = {
    "aarch64": ("aarch64",),
    "armhf": ("v7l", "v8l"),
    "x86_64": ("x86_64", "haswell", "xeon_phi"),
}
#: Architectures whose programs run on one system.
_TOGETHER = (("aarch64", "armhf"), ("x86_64",))
#: Characters that separate paths in LD_PRELOAD.
_SEPARATORS = " :"


def library_path(form: str, show_step: Callable[[str], None]) -> str:
    """Return the value for LD_PRELOAD; the library is compiled now if need be.

    Raises ApplyError.
    """
    library = compiled_library(form, show_step)
    path = str(library) if form == UCLIBC else _path_by_platform(form)
    if any(separator in path for separator in _SEPARATORS):
        raise ApplyError(
            f"LD_PRELOAD cannot name {path}, which has a space or a colon. Set XDG_CACHE_HOME to"
            " another folder"
        )
    return path


def compiled_library(form: str, show_step: Callable[[str], None]) -> Path:
    """Return the library, which is compiled now if need be; raise ApplyError."""
    try:
        APPLY.ensure(form, show_step)
    except (CacheError, TargetError) as error:
        raise ApplyError(str(error)) from None
    return APPLY.path(form)


def _path_by_platform(form: str) -> str:
    built = [form for form in _together_with([form]) if APPLY.is_built(form)]
    name = APPLY.folder(form).name
    folder = APPLY.folder(form).with_name(f"loaded-{'-'.join(built)}-{name}")
    if not folder.exists():
        try:
            with locked(folder), scratch_folder(folder.parent) as space:
                lay_out(space / "new", {form: APPLY.path(form) for form in built})
                if not folder.exists():  # another process may have made it
                    (space / "new").rename(folder)
        except CacheError as error:
            raise ApplyError(str(error)) from None
    return str(folder / PLATFORM / APPLY.main)


def lay_out(folder: Path, libraries: Mapping[str, Path]) -> None:
    """Write the libraries by architecture, with placeholders, so that $PLATFORM names one."""
    for architecture in _together_with(libraries):
        for platform in _PLATFORMS[architecture]:
            path = folder / platform / APPLY.main
            path.parent.mkdir(parents=True)
            library = libraries.get(architecture)
            path.write_bytes(library.read_bytes() if library else placeholder(architecture))
            path.chmod(0o755)


def _together_with(architectures: Iterable[str]) -> Iterator[str]:
    for group in _TOGETHER:
        if set(group) & set(architectures):
            yield from group
