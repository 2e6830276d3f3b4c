"""Descriptions of videos, by the Python that will measure; the harness does not import PyAV."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from reusebench.system import processes
from reusebench.system.package import python_command
from reusebench.video import VideoError

__all__ = ["probe_with"]

#: Opening a file reads its index and a few frames; a network disk may be slow.
_TIME_LIMIT_S = 120


def probe_with(interpreter: str, path: Path) -> dict[str, Any]:
    """Return codec, width and height in pixels, fps and frames (0: not in the file) of a video.

    The interpreter's PyAV decodes one frame. Raises VideoError if that fails.
    """
    command = python_command(
        "reusebench.measured.streams.describe", str(path.absolute()), python=interpreter
    )
    try:
        done = processes.run(command, Path("/"), time_limit_s=_TIME_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise VideoError(f"{path} cannot be read with {interpreter}: {error}") from None
    if done.returncode:
        last_line = done.stderr.strip().rpartition("\n")[2]
        raise VideoError(
            last_line or f"{interpreter} ended with {done.returncode} while it read {path}"
        )
    description: dict[str, Any] = json.loads(done.stdout)
    return description
