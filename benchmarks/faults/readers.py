"""Readers of a storage apart from the commands: the page in every language, and data frames."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Literal

import reusebench
from benchmarks.faults.in_process import run_call
from benchmarks.faults.trial import Kind, Wrong
from reusebench.reports.base.paper import PAPERS
from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.errors import ReportError
from reusebench.reports.material import Material, read_material
from reusebench.reports.page.index import SECTIONS, write_report
from reusebench.reports.sections.section import Page

__all__ = ["odd_text", "reader_wrongs"]

#: Tables of frames, of which each input is read as one; results are the most used.
_FRAMES: tuple[Literal["results", "traces", "ledgers"], ...] = (
    "results",
    "results",
    "results",
    "traces",
    "ledgers",
)
#: Parts of a page that are no text, or code.
_NO_TEXT = re.compile(r"<(script|style|pre|code)\b.*?</\1>|<[^>]*>", re.DOTALL)
#: Values that have no words, and fields of texts without a value.
_ODD = re.compile(r"(?<![\w.-])(?:nan|inf|NaN|Infinity)(?![\w.-])|\{[a-z_]+\}|Message\(|Undefined")


def reader_wrongs(
    storage: Path, out: Path, limit_s: float, turn: int, draws: bool
) -> Iterator[Wrong]:
    """Yield the faults of reading the storage as a page, without or with figures, and as a frame.

    `turn` chooses the frame: a number for each input.
    """
    yield from run_call(lambda: _load(storage, turn), limit_s)
    materials: list[Material] = []
    yield from run_call(lambda: materials.extend(_materials(storage)), limit_s)
    for material in materials:
        for language in LANGUAGES:
            words = texts_of(language)
            yield from run_call(
                lambda: [words.message(file.message) for file in material.bad_files],  # noqa: B023
                limit_s,
            )
        yield from run_call(lambda: write_report(material, {}, out, LANGUAGES[0]), limit_s)  # noqa: B023
        for page in sorted(out.glob("*.html")):
            yield from odd_text(page)
        if draws:
            for draw in _figures(material):
                yield from run_call(draw, limit_s)


def _load(storage: Path, turn: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reusebench.load(storage, table=_FRAMES[turn % len(_FRAMES)], wide=turn % 2 == 0)


def _materials(storage: Path) -> list[Material]:
    """Return the material of a report; none if there is nothing to report."""
    try:
        return [read_material([storage], None)]
    except ReportError:
        return []


def _figures(material: Material) -> Iterator[Callable[[], object]]:
    """Yield what draws each figure, in each language."""
    for language in LANGUAGES:
        page = Page(material, texts_of(language))
        for section in SECTIONS:
            if section.applies(page):
                for draw, paper in product(section.figures(page).values(), PAPERS):
                    yield partial(draw, paper)


def odd_text(page: Path) -> Iterator[Wrong]:
    """Yield a fault if the text of a page has a value that nobody put into words."""
    text = _NO_TEXT.sub(" ", page.read_text(encoding="utf-8"))
    odd = _ODD.search(text)
    if odd:
        words = text[max(0, odd.start() - 200) : odd.end() + 100]
        yield Wrong(Kind.FALSE, f"{page.name}: {odd[0]!r} in the text", words)
