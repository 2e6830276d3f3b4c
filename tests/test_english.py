"""The English of the project: phrases of CONTRIBUTING.md, English, that no text may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.texts import MARKS, Text, texts_of, tracked_files
from tests.helpers.support import CHECKOUT

#: A module with each forbidden phrase, and with none in what only resembles one.
_MODULE = '''
def first():
    """Return what is shown; None where nothing is."""
    # Of the runtime.
    second = "Of no text"  # Waits so long.


def third():
    """Return the number of contexts; None if there are none, as long as one is open."""
'''


@pytest.fixture(scope="module")
def texts() -> list[Text]:
    """Return all English texts of the repository."""
    return [text for path in tracked_files(CHECKOUT) for text in texts_of(path)]


@pytest.mark.process
@pytest.mark.parametrize("mark", MARKS)
def test_no_text_has_the_mark(texts: list[Text], mark: str) -> None:
    """Comments, docstrings, messages and documentation have none of the phrases."""
    marked = [text for text in texts if MARKS[mark].search(text.words)]
    assert [f"{text.path}:{text.line}: {text.words[:80]}" for text in marked] == []


def test_each_mark_is_recognised(tmp_path: Path) -> None:
    """A module with each phrase has each mark once, in docstrings and comments alone."""
    path = tmp_path / "module.py"
    path.write_text(_MODULE, encoding="utf-8")
    found = [text.words for text in texts_of(path)]
    for mark, pattern in MARKS.items():
        assert len([words for words in found if pattern.search(words)]) == 1, mark


def test_a_comment_of_c_has_its_line(tmp_path: Path) -> None:
    """Strings are no comments, and lines are counted with them."""
    path = tmp_path / "file.c"
    path.write_text('char *text = "/* none */";\n\nint a; /* Of it. */\n', encoding="utf-8")
    assert [(text.line, text.words) for text in texts_of(path)] == [(3, "Of it.")]
