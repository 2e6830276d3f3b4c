"""Nodes of devices in /dev, and the remedies if this user may not open them.

Nothing here runs in the measured process before a call of a library has failed. Python 3.8,
standard library.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple, Sequence

from reusebench.measured.messages import Message

__all__ = ["Node", "node_of", "not_permitted"]

#: Errors of a node that only others may open.
_DENIED = (errno.EACCES, errno.EPERM)


class Node(NamedTuple):
    """A file in /dev."""

    path: str
    #: Value of `errno` after opening it for reading and writing; 0 if it opens.
    error: int = 0
    #: Whether the rights of a denied node alone would allow it.
    is_allowed: bool = False
    #: Group that may open a denied node; "" if there is none.
    group: str = ""

    @property
    def is_denied(self) -> bool:
        """Whether only others may open it."""
        return self.error in _DENIED


def node_of(path: str) -> Node:
    """Return the node of this path, after opening and closing it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        code = error.errno or errno.EIO
        if code in _DENIED:
            return Node(path, code, os.access(path, os.R_OK | os.W_OK), _group_of(path))
        return Node(path, code)
    return Node(path)


def _group_of(path: str) -> str:
    """Return the group that may read and write the file; "" if there is none, or it has no name."""
    import grp  # only now: nothing is added to the measured process

    try:
        status = os.stat(path)
        rights = stat.S_IRGRP | stat.S_IWGRP
        if status.st_gid and status.st_mode & rights == rights:
            return grp.getgrgid(status.st_gid).gr_name
    except (OSError, KeyError):  # the file is gone, or its group has no name
        return ""
    return ""


def not_permitted(denied: Sequence[Node], rule: Message) -> Message:
    """Return the reason that this user cannot open these nodes, and the remedy.

    `rule` is the remedy for nodes that belong to root alone.
    """
    paths = ", ".join(node.path for node in denied)
    return Message("rknn_no_permission", {"nodes": paths, "remedy": _remedy(denied, rule)})


def _remedy(denied: Sequence[Node], rule: Message) -> Message:
    for node in denied:
        if node.is_allowed:
            return Message("rknn_pass_device", {"node": node.path})
    groups = {node.group for node in denied if node.group}
    if groups:
        return Message("rknn_join_group", {"groups": ",".join(sorted(groups))})
    return rule
