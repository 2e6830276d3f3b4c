"""The root file systems of virtual boards: Python and libraries, made of Debian packages."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

from reusebench.system.cache import locked, scratch_folder
from reusebench.targets.vboard.folders import vboard_folder
from reusebench.targets.vboard.packages import PackageSource, PinnedPackage, unpack, version_in
from reusebench.targets.vboard.wheels import install_wheels

__all__ = ["RootFileSystem"]

#: Written last. A root file system without it, or with another layout, is made again.
_STAMP = "installed.json"
#: Libraries, among the dependencies of Python's packages, that are used; suffixes of their names
#: depend on the release.
_LIBRARIES = re.compile(r"(libc6|zlib1g|libexpat1|libffi\d+)(t64)?")
_MINIMAL_PYTHON = re.compile(r"python3\.\d+-minimal")
#: Removed: no program there reads them.
_UNUSED = (
    "usr/share",
    "etc",
    "usr/lib/*/gconv",
    "usr/lib/python3*/ensurepip",
    "usr/lib/python3*/idlelib",
    "usr/lib/python3*/lib2to3",
    "usr/lib/python3*/pydoc_data",
    "usr/lib/python3*/turtledemo",
    "usr/lib/python3*/unittest",
)
_TRIPLES = {"armhf": "arm-linux-gnueabihf", "aarch64": "aarch64-linux-gnu"}
_LOADERS = {"armhf": "ld-linux-armhf.so.3", "aarch64": "ld-linux-aarch64.so.1"}


@dataclass(frozen=True)
class RootFileSystem:
    """A root file system: the release's minimal Python 3, and what a runtime needs besides."""

    #: Its folders in the cache are named after it.
    name: str
    architecture: str
    #: Changed when the other fields change, or what is done with them.
    layout: int
    packages: tuple[Union[str, PinnedPackage], ...]
    #: Suites of Debian that it is made of; without, those of the machine's own release.
    suites: tuple[str, ...] = ()
    #: File of requirements, for packages of Python that are installed from wheels.
    wheels: Path | None = None
    #: Patterns of files and folders that no program there reads.
    unused: tuple[str, ...] = ()
    #: Further files: path and content.
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Its place in the cache."""
        return vboard_folder() / f"system-{self.name}"

    def is_installed(self) -> bool:
        """Whether it is complete and has this layout."""
        return bool(self._stamp().get("layout") == self.layout)

    def made_at_ns(self) -> int:
        """Return the time at which it was made, which tells it from earlier ones in its place."""
        return (self.folder / _STAMP).stat().st_mtime_ns

    def python(self) -> Path:
        """Return its Python."""
        return self.folder / str(self._stamp()["python"])

    def loader(self) -> Path:
        """Return its loader of shared libraries, which is a program."""
        return self.folder / "lib" / _LOADERS[self.architecture]

    def library_folders(self) -> list[Path]:
        """Return the folders of shared libraries."""
        triple = _TRIPLES[self.architecture]
        return [self.folder / "usr/lib" / triple, self.folder / "lib" / triple]

    def ensure(self, sources: Path | None, show_step: Callable[[str], None]) -> None:
        """Make it unless it is installed; `sources` is a file for apt in place of the host's."""
        with locked(self.folder), scratch_folder(vboard_folder()) as space:
            if self.is_installed():
                return
            show_step(f"fetching the lists of {self.architecture} packages")
            source = PackageSource(self.architecture, space / "apt", sources, self.suites)
            system = space / "system"
            versions = self._unpack_packages(source, system, show_step)
            python = next((system / "usr/bin").glob("python3.*"))
            if self.wheels is not None:
                show_step(f"fetching wheels for {python.name} on {self.architecture}")
                # Beside the standard library: Python runs without the folders of other packages.
                modules = system / "usr/lib" / python.name
                version = python.name[len("python") :]
                versions += install_wheels(self.wheels, modules, self.architecture, version)
            self._remove_unused(system)
            # None of these packages has the link /lib, which some releases have.
            if not (system / "lib").exists():
                (system / "lib").symlink_to("usr/lib")

            for path, content in self.files.items():
                (system / path).parent.mkdir(parents=True, exist_ok=True)
                (system / path).write_text(content, encoding="utf-8")
            stamp = {
                "layout": self.layout,
                "python": str(python.relative_to(system)),
                "packages": versions,
            }
            (system / _STAMP).write_text(json.dumps(stamp), encoding="utf-8")
            shutil.rmtree(self.folder, ignore_errors=True)
            system.rename(self.folder)

    def _unpack_packages(
        self, source: PackageSource, system: Path, show_step: Callable[[str], None]
    ) -> list[str]:
        """Fetch and unpack the packages; return names and versions."""
        names = _python_packages(source)
        for package in self.packages:
            if isinstance(package, str):
                names.append(package)
                continue
            there = source.offered(package)
            if there != package:
                show_step(
                    f"{package.name} {package.version}, with which this was tried, is not there any"
                    f" more: {there.version} is taken"
                )
            names.append(f"{there.name}={there.version}")
        show_step(f"fetching {len(names)} packages: {', '.join(names)}")
        versions = []
        for file in source.fetch(names):
            unpack(file, system)
            versions.append(" ".join(version_in(file)))
        return versions

    def _remove_unused(self, system: Path) -> None:
        for pattern in (*_UNUSED, *self.unused):
            for path in system.glob(pattern):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()

    def _stamp(self) -> dict[str, object]:
        try:
            stamp = json.loads((self.folder / _STAMP).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stamp if isinstance(stamp, dict) else {}


def _python_packages(source: PackageSource) -> list[str]:
    """Return the packages of this release's minimal Python 3 and of the libraries it needs."""
    minimal = next(filter(_MINIMAL_PYTHON.fullmatch, source.dependencies("python3-minimal")), None)
    if minimal is None:
        raise source.not_offered("python3-minimal")
    python = [minimal, f"lib{minimal}", f"lib{minimal[: -len('-minimal')]}-stdlib"]
    libraries: set[str] = set()
    for package in python:
        libraries.update(filter(_LIBRARIES.fullmatch, source.dependencies(package)))
    return [*python, *sorted(libraries)]
