"""`reusebench glossary`: the words of the project, one sentence each."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

import click

from reusebench.commands.options import language
from reusebench.commands.reply import give, json_option
from reusebench.commands.results import WordRow
from reusebench.harness.errors import UserError
from reusebench.reports.base.texts import Texts, texts_of
from reusebench.reports.sections.glossary import glossary as words_of
from reusebench.storage.metrics import METRICS
from reusebench.system.option_names import nearest

__all__ = ["glossary"]

_WIDTH = 100


@click.command()
@click.argument("word", metavar="[WORD]", required=False)
@language
@json_option
def glossary(word: str | None, language: str) -> None:
    """Explain the words of the project, or one of them, such as `context` or `PSS`.

    WORD may also be a scenario, such as `full_dup`, or a metric.
    """
    texts = texts_of(language)
    rows = [WordRow(name, *meaning) for name, meaning in words_of(texts).items()]
    if word is not None:
        rows = [_found(word, [*rows, *_named_things(texts)])]
    give(rows, _lines(rows))


def _named_things(texts: Texts) -> Iterator[WordRow]:
    """Yield scenarios and metrics."""
    for name, about in texts.starting_with("about_").items():
        yield WordRow(name, texts.scenario(name), about)
    for metric in METRICS:
        title = texts(f"metric_{metric.name}")
        yield WordRow(metric.name, title, texts(f"meaning_{metric.name}"))


def _found(word: str, rows: Sequence[WordRow]) -> WordRow:
    """Return the row of a word, in any language and case; raise UserError if there is none."""
    for row in rows:
        # In Chinese the English word follows in (wide) brackets.
        if _plain(word) in (_plain(row.name), _plain(row.word.partition("\uff08")[0])):
            return row
    near = nearest(word, [row.name for row in rows])
    proposal = f"the nearest is {near}, and " if near else ""
    raise UserError(f"there is no word {word!r}; {proposal}`reusebench glossary` lists them")


def _plain(word: str) -> str:
    """Return the word without what users write in several ways."""
    return re.sub("[ _-]", "", word).lower()


def _lines(rows: Sequence[WordRow]) -> Iterator[str]:
    for row in rows:
        yield textwrap.fill(f"{row.word}: {row.meaning}", _WIDTH, subsequent_indent="    ")
