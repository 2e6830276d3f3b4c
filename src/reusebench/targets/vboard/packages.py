"""Debian packages of any architecture, fetched and unpacked by an ordinary user."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from reusebench.system import processes
from reusebench.targets.errors import TargetError

__all__ = ["PackageSource", "PinnedPackage", "unpack", "version_in"]

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

#: Prints the address and the suite of every source, whether its lists are fetched or not.
_LIST_SOURCES = ("apt-get", "indextargets", "--no-release-info")
_SOURCE_FORMAT = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
#: Debian's suites that have all packages, by code name and by state.
_MAIN_SUITES = (
    *("buster", "bullseye", "bookworm", "trixie", "forky", "duke", "sid"),
    *("oldoldstable", "oldstable", "stable", "testing", "unstable"),
)
#: The keys of Debian's archive, at the place where Debian's package of that name has them.
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class PinnedPackage(NamedTuple):
    """A package in the version that was tried; a later one is taken when that one is gone."""

    name: str
    version: str


class PackageSource:
    """The packages of one architecture, through a separate apt configuration in a folder."""

    def __init__(
        self,
        architecture: str,
        folder: Path,
        sources: Path | None = None,
        suites: Sequence[str] = (),
    ) -> None:
        """Prepare apt in `folder`; `sources` is a file used instead of the host's sources.

        With `suites`, the host's sources are used for these suites of Debian in place of its own.
        """
        missing = [name for name in _COMMANDS if shutil.which(name) is None]
        if missing:
            raise TargetError(
                "the virtual board's system is made of Debian packages, and this machine has no"
                f" {' and no '.join(missing)}. Install the board on Debian or Ubuntu (a container"
                " will do) and copy the folder reusebench/vboard of its cache here"
            )
        if sources is not None and not sources.is_file():
            raise TargetError(f"--apt-sources {sources}: there is no such file")
        self.architecture = architecture
        self._suites = suites
        owner = f"{sources}:" if sources else "this machine's"
        self._title = f"{owner} package sources"
        self._folder = folder
        for name in ("state/lists/partial", "cache/archives/partial", "log", "packages"):
            (folder / name).mkdir(parents=True)
        (folder / "state/status").touch()
        text = _CONFIGURATION.format(folder=folder, architecture=_DEBIAN[architecture])
        self._configuration = folder / "apt.conf"
        self._configuration.write_text(text, encoding="utf-8")
        if sources is None and suites:
            sources = self._sources_of_suites()
        if sources is not None:
            text += _OWN_SOURCES.format(sources=sources.absolute())
            self._configuration.write_text(text, encoding="utf-8")
        # Some of the host's sources may lack this architecture or be unreachable. All that counts
        # is whether the packages can be fetched later.
        self._update = self._run("apt-get", "update", *_SIGNED)

    def dependencies(self, package: str) -> list[str]:
        """Return the packages that `package` depends on; empty if there is no such package."""
        shown = self._run("apt-cache", "depends", "--important", package).stdout
        return re.findall(r"^ *\|?(?:Pre)?Depends: ([a-z0-9][a-z0-9.+-]*)", shown, re.MULTILINE)

    def offered(self, package: PinnedPackage) -> PinnedPackage:
        """Return the package in its version if that is there, otherwise in the latest one.

        Raises TargetError if that is an earlier one.
        """
        shown = self._run("apt-cache", "madison", package.name).stdout
        versions = re.findall(r"^[^|]+\| *(\S+) *\|", shown, re.MULTILINE)
        if package.version in versions:
            return package
        latest = versions[0] if versions else None  # apt lists it first
        if latest and self._is_later(latest, package.version):
            return package._replace(version=latest)
        earlier = f"E: there is {latest}\n" if latest else ""
        raise self.not_offered(f"{package.name} {package.version} or later", earlier)

    def fetch_with_dependencies(self, names: Sequence[str]) -> list[Path]:
        """Download the packages and all that they depend on, and return their files."""
        options = ("--download-only", "--yes", "--no-install-recommends")
        done = self._run("apt-get", "install", *options, *_SIGNED, *names)
        if done.returncode:
            raise self.not_offered(", ".join(names), done.stderr)
        return sorted((self._folder / "cache/archives").glob("*.deb"))

    def fetch(self, names: Sequence[str]) -> list[Path]:
        """Download the packages, NAME or NAME=VERSION, and return their files."""
        folder = self._folder / "packages"
        before = set(folder.iterdir())
        done = self._run("apt-get", "download", *_SIGNED, *names, folder=folder)
        if done.returncode:
            raise self.not_offered(", ".join(names), done.stderr)
        return sorted(set(folder.iterdir()) - before)

    def not_offered(self, names: str, printed: str = "") -> TargetError:
        """Return the error of unavailable packages, with apt's first error or warning.

        `printed` is the output of the failed command; the update's errors come after it.
        """
        output = printed + self._update.stderr
        errors = re.findall(r"^E: (.*)", output, re.MULTILINE)
        # An address that cannot be reached is a warning.
        warnings = re.findall(r"^W: (.*)", output, re.MULTILINE)
        reason = next(iter([*errors, *warnings]), "apt printed no error")
        remedy = (
            "On Ubuntu for PCs they are in another archive, Ubuntu Ports: write its sources to a"
            " file, and name it with --apt-sources FILE"
        )
        if self._suites:
            remedy = f"They are Debian's. {_file_with(self._suites)}"
        return TargetError(
            f"{self._title} offer no {names} for {self.architecture} ({reason}). {remedy}"
        )

    def _sources_of_suites(self) -> Path:
        """Write the host's addresses of Debian with the suites; raise TargetError if none is."""
        printed = self._run(*_LIST_SOURCES, "--format", _SOURCE_FORMAT).stdout
        addresses = []
        for line in printed.splitlines():
            address, suite, component = line.split(" ", 2)
            if suite in _MAIN_SUITES and component == "main":
                addresses.append(address)
        suites = " and ".join(self._suites)
        if not addresses:
            raise TargetError(
                f"the packages come from Debian's suites {suites}, and this machine's package"
                f" sources have no address of Debian. {_file_with(self._suites)}"
            )
        if not _KEYRING.is_file():
            raise TargetError(
                f"the packages come from Debian's suites {suites}, whose keys are not here"
                f" ({_KEYRING}): apt install debian-archive-keyring"
            )
        lines = []
        for address in dict.fromkeys(addresses):
            for suite in self._suites:
                lines.append(f"deb [signed-by={_KEYRING}] {address} {suite} main\n")
        path = self._folder / "suites.list"
        path.write_text("".join(lines), encoding="utf-8")
        return path

    def _is_later(self, version: str, other: str) -> bool:
        return self._run("dpkg", "--compare-versions", version, "gt", other).returncode == 0

    def _run(self, *command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "APT_CONFIG": str(self._configuration), "LC_ALL": "C"}
        return processes.run(command, folder or self._folder, environment)


def _file_with(suites: Sequence[str]) -> str:
    return (
        f"Write sources of Debian with the suites {' and '.join(suites)} to a file, with"
        " signed-by= and Debian's keys if apt does not trust them, and name it with --apt-sources"
        " FILE"
    )


def unpack(package: Path, folder: Path) -> None:
    """Unpack the files of a package into the folder; raise TargetError if that fails."""
    done = processes.run(["dpkg-deb", "-x", str(package), str(folder)])
    if done.returncode:
        # The first line is tar's reason, the last one says that tar failed.
        first_words = done.stderr.strip().partition("\n")[0] or "it printed nothing"
        raise TargetError(f"the package {package.name} cannot be unpacked: {first_words}")


def version_in(package: Path) -> tuple[str, str]:
    """Return name and version of a package, from the name of its file: NAME_VERSION_MACHINE.deb."""
    name, version, _ = package.stem.split("_")
    return name, unquote(version)
