"""Sizes of NPU buffers on two boards, side by side, as text for an issue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Optional

from tabulate import tabulate

from reusebench.storage.board_sizes import PARTS, BoardSizes, ScenarioSizes

__all__ = ["Comparison", "comparison_lines"]

_TOTALS = ("total", "peak")
_NONE = "-"
#: Key: the name of a part; all others are shown as they are.
_HEADS = {"other": "constants", "io": "input, output"}
#: Lines around text that an issue shows as it is.
_FENCE = "```"


@dataclass
class Comparison:
    """The sizes of a board beside the expected ones."""

    measured: BoardSizes
    expected: BoardSizes
    #: Number of sizes that both have, or one of them.
    compared: int = 0
    #: Key: scenario; value: names of parts that differ, or the two outcomes.
    differences: dict[str, list[str]] = field(default_factory=dict)
    differing: int = 0
    rows: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        expected = {one.scenario: one for one in self.expected.scenarios}
        measured = {one.scenario: one for one in self.measured.scenarios}
        for scenario in dict.fromkeys([*expected, *measured]):
            self._add(scenario, measured.get(scenario), expected.get(scenario))

    @property
    def is_equal(self) -> bool:
        """Whether something was compared, and nothing differs."""
        return self.compared > 0 and not self.differences

    def _add(
        self,
        scenario: str,
        measured: Optional[ScenarioSizes],
        expected: Optional[ScenarioSizes],
    ) -> None:
        outcomes = [one.outcome if one else "not measured" for one in (measured, expected)]
        if outcomes[0] != outcomes[1]:
            self.differences.setdefault(scenario, []).append(" here, ".join(outcomes) + " there")
        if not (measured and expected) or outcomes != ["ok", "ok"]:
            words = " / ".join(dict.fromkeys(outcomes)).replace("_", " ")
            self.rows.append([scenario, words])
            return

        count = max(len(measured.contexts), len(expected.contexts))
        previous: list[str] = []
        for number in range(count):
            cells = self._cells(
                scenario, _at(measured.contexts, number), _at(expected.contexts, number), PARTS
            )
            if cells == previous:
                first = self.rows[-1][1].partition("-")[0]
                self.rows[-1][1] = f"{first}-{number + 1}"
            else:
                self.rows.append([scenario, str(number + 1), *cells])
            previous = cells
        cells = self._cells(scenario, _totals(measured), _totals(expected), _TOTALS)
        self.rows.append([scenario, "all", *[_NONE] * len(PARTS), *cells])

    def _cells(
        self,
        scenario: str,
        measured: Mapping[str, int],
        expected: Mapping[str, int],
        names: tuple[str, ...],
    ) -> list[str]:
        """Return the text of each size; count those that differ."""
        cells = []
        for name in names:
            sizes = [measured.get(name), expected.get(name)]
            if sizes == [None, None]:
                cells.append(_NONE)
                continue
            self.compared += 1
            if sizes[0] == sizes[1]:
                cells.append(_size(sizes[0]))
                continue
            self.differing += 1
            words = self.differences.setdefault(scenario, [])
            if name not in words:
                words.append(name)
            cells.append(f"{_size(sizes[0])} (expected {_size(sizes[1])})")
        return cells


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of the text: the conditions, the sizes, and the summary."""
    yield _FENCE
    yield from _conditions(comparison.measured, comparison.expected)
    yield ""
    heads = ["scenario", "context"]
    heads += [_HEADS.get(name, name.replace("_", " ")) for name in (*PARTS, *_TOTALS)]
    rows = [[*row, *[_NONE] * (len(heads) - len(row))] for row in comparison.rows]
    # A column without any size says nothing.
    used = [
        number
        for number in range(len(heads))
        if number < 2 or any(row[number] != _NONE for row in rows)
    ]
    table = [[row[number] for number in used] for row in rows]
    align = ["left" if number < 2 else "right" for number in used]
    yield tabulate(
        table,
        [heads[number] for number in used],
        tablefmt="plain",
        disable_numparse=True,
        colalign=align,
    )
    yield ""
    yield _summary(comparison)
    yield _FENCE


def _conditions(measured: BoardSizes, expected: BoardSizes) -> Iterator[str]:
    """Yield a line for each condition, with both values if they differ."""
    yield "reusebench board verify: requested bytes of NPU buffers; total and peak in whole pages"
    pairs = {
        "target": (measured.target, expected.target),
        "chip": (measured.chip, expected.chip),
        "driver": (measured.driver_version, expected.driver_version),
        "library": (measured.library_version, expected.library_version),
        "reusebench": (measured.version, expected.version),
    }
    for name in dict.fromkeys([*measured.models, *expected.models]):
        pairs[f"model {name}"] = (measured.models.get(name), expected.models.get(name))
    for name, (here, there) in pairs.items():
        words = here or "unknown"
        if name == "target" or here != there:
            words += f" (expected: {there or 'unknown'})"
        yield f"{name}: {words}"


def _summary(comparison: Comparison) -> str:
    if not comparison.compared and not comparison.differences:
        return "No size was compared: no scenario ran."
    equal = comparison.compared - comparison.differing
    summary = f"{equal:,} of {comparison.compared:,} sizes are equal."
    if not comparison.differences:
        return summary
    parts = [f"{name} ({', '.join(words)})" for name, words in comparison.differences.items()]
    return f"{summary} Different: {'; '.join(parts)}."


def _at(contexts: tuple[dict[str, int], ...], number: int) -> Mapping[str, int]:
    return contexts[number] if number < len(contexts) else {}


def _totals(sizes: ScenarioSizes) -> dict[str, int]:
    totals = {"total": sizes.total_bytes, "peak": sizes.peak_bytes}
    return {name: size for name, size in totals.items() if size is not None}


def _size(size_bytes: Optional[int]) -> str:
    return "none" if size_bytes is None else f"{size_bytes:,}"
