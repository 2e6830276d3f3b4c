"""The door to videos: `python -m video describe FILE` and `make` (Python 3.8, as the measuring one may be)."""

from __future__ import annotations

import argparse
import sys
from typing import Optional, Sequence

from runtimes.base import AdapterError
from video import describe, make
from video.errors import VideoError

_BAD_INPUT = 2
#: As shells give it for a command that SIGINT ended.
_INTERRUPTED = 130


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command named in argv; return 0, 130 after Ctrl-C, or 2 after a sentence on standard error."""
    parser = argparse.ArgumentParser(prog="python -m video", description="Videos whose frames streams are made of.")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command, line in (
        ("describe", describe, "say what a file is, and whether it can be decoded here"),
        ("make", make, "make the default clip: moving texture in H.264, from code"),
    ):
        subparser = subparsers.add_parser(name, help=line, description=line)
        command.prepare_parser(subparser)
        subparser.set_defaults(run=command.run)
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except (AdapterError, VideoError) as error:
        print(f"error: {error}", file=sys.stderr)
        return _BAD_INPUT
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
