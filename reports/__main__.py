"""`python -m reports`: the report of stored runs; with a command, what has changed between them.

Nothing here runs a benchmark.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from reports.errors import ReportError

__all__ = ["COMMANDS", "main"]


class _Command(Protocol):
    """A module of one command."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""

    def run(self, options: argparse.Namespace) -> int:
        """Return the exit code; raise ReportError for a mistake of the user."""


#: By name: what the command prints. Each is the module `reports.commands.NAME`, imported when it is asked for: what all
#: of them need together takes a second to import.
COMMANDS = {
    "compare": "what has changed between two runs, and whether it is more than allowed",
    "export": "stored runs in the forms of other tools",
    "history": "where each figure of each configuration changed, over all stored runs",
}
_REPORT = "Without a command: the report of stored runs, as a page and as tables. Runs nothing itself."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, or write the report; exit code 2 for a mistake of the user."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in COMMANDS:
        name = words.pop(0)
        parser = argparse.ArgumentParser(f"python -m reports {name}", description=f"Prints {COMMANDS[name]}.")
    else:
        name, parser = "report", _report_parser()
    command = cast(_Command, import_module(f"reports.commands.{name}"))
    command.prepare_parser(parser)
    options = parser.parse_args(words)
    try:
        return command.run(options)
    except ReportError as error:
        print(f"reports: {error}", file=sys.stderr)
        return 2


def _report_parser() -> argparse.ArgumentParser:
    commands = "\n".join(f"  {name:10}{described}" for name, described in COMMANDS.items())
    return argparse.ArgumentParser(
        "python -m reports",
        description=_REPORT,
        epilog=f"commands (each has a --help of its own):\n{commands}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


if __name__ == "__main__":
    sys.exit(main())
