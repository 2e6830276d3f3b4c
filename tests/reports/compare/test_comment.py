"""The comment on a change, and what it must be for a site to show it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from markdown_it import MarkdownIt

from reusebench.reports.compare.comment import LONGEST, MARKER, as_markdown
from tests.reports.compare.short_runs import SHORT, compared

MEMORY = "application_memory"
#: What GitHub reads: tables, and HTML for what is folded.
_READER = MarkdownIt("commonmark", {"html": True}).enable("table")


def comment(
    levels: Sequence[tuple[str, float, float]],
    limits: Sequence[str] = (),
    strict: bool = False,
    **head: Any,
) -> str:
    """Return the comment on configurations of these names, each with MiB before and after."""
    return as_markdown(*compared(levels, limits, strict, **head))


def shown(text: str) -> str:
    """Return the part that is not folded."""
    return re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)


def test_the_worst_comes_first_and_what_did_not_change_is_folded() -> None:
    """The first line is the verdict; rows follow by importance; the rest is one click away."""
    text = comment(
        [("same", 50, 50), ("better", 50, 30), ("worst", 50, 90), ("worse", 50, 70)],
        [f"{MEMORY}:10%"],
    )
    lines = text.splitlines()
    assert lines[0] == MARKER
    assert lines[1] == (
        "### ❌ Worse than allowed: application memory of worst: 50.0 MiB → 90.0 MiB (+80.0 %),"
        " and 1 more"
    )
    rows = [line.split(" | ")[:2] for line in shown(text).splitlines() if "| `" in line]
    assert rows == [
        ["| **worse than allowed**", "`worst`"],
        ["| **worse than allowed**", "`worse`"],
        ["| better", "`better`"],
    ]
    assert "same" not in shown(text)
    assert "<summary>1 without a change that could be shown</summary>" in text


@pytest.mark.parametrize(
    ("after", "limits", "head", "verdict"),
    [
        (50, [], {}, "✅ No change that could be shown in 1 figure"),
        (30, [], {}, "✅ Nothing got worse; better: application memory of plan"),
        (90, [], {}, "❌ Worse: application memory of plan"),
        (50, ["20%"], {}, "✅ Within the limits: 1 figure"),
        (30, ["2%"], {}, "✅ Within the limits: 1 figure; better: application memory of plan"),
        (50, ["1%"], {}, "⚠️ Undecided: 1 figure of 1 may be worse than allowed"),
        (50, ["9%"], {"shortage_signs": SHORT}, "⚠️ Not judged: memory was short"),
        (50, [], {"outcome": "crashed"}, "❌ onnxruntime plan (4 x 3, model-a) fails now"),
        (50, ["9%"], {"outcome": "crashed"}, "❌ onnxruntime plan (4 x 3, model-a) fails now"),
    ],
)
def test_the_verdict(
    after: float, limits: Sequence[str], head: dict[str, Any], verdict: str
) -> None:
    """Each outcome has a line of its own."""
    text = comment([("plan", 50, after)], [f"{MEMORY}:{limit}" for limit in limits], **head)
    assert text.splitlines()[1].startswith(f"### {verdict}")


def test_a_limit_that_could_not_be_seen_is_told() -> None:
    """A pass that proves nothing has the sentence that says so, strict or not."""
    for strict in (False, True):
        text = shown(comment([("plan", 50, 50)], [f"{MEMORY}:1%"], strict))
        assert "1 undecided: noise is larger than the limit" in text


def test_what_fails_now_is_the_first_row() -> None:
    """It has no figure, and is told once."""
    text = comment([("plan", 50, 50)], [f"{MEMORY}:9%"], outcome="crashed")
    row = "| **fails now** | `onnxruntime plan (4 x 3, model-a)` | outcome | ok → crashed | - | - |"
    assert text.splitlines()[5] == row
    assert text.count("plan") == 2


def test_undecided_figures_are_shown_if_they_changed() -> None:
    """The others are folded, and counted."""
    text = comment([("rose", 50, 55), ("same", 50, 50)], [f"{MEMORY}:11%"])
    rows = [line for line in shown(text).splitlines() if "| `" in line]
    assert [row.split(" | ")[:2] for row in rows] == [["| undecided", "`rose`"]]
    assert "<summary>1 without a change that could be shown</summary>" in text
    text = comment([("same", 50, 50)], [f"{MEMORY}:2%"])
    assert "| `" not in shown(text)
    assert "shown, 1 of them undecided</summary>" in text


def test_a_comment_is_never_longer_than_a_site_takes() -> None:
    """The worst of a thousand configurations are shown, and the others are counted."""
    levels = [
        (f"plan_{number}" + "_of_a_long_name" * 4, 50.0, 50.0 + number) for number in range(1000)
    ]
    text = comment(levels, [f"{MEMORY}:10%"])
    assert len(text) <= LONGEST
    assert "more rows do not fit here" in text
    assert "`plan_999" in text
    assert text.count("<details>") == text.count("</details>")


def test_names_of_the_user_are_no_markup() -> None:
    """Whatever a model or a plan is called, the table has its columns and no HTML of the user."""
    name = "a|b`c` <img src=x> @someone **bold**\nnew"
    html = _READER.render(comment([(name, 50, 90)], [f"{MEMORY}:2%"]))
    assert "<img" not in html
    assert "<strong>bold" not in html
    row = html.partition("<tbody>")[2].partition("</tr>")[0]
    assert row.count("<td") == 6


def test_tables_in_folded_parts_are_read() -> None:
    """An empty line stands between HTML and Markdown."""
    html = _READER.render(comment([("same", 50, 50), ("worse", 50, 90)]))
    assert html.count("<table>") == 2
