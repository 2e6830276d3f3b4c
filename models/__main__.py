"""The door to the models: `python -m models build NAME`, `toolkit install` and `list`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from models.commands import COMMANDS
from models.errors import ModelError

_BAD_INPUT = 2
#: As shells give it for a command that SIGINT ended.
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command named in argv; return 0, 130 after Ctrl-C, or 2 after a sentence on standard error."""
    parser = argparse.ArgumentParser(prog="python -m models", description="Model files made from code.")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.help, description=command.help)
        command.prepare_parser(subparser)
        subparser.set_defaults(run=command.run)
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except ModelError as error:
        print(f"error: {error}", file=sys.stderr)
        return _BAD_INPUT
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
