"""The width of text in figures, without drawing it."""

from __future__ import annotations

import functools
import re
import unicodedata

from matplotlib.font_manager import FontProperties, findfont, get_font

#: Size of texts at axes and in legends.
FONT_PX = 12


@functools.lru_cache(maxsize=4096)
def text_width(text: str, size_px: float = FONT_PX) -> float:
    """Return the greatest width of a line of text in pixels.

    Matplotlib's font has no Chinese characters, which are square.
    """
    return size_px * sum(map(_character_width, text))


def wrapped(text: str, width_px: float, size_px: float = FONT_PX) -> str:
    """Return a text in lines of at most this width; only a longer word is broken.

    A line of Chinese may end after any character.
    """
    lines = [""]
    for part in re.findall(
        r"[\u3000-\u9fff\uff00-\uffef]|[^\s\u3000-\u9fff\uff00-\uffef]+|\s+", text
    ):
        if text_width(lines[-1] + part, size_px) > width_px and lines[-1].strip():
            lines.append("")
        if lines[-1] or not part.isspace():
            lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def shortened(text: str, width_px: float) -> str:
    """Return a line of text of at most this width, without its end if it is wider."""
    if text_width(text) <= width_px:
        return text
    while text and text_width(f"{text}…") > width_px:
        text = text[:-1]
    return f"{text}…"


@functools.cache
def _character_width(character: str) -> float:
    """Return a character's width in DejaVu Sans, a wide font, as a share of its size."""
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    font = get_font(findfont(FontProperties()))
    font.set_size(FONT_PX, 72)
    advance: float = font.load_char(ord(character)).linearHoriAdvance / 65536 / FONT_PX
    return advance
