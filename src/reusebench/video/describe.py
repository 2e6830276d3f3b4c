"""What a video is, as the Python that will measure decodes it: `python -m video.describe FILE` prints a line of JSON.

Standard library only, Python 3.8: the harness imports this, and runs it with the Python that measures.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

from reusebench.system import processes
from reusebench.video import VideoError

__all__ = ["describe_with", "main"]

_CHECKOUT = Path(__file__).resolve().parent.parent
#: Opening a file reads its index and a few frames; a far disk may be slow.
_TIME_LIMIT_S = 120


def describe_with(interpreter: str, path: Path) -> Dict[str, Any]:
    """Return codec, width and height in pixels, fps and frames (0: not in the file) of a video.

    A frame of it was decoded with the PyAV of that interpreter. Raises VideoError.
    """
    command = [interpreter, "-m", "reusebench.video.describe", str(path.absolute())]
    try:
        done = processes.run(command, _CHECKOUT, time_limit_s=_TIME_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise VideoError(f"{path} cannot be read with {interpreter}: {error}") from None
    if done.returncode:
        last_line = done.stderr.strip().rpartition("\n")[2]
        raise VideoError(last_line or f"{interpreter} ended with {done.returncode} while it read {path}")
    description: Dict[str, Any] = json.loads(done.stdout)
    return description


def main(path: str) -> int:
    """Print the description; return 0, or 2 after a sentence on standard error where it cannot be decoded here."""
    from reusebench.measured.runtimes.base import AdapterError

    try:
        from reusebench.measured.streams.decoder import describe

        print(json.dumps(describe(path)))
    except ImportError as error:
        print(
            f"{sys.executable} cannot import PyAV, which decodes the frames ({error}): pip install av; "
            "for MegEngine's environment: reusebench models install megengine",
            file=sys.stderr,
        )
        return 2
    except AdapterError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
