"""`python -m runtimes`: what this machine has, each runtime and each source of memory figures."""

from __future__ import annotations

import argparse
import os
import platform
import sys

from rich.console import Console
from rich.table import Table

from runtimes import RUNTIMES, RuntimeEntry, available, open_runtime
from runtimes.base import AdapterError
from samplers.sources import memory_sources

__all__ = ["main"]


def main() -> int:
    """Print both tables; exit code 1 when no runtime works here."""
    argparse.ArgumentParser("python -m runtimes", description=__doc__).parse_args()
    console = Console()
    found = [_state(entry) for entry in RUNTIMES]
    console.print(f"Python {platform.python_version()} ({sys.executable})\n", highlight=False, soft_wrap=True)
    console.print(_table("runtime", found))
    sources = [(source.name, source.readable, source.remark) for source in memory_sources(os.getpid())]
    console.print()
    console.print(_table("memory source", sources))
    return 0 if any(works for _, works, _ in found) else 1


def _state(entry: RuntimeEntry) -> tuple[str, bool, str]:
    """Return (name, whether it works here, its version or what to do)."""
    if not available(entry):
        return entry.name, False, f"not here: {entry.install}"
    try:
        return entry.name, True, f"version {open_runtime(entry.name).version}"
    except AdapterError as error:
        return entry.name, False, str(error)
    except ImportError as error:
        return entry.name, False, f"installed, but cannot be imported: {error}. Install it again: {entry.install}"


def _table(subject: str, rows: list[tuple[str, bool, str]]) -> Table:
    table = Table(subject, "here", "remark", box=None, pad_edge=False)
    for name, works, remark in rows:
        table.add_row(name, "yes" if works else "no", remark)
    return table


if __name__ == "__main__":
    sys.exit(main())
