"""Rows of `reusebench doctor`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import click
from tabulate import tabulate

from reusebench.samplers.readings import MemorySource

__all__ = ["Part", "print_parts", "source_parts"]


class Part(NamedTuple):
    """A part of an installation or a machine, which is present or missing."""

    name: str
    is_here: bool
    #: Its purpose, or the remedy if it is missing.
    remark: str


def source_parts(sources: Iterable[MemorySource]) -> list[Part]:
    """Return a row for each source of figures."""
    return [Part(source.name, source.readable, str(source.remark)) for source in sources]


def print_parts(subject: str, parts: Sequence[Part]) -> None:
    """Print the table of a subject, unless it has no rows."""
    if not parts:
        return
    rows = [(part.name, "yes" if part.is_here else "no", part.remark) for part in parts]
    heads = (subject, "here", "remark")
    click.echo()
    click.echo(tabulate(rows, heads, tablefmt="plain", disable_numparse=True))
