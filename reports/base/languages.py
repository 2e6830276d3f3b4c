"""Every language in one page: data made once per language are laid over each other, and figures carry all their words.

What is equal in all languages, every number above all, stands once.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from markupsafe import escape

from reports.base.drawing import Drawing
from reports.base.texts import LANGUAGES, Texts, texts_of

_FIRST = LANGUAGES[0]
_SVG_TEXT = re.compile(r"(<text\b[^>]*>)([^<]+)(</text>)")


@dataclass(frozen=True)
class Words:
    """One text in every language; only that of the reader's choice is shown."""

    of: Mapping[str, str]

    def __html__(self) -> str:
        """Return an element for each language."""
        return "".join(f'<span lang="{language}">{escape(text)}</span>' for language, text in self.of.items())

    def __str__(self) -> str:
        """Return the text in the first language."""
        return self.of[_FIRST]


def every_language(make: Callable[[Texts], Any]) -> Any:
    """Return what make(texts) gives, with Words in place of each text that is not the same in every language.

    It gives lists, tuples, dicts and dataclasses of texts and other values, of the same form in every language.
    """
    return _laid_over({language: make(texts_of(language)) for language in LANGUAGES})


def _laid_over(of: Mapping[str, Any]) -> Any:
    first = of[_FIRST]
    if all(value == first for value in of.values()):
        return first
    if isinstance(first, str):
        return Words(dict(of))
    if isinstance(first, Mapping):
        return {key: _laid_over({language: value[key] for language, value in of.items()}) for key in first}
    if is_dataclass(first):
        names = [each.name for each in fields(first)]
        parts = {name: _laid_over({language: getattr(value, name) for language, value in of.items()}) for name in names}
        return type(first)(**parts)  # type: ignore[misc]
    return [_laid_over(dict(zip(of, values))) for values in _side_by_side(list(of.values()))]


def _side_by_side(lists: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    if len({len(each) for each in lists}) > 1:
        raise ValueError(f"the languages do not say the same: {lists}")
    return list(zip(*lists))


@dataclass(frozen=True)
class FigureTexts(Texts):
    """The words of the first language, which remembers what the others say: a figure is drawn once for all."""

    #: By a text of the first language.
    said: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def new(cls) -> FigureTexts:
        """Return texts that have said nothing yet."""
        first = texts_of(_FIRST)
        return cls(first.language, first.words)

    def __call__(self, key: str, **values: object) -> str:
        """Return the text in the first language."""
        return self._say(lambda texts: texts(key, **{name: self._in(texts, value) for name, value in values.items()}))

    def scenario(self, name: str) -> str:
        """Return what the first language calls a scenario."""
        return self._say(lambda texts: texts.scenario(name))

    def runtime(self, name: str) -> str:
        """Return what the first language calls a runtime."""
        return self._say(lambda texts: texts.runtime(name))

    def _say(self, say: Callable[[Texts], str]) -> str:
        of = {language: say(texts_of(language)) for language in LANGUAGES}
        self.said[of[_FIRST]] = of
        return of[_FIRST]

    def _in(self, texts: Texts, value: object) -> object:
        """Return a value that may itself be one of these texts."""
        return self.said[value][texts.language] if isinstance(value, str) and value in self.said else value


def with_every_language(drawing: Drawing, said: Mapping[str, Mapping[str, str]]) -> Drawing:
    """Return the figure with each of its texts in every language."""

    def replace(match: re.Match[str]) -> str:
        start, text, end = match.groups()
        of = said.get(html.unescape(text).strip(), {})
        if len(set(of.values())) < 2:
            return match.group()
        return start + "".join(f'<tspan lang="{each}">{escape(words)}</tspan>' for each, words in of.items()) + end

    return _each(drawing, lambda svg: _SVG_TEXT.sub(replace, svg))


def in_language(drawing: Drawing, said: Mapping[str, Mapping[str, str]], language: str) -> Drawing:
    """Return the figure with its texts in one language."""

    def replace(match: re.Match[str]) -> str:
        start, text, end = match.groups()
        plain = html.unescape(text).strip()
        return start + str(escape(said.get(plain, {}).get(language, plain))) + end

    return _each(drawing, lambda svg: _SVG_TEXT.sub(replace, svg))


def _each(drawing: Drawing, change: Callable[[str], str]) -> Drawing:
    return Drawing(wide=change(drawing.wide), narrow=change(drawing.narrow))
