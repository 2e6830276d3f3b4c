"""SVG in few characters: what matplotlib writes, without what a page does not need."""

from __future__ import annotations

import re
from collections.abc import Container

#: What matplotlib says of each element and holds for all of them. The page has its own fonts.
_FOR_ALL = 'fill="currentColor" stroke-linejoin="round" font-size="12"'
_FOR_ALL_STYLES = ("font-size: 12px", "font-family: ", "fill: currentColor", "text-anchor: start")
#: Remarks, styles that would be those of the whole page, and what cannot be seen.
_NEEDLESS = re.compile(
    r'<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>|<path d="[^"]*" style="fill: none; opacity: 0"/>'
    r'|<g id="[^"]*"/>',
    re.DOTALL,
)
_TAG = re.compile(r"<(\w+)([^>]*?)(/?)>")
_BETWEEN_TAGS = re.compile(r">\s+<")
_ATTRIBUTE = re.compile(r'([\w:-]+)="([^"]*)"')
_LENGTHS = ("x", "y", "width", "height", "transform")
_DECIMALS = re.compile(r"-?\d+\.\d+")
_REFERENCE = re.compile(r'(?:url\(|href=")#([^)"]+)')
_GROUP = re.compile(r"(<g(?: [^>/]*)?>|</g>)")
_SAME_LOOK = re.compile(
    r'<(?:use xlink:href="[^"]*" x="[^"]*" y="[^"]*"|path d="[^"]*")( [^>]+)/>(?:<(?:use|path) [^>]*\1/>)+'
)


def short_svg(svg: str) -> str:
    """Return the svg element of matplotlib's file without what makes no difference to the eye.

    Its ids are those of every such element: made unique, several may stand in one page.
    """
    element = _NEEDLESS.sub("", svg[svg.index("<svg") :]).strip()
    used = list(dict.fromkeys(_REFERENCE.findall(element)))
    element = _TAG.sub(lambda tag: _short_tag(tag, used), _BETWEEN_TAGS.sub("><", element))
    for number, name in enumerate(used):
        element = element.replace(name, f"i{number}")
    element = _SAME_LOOK.sub(_look_once, _without_plain_groups(element.replace("<defs></defs>", "")))
    return element.replace("<svg ", f"<svg {_FOR_ALL} ", 1)


def _short_tag(tag: re.Match[str], used: Container[str]) -> str:
    """Return the tag with the attributes that say something, in few characters; of ids those that are used."""
    name, inside, end = tag.groups()
    attributes = {key: _short_value(key, value) for key, value in _ATTRIBUTE.findall(inside)}
    if attributes.get("id") not in used:
        attributes.pop("id", None)
    return f"<{name}" + "".join(f' {key}="{value}"' for key, value in attributes.items() if value) + f"{end}>"


def _short_value(key: str, value: str) -> str:
    """Return an attribute's value; nothing where it says what stands without it."""
    if key == "style":
        return ";".join(part.replace(": ", ":") for part in value.split("; ") if not part.startswith(_FOR_ALL_STYLES))
    if key == "d":
        return _path(value)
    if value.startswith("rotate(-0 ") or key == "version":
        return ""
    return _rounded(value) if key in _LENGTHS else value


def _path(value: str) -> str:
    """Return a path's commands without the letters and spaces that are understood: after M and L a line goes on."""
    short = " ".join(value.split())
    curved = "C" in short or "Q" in short
    short = _rounded(short, 2) if curved else _rounded(short).replace(" L ", " ")
    return re.sub(r" ?([MLCQz]) ?", r"\1", short)


def _rounded(value: str, digits: int = 1) -> str:
    """Return coordinates in tenths of a pixel; the small shapes of markers are curved, and need hundredths."""
    return _DECIMALS.sub(lambda number: f"{float(number.group()):.{digits}f}".rstrip("0").rstrip("."), value)


def _without_plain_groups(svg: str) -> str:
    """Return the element without groups that are empty or say nothing of what is in them."""
    parts, opened = [], []
    for part in _GROUP.split(svg):
        if part.startswith("<g"):
            opened.append(part)
        if part != "<g>" and (part != "</g>" or opened.pop() != "<g>"):
            parts.append(part)
    return "".join(parts)


def _look_once(shapes: re.Match[str]) -> str:
    """Return shapes that look the same in a group that says how, once."""
    look = shapes.group(1)
    return f"<g{look}>{shapes.group().replace(f'{look}/>', '/>')}</g>"
