"""Prints a video's description as JSON: `start.py reusebench.measured.streams.describe FILE`."""

from __future__ import annotations

import json
import sys

from reusebench.measured.runtimes.base import AdapterError

__all__ = ["main"]


def main(path: str) -> int:
    """Print the description and return 0; print an error and return 2 if it cannot be decoded."""
    try:
        from reusebench.measured.streams.decoder import describe

        print(json.dumps(describe(path)))
    except ImportError as error:
        print(
            f"{sys.executable} cannot import PyAV, which decodes the frames ({error}): pip install"
            " av; for MegEngine's environment: reusebench models install megengine",
            file=sys.stderr,
        )
        return 2
    except AdapterError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
