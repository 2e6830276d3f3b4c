"""The NPU's device: its nodes in /dev, and why this process cannot open them.

Nothing here runs in the measured process before a call of the library has failed. Python 3.8,
standard library.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import List, NamedTuple, Optional, Sequence, Tuple

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.rknn.library_file import LibraryFile

__all__ = [
    "Node",
    "device_nodes",
    "driver_state",
    "has_driver",
    "heap_not_opened",
    "node_of",
    "not_opened",
]

#: Of drivers/rknpu/rknpu_drv.c, built in or a module; its devices are links in it.
_DRIVER_FOLDER = "/sys/bus/platform/drivers/RKNPU"
#: The driver makes this node (its memory is then of DMA heaps), or a card and a render node of DRM.
_CHARACTER_DEVICE = "/dev/rknpu"
#: For nodes that belong to root alone; "video" is the group of the cards on Debian, Ubuntu and
#: Rockchip's images.
_RULE = 'KERNEL=="{names}", GROUP="video", MODE="0660"'
#: Errors of a node that is there for others.
_DENIED = (errno.EACCES, errno.EPERM)
#: From a library's version on: the oldest driver that it takes, and the oldest without a warning;
#: its own words, tried. Before 1.6.0 librknnmrt was not.
_DRIVERS = {
    "librknnrt": (("1.5.2", "0.7.0", "0.8.8"), ("1.4.0", "0.6.2", "0.6.4")),
    "librknnmrt": (("1.6.0", "0.2.1", "0.4.2"),),
}


class Node(NamedTuple):
    """A file in /dev."""

    path: str
    #: Of opening it for reading and writing, as in `errno`; 0: it opens.
    error: int = 0
    #: Of one that is denied: whether its rights alone would allow it, and the group that may; ""
    #: where none may.
    is_allowed: bool = False
    group: str = ""

    @property
    def is_denied(self) -> bool:
        """Whether it is there for others."""
        return self.error in _DENIED


def device_nodes() -> List[Node]:
    """Return the nodes of the NPU, which are opened and closed: in a container rights alone do not
    tell.
    """
    nodes = [node_of(path) for path in (_CHARACTER_DEVICE, *_drm_nodes())]
    return [node for node in nodes if node.error != errno.ENOENT]


def has_driver() -> bool:
    """Whether the NPU's driver is in this kernel."""
    return os.path.isdir(_DRIVER_FOLDER)


def not_opened(nodes: Sequence[Node], is_driver_there: Optional[bool] = None) -> Message:
    """Return why the library cannot open the NPU, whose nodes these are, and what to do.

    Where there is no node and the driver is not told of, it is looked for here.
    """
    denied = [node for node in nodes if node.is_denied]
    if denied:
        paths = ", ".join(node.path for node in denied)
        return Message("rknn_no_permission", {"nodes": paths, "remedy": _remedy(denied)})
    if nodes:
        return Message("rknn_device_refused", {"nodes": ", ".join(node.path for node in nodes)})
    is_driver_there = has_driver() if is_driver_there is None else is_driver_there
    return Message("rknn_no_node" if is_driver_there else "rknn_no_driver")


def heap_not_opened(node: Node) -> Message:
    """Return why the library cannot open a heap that it allocates from, and what to do."""
    return not_opened([node]) if node.is_denied else Message("rknn_no_heap", {"node": node.path})


def driver_state(driver: str, library: LibraryFile) -> Message:
    """Return whether the library takes this version of the driver: code `rknn_driver_too_old` where
    it does not.
    """
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


def node_of(path: str) -> Node:
    """Return the node of this path, which is opened and closed."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        code = error.errno or errno.EIO
        if code in _DENIED:
            return Node(path, code, os.access(path, os.R_OK | os.W_OK), _group_of(path))
        return Node(path, code)
    return Node(path)


def _group_of(path: str) -> str:
    """Return the group that may read and write it; "" where none may, or it has no name."""
    import grp  # only now: nothing more is loaded into the measured process

    try:
        status = os.stat(path)
        if status.st_gid and status.st_mode & stat.S_IRGRP and status.st_mode & stat.S_IWGRP:
            return grp.getgrgid(status.st_gid).gr_name
    except (OSError, KeyError):  # gone, or of a group without a name
        return ""
    return ""


def _drm_nodes() -> List[str]:
    """Return the DRM nodes of the NPU alone: on most boards the display and the GPU have some
    too.
    """
    names = []
    for device in _entries(_DRIVER_FOLDER):
        names += [
            name
            for name in _entries(os.path.join(_DRIVER_FOLDER, device, "drm"))
            if name[:4] in ("card", "rend")
        ]
    return [f"/dev/dri/{name}" for name in names]


def _entries(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _remedy(denied: Sequence[Node]) -> Message:
    """Return how this user gets to open the nodes."""
    for node in denied:
        if node.is_allowed:
            return Message("rknn_pass_device", {"node": node.path})
    groups = {node.group for node in denied if node.group}
    if groups:
        return Message("rknn_join_group", {"groups": ",".join(sorted(groups))})
    names = "|".join(os.path.basename(node.path) for node in denied)
    return Message("rknn_udev_rule", {"rule": _RULE.format(names=names)})
