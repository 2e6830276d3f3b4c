"""`reusebench glossary`: the words of the project, one sentence each."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import click

from reusebench.commands.options import language
from reusebench.commands.reply import give, json_option
from reusebench.commands.results import WordRow
from reusebench.harness.errors import UserError
from reusebench.reports.base.texts import texts_of
from reusebench.reports.sections.glossary import glossary as words_of
from reusebench.system.option_names import nearest

__all__ = ["glossary"]

_WIDTH = 100


@click.command()
@click.argument("word", metavar="[WORD]", required=False)
@language
@json_option
def glossary(word: str | None, language: str) -> None:
    """Explain the words of the project, or one of them, such as `context` or `PSS`."""
    rows = [WordRow(name, *meaning) for name, meaning in words_of(texts_of(language)).items()]
    if word is not None:
        rows = [_found(word, rows)]
    give(rows, _lines(rows))


def _found(word: str, rows: Sequence[WordRow]) -> WordRow:
    """Return the row of a word, in any language and case; raise UserError if there is none."""
    name = word.lower().replace(" ", "_").replace("-", "_")
    for row in rows:
        if name == row.name or word == row.word:
            return row
    names = [row.name for row in rows]
    near = nearest(name, names)
    proposal = f"the nearest is {near}; " if near else ""
    raise UserError(f"there is no word {word!r}; {proposal}valid: {', '.join(names)}")


def _lines(rows: Sequence[WordRow]) -> Iterator[str]:
    for row in rows:
        yield textwrap.fill(f"{row.word}: {row.meaning}", _WIDTH, subsequent_indent="    ")
