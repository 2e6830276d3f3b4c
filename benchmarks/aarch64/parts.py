"""The parts of an emulated machine: Debian's packages, wheels from PyPI, and the emulator."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from reusebench.targets.errors import TargetError
from reusebench.targets.vboard.packages import PackageSource, unpack

__all__ = ["RELEASES", "Release", "ensure_emulator", "ensure_machine"]

_EXTRAS = ("", "streams", "ncnn", "mnn", "litert", "openvino", "dev")
#: A compiler, since tests compile what they measure, and the commands that tests call.
_PACKAGES = (
    "base-files",
    "ca-certificates",
    "coreutils",
    "dash",
    "findutils",
    "gcc",
    "git",
    "grep",
    "libc6-dev",
    "libgomp1",
    "libstdc++6",
    "mount",
    "procps",
    "python3",
    "sed",
    "util-linux",
)
#: Links in the root folder, which no package has.
_LINKS = ("bin", "lib", "sbin")
#: pip takes a wheel only if its tag is named: manylinux_2_17 (alias manylinux2014) and later.
_OLDEST_GLIBC = 17
#: Qemu 7.2, of Debian 12, hangs or crashes when ONNX Runtime is imported.
_EMULATOR_RELEASE = "trixie"


@dataclass(frozen=True)
class Release:
    """A release of Debian, with the versions of Python and glibc that wheels must fit."""

    name: str
    python: str
    glibc_minor: int


RELEASES = {
    "12": Release("bookworm", "3.11", 36),
    "13": Release("trixie", "3.13", 41),
}


def ensure_machine(release: Release, folder: Path) -> Path:
    """Return the root folder of the machine's files; make it if it is not there (1.1 GB).

    Its versions are those of the day when it was made. Remove it to have newer ones.
    """
    root = folder / release.name
    if root.is_dir():
        return root
    made = folder / f"{release.name}.part"
    shutil.rmtree(made, ignore_errors=True)
    (made / "usr").mkdir(parents=True)
    for name in _LINKS:
        (made / "usr" / name).mkdir()
        (made / name).symlink_to(f"usr/{name}")
    with _packages_of(release.name, "aarch64", folder) as source:
        print(f"{release.name}: fetching packages", flush=True)
        for package in source.fetch_with_dependencies(_PACKAGES):
            _unpack_keeping_links(package, made)
    print(f"{release.name}: fetching wheels", flush=True)
    _install_wheels(release, made / f"usr/local/lib/python{release.python}/dist-packages")
    made.rename(root)
    return root


def ensure_emulator(folder: Path) -> Path | None:
    """Return the emulator; None if this machine needs none. Make it if it is not there."""
    if platform.machine() == "aarch64":
        return None
    files = folder / "emulator"
    emulator = files / "usr/bin/qemu-aarch64"
    if not emulator.exists():
        print("fetching the emulator", flush=True)
        with _packages_of(_EMULATOR_RELEASE, platform.machine(), folder) as source:
            for package in source.fetch(["qemu-user"]):
                unpack(package, files)
    return emulator


@contextmanager
def _packages_of(release: str, architecture: str, folder: Path) -> Iterator[PackageSource]:
    """Yield the packages of a release, from the archive that this machine's apt uses."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as space:
        sources = Path(space, "sources.list")
        sources.write_text(f"deb {_debian_archive()} {release} main\n", encoding="utf-8")
        yield PackageSource(architecture, Path(space, "apt"), sources)


def _debian_archive() -> str:
    """Return the address of Debian's archive."""
    shown = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(LABEL) $(SITE)", "Created-By: Packages"],
        capture_output=True,
        text=True,
    )
    for line in shown.stdout.splitlines():
        label, _, site = line.partition(" ")
        if label == "Debian":
            return site
    raise TargetError(
        "this machine's apt has no archive of Debian among its sources; run this on Debian, or in"
        " a container of it"
    )


def _unpack_keeping_links(package: Path, folder: Path) -> None:
    """Unpack a package; files of /lib get into /usr/lib if /lib is a link."""
    reader = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE)
    subprocess.run(
        ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", str(folder)],
        stdin=reader.stdout,
        check=True,
    )
    if reader.wait():
        raise subprocess.CalledProcessError(reader.returncode, reader.args)


def _install_wheels(release: Release, folder: Path) -> None:
    tags = [
        f"--platform=manylinux_2_{minor}_aarch64"
        for minor in range(release.glibc_minor, _OLDEST_GLIBC - 1, -1)
    ]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", f"--target={folder}"),
            *("--only-binary=:all:", "--implementation=cp", f"--python-version={release.python}"),
            *(*tags, "--platform=manylinux2014_aarch64"),
            *_requirements(release.python),
        ],
        check=True,
    )
    # As `pip install -e` does it.
    (folder / "reusebench.pth").write_text("/checkout/src\n", encoding="utf-8")


def _requirements(python: str) -> list[str]:
    """Return the requirements of reusebench and its extras on aarch64 with a version of Python."""
    machine = {"python_version": python, "platform_machine": "aarch64"}
    needed = []
    for line in importlib.metadata.requires("reusebench") or []:
        requirement = Requirement(line)
        if requirement.name == "reusebench":
            continue
        environments = [{**machine, "extra": extra} for extra in _EXTRAS]
        marker = requirement.marker
        if marker is None or any(marker.evaluate(environment) for environment in environments):
            needed.append(f"{requirement.name}{requirement.specifier}")
    return needed
