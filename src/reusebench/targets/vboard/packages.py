"""Debian packages of any architecture, fetched and unpacked by an ordinary user."""

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
#: Debian's names of architectures.
_DEBIAN = {"armhf": "armhf", "aarch64": "arm64", "x86_64": "amd64"}

#: Separate state, lists and cache: of the host's apt only the sources and their keys are read, and
#: nothing is changed. No sandbox user: if root runs apt, that user could not write here.
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
#: Lists and packages without a signature are refused. These are options of the command since the
#: host's configuration files are read later than ours and would win.
_SIGNED = (
    "--option=Acquire::AllowInsecureRepositories=false",
    "--option=Acquire::AllowWeakRepositories=false",
    "--option=Acquire::AllowDowngradeToInsecureRepositories=false",
    "--option=APT::Get::AllowUnauthenticated=false",
)
_OWN_SOURCES = """\
Dir::Etc::sourcelist "{sources}";
Dir::Etc::sourceparts "-";
"""


class PackageSource:
    """The packages of one architecture, through a separate apt configuration in a folder."""

    def __init__(self, architecture: str, folder: Path, sources: Path | None = None) -> None:
        """Prepare apt in `folder`; `sources` is a file used instead of the host's sources."""
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
        # Some of the host's sources may lack this architecture or be unreachable. All that counts
        # is whether the packages can be fetched later.
        self._update = self._run("apt-get", "update", *_SIGNED)

    def dependencies(self, package: str) -> list[str]:
        """Return the packages that `package` depends on; empty if there is no such package."""
        shown = self._run("apt-cache", "depends", "--important", package).stdout
        return re.findall(r"^ *\|?(?:Pre)?Depends: ([a-z0-9][a-z0-9.+-]*)", shown, re.MULTILINE)

    def fetch_with_dependencies(self, names: Sequence[str]) -> list[Path]:
        """Download the packages and all that they depend on, and return their files."""
        options = ("--download-only", "--yes", "--no-install-recommends")
        done = self._run("apt-get", "install", *options, *_SIGNED, *names)
        if done.returncode:
            raise self.not_offered(", ".join(names), done.stderr)
        return sorted((self._folder / "cache/archives").glob("*.deb"))

    def fetch(self, names: Sequence[str]) -> list[Path]:
        """Download the packages, and return their files."""
        folder = self._folder / "packages"
        before = set(folder.iterdir())
        done = self._run("apt-get", "download", *_SIGNED, *names, folder=folder)
        if done.returncode:
            raise self.not_offered(", ".join(names), done.stderr)
        return sorted(set(folder.iterdir()) - before)

    def not_offered(self, names: str, printed: str = "") -> TargetError:
        """Return the error of unavailable packages, with apt's first error.

        `printed` is the output of the failed command; the update's errors come after it.
        """
        errors = re.findall(r"^E: (.*)", printed + self._update.stderr, re.MULTILINE)
        reason = errors[0] if errors else "apt printed no error"
        return TargetError(
            f"this machine's package sources offer no {names} for {self.architecture} ({reason})."
            " On Ubuntu for PCs they are in another archive, Ubuntu Ports: write its sources to a"
            " file, and name it with --apt-sources FILE"
        )

    def _run(self, *command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "APT_CONFIG": str(self._configuration), "LC_ALL": "C"}
        return processes.run(command, folder or self._folder, environment)


def unpack(package: Path, folder: Path) -> None:
    """Unpack the files of a package into the folder."""
    processes.run(["dpkg-deb", "-x", str(package), str(folder)]).check_returncode()
