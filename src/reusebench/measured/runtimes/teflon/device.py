"""The device that Mesa's delegate needs. Python 3.8, standard library."""

from __future__ import annotations

import errno
from typing import Optional

from reusebench.measured.messages import Message
from reusebench.measured.runtimes.device_nodes import node_of, not_permitted

__all__ = ["NODE", "RULE", "reason"]

#: First node of accelerators with a driver of mainline Linux (drivers/accel).
NODE = "/dev/accel/accel0"
#: udev's rule for nodes that belong to root alone, as systemd's own rules.
RULE = 'SUBSYSTEM=="accel", KERNEL=="accel*", GROUP="render", MODE="0660"'


def reason(version: Optional[str]) -> Message:
    """Return the reason that a delegate of this version of Mesa did not start, and a remedy."""
    node = node_of(NODE)
    if node.error == errno.ENOENT:
        return Message("teflon_no_node", {"node": NODE})
    if node.is_denied:
        return not_permitted([node], Message("teflon_udev_rule", {"rule": RULE}))
    return Message("teflon_no_driver", {"node": NODE, "version": version or "?"})
