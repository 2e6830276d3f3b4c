"""Two software stacks on one chip: the memory of the same network with both."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reusebench.reports.base.drawing import Draw
from reusebench.reports.sections.section import Page, Section, Values
from reusebench.reports.side_by_side.figure import side_by_side_figure
from reusebench.reports.side_by_side.sentences import not_comparable, pair_sentences, summary_of
from reusebench.reports.side_by_side.stacks import SideBySide, side_by_side
from reusebench.reports.side_by_side.table import contexts_table, layouts_table


class SideBySideSection(Section):
    """Each network that two NPU runtimes have measured on one chip."""

    name = "side_by_side"

    def applies(self, page: Page) -> bool:
        """Whether two NPU runtimes have measured the same network on one chip."""
        return bool(_pairs(page))

    def summary(self, page: Page) -> str:
        """Return the leanest layouts of each network."""
        return page.texts.joined(summary_of(pair, page.texts) for pair in _pairs(page))

    def values(self, page: Page) -> Values:
        """Return a part for each network."""
        parts = []
        for number, pair in enumerate(_pairs(page)):
            texts = page.texts
            part = {
                "title": texts("side_title", network=pair.network, chip=pair.chip),
                "sentences": pair_sentences(pair, texts),
                "figure": _figure_name(number),
                "contexts": contexts_table(pair, texts),
                "layouts": layouts_table(pair, texts),
                "not_comparable": not_comparable(pair, texts),
            }
            parts.append(part)
        return {"parts": parts}

    def figures(self, page: Page) -> dict[str, Draw]:
        """Return a figure for each network."""
        return {
            _figure_name(number): partial(side_by_side_figure, pair, page.texts)
            for number, pair in enumerate(_pairs(page))
        }


def _pairs(page: Page) -> Sequence[SideBySide]:
    return side_by_side(page.groups, page.material.networks)


def _figure_name(number: int) -> str:
    return f"side_by_side-{number}"
