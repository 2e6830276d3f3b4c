"""Density of the code: `python -m benchmarks.readability [FOLDER...]`.

It prints a row per figure and a column per folder: by default the product, and any other Python
package to compare with. Lines of code have a token of code, so blank lines, comments and docstrings
do not count. `--packages` prints a column for each package of the product.

The figures are a mirror, not a gate; tests/test_english.py is the gate for phrases.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import re
import statistics
import tokenize
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.quick import parse
from benchmarks.texts import MARKS, texts_of, tracked_files

_CHECKOUT = Path(__file__).resolve().parents[1]
_PRODUCT = _CHECKOUT / "src" / "reusebench"
#: Phrases that are counted, in addition to those that a test forbids.
_HABITS = {
    "begins with a clause without a noun": re.compile(
        r"^(What|Why|How|Who|Where|That|Whose|Which) "
    ),
    "`where` in any sense": re.compile(r"\bwhere\b"),
    "`that of`, `those of`": re.compile(r"\b(that|those) of\b"),
    "tails `of it`, `of them`, `of such`": re.compile(r"\bof (it|them|such)\b"),
    "`further`, `besides`, `beside`": re.compile(r"\b(further|besides?)\b"),
    "`None if`": re.compile(r"\bNone if\b"),
}
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    *_COMPREHENSIONS,
)
#: Functions with fewer lines have no meaningful density.
_FEWEST_LINES = 5


@dataclass
class Density:
    """The counts of a set of files."""

    files: int = 0
    lines: list[int] = field(default_factory=list)
    #: Characters of each line with code, without its indentation.
    characters: list[int] = field(default_factory=list)
    tokens: int = 0
    comment_lines: int = 0
    docstring_lines: int = 0
    function_lines: list[int] = field(default_factory=list)
    branches_per_line: list[float] = field(default_factory=list)
    branches: int = 0
    conditional_expressions: int = 0
    nested_conditional_expressions: int = 0
    comprehensions: int = 0
    tuple_assignments: int = 0
    private_functions: Counter[str] = field(default_factory=Counter)
    names: Counter[str] = field(default_factory=Counter)

    def add(self, source: str) -> None:
        """Count a file."""
        tree = ast.parse(source)
        docstrings = _lines_of_docstrings(tree)
        self._add_lines(source, docstrings)
        self._add_functions(tree)
        for node in ast.walk(tree):
            self._add_node(node)

    def _add_lines(self, source: str, docstrings: set[int]) -> None:
        lines = source.splitlines()
        with_code: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                self.comment_lines += 1
            if token.type in _NO_CODE or token.start[0] in docstrings:
                continue
            self.tokens += 1
            with_code.update(range(token.start[0], token.end[0] + 1))
        self.files += 1
        self.lines.append(len(lines))
        self.docstring_lines += len(docstrings)
        self.characters += [len(lines[number - 1]) for number in with_code]

    def _add_functions(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if not isinstance(node, _FUNCTIONS):
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            self.function_lines.append(lines)
            if lines >= _FEWEST_LINES:
                self.branches_per_line.append(_branches(node) / lines)
            if node.name.startswith("_") and not node.name.startswith("__"):
                self.private_functions[node.name] += 1

    def _add_node(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            self.names[node.id] += 1
        if isinstance(node, ast.Attribute):
            self.names[node.attr] += 1
        if isinstance(node, _COMPREHENSIONS):
            self.comprehensions += 1
        if isinstance(node, ast.IfExp):
            self.conditional_expressions += 1
            if isinstance(node.body, ast.IfExp) or isinstance(node.orelse, ast.IfExp):
                self.nested_conditional_expressions += 1
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            self.tuple_assignments += isinstance(node.value, ast.Tuple)
        self.branches += _branch(node)

    def figures(self) -> dict[str, str]:
        """Return the rows of the table."""
        code = len(self.characters)
        private = sum(self.private_functions.values())
        used_once = sum(self.names[name] == 1 for name in self.private_functions)

        def per_thousand(count: int) -> str:
            return f"{1000 * count / code:.1f}"

        return {
            "files": f"{self.files}",
            "lines; of code": f"{sum(self.lines):,}; {code:,}",
            "lines per file, median; largest": (
                f"{statistics.median(self.lines):.0f}; {max(self.lines):,}"
            ),
            "function lines, median; 95 %": (
                f"{_quantile(self.function_lines, 0.5)}; {_quantile(self.function_lines, 0.95)}"
            ),
            "branches per line (5+ lines, median)": (
                f"{statistics.median(self.branches_per_line or [0]):.2f}"
            ),
            "branches per 100 tokens": f"{100 * self.branches / self.tokens:.1f}",
            "tokens per line": f"{self.tokens / code:.1f}",
            "characters per line; over 100": (
                f"{statistics.mean(self.characters):.1f}; "
                f"{100 * sum(length > 100 for length in self.characters) / code:.1f} %"
            ),
            "conditional expressions per 1,000": per_thousand(self.conditional_expressions),
            "nested conditional expressions": f"{self.nested_conditional_expressions}",
            "comprehensions per 1,000": per_thousand(self.comprehensions),
            "`a, b = c, d` per 1,000": per_thousand(self.tuple_assignments),
            "private functions per 1,000": per_thousand(private),
            "private functions; used once": (
                f"{private:,}; {used_once:,} ({100 * used_once / max(private, 1):.0f} %)"
            ),
            "comment lines; docstring lines": (
                f"{100 * self.comment_lines / sum(self.lines):.1f}; "
                f"{100 * self.docstring_lines / sum(self.lines):.1f} %"
            ),
        }


def density_of(folder: Path) -> Density:
    """Count all Python files below a folder, except those of tests."""
    density = Density()
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name != "tests"]
        for name in names:
            if name.endswith(".py"):
                density.add(Path(place, name).read_text("utf-8"))
    return density


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser("python -m benchmarks.readability", description=__doc__)
    parser.add_argument(
        "folders", nargs="*", type=Path, help="packages to count (default: the product)"
    )
    parser.add_argument(
        "--packages", action="store_true", help="a column for each package of the product"
    )
    options = parse(parser, arguments, [])
    folders = [folder.resolve() for folder in options.folders] or [_PRODUCT]
    if options.packages:
        folders = [path.parent for path in sorted(_PRODUCT.glob("*/__init__.py"))]
    _print_table({folder.name: density_of(folder).figures() for folder in folders})
    if not options.folders:
        print()
        _print_table(_english())


def _english() -> dict[str, dict[str, str]]:
    """Return the rows about English: the number of texts, and of marks in them, by kind of file."""
    texts: dict[str, list[str]] = {"code": [], "tests": [], "docs": []}
    for path in tracked_files(_CHECKOUT):
        group = "code"
        if path.suffix == ".md":
            group = "docs"
        elif path.relative_to(_CHECKOUT).parts[0] == "tests":
            group = "tests"
        texts[group] += [text.words for text in texts_of(path)]
    columns = {}
    for group, words in texts.items():
        columns[group] = {"texts": f"{len(words):,}"}
        for name, pattern in {**MARKS, **_HABITS}.items():
            columns[group][name] = f"{sum(len(pattern.findall(text)) for text in words):,}"
    return columns


def _print_table(columns: dict[str, dict[str, str]]) -> None:
    """Print columns of figures, all with the same rows, as Markdown."""
    rows = list(next(iter(columns.values())))
    print("| | " + " | ".join(columns) + " |")
    print("|---|" + "--:|" * len(columns))
    for row in rows:
        print(f"| {row} | " + " | ".join(figures[row] for figures in columns.values()) + " |")


def _lines_of_docstrings(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, *_FUNCTIONS)):
            continue
        if ast.get_docstring(node) is None:
            continue
        first = node.body[0]
        lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def _branches(tree: ast.AST) -> int:
    return sum(_branch(node) for node in ast.walk(tree))


def _branch(node: ast.AST) -> int:
    """Return the number of decisions in a node.

    A comprehension and each of its conditions count, and each additional operand of `and` and `or`.
    """
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, _COMPREHENSIONS):
        return 1 + sum(len(generator.ifs) for generator in node.generators)
    return int(isinstance(node, _BRANCHES))


def _quantile(values: list[int], share: float) -> int:
    return sorted(values)[int(share * (len(values) - 1))]


if __name__ == "__main__":
    main()
