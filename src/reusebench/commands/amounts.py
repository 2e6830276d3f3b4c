"""Numbers of things, and sizes, in texts of commands."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.storage.runs import RunSummary

__all__ = ["count", "mib", "named_runs"]

#: Limit of the runs that a sentence names.
_MOST_NAMED = 8


def count(number: int, noun: str) -> str:
    """Return the number with the noun in its form."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def mib(size_bytes: int) -> str:
    """Return the size in MiB, without the unit."""
    return f"{size_bytes / 2**20:,.2f}"


def named_runs(runs: Sequence[RunSummary]) -> str:
    """Return the number of runs and their names."""
    names = [str(run) for run in runs[:_MOST_NAMED]]
    if len(runs) > _MOST_NAMED:
        names.append(f"{len(runs) - _MOST_NAMED:,} more")
    return f"{count(len(runs), 'run')} ({', '.join(names)})"
