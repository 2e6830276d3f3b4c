"""The NPUs that drivers of mainline Linux run, as sysfs shows them; no device is opened.

rocket's device has no driver in sysfs: a platform device named rknn stands for all cores
(rocket_register in drivers/accel/rocket/rocket_drv.c). etnaviv drives GPUs as well; device trees
name the node of an NPU npu@ADDRESS.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from reusebench.samplers.host import Host, names_in, read_text, read_texts

__all__ = ["MainlineNpu", "kernel_release", "mainline_npus", "no_rocket", "tells_memory"]

_ACCELERATORS = "/sys/class/accel"
_DRM = "/sys/class/drm"
#: Cores that etnaviv drives: `38500000.npu`, `38000000.gpu`.
_ETNAVIV_CORES = "/sys/bus/platform/drivers/etnaviv-gpu"
_DRIVER = re.compile(r"^DRIVER=(.+)$", re.MULTILINE)
#: uevent of the device that stands for rocket's cores.
_OF_ROCKET = "MODALIAS=platform:rknn"
#: Drivers of accelerators that Mesa's Teflon uses; other accelerators are left out.
_TEFLONS = ("rocket", "ethosu")
#: Those whose fdinfo has the memory of an open file (their show_fdinfo).
_TELLING = ("etnaviv",)

_RELEASE = "/proc/sys/kernel/osrelease"
_DEVICE_TREE = "/proc/device-tree"
#: A core of the RK3588's NPU, in device trees of mainline Linux.
_ROCKET_CORE = "rockchip,rk3588-rknn-core"
#: First Linux with rocket.
_ROCKET_SINCE = (6, 18)


class MainlineNpu(NamedTuple):
    """An NPU, with one node for all its cores."""

    #: "rocket", "ethosu" or "etnaviv".
    driver: str
    #: Path in /dev.
    node: str


def mainline_npus(host: Host) -> list[MainlineNpu]:
    """Return the NPUs with a driver of mainline Linux that Mesa's Teflon knows."""
    npus = []
    for name, driver in _drivers(host, _ACCELERATORS, "accel").items():
        if driver in _TEFLONS:
            npus.append(MainlineNpu(driver, f"/dev/accel/{name}"))
    if any(name.endswith(".npu") for name in names_in(host, _ETNAVIV_CORES)):
        for name, driver in _drivers(host, _DRM, "renderD").items():
            if driver == "etnaviv":
                npus.append(MainlineNpu(driver, f"/dev/dri/{name}"))
    return npus


def _drivers(host: Host, folder: str, prefix: str) -> dict[str, str]:
    """Return the drivers of a class's devices by name, without those that sysfs does not show."""
    names = names_in(host, folder, prefix)
    texts = read_texts(host, [f"{folder}/{name}/device/uevent" for name in names])
    drivers = {}
    for name in names:
        text = texts.get(f"{folder}/{name}/device/uevent", "")
        driver = _DRIVER.search(text)
        if driver:
            drivers[name] = driver[1]
        elif _OF_ROCKET in text.splitlines():
            drivers[name] = "rocket"
    return drivers


def tells_memory(driver: str) -> bool:
    """Whether a driver shows the memory of an open file, by its source."""
    return driver in _TELLING


def kernel_release(host: Host) -> str:
    """Return the kernel's release, such as `6.18.3`; empty if it cannot be read."""
    return (read_text(host, _RELEASE) or "").strip()


def no_rocket(host: Host) -> str | None:
    """Return the reason that a board with an RK3588 and a mainline kernel has no NPU.

    None if it has one, or if the kernel's device tree has an NPU of another kind.
    """
    if any(npu.driver == "rocket" for npu in mainline_npus(host)):
        return None
    release = kernel_release(host)
    cores = names_in(host, _DEVICE_TREE, "npu@")
    kinds = read_texts(host, [f"{_DEVICE_TREE}/{core}/compatible" for core in cores])
    if not any(_ROCKET_CORE in kind.split("\0") for kind in kinds.values()):
        if kinds:
            return None
        if _numbers(release) >= _ROCKET_SINCE:
            return (
                f"the board's device tree has no NPU ({_ROCKET_CORE}): boot with the one that comes"
                f" with Linux {release}"
            )
        first = ".".join(map(str, _ROCKET_SINCE))
        return f"mainline Linux has rocket from {first} on, and this is {release}"
    states = read_texts(host, [f"{_DEVICE_TREE}/{core}/status" for core in cores])
    if len(states) == len(cores) and not any(state.startswith("ok") for state in states.values()):
        return (
            "the board's device tree has the cores of the NPU disabled: enable the nodes npu@ and"
            ' the iommu@ of each (status = "okay"), as later kernels do for more boards'
        )
    return (
        "the device tree has the NPU, and no driver has taken it: sudo modprobe rocket"
        f" (CONFIG_DRM_ACCEL_ROCKET of Linux {release}); `sudo dmesg | grep -i rocket` says more"
    )


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release)[:2])
