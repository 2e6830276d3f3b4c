"""A comparison as a comment on a change: the verdict, what matters, and the rest folded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from reusebench.reports.base.formatting import EMPTY, level_amount, metric_amount, metric_level
from reusebench.reports.base.table import markdown
from reusebench.reports.compare.changes import Change, Changes, Unmeasured
from reusebench.reports.compare.gate import NOT_HELD, UNDECIDED, WORSE, GateResult, Held
from reusebench.reports.compare.gate_words import remedy, size_words
from reusebench.reports.compare.headline import BAD, GOOD, OPEN, headline
from reusebench.reports.compare.large import is_large, row_names
from reusebench.reports.compare.names import common_words
from reusebench.reports.compare.sides import exceptions, noise, on_one_side, side

#: The first line: by it a job finds its own comment again, and updates it.
MARKER = "<!-- reusebench compare -->"
#: GitHub refuses longer comments (in characters); GitLab allows a million.
LONGEST = 65_536
#: Characters of the two tables; the rest is left for the lines around them.
_ROOM = 50_000
_SIGNS = {GOOD: "✅", BAD: "❌", OPEN: "⚠️"}
_HEADS = ("verdict", "configuration", "figure", "base → head", "change", "allowed")
#: Columns of numbers, which are aligned to the right.
_NUMBERS = range(3, 6)
_GOT_WORSE = "worse"
_GOT_BETTER = "better"
#: Verdicts that a reader must see, the most important first.
_SHOWN = (WORSE, NOT_HELD, UNDECIDED, _GOT_WORSE, _GOT_BETTER)
#: Lines of one list; the others are counted.
_MOST_LINES = 12
_LONGEST_LINE = 400
#: Characters that are Markdown inside a line; underscores inside a word are not.
_MARKS = re.compile(r"([\\`*\[\]~|])")


@dataclass(frozen=True)
class _Row:
    """A change, and the limits that are held against it."""

    name: str
    change: Change
    held: Sequence[Held]

    @property
    def verdict(self) -> str:
        """The worst outcome of its limits, otherwise that of the comparison."""
        outcomes = [held.outcome for held in self.held]
        for outcome in (WORSE, NOT_HELD, UNDECIDED):
            if outcome in outcomes:
                return outcome
        if self.change.is_worse:
            return _GOT_WORSE
        return _GOT_BETTER if self.change.is_better else self.change.verdict

    @property
    def is_shown(self) -> bool:
        """Whether a reader must see it; undecided rows only if the figure has changed."""
        if self.verdict == UNDECIDED:
            return self.change.is_worse
        return self.verdict in _SHOWN

    @property
    def rank(self) -> tuple[int, float]:
        """The place in the table."""
        place = _SHOWN.index(self.verdict) if self.verdict in _SHOWN else len(_SHOWN)
        size = self.change.worsening / (abs(self.change.difference.base_mean) or 1)
        return place, size if self.verdict == _GOT_BETTER else -size

    @property
    def cells(self) -> list[str]:
        """The cells in the order of _HEADS."""
        metric = self.change.metric
        difference = self.change.difference
        base = metric_level(difference.base_median, metric)
        allowed = EMPTY
        if self.held:
            allowed = metric_amount(min(held.allowed for held in self.held), metric)
        verdict = "**worse than allowed**" if self.verdict == WORSE else self.verdict
        return [
            verdict,
            _code(self.name),
            metric.name.replace("_", " "),
            _unbroken(f"{base} → {level_amount(difference.head_median, metric)}"),
            _unbroken(size_words(self.change)),
            _unbroken(allowed),
        ]


def as_markdown(changes: Changes, result: GateResult | None, shows_all: bool = False) -> str:
    """Return the comment, of at most LONGEST characters.

    Rows without a change are counted in a large one, unless `shows_all`.
    """
    verdict = headline(changes, result)
    names = row_names(changes)
    rows = []
    for change in changes.rows:
        rows.append(_Row(names[change.subject], change, result.on(change) if result else ()))
    rows.sort(key=lambda row: row.rank)
    lost = [each for each in changes.unmeasured if each.is_broken]
    shown = _table([*map(_lost_cells, lost), *(row.cells for row in rows if row.is_shown)], _ROOM)
    others = [row for row in rows if not row.is_shown]
    undecided = sum(row.verdict == UNDECIDED for row in others)
    marked = f", {undecided} of them undecided" if undecided else ""
    count = f"{len(others)} without a change that could be shown{marked}"

    lines = [MARKER, f"### {_SIGNS[verdict.tone]} {_in_a_line(verdict.text)}"]
    if shown:
        lines += ["", shown]
    lines += ["", *_listed(_open_ends(changes, result))]
    if others and is_large(changes) and not shows_all:
        lines += _items([f"{count}; --all shows every row"])
    elif others:
        rest = _table([row.cells for row in others], _ROOM - len(shown))
        lines += _folded(count, [rest])
    lines += ["", *_items(_runs(changes))]
    lines += _folded("How to read this", _items(_explanation(changes)))
    return "\n".join(lines)[:LONGEST]


def _runs(changes: Changes) -> Iterator[str]:
    """Yield the two sides, and what all configurations have in common."""
    yield f"base: {side(changes.base)}"
    yield f"head: {side(changes.head)}"
    if changes.remark:
        yield changes.remark
    common = common_words([change.subject.configuration for change in changes.rows])
    if common:
        yield f"all: {common}"


def _open_ends(changes: Changes, result: GateResult | None) -> Iterator[str]:
    """Yield the reasons why limits are not judged, each once, and what is not compared."""
    if result:
        for limit in result.unused:
            yield f"not judged: no figure to hold {limit.text} against"
        reasons = Counter(
            f"{held.outcome}: {remedy(held)}"
            for outcome in (NOT_HELD, UNDECIDED)
            for held in result.of(outcome)
        )
        for reason, count in reasons.items():
            yield f"{count} {reason}"
    yield from exceptions(changes)
    yield from on_one_side(each for each in changes.unmeasured if not each.is_broken)


def _lost_cells(lost: Unmeasured) -> list[str]:
    """Return the cells of a configuration that fails now."""
    name = _code(str(lost.subject))
    return ["**fails now**", name, "outcome", f"{lost.base} → {lost.head}", EMPTY, EMPTY]


def _explanation(changes: Changes) -> Iterator[str]:
    yield (
        "base, head: medians. change: of the means, ± 99 % confidence for all rows together."
        " worse than allowed: the whole interval is beyond the limit. undecided: the limit is"
        " within the interval."
    )
    if changes.rows:
        yield noise(changes.rows)


def _table(rows: Sequence[list[str]], room: int) -> str:
    """Return the table of the first rows, of at most `room` characters; empty without rows."""
    if not rows:
        return ""
    kept: list[list[str]] = []
    for cells in rows:
        # Each cell has its separators.
        room -= sum(len(cell) + 4 for cell in cells)
        if room < 0:
            break
        kept.append(cells)
    text = markdown(_HEADS, kept, _NUMBERS).rstrip("\n")
    left_out = len(rows) - len(kept)
    if left_out:
        text += f"\n\n{left_out} more rows do not fit here; `--format csv` has all."
    return text


def _folded(title: str, lines: Iterable[str]) -> list[str]:
    """Return the lines behind a title; GitHub reads Markdown there after an empty line."""
    return ["", f"<details><summary>{title}</summary>", "", *lines, "", "</details>"]


def _listed(lines: Iterable[str]) -> list[str]:
    items = list(_items(lines))
    left_out = len(items) - _MOST_LINES
    if left_out > 0:
        items[_MOST_LINES:] = [f"- and {left_out} more; the log has all"]
    return items


def _items(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"- {_in_a_line(line)}"


def _in_a_line(text: str) -> str:
    """Return one line of bounded length in which names of the user's are no HTML, no Markdown."""
    line = " ".join(text.split())
    if len(line) > _LONGEST_LINE:
        line = f"{line[:_LONGEST_LINE]}..."
    return _MARKS.sub(r"\\\1", line.replace("&", "&amp;").replace("<", "&lt;"))


def _unbroken(text: str) -> str:
    """Return the text with spaces at which no line is broken."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _code(text: str) -> str:
    """Return the text as code, in which it is no Markdown."""
    line = " ".join(text.replace("`", "'").split())
    return f"`{line}`"
