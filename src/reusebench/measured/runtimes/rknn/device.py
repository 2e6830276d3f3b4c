"""The NPU's device: its nodes in /dev, and the reasons that this process cannot open them.

Nothing here runs in the measured process before a call of the library has failed. Python 3.8,
standard library.
"""

from __future__ import annotations

import errno
import os
import re
from typing import List, Optional, Sequence, Tuple

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.device_nodes import Node, node_of, not_permitted
from reusebench.measured.runtimes.rknn.library_file import LibraryFile

__all__ = [
    "device_nodes",
    "driver_state",
    "has_driver",
    "heap_not_opened",
    "not_opened",
]

#: Folder of drivers/rknpu/rknpu_drv.c, built in or a module; the driver's devices are links in it.
_DRIVER_FOLDER = "/sys/bus/platform/drivers/RKNPU"
#: Node of the driver if it allocates from DMA heaps; otherwise it has a card and a render node of
#: DRM.
_CHARACTER_DEVICE = "/dev/rknpu"
#: Rule for nodes that belong to root alone; "video" is the group of the cards on Debian, Ubuntu and
#: Rockchip's images.
_RULE = 'KERNEL=="{names}", GROUP="video", MODE="0660"'
#: From a library's version on: the oldest driver that it takes, and the oldest without a warning.
#: These are the library's own words, tried; librknnmrt before 1.6.0 was not tried.
_DRIVERS = {
    "librknnrt": (("1.5.2", "0.7.0", "0.8.8"), ("1.4.0", "0.6.2", "0.6.4")),
    "librknnmrt": (("1.6.0", "0.2.1", "0.4.2"),),
}


def device_nodes() -> List[Node]:
    """Return the NPU's nodes, each opened and closed: in a container, rights alone do not tell."""
    nodes = [node_of(path) for path in (_CHARACTER_DEVICE, *_drm_nodes())]
    return [node for node in nodes if node.error != errno.ENOENT]


def has_driver() -> bool:
    """Whether this kernel has the NPU's driver."""
    return os.path.isdir(_DRIVER_FOLDER)


def not_opened(nodes: Sequence[Node], is_driver_there: Optional[bool] = None) -> Message:
    """Return the reason that the library cannot open the NPU, which has these nodes, and a remedy.

    If there is no node, `is_driver_there` tells whether the kernel has the driver; None: look for
    it here.
    """
    denied = [node for node in nodes if node.is_denied]
    if denied:
        return not_permitted(denied, _rule(denied))
    if nodes:
        return Message("rknn_device_refused", {"nodes": ", ".join(node.path for node in nodes)})
    if is_driver_there is None:
        is_driver_there = has_driver()
    return Message("rknn_no_node" if is_driver_there else "rknn_no_driver")


def heap_not_opened(node: Node) -> Message:
    """Return the reason that the library cannot open a heap, and a remedy."""
    if node.is_denied:
        return not_opened([node])
    return Message("rknn_no_heap", {"node": node.path})


def driver_state(driver: str, library: LibraryFile) -> Message:
    """Return a message about the driver's version: `rknn_driver_too_old` if it does not fit."""
    name = f"{library.kind} {library.version}"
    for since, oldest, recommended in _DRIVERS[library.kind]:
        if _numbers(library.version) < _numbers(since):
            continue
        if _numbers(driver) < _numbers(oldest):
            return Message("rknn_driver_too_old", {"driver": driver, "needed": oldest})
        if _numbers(driver) < _numbers(recommended):
            return Message(
                "rknn_driver_old", {"driver": driver, "library": name, "recommended": recommended}
            )
        return Message("rknn_driver_fits", {"driver": driver, "library": name, "needed": oldest})
    return Message("rknn_driver_of_unknown_library", {"driver": driver, "library": name})


def _numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _drm_nodes() -> List[str]:
    """Return the NPU's DRM nodes; on most boards the display and the GPU have some too."""
    names = []
    for device in _entries(_DRIVER_FOLDER):
        entries = _entries(os.path.join(_DRIVER_FOLDER, device, "drm"))
        names += [name for name in entries if name.startswith(("card", "rend"))]
    return [f"/dev/dri/{name}" for name in names]


def _entries(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _rule(denied: Sequence[Node]) -> Message:
    names = "|".join(os.path.basename(node.path) for node in denied)
    return Message("rknn_udev_rule", {"rule": _RULE.format(names=names)})
