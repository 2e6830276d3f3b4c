"""`python -m video.describe [--json] FILE`: what a file is, told by the Python that runs it (Python 3.8)."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Dict, Optional, Sequence

from video.errors import NoPyAv, VideoError

__all__ = ["main"]


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Print what the file is; return 0, or 2 after a sentence on standard error where it cannot be decoded here."""
    parser = argparse.ArgumentParser(prog="python -m video.describe")
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = parser.parse_args(argv)
    try:
        description = _describe(options.file)
    except VideoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(description) if options.json else _in_words(description))
    return 0


def _describe(path: str) -> Dict[str, Any]:
    try:
        from video.decoder import describe
    except ImportError as error:
        raise NoPyAv(error) from None
    return describe(path)


def _in_words(description: Dict[str, Any]) -> str:
    fps = f"{description['fps']:g} frames per second" if description["fps"] else "no frame rate given"
    frames = f"{description['frames']} frames" if description["frames"] else "number of frames not given"
    return f"{description['codec']}, {description['width']}x{description['height']}, {fps}, {frames}"


if __name__ == "__main__":
    sys.exit(main())
