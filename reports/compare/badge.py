"""A badge of a run: the memory of its recommended layout, and how much that saves."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass

from reusebench.reports.base.formatting import doubted, mib, percent
from reusebench.reports.errors import ReportError
from reusebench.reports.results.grouping import group_results
from reusebench.reports.results.recommendation import (
    Recommendation,
    main_recommendation,
    weight,
)
from reusebench.storage.run_file import BadFile, read_run_file
from reusebench.storage.runs import Run
from reusebench.storage.savings import LESS, NPU

_COLOURS = {"blue": "#007ec6", "lightgrey": "#9f9f9f"}
_LABEL_COLOUR = "#555"
#: Width of a character of 11 px Verdana, about; the text is fitted into the sum.
_CHARACTER_PX = 6.8
_MARGIN_PX = 6
_HEIGHT_PX = 20


@dataclass(frozen=True)
class Badge:
    """The two texts, and the colour of the second."""

    label: str
    message: str
    colour: str


def badge_json(runs: Sequence[Run]) -> str:
    """Return the answer that shields.io expects of an endpoint (https://shields.io/endpoint)."""
    badge = badge_of(runs)
    document = {
        "schemaVersion": 1,
        "label": badge.label,
        "message": badge.message,
        "color": badge.colour,
    }
    return json.dumps(document, ensure_ascii=False) + "\n"


def badge_svg(runs: Sequence[Run]) -> str:
    """Return a badge that needs no network."""
    badge = badge_of(runs)
    left = _width(badge.label)
    right = _width(badge.message)
    title = html.escape(f"{badge.label}: {badge.message}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT_PX}"'
        f' role="img" aria-label="{title}"><title>{title}</title>'
        f'<clipPath id="r"><rect width="{left + right}" height="{_HEIGHT_PX}" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)">{_box(0, left, _LABEL_COLOUR)}'
        f"{_box(left, right, _COLOURS[badge.colour])}</g>"
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">'
        f"{_text(badge.label, 0, left)}{_text(badge.message, left, right)}</g></svg>\n"
    )


def badge_of(runs: Sequence[Run]) -> Badge:
    """Return the badge of the main recommendation; raise ReportError if the runs have none."""
    files = [read_run_file(run.path) for run in runs]
    groups = group_results(file for file in files if file and not isinstance(file, BadFile))
    recommendations = (main_recommendation(group.rows) for group in groups)
    found = [recommendation for recommendation in recommendations if recommendation]
    if not found:
        raise ReportError(
            f"{', '.join(map(str, runs))}: no contexts were measured without reuse and in another"
            " layout, so there is no figure for a badge. Name a run of `reusebench bench"
            " test_dup.py`, or of all questions"
        )
    return _badge(max(found, key=weight))


def _badge(recommendation: Recommendation) -> Badge:
    least = recommendation.least
    is_npu = recommendation.memory == NPU
    message = f"{mib(least.memory(recommendation.memory), npu=is_npu, spread=False)} MiB"
    saving = recommendation.saving
    if saving and saving.percent and saving.change == LESS:
        message += f" (-{percent(saving.percent)} %)"
    is_short = least.is_compared_with_short and not is_npu
    return Badge(
        "NPU memory" if is_npu else "memory",
        doubted(message, is_short),
        "lightgrey" if is_short else "blue",
    )


def _width(text: str) -> int:
    return round(len(text) * _CHARACTER_PX) + 2 * _MARGIN_PX


def _box(left: int, width: int, colour: str) -> str:
    return f'<rect x="{left}" width="{width}" height="{_HEIGHT_PX}" fill="{colour}"/>'


def _text(text: str, left: int, width: int) -> str:
    return (
        f'<text x="{left + _MARGIN_PX}" y="14" textLength="{width - 2 * _MARGIN_PX}"'
        f' lengthAdjust="spacingAndGlyphs">{html.escape(text)}</text>'
    )
