from __future__ import annotations

import pytest

from reports.base.drawing import Canvas, drawing
from reports.base.languages import FigureTexts, Words, every_language, in_language, with_every_language
from reports.base.table import Cell, Table
from reports.base.texts import LANGUAGES, Texts, texts_of


def test_what_is_equal_stands_once() -> None:
    """Numbers and names stay as they are; only what differs becomes words of every language, as deep as it stands."""
    made = every_language(lambda texts: Table([texts("column_saved")], [("ok", [Cell("12.5 ±0.1"), Cell("full_dup")])]))
    assert made.rows[0][1] == [Cell("12.5 ±0.1"), Cell("full_dup")]
    assert made.heads[0] == Words({language: texts_of(language)("column_saved") for language in LANGUAGES})


def test_words_are_safe_markup_with_their_language() -> None:
    """Each language has an element of its own, and what was measured cannot become markup."""
    html = Words({"en": "<b>", "zh-CN": "乙"}).__html__()
    assert html == '<span lang="en">&lt;b&gt;</span><span lang="zh-CN">乙</span>'


def test_languages_that_do_not_say_the_same_are_a_mistake() -> None:
    """A list that is longer in one language is refused: a sentence would be lost."""
    with pytest.raises(ValueError, match="do not say the same"):
        every_language(lambda texts: [texts("yes")] * (1 + (texts.language == "en")))


def test_a_figure_is_drawn_once_for_all_languages() -> None:
    """Its texts stand in the SVG in every language, one within another too; numbers stand once."""
    texts = FigureTexts.new()

    def draw(canvas: Canvas, _: bool) -> None:
        axes = canvas.add_subplot()
        axes.set_title(texts("column_in_mib", name=texts("component_weights")))
        axes.set_xlabel(texts.scenario("full_dup"))
        axes.annotate("12.5 & 1", (0, 0))

    drawn = drawing(draw, lambda _: 200)
    both = with_every_language(drawn, texts.said).wide
    for language in LANGUAGES:
        of = texts_of(language)
        weights = of("column_in_mib", name=of("component_weights"))
        assert f'<tspan lang="{language}">{weights}</tspan>' in both
        assert f'<tspan lang="{language}">{of.scenario("full_dup")}</tspan>' in both
        alone = in_language(drawn, texts.said, language).wide
        assert f">{weights}</text>" in alone
        assert "<tspan" not in alone
        assert ">12.5 &amp; 1</text>" in alone
    assert ">12.5 &amp; 1</text>" in both


def test_figures_take_their_texts_from_any_texts() -> None:
    """What a figure is given are texts as any other, of the first language."""
    texts = FigureTexts.new()
    assert isinstance(texts, Texts)
    assert texts.runtime("rknn") == texts_of("en").runtime("rknn")
