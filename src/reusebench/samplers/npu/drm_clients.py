"""Memory that DRM drivers tell of the open files of processes, in /proc/PID/fdinfo.

Documentation/gpu/drm-usage-stats.rst in the kernel has the format, drm_print_memory_stats in
drivers/gpu/drm/drm_file.c the writer. etnaviv tells it since Linux 6.14; rocket and ethosu tell
nothing, not even their names (DEFINE_DRM_ACCEL_FOPS in include/drm/drm_accel.h has no show_fdinfo).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reusebench.samplers.host import Host

__all__ = ["DrmClient", "DrmMemory", "drm_client", "drm_memory"]

_FACT = re.compile(r"^drm-(driver|pdev|client-id):[ \t]*(\S+)$", re.MULTILINE)
#: Sizes by region; drm-total-cycles-ENGINE is no size. drm-memory-REGION is an earlier name of
#: drm-resident-REGION.
_SIZE = re.compile(
    r"^drm-(total|shared|resident|memory)-(?!cycles-)(\S+):[ \t]*(\d+)(?: (KiB|MiB))?$",
    re.MULTILINE,
)
_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}


class DrmClient(NamedTuple):
    """An open file of a device, which several descriptors and processes may share."""

    #: drm-driver, drm-pdev (empty for a device on no PCI bus) and drm-client-id, which tell
    #: clients apart.
    identity: tuple[str, str, str]
    #: All buffers, whether or not they have pages yet; None if the driver does not tell.
    total_bytes: int | None
    #: Part of them that has pages.
    resident_bytes: int | None
    #: Part of them that another client has as well, and counts as well.
    shared_bytes: int | None


class DrmMemory(NamedTuple):
    """Buffers of the clients of some processes: sums of the fields of DrmClient."""

    total_bytes: int
    #: None if a driver does not tell.
    resident_bytes: int | None
    shared_bytes: int | None


def drm_client(text: str) -> DrmClient | None:
    """Return the client in a text of fdinfo; None if the driver does not identify it.

    Sizes are sums over all regions of memory.
    """
    facts: dict[str, str] = dict(_FACT.findall(text))
    if not {"driver", "client-id"} <= facts.keys():
        return None
    sizes: dict[str, int] = {}
    for key, _, number, unit in _SIZE.findall(text):
        sizes[key] = sizes.get(key, 0) + int(number) * _UNITS[unit]
    resident_bytes = sizes.get("resident", sizes.get("memory"))
    return DrmClient(
        (facts["driver"], facts.get("pdev", ""), facts["client-id"]),
        sizes.get("total", resident_bytes),
        resident_bytes,
        sizes.get("shared"),
    )


def drm_memory(host: Host, pids: Iterable[int], nodes: Sequence[str]) -> DrmMemory | None:
    """Return the buffers of processes in devices with these nodes, each client once.

    None if a driver does not tell. Raises ProcessLookupError if all processes have gone, and
    PermissionError if there are processes, and none shows its files.
    """
    clients: dict[tuple[str, str, str], DrmClient] = {}
    is_readable = False
    refusal: PermissionError | None = None
    for pid in pids:
        try:
            texts = _texts(host, pid, nodes)
        except PermissionError as error:
            refusal = error
            continue
        except (FileNotFoundError, ProcessLookupError):
            continue
        is_readable = True
        for text in texts:
            client = drm_client(text)
            if client is None or client.total_bytes is None:
                return None
            clients[client.identity] = client
    if not is_readable:
        raise refusal or ProcessLookupError("the processes have gone")
    found = list(clients.values())
    return DrmMemory(
        sum(client.total_bytes or 0 for client in found),
        _sum(client.resident_bytes for client in found),
        _sum(client.shared_bytes for client in found),
    )


def _sum(sizes: Iterable[int | None]) -> int | None:
    """Return the sum; None if a size is unknown."""
    total_bytes = 0
    for size_bytes in sizes:
        if size_bytes is None:
            return None
        total_bytes += size_bytes
    return total_bytes


def _texts(host: Host, pid: int, nodes: Sequence[str]) -> list[str]:
    """Return the texts of a process's descriptors of these nodes."""
    folder = f"/proc/{pid}"
    names = host.names(f"{folder}/fd")
    links = host.links([f"{folder}/fd/{name}" for name in names])
    held = [name for name, link in zip(names, links) if link in nodes]
    contents = host.read_all([f"{folder}/fdinfo/{name}" for name in held])
    return [content.decode(errors="replace") for content in contents if isinstance(content, bytes)]
