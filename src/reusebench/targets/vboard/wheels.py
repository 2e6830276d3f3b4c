"""Wheels of another machine's Python, in pinned versions that pip checks by their hashes."""

from __future__ import annotations

import re
from pathlib import Path

from reusebench.system import processes
from reusebench.system.package import python_command
from reusebench.targets.errors import TargetError

__all__ = ["install_wheels"]

#: Tags of wheels that run with the C library of Debian 13, the latest first.
_GLIBC_TAGS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
#: pip runs with this machine's Python: it must neither compile for that nor ask whether a package
#: is for it.
_OPTIONS = (
    *("--quiet", "--disable-pip-version-check", "--no-deps"),
    *("--no-compile", "--ignore-requires-python"),
)
_SYSTEM_ERROR = re.compile(r"\[Errno \d+\] ([^:]*)")
_CHECKED = ("--only-binary", ":all:", "--require-hashes")


def install_wheels(lock: Path, folder: Path, architecture: str, python_version: str) -> list[str]:
    """Install the packages of a file of requirements into `folder`, and return their names.

    Raises TargetError if one is not available.
    """
    target = ["--python-version", python_version, "--implementation", "cp"]
    for tag in _GLIBC_TAGS:
        target += ["--platform", f"{tag}_{architecture}"]
    command = python_command(
        "pip", "install", *_OPTIONS, *_CHECKED, *target, "--target", str(folder), "-r", str(lock)
    )
    done = processes.run(command, Path("/"))
    if done.returncode:
        words = done.stderr.strip().rpartition("\n")[2] or "it printed nothing"
        of_system = _SYSTEM_ERROR.search(words)  # between the paths of all files
        reason = of_system[1] if of_system else words
        raise TargetError(
            f"pip could not install the wheels of {lock.stem} for Python {python_version} on"
            f" {architecture}: {reason}. It needs a network, or the mirror that pip's"
            f" configuration names, and room in the cache and for temporary files"
        )
    return sorted(path.stem for path in folder.glob("*.dist-info"))
