"""The English texts of the project: comments, docstrings, messages, paragraphs of documentation."""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["MARKS", "Text", "texts_of", "tracked_files"]

#: Phrases that no text may have, by name; each breaks a rule of CONTRIBUTING.md, "English".
MARKS = {
    "begins with `Of `": re.compile(r"^Of "),
    "`None where`, `NULL where`, `empty where`, `...Error where`": re.compile(
        r"\b(None|NULL|empty|[A-Z]\w+Error) where\b"
    ),
    "`so many`, `so much`, `so long` for a number": re.compile(
        r"\b[Ss]o (many|much|long|often)\b(?! (as|that)\b)"
    ),
    "`Return what`, `why`, `where`, `how`": re.compile(r"\bReturn (what|why|where|how)\b"),
}
#: Languages whose texts are not English.
_OTHER_LANGUAGES = (".zh-CN", "zh-CN")
_C_COMMENT = re.compile(r"/\*(.*?)\*/|(?:^[ \t]*//[^\n]*\n)+|//[^\n]*", re.DOTALL | re.MULTILINE)
_C_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_CODE = re.compile(r"^```.*?^```$|^    [^\n]*$|`[^`\n]+`", re.DOTALL | re.MULTILINE)


class Text(NamedTuple):
    """A comment, a docstring, a message or a paragraph."""

    path: Path
    #: Number of the first line, from 1.
    line: int
    words: str


def tracked_files(checkout: Path) -> list[Path]:
    """Return the files of the repository that git tracks, without links."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=checkout, check=True, capture_output=True, text=True
    )
    paths = [checkout / name for name in listing.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def texts_of(path: Path) -> list[Text]:
    """Return the English texts of a file; empty for other kinds of files and other languages."""
    if any(language in str(path) for language in _OTHER_LANGUAGES):
        return []
    readers = {".py": _python, ".c": _c, ".h": _c, ".json": _json, ".md": _markdown}
    reader = readers.get(path.suffix)
    if reader is None:
        return []
    return [
        Text(path, line, " ".join(words.split())) for line, words in reader(path.read_text("utf-8"))
    ]


def _python(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring:
                yield node.body[0].lineno, docstring
    yield from _comments(source)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments; consecutive lines are one comment."""
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, column = token.start
        is_alone = not token.line[:column].strip()
        if block and not (is_alone and line == last + 1):
            yield last - len(block) + 1, " ".join(block)
            block = []
        block.append(token.string.lstrip("#:! "))
        last = line
    if block:
        yield last - len(block) + 1, " ".join(block)


def _c(source: str) -> Iterator[tuple[int, str]]:
    without_strings = _C_STRING.sub('""', source)
    for match in _C_COMMENT.finditer(without_strings):
        words = re.sub(r"^\s*(/\*|//|\*)\s?", "", match[0].removesuffix("*/"), flags=re.MULTILINE)
        yield without_strings.count("\n", 0, match.start()) + 1, words


def _json(source: str) -> Iterator[tuple[int, str]]:
    """Yield the strings of a file of messages that have several words."""
    content = json.loads(source)
    if not isinstance(content, dict):
        return
    lines = source.splitlines()
    for key, value in content.items():
        if isinstance(value, str) and " " in value:
            yield next((i for i, line in enumerate(lines, 1) if f'"{key}"' in line), 1), value


def _markdown(source: str) -> Iterator[tuple[int, str]]:
    without_code = _CODE.sub(lambda match: "\n" * match[0].count("\n"), source)
    line = 1
    for paragraph in re.split(r"(\n\s*\n|\n(?=\s*[-*|] ))", without_code):
        if paragraph.strip():
            yield line, paragraph.strip().lstrip("-*#| ")
        line += paragraph.count("\n")
