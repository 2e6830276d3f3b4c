"""Programs of Debian packages for tests: this machine's own, or unpacked in the user's cache."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from reusebench.system.cache import cache_root, locked
from reusebench.targets.errors import TargetError
from reusebench.targets.rknn_library import architecture_of_this_python
from reusebench.targets.vboard.packages import PackageSource, unpack

__all__ = ["Program", "fetched_packages", "find_program", "unpacked_packages"]

# The user's cache, read during collection, before tests have caches of their own.
_FOLDER = cache_root() / "test-packages"
#: The C library is this machine's; the others bring programs that nothing here runs.
_NOT_FOLLOWED = ("libc6", "libpam-modules", "libpam-runtime")
#: Debian's folders of programs; the PATH of an ordinary user lacks the last.
_PROGRAM_FOLDERS = ("usr/bin", "usr/sbin")


class Program:
    """A program with the libraries that it needs."""

    def __init__(self, path: Path, libraries: Path | None = None) -> None:
        self.path = path
        self._libraries = libraries

    def environment(self) -> dict[str, str]:
        """Return the program's environment: this process's, and the path of its libraries."""
        if self._libraries is None:
            return dict(os.environ)
        folders = {str(path.parent) for path in self._libraries.glob("usr/lib/**/*.so*")}
        folders |= {str(path.parent) for path in self._libraries.glob("lib/**/*.so*")}
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(sorted(folders))}


def find_program(name: str, package: str) -> Program:
    """Return the package's program; skip the test if it cannot be fetched."""
    own = shutil.which(
        name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    )
    if own:
        return Program(Path(own))
    architecture = architecture_of_this_python()
    if architecture is None:
        pytest.skip(f"no {name}, and no package of it for this machine's processor")
    folder = unpacked_packages(architecture, package)
    path = next(
        path for path in (folder / part / name for part in _PROGRAM_FOLDERS) if path.exists()
    )
    return Program(path.resolve(), folder)


def unpacked_packages(architecture: str, package: str, follow: bool = True) -> Path:
    """Return the folder with the package's files, and with the libraries that it needs unless told
    otherwise.

    Skips the test if this machine cannot fetch packages of that architecture.
    """
    try:
        return fetched_packages(architecture, package, follow)
    except TargetError as error:
        pytest.skip(str(error))


def fetched_packages(architecture: str, package: str, follow: bool = False) -> Path:
    """Return the folder; raise TargetError if the packages cannot be fetched."""
    folder = _FOLDER / f"{package}-{architecture}"
    with locked(folder), tempfile.TemporaryDirectory(dir=_FOLDER, prefix=".fetching-") as space:
        if not folder.exists():
            source = PackageSource(architecture, Path(space) / "apt")
            names = sorted(_with_libraries(source, package)) if follow else [package]
            unpacked = Path(space) / package
            for file in source.fetch(names):
                unpack(file, unpacked)
            unpacked.rename(folder)
    return folder


def _with_libraries(source: PackageSource, package: str) -> Iterable[str]:
    names = {package}
    unread = [package]
    while unread:
        for name in source.dependencies(unread.pop()):
            if name.startswith(("lib", "android-lib")) and name not in (*_NOT_FOLLOWED, *names):
                names.add(name)
                unread.append(name)
    return names
