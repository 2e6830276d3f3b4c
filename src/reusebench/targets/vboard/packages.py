"""Debian packages of any architecture, fetched from the host's own sources by an ordinary user and
unpacked.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from reusebench.system import processes
from reusebench.targets.errors import TargetError

__all__ = ["PackageSource", "unpack"]

_COMMANDS = ("apt-get", "apt-cache", "dpkg-deb")
#: As Debian calls them.
_DEBIAN = {"armhf": "armhf", "aarch64": "arm64", "x86_64": "amd64"}

#: State, lists and cache of its own, so that nothing of the host's is read or changed but its
#: sources and their keys. No sandbox user: root would hand the download to one that cannot write
#: here.
_CONFIGURATION = """\
Dir::State "{folder}/state";
Dir::State::lists "{folder}/state/lists";
Dir::State::status "{folder}/state/status";
Dir::Cache "{folder}/cache";
Dir::Log "{folder}/log";
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Sandbox::User "";
Acquire::Languages "none";
"""
#: Lists and packages without a signature of their packagers are refused. As options of the command:
#: of files the host's own are read later, and win.
_SIGNED = (
    *(
        "-o",
        "Acquire::AllowInsecureRepositories=false",
        "-o",
        "Acquire::AllowWeakRepositories=false",
    ),
    *(
        "-o",
        "Acquire::AllowDowngradeToInsecureRepositories=false",
        "-o",
        "APT::Get::AllowUnauthenticated=false",
    ),
)
_OWN_SOURCES = """\
Dir::Etc::sourcelist "{sources}";
Dir::Etc::sourceparts "-";
"""


class PackageSource:
    """The packages of one architecture, seen through an apt of its own in a folder."""

    def __init__(self, architecture: str, folder: Path, sources: Path | None = None) -> None:
        """Take the architecture, a folder to work in, and a sources file in place of the host's
        where given.
        """
        missing = [name for name in _COMMANDS if shutil.which(name) is None]
        if missing:
            raise TargetError(
                "the virtual board's system is made of Debian packages, and this machine has no"
                f" {' and no '.join(missing)}. Install the board on Debian or Ubuntu (a container"
                " will do) and copy the folder reusebench/vboard of its cache here"
            )
        self.architecture = architecture
        self._folder = folder
        for name in ("state/lists/partial", "cache/archives/partial", "log", "packages"):
            (folder / name).mkdir(parents=True)
        (folder / "state/status").touch()
        text = _CONFIGURATION.format(folder=folder, architecture=_DEBIAN[architecture])
        if sources is not None:
            text += _OWN_SOURCES.format(sources=sources.absolute())
        self._configuration = folder / "apt.conf"
        self._configuration.write_text(text, encoding="utf-8")
        # Some of the host's sources may not have this architecture, or be out of reach: what counts
        # is what can be fetched in the end.
        self._update = self._run("apt-get", "update", *_SIGNED)

    def dependencies(self, package: str) -> list[str]:
        """Return the names of the packages that the package depends on; none if there is no such
        package.
        """
        shown = self._run("apt-cache", "depends", "--important", package).stdout
        return re.findall(r"^ *\|?(?:Pre)?Depends: ([a-z0-9][a-z0-9.+-]*)", shown, re.MULTILINE)

    def fetch(self, names: Sequence[str]) -> list[Path]:
        """Return the files of the packages."""
        folder = self._folder / "packages"
        before = set(folder.iterdir())
        done = self._run("apt-get", "download", *_SIGNED, *names, folder=folder)
        if done.returncode:
            raise self.not_offered(", ".join(names), done.stderr)
        return sorted(set(folder.iterdir()) - before)

    def not_offered(self, names: str, printed: str = "") -> TargetError:
        """Return the error of packages that cannot be had, with apt's first: of the command, else
        of the update.
        """
        lines = (printed + self._update.stderr).splitlines()
        reason = next(
            (line[3:] for line in lines if line.startswith("E: ")), "apt printed no error"
        )
        return TargetError(
            f"this machine's package sources offer no {names} for {self.architecture} ({reason})."
            " On Ubuntu for PCs they are in another archive, Ubuntu Ports: write its sources to a"
            " file, and name it with --apt-sources FILE"
        )

    def _run(self, *command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "APT_CONFIG": str(self._configuration), "LC_ALL": "C"}
        return processes.run(command, folder or self._folder, environment)


def unpack(package: Path, folder: Path) -> None:
    """Unpack a package's files into the folder."""
    processes.run(["dpkg-deb", "-x", str(package), str(folder)]).check_returncode()
