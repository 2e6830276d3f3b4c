"""The command `python -m video make`: the default clip, or one of another form."""

from __future__ import annotations

import argparse
import re
from typing import Tuple

__all__ = ["prepare_parser", "run"]


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command; the defaults are those of the default clip."""
    parser.add_argument("--output", metavar="FILE", help="write here (MP4) instead of into the cache")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="T", help="its length (default: 10)")
    parser.add_argument(
        "--size", type=_size, default=(1920, 1080), metavar="WxH", help="of a frame in pixels (default: 1920x1080)"
    )
    parser.add_argument("--fps", type=int, default=30, metavar="F", help="frames per second (default: 30)")


def run(arguments: argparse.Namespace) -> None:
    """Make the clip and print its path; raise VideoError, or ModelError where it cannot be written."""
    # Imported here: `describe` runs on Pythons that these modules are not for.
    from video.clip import Clip, ensure_clip

    width, height = arguments.size
    clip = Clip(width, height, arguments.fps, arguments.seconds)
    if arguments.output is None:
        print(ensure_clip(clip))
        return
    from video.encoder import write_clip

    write_clip(clip, arguments.output)
    print(arguments.output)


def _size(text: str) -> Tuple[int, int]:
    found = re.fullmatch(r"(\d+)x(\d+)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; valid: WIDTHxHEIGHT in pixels, as in 1920x1080")
    return int(found[1]), int(found[2])
