"""Rows of `reusebench doctor`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import click
from tabulate import tabulate

from reusebench.commands.reply import reply_of
from reusebench.commands.results import PartRow
from reusebench.samplers.readings import MemorySource

__all__ = ["Part", "show_parts", "source_parts"]


class Part(NamedTuple):
    """A part of an installation or a machine, which is present or missing."""

    name: str
    is_here: bool
    #: Its purpose, or the remedy if it is missing.
    remark: str


def source_parts(sources: Iterable[MemorySource]) -> list[Part]:
    """Return a row for each source of figures."""
    return [Part(source.name, source.readable, str(source.remark)) for source in sources]


def show_parts(subject: str, parts: Sequence[Part]) -> list[PartRow]:
    """Print the table of a subject unless it has no rows, or the reply is JSON; return the rows."""
    if parts and not reply_of().is_json:
        rows = [(part.name, "yes" if part.is_here else "no", part.remark) for part in parts]
        heads = (subject, "here", "remark")
        click.echo()
        click.echo(tabulate(rows, heads, tablefmt="plain", disable_numparse=True))
    return [PartRow(subject, *part) for part in parts]
