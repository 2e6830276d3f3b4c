"""Rows of `reusebench doctor` about an NPU that a driver of mainline Linux runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from reusebench.commands.parts import Part
from reusebench.measured.runtimes.teflon.device import RULE
from reusebench.samplers.host import FileStatus, Host, read_text
from reusebench.samplers.npu.mainline import kernel_release, mainline_npus, no_rocket

__all__ = ["mainline_parts", "not_usable"]

#: The driver that this project was tried with, on a virtual board.
_TRIED = "rocket"
#: Group of the nodes by the rules of systemd's udev.
_JOIN = "sudo usermod -aG render $USER, then log out and in again"
_PACKAGE = "mesa-teflon-delegate"
_PACKAGES = "/var/lib/dpkg/status"
#: First version of Mesa whose Teflon has rocket, and ethosu.
_MESA_SINCE = (26, 1)


def mainline_parts(
    host: Host, can_open: Callable[[str], bool], libraries: Sequence[str], chip: str | None
) -> Iterator[Part]:
    """Yield the driver, its node and Mesa's library, if there is such an NPU, or might be.

    `can_open` tells whether the user has the right to open a node, which is not opened.
    `libraries` are the paths of libteflon, in the order in which it is looked for.
    """
    npus = mainline_npus(host)
    if not npus:
        reason = no_rocket(host) if chip == "rk3588" else None
        if reason is not None:
            yield Part("driver", False, reason)
        return
    for npu in npus:
        yield Part("driver", True, _driver(npu.driver, kernel_release(host)))
        if can_open(npu.node):
            yield Part(npu.node, True, "this user may open it")
        else:
            yield Part(npu.node, False, _not_allowed(npu.node))
    yield _library(host, libraries)


def not_usable(host: Host, can_open: Callable[[str], bool]) -> str | None:
    """Return the reason that Teflon runs nothing on this machine; None if a node may be opened."""
    nodes = [npu.node for npu in mainline_npus(host)]
    if not nodes:
        return "there is no NPU with a driver of mainline Linux (/dev/accel)"
    if any(map(can_open, nodes)):
        return None
    return _not_allowed(nodes[0])


def _driver(driver: str, release: str) -> str:
    words = f"{driver}, in Linux {release}"
    if driver == _TRIED:
        return words
    return f"{words}: Mesa's Teflon has a driver for it, with which reusebench was never tried"


def _not_allowed(node: str) -> str:
    words = f"this user may not open it: {_JOIN}"
    if node.startswith("/dev/accel/"):
        words += (
            f". If the node is root's alone: echo '{RULE}' | sudo tee"
            " /etc/udev/rules.d/99-accel.rules; sudo udevadm control --reload; sudo udevadm trigger"
        )
    return words


def _library(host: Host, libraries: Sequence[str]) -> Part:
    version = _package_version(host)
    statuses = host.statuses(libraries)
    for path, status in zip(libraries, statuses):
        if not isinstance(status, FileStatus):
            continue
        if version is None:
            return Part("libteflon", True, f"{path}, of no package of Debian")
        too_old = _numbers(version) < _MESA_SINCE
        words = f"{path}, {_PACKAGE} {version}"
        if too_old:
            first = ".".join(map(str, _MESA_SINCE))
            words += f": it has no driver for rocket; from {first} on it has (trixie-backports)"
        return Part("libteflon", not too_old, words)
    return Part(
        "libteflon",
        False,
        f"install Mesa's library: sudo apt install {_PACKAGE} (Debian trixie-backports; arm64)",
    )


def _package_version(host: Host) -> str | None:
    """Return the version of Debian's package, if that is installed."""
    text = read_text(host, _PACKAGES) or ""
    for paragraph in text.split("\n\n"):
        if not paragraph.startswith(f"Package: {_PACKAGE}\n"):
            continue
        version = re.search(r"^Version: (\S+)$", paragraph, re.MULTILINE)
        if version and "\nStatus: install ok installed\n" in paragraph:
            return version[1]
    return None


def _numbers(version: str) -> tuple[int, ...]:
    """Return the first numbers of `26.1.6-1~bpo13+1`; an epoch is left out."""
    return tuple(int(number) for number in re.findall(r"\d+", version.rpartition(":")[2])[:2])
