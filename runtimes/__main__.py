"""`python -m runtimes`: what this machine has, each runtime and each source of figures.

With --try each mechanism of each runtime is tried on a small model, in fresh processes.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from harness.errors import UserError
from harness.selection import Choice, add_choice_options
from harness.trial import try_mechanisms
from harness.trial_lines import TrialLines
from runtimes import RUNTIMES, RuntimeEntry, open_runtime
from runtimes.base import AdapterError
from samplers.sources import MemorySource, machine_sources, memory_sources
from storage.board import board_storage
from targets.base import CHECKOUT
from targets.interpreters import python_with

__all__ = ["main"]

_BAD_INPUT = 2
#: As shells give it for a command that SIGINT ended.
_INTERRUPTED = 130

#: Prints the version of a runtime, and that of the Python that has it, as the last words.
_VERSIONS = """
import platform, runtimes, sys
print(runtimes.open_runtime(sys.argv[1]).version, platform.python_version())
"""


def main(argv: Sequence[str] | None = None) -> int:
    """List what is here, or try it; exit code 1 when no runtime works here, 2 when nothing could be tried."""
    arguments = _parse(argv)
    if not arguments.try_out:
        return _list()
    try:
        try_mechanisms(Choice.of(arguments), arguments.storage, TrialLines())
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return _BAD_INPUT
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m runtimes", description=__doc__)
    parser.add_argument(
        "--try", action="store_true", dest="try_out", help="try every mechanism of the runtimes, in about a minute each"
    )
    group = parser.add_argument_group("with --try")
    add_choice_options(group.add_argument)
    group.add_argument(
        "--storage",
        metavar="DIR",
        type=Path,
        default=board_storage(),
        help="Where the reports look for what came of it. Default: this board's storage.",
    )
    arguments = parser.parse_args(argv)
    for name in ("runtime", "target", "rknn_library", "storage"):
        if not arguments.try_out and getattr(arguments, name) != parser.get_default(name):
            parser.error(f"--{name.replace('_', '-')} goes with --try")
    return arguments


def _list() -> int:
    console = Console()
    found = [_state(entry) for entry in RUNTIMES]
    console.print(f"Python {platform.python_version()} ({sys.executable})\n", highlight=False, soft_wrap=True)
    console.print(_table("runtime", found))
    console.print()
    console.print(_table("memory source", _rows(memory_sources(os.getpid()))))
    console.print()
    console.print(_table("machine source", _rows(machine_sources())))
    return 0 if any(works for _, works, _ in found) else 1


def _rows(sources: Iterable[MemorySource]) -> list[tuple[str, bool, str]]:
    return [(source.name, source.readable, str(source.remark)) for source in sources]


def _state(entry: RuntimeEntry) -> tuple[str, bool, str]:
    """Return (name, whether it works here, its version or what to do)."""
    python = python_with(entry)
    if python is None:
        return entry.name, False, f"not here: {entry.install}"
    if python != sys.executable:
        return entry.name, *_state_elsewhere(entry, python)
    try:
        return entry.name, True, f"version {open_runtime(entry.name).version}"
    except AdapterError as error:
        return entry.name, False, str(error)
    except ImportError as error:
        return entry.name, False, _broken(entry, error)


def _state_elsewhere(entry: RuntimeEntry, python: str) -> tuple[bool, str]:
    command = [python, "-c", _VERSIONS, entry.name]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if done.returncode:
        return False, _broken(entry, done.stderr.strip().rpartition("\n")[2])
    version, python_version = done.stdout.split()[-2:]
    return True, f"version {version}, in an environment of its own: Python {python_version} ({python})"


def _broken(entry: RuntimeEntry, reason: object) -> str:
    return f"installed, but cannot be imported: {reason}. Install it again: {entry.install}"


def _table(subject: str, rows: list[tuple[str, bool, str]]) -> Table:
    table = Table(subject, "here", box=None, pad_edge=False)
    table.add_column("remark", overflow="fold")
    for name, works, remark in rows:
        table.add_row(name, "yes" if works else "no", remark)
    return table


if __name__ == "__main__":
    sys.exit(main())
