"""What the harness asks of a video: the interpreter that will measure describes it (standard library only)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from video.errors import VideoError

__all__ = ["describe_with"]

_CHECKOUT = Path(__file__).resolve().parent.parent
#: Opening a file reads its index and a few frames; a far disk may be slow.
_TIME_LIMIT_S = 120


def describe_with(interpreter: str, path: Path) -> dict[str, Any]:
    """Return codec, width and height in pixels, fps and frames (0: the file does not say) of a video.

    A frame of it was decoded with the PyAV of that interpreter. Raises VideoError with a sentence for the user.
    """
    command = [interpreter, "-m", "video.describe", str(path.absolute())]
    try:
        done = subprocess.run(
            command, cwd=_CHECKOUT, capture_output=True, text=True, errors="replace", check=False, timeout=_TIME_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise VideoError(f"{path} cannot be read with {interpreter}: {error}") from None
    if done.returncode:
        raise VideoError(_last_words(done.stderr) or f"{interpreter} ended with {done.returncode} while it read {path}")
    description: dict[str, Any] = json.loads(done.stdout)
    return description


def _last_words(said: str) -> str:
    return said.strip().rpartition("\n")[2]
