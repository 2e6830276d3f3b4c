"""The forms of files of /proc: lines `Key:   123 kB` as bytes, /proc/meminfo, /proc/PID/statm."""

from __future__ import annotations

from reusebench.samplers.errors import SamplerError
from reusebench.samplers.readings import SystemMemory

__all__ = ["parse_meminfo", "parse_resident_pages", "parse_sizes"]

#: Keys that are always there.
_MEMINFO = ("MemTotal", "MemFree", "MemAvailable", "Cached", "Slab", "Shmem", "SwapFree")


def parse_sizes(text: str) -> dict[str, int]:
    """Return the lines `Key: N kB` of a /proc file as {Key: bytes}; other lines are left out.

    Keys that come again, as for each mapping in smaps, are summed up.
    """
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        number, _, unit = value.strip().partition(" ")
        if unit == "kB" and number.isdigit():
            sizes[key] = sizes.get(key, 0) + int(number) * 1024
    return sizes


def parse_meminfo(text: str) -> SystemMemory:
    """Return what /proc/meminfo has; raise SamplerError if it lacks a key that every kernel
    since 3.14 writes.
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
    """Return RSS in pages out of /proc/PID/statm; 0 where the process has ended, but was not waited
    for.
    """
    fields = statm.split()
    return int(fields[1]) if fields else 0
