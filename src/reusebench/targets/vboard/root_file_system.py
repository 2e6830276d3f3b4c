"""The root file system of the virtual board: Python and the libraries of Rockchip's runtime."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from reusebench.system.cache import locked, scratch_folder
from reusebench.targets.vboard.folders import sysroot, vboard_folder
from reusebench.targets.vboard.packages import PackageSource, unpack

__all__ = ["ensure_system", "is_installed", "library_folders", "python_of"]

#: Written last. A root file system without it, or with another layout, is made again.
_STAMP = "installed.json"
_LAYOUT = 1
#: Libraries, among the dependencies of Python's packages, that are used; suffixes of their names
#: depend on the release.
_LIBRARIES = re.compile(r"(libc6|zlib1g|libexpat1|libffi\d+)(t64)?")
#: Libraries of Rockchip's runtime, which is C++.
_RUNTIME_LIBRARIES = ("libgcc-s1", "libstdc++6")
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


def is_installed(architecture: str) -> bool:
    """Whether the root file system is complete and has this layout."""
    return bool(_stamp(sysroot(architecture)).get("layout") == _LAYOUT)


def python_of(architecture: str) -> Path:
    """Return the Python in the root file system."""
    return sysroot(architecture) / str(_stamp(sysroot(architecture))["python"])


def library_folders(architecture: str) -> list[Path]:
    """Return the folders of shared libraries."""
    triple = _TRIPLES[architecture]
    return [sysroot(architecture) / "usr/lib" / triple, sysroot(architecture) / "lib" / triple]


def ensure_system(
    architecture: str, sources: Path | None, show_step: Callable[[str], None]
) -> None:
    """Make the root file system unless it is installed."""
    with (
        locked(sysroot(architecture)),
        scratch_folder(vboard_folder()) as space,
    ):
        if is_installed(architecture):
            return
        show_step(f"fetching the lists of {architecture} packages")
        source = PackageSource(architecture, space / "apt", sources)
        names = _needed_packages(source)
        show_step(f"fetching {len(names)} packages: {', '.join(names)}")
        system = space / "system"
        for package in source.fetch(names):
            unpack(package, system)
        for pattern in _UNUSED:
            for path in system.glob(pattern):
                shutil.rmtree(path)
        # None of these packages has the link /lib, which some releases have.
        if not (system / "lib").exists():
            (system / "lib").symlink_to("usr/lib")

        python = next((system / "usr/bin").glob("python3.*"))
        stamp = {"layout": _LAYOUT, "python": str(python.relative_to(system)), "packages": names}
        (system / _STAMP).write_text(json.dumps(stamp), encoding="utf-8")
        shutil.rmtree(sysroot(architecture), ignore_errors=True)
        system.rename(sysroot(architecture))


def _needed_packages(source: PackageSource) -> list[str]:
    """Return the packages of this release's minimal Python 3 and of the libraries it needs."""
    minimal = next(filter(_MINIMAL_PYTHON.fullmatch, source.dependencies("python3-minimal")), None)
    if minimal is None:
        raise source.not_offered("python3-minimal")
    python = [minimal, f"lib{minimal}", f"lib{minimal[: -len('-minimal')]}-stdlib"]
    libraries: set[str] = set()
    for package in python:
        libraries.update(filter(_LIBRARIES.fullmatch, source.dependencies(package)))
    return [*python, *sorted(libraries), *_RUNTIME_LIBRARIES]


def _stamp(system: Path) -> dict[str, object]:
    try:
        stamp = json.loads((system / _STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}
