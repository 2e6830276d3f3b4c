"""Formats of /proc files: lines `Key:   123 kB`, /proc/meminfo, /proc/PID/statm."""

from __future__ import annotations

from reusebench.samplers.errors import SamplerError
from reusebench.samplers.readings import SystemMemory

__all__ = ["parse_counts", "parse_meminfo", "parse_resident_pages", "parse_sizes"]

#: Keys that are always there.
_MEMINFO = ("MemTotal", "MemFree", "MemAvailable", "Cached", "Slab", "Shmem", "SwapFree")


def parse_counts(text: str) -> dict[str, int]:
    """Return the numbers from lines `name number` of /proc/vmstat or memory.stat."""
    counts = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 2 and fields[1].isdigit():
            counts[fields[0]] = int(fields[1])
    return counts


def parse_sizes(text: str) -> dict[str, int]:
    """Return the lines `Key: N kB` of a /proc file as {Key: bytes}; other lines are skipped.

    Repeated keys, as for each mapping in smaps, are summed.
    """
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        number, _, unit = value.strip().partition(" ")
        if unit == "kB" and number.isdigit():
            sizes[key] = sizes.get(key, 0) + int(number) * 1024
    return sizes


def parse_meminfo(text: str) -> SystemMemory:
    """Return the content of /proc/meminfo.

    Raises SamplerError if a key is missing that every kernel since 3.14 writes.
    """
    sizes = parse_sizes(text)
    lacking = [key for key in _MEMINFO if key not in sizes]
    if lacking:
        raise SamplerError(
            f"/proc/meminfo lacks {', '.join(lacking)}, from which system memory is read: mount a"
            " whole /proc here, of Linux 3.14 or later"
        )
    return SystemMemory(
        total_bytes=sizes["MemTotal"],
        free_bytes=sizes["MemFree"],
        available_bytes=sizes["MemAvailable"],
        cached_bytes=sizes["Cached"],
        slab_bytes=sizes["Slab"],
        shmem_bytes=sizes["Shmem"],
        swap_free_bytes=sizes["SwapFree"],
        cma_total_bytes=sizes.get("CmaTotal"),
        cma_free_bytes=sizes.get("CmaFree"),
    )


def parse_resident_pages(statm: bytes) -> int:
    """Return RSS in pages from /proc/PID/statm; 0 for a zombie."""
    fields = statm.split()
    return int(fields[1]) if fields else 0
