"""The command `python -m video describe`: what a file is, told by the Python that runs it (Python 3.8)."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Dict

from video.errors import VideoError

__all__ = ["prepare_parser", "run"]


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def run(arguments: argparse.Namespace) -> None:
    """Print what the file is; raise VideoError without PyAV, AdapterError where it cannot be decoded here."""
    try:
        from video.decoder import describe
    except ImportError as error:
        raise VideoError(
            f"{sys.executable} cannot import PyAV, which decodes the frames ({error}): pip install av; "
            "for MegEngine's environment: reusebench models install megengine"
        ) from None
    found = describe(arguments.file)
    print(json.dumps(found) if arguments.json else _in_words(found))


def _in_words(found: Dict[str, Any]) -> str:
    fps = f"{found['fps']:g} frames per second" if found["fps"] else "no frame rate given"
    frames = f"{found['frames']} frames" if found["frames"] else "number of frames not given"
    return f"{found['codec']}, {found['width']}x{found['height']}, {fps}, {frames}"
