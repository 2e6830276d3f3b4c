"""Files of /proc in their common form, `Key:   123 kB`, as bytes."""

from __future__ import annotations

__all__ = ["parse_sizes"]


def parse_sizes(text: str) -> dict[str, int]:
    """Return the lines `Key: N kB` of a /proc file as {Key: bytes}; other lines are left out."""
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        number, _, unit = value.strip().partition(" ")
        if unit == "kB" and number.isdigit():
            sizes[key] = int(number) * 1024
    return sizes
