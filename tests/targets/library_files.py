"""Files with the headers and versions of Rockchip's libraries, and no code."""

from __future__ import annotations

import struct
from pathlib import Path

_MACHINES = {"armhf": (1, 40), "aarch64": (2, 183), "x86_64": (2, 62), "mips": (1, 8)}


def write_library(
    path: Path, kind: str = "librknnrt", version: str = "1.6.0", architecture: str = "armhf"
) -> Path:
    """Write such a file."""
    bits, machine = _MACHINES[architecture]
    header = struct.pack("<4sBB10xHH", b"\x7fELF", bits, 1, 3, machine)
    text = f"{kind} version: {version} (9a7b5d24c@2023-12-13T17:32:13)".encode()
    path.write_bytes(header + bytes(100) + text + bytes(100))
    return path
