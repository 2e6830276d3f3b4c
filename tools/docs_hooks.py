"""Hooks of MkDocs (mkdocs.yml): each language has a search index of its own, and one menu."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority

_CHINESE = "zh-CN/"
_INDEX = "search/search_index.json"
#: The line that leads to the page in the other language; the site has a menu for it.
_OTHER_LANGUAGE = re.compile(r"^\[(中文|English)\]\([^)]*\.md\)\n?", re.MULTILINE)
#: The folder that the theme's script takes its search index from.
_BASE = re.compile(r'"base": "(?:\.\./)?\.\."')
#: The end of a line between Chinese characters, which a browser would show as a space.
_CHINESE_LINE_END = re.compile(
    "(?<=[\u3001-\u9fff\uff01-\uff5e])\n {0,3}(?=[\u3001-\u9fff\uff01-\uff5e])"
)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the page without the link to its other language, and Chinese lines joined."""
    return _CHINESE_LINE_END.sub("", _OTHER_LANGUAGE.sub("", markdown, count=1))


def on_post_page(output: str, page: Any, **_: object) -> str:
    """Return the page; a Chinese one searches the index in the folder of its language."""
    if not page.file.dest_uri.startswith(_CHINESE):
        return output

    depth = page.file.dest_uri.removeprefix(_CHINESE).count("/")
    folder = "/".join([".."] * depth) or "."
    return _BASE.sub(f'"base": "{folder}"', output, count=1)


def _divide_index(config: Any, **_: object) -> None:
    """Divide the search index, which has the pages of both languages."""
    path = Path(config["site_dir"]) / _INDEX
    if not path.is_file():
        return

    index = json.loads(path.read_text(encoding="utf-8"))
    chinese = [page for page in index["docs"] if page["location"].startswith(_CHINESE)]
    english = [page for page in index["docs"] if not page["location"].startswith(_CHINESE)]
    for page in chinese:
        page["location"] = page["location"].removeprefix(_CHINESE)
    _write(path, {**index, "docs": english})
    _write(Path(config["site_dir"]) / _CHINESE / _INDEX, {**index, "docs": chinese})


def _write(path: Path, index: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


# After the plug-in i18n, whose priority is -100.
on_post_build = event_priority(-200)(_divide_index)
