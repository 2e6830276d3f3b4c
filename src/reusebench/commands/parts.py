"""Rows of `reusebench doctor`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import click
from tabulate import tabulate

from reusebench.samplers.readings import MemorySource

__all__ = ["Part", "print_parts", "source_parts"]


class Part(NamedTuple):
    """A part of an installation or of a machine that is here or not."""

    name: str
    is_here: bool
    #: What it is for, or what to do where it is not here.
    remark: str


def source_parts(sources: Iterable[MemorySource]) -> list[Part]:
    """Return a row for each source of figures."""
    return [Part(source.name, source.readable, str(source.remark)) for source in sources]


def print_parts(subject: str, parts: Sequence[Part]) -> None:
    """Print the table of a subject; nothing where it has no rows."""
    rows = [(part.name, "yes" if part.is_here else "no", part.remark) for part in parts]
    if rows:
        click.echo()
        click.echo(
            tabulate(rows, (subject, "here", "remark"), tablefmt="plain", disable_numparse=True)
        )
