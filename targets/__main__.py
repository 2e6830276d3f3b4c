"""The door to the targets: `python -m targets` lists them; `vboard install` and `ledger install` make them ready."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from targets.commands import COMMANDS, list_targets
from targets.errors import TargetError

_BAD_INPUT = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command named in argv and return the exit code: 0, or 2 after a sentence on standard error."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except TargetError as error:
        print(f"error: {error}", file=sys.stderr)
        return _BAD_INPUT
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m targets", description="Where measured processes run. Without a command: what there is."
    )
    parser.set_defaults(run=lambda _: list_targets())
    groups = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        first, second = command.words
        group = groups.add_parser(first, help=command.help).add_subparsers(metavar=second, required=True)
        subparser = group.add_parser(second, help=command.help, description=command.help)
        command.prepare_parser(subparser)
        subparser.set_defaults(run=command.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
