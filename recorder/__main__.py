"""`python -m samplers record -- CMD`: measures a program that is not ours, as `pytest bench/` measures scenarios."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from recorder.errors import RecordError
from recorder.summary import tell
from recorder.task import Task, record_program
from storage.board import board_storage

__all__ = ["main"]

_RECORD = """
Everything behind -- is the program and its arguments. Its input, output and exit code are passed through.
Memory of all its processes, of the system and of the NPU is stored by phase, as a run that reports show and compare.
A phase begins when the program writes its name, as a line, to the file or the file descriptor.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments ask for; the exit code is the program's, or 2 where nothing was recorded."""
    own, command = _split(sys.argv[1:] if argv is None else list(argv))
    parser = argparse.ArgumentParser("python -m samplers", description=__doc__)
    commands = parser.add_subparsers(dest="command_name", metavar="COMMAND")
    recorder = commands.add_parser("record", help="measure a program", description=_RECORD, usage=_USAGE)
    _add_options(recorder)
    options = parser.parse_args(own)
    if options.command_name is None:
        parser.print_help()
        return 0
    _check(recorder, options, command)
    names = ("name", "pid", "phases", "marker", "repeats", "storage", "project")
    try:
        return record_program(Task(command=command, **{name: getattr(options, name) for name in names}))
    except RecordError as error:
        tell(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130


_USAGE = "python -m samplers record [OPTIONS] -- CMD ...\n       python -m samplers record [OPTIONS] --pid PID"


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return what stands before the first -- and what stands behind it."""
    place = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:place], arguments[place + 1 :]


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--name",
        metavar="N",
        type=_name,
        help="what the program is called in reports; default: the command's base name",
    )
    marks = parser.add_mutually_exclusive_group()
    marks.add_argument(
        "--phases", metavar="FILE", type=Path, help="the program appends names of phases; in its REUSEBENCH_PHASES"
    )
    marks.add_argument(
        "--marker", metavar="FD", type=_descriptor, help="it writes them to this descriptor; in its REUSEBENCH_MARKER"
    )
    add("--repeats", metavar="N", type=_count, default=1, help="runs one after another; default: 1")
    add("--pid", metavar="PID", type=_count, help="record this running process instead, until it ends or Ctrl-C")
    add("--storage", metavar="DIR", type=Path, default=board_storage(), help="default: this board's storage")
    add("--project", metavar="DIR", type=Path, default=Path(), help="checkout whose commit is noted; default: .")


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace, command: Sequence[str]) -> None:
    if options.pid is None:
        if not command:
            parser.error(
                "there is no program. Put it behind --: python -m samplers record -- CMD ..., or give --pid PID"
            )
        return
    if command:
        parser.error("--pid records a program that is running already; leave away -- and what follows, or --pid")
    if options.marker is not None:
        parser.error("--marker needs a program that is started here; with --pid marks come by --phases FILE")
    if options.repeats > 1:
        parser.error("--repeats needs a program that is started here; --pid records one run")


def _name(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; valid: printable characters, at least one")
    return text.strip()


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; valid: a whole number from 1")
    return int(text)


def _descriptor(text: str) -> int:
    if not text.isdecimal() or not 3 <= int(text) <= 255:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; valid: 3 to 255 (0, 1 and 2 are the program's own)")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
