"""The section of leaks: growing, level and unclear quantities."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from reusebench.reports.base.texts import LANGUAGES, texts_of
from reusebench.reports.material import read_material
from reusebench.reports.page.exported_tables import find_table
from reusebench.reports.page.terminal import print_group
from reusebench.reports.results.drift import drifts, growing, kept_bytes, unclear
from reusebench.reports.results.rows import Group, Row
from reusebench.reports.sections.answer import opening
from reusebench.reports.sections.leaks import (
    leak_sentences,
    leaks_figure,
    leaks_in_words,
    level_sentences,
    verdicts_table,
)
from reusebench.storage.result import CycleSeries, Result
from reusebench.targets.outcome import Failure
from tests.reports.pages import page, section, sections
from tests.reports.stored import (
    KILLED,
    MIB,
    changed,
    even,
    full_run,
    group_of,
    groups_of,
    result,
    row_of,
    write_run,
)

ENGLISH = texts_of("en")
KIB = 1024
CYCLES = 25
#: Growth of a reading since before the first cycle, by number of cycles.
Shape = Callable[[int], float]


def level(_: int) -> float:
    return 0


def steady(size: float) -> Shape:
    return lambda cycle: size * cycle


def noisy(cycle: int) -> float:
    """Memory so unsteady that no growth can be proved or ruled out."""
    return random.Random(cycle).uniform(0, 40) * MIB


def _series(shape: Shape, start: int, cycles: int) -> tuple[int, ...]:
    return tuple(round(start + shape(cycle)) for cycle in range(cycles + 1))


def cycles_result(
    storage: Path,
    scenario: str = "cycles_contexts",
    cycles: int = CYCLES,
    memory: Shape = level,
    heap: Shape | None = level,
    fds: Shape = level,
    children: Shape = level,
    zombies: Shape = level,
    allocated: Shape | None = None,
    computes: bool = True,
    failure: Failure | None = None,
) -> Result:
    """Return a result of cycles with these readings."""
    info = result(storage, scenario, even(0, repeats=1), computes=computes, failure=failure)
    series = CycleSeries(
        allocated_bytes=_series(allocated or memory, 60 * MIB, cycles),
        pss_bytes=_series(memory, 80 * MIB, cycles),
        pss_without_files_bytes=_series(memory, 60 * MIB, cycles),
        heap_bytes=_series(heap, MIB, cycles) if heap else None,
        npu_memory_bytes=None,
        fds=_series(fds, 10, cycles),
        mappings=_series(level, 300, cycles),
        threads=_series(level, 3, cycles),
        children=_series(children, 0, cycles),
        zombies=_series(zombies, 0, cycles),
    )
    return changed(info, cycles=series)


def _row(storage: Path, **options: object) -> Row:
    (row,) = group_of(storage, cycles_result(storage, **options)).rows  # type: ignore[arg-type]
    return row


def _grown(row: Row) -> list[str]:
    return [drift.quantity for drift in growing(row)]


def test_nothing_grows(tmp_path: Path) -> None:
    """One sentence names the scenarios, their cycles, and the growth per day that could be; another
    the rates and the limit.
    """
    infos = [cycles_result(tmp_path, name) for name in ("cycles_contexts", "cycles_replaced")]
    group = group_of(tmp_path, *infos)
    assert leak_sentences(group.rows, ENGLISH) == []
    sentence, rates = level_sentences(group.rows, ENGLISH)
    assert sentence.startswith(
        "Nothing grows in 25 cycles: Contexts made and destroyed; Contexts replaced. What could"
        " still grow in a day is less than: 0.2 MiB of memory; 37.8 KiB of heap in use; "
    )
    assert rates.startswith("A day is taken to have 30 inferences in each second, and 60 cycles ")
    assert "less than 10.0 MiB a day" in rates


@pytest.mark.parametrize(
    ("scenario", "shapes", "told"),
    [
        (
            "cycles_inferences",
            {"heap": steady(400 * KIB), "memory": steady(400 * KIB)},
            "inference leaks 40.0 ±2.0 KiB of heap in use (98.9 ±",
        ),
        (
            "cycles_contexts",
            {"heap": steady(3 * MIB)},
            "cycle leaks 3.0 ±0.2 MiB of heap in use (4,320 ±",
        ),
        (
            "cycles_contexts",
            {"fds": steady(2)},
            "cycle leaks 2.00 ±0.15 file descriptors (2,880 a day).",
        ),
        (
            "cycles_contexts",
            {"heap": steady(MIB), "fds": steady(1)},
            "MiB a day); 1.00 ±0.10 file",
        ),
    ],
)
def test_what_grows(tmp_path: Path, scenario: str, shapes: dict[str, Shape], told: str) -> None:
    """Growth is told per inference or cycle with its interval; memory of the heap only once."""
    row = _row(tmp_path, scenario=scenario, **shapes)
    (sentence,) = leak_sentences([row], ENGLISH)
    assert told in sentence
    assert "of memory" not in sentence


def test_zombies_are_told(tmp_path: Path) -> None:
    """A child of each cycle that nobody waits for grows; the heap does not speak for children."""
    row = _row(tmp_path / "zombies", zombies=steady(1))
    assert _grown(row) == ["zombies"]
    (sentence,) = leak_sentences([row], ENGLISH)
    assert "each cycle leaks 1.00 ±0.10 zombies (1,440 a day)." in sentence
    row = _row(tmp_path / "children", memory=noisy, children=lambda _: 1)
    assert [drift.quantity for drift in unclear(row)] == ["memory"]


def test_memory_that_the_heap_does_not_explain(tmp_path: Path) -> None:
    """A sentence names its possible causes."""
    row = _row(tmp_path, memory=steady(MIB))
    assert _grown(row) == ["memory"]
    (sentence,) = leak_sentences([row], ENGLISH)
    assert "1.0 ±0.1 MiB of memory (1,440 ±" in sentence
    assert "MiB a day). The heap in use does not grow with it: " in sentence


def test_what_the_first_cycles_keep_is_no_leak(tmp_path: Path) -> None:
    """A step at first is kept once, with its size."""
    row = _row(
        tmp_path, memory=lambda cycle: 20 * MIB * (cycle > 0), fds=lambda cycle: 2 * (cycle > 1)
    )
    assert (_grown(row), unclear(row)) == ([], [])
    assert [drifts(row)[name].kept for name in ("memory", "fds")] == [20 * MIB, 2]


def test_a_step_later_is_no_leak(tmp_path: Path) -> None:
    """One descriptor more from some cycle on is level before and after."""
    row = _row(tmp_path, cycles=60, fds=lambda cycle: 2 * (cycle > 25))
    assert drifts(row)["fds"].verdict == "grew_then_level"


def test_memory_that_moves_is_clear_by_the_heap(tmp_path: Path) -> None:
    """A level heap settles it, with a reserve; without the heap more cycles are advised."""
    rows = [_row(tmp_path / "heap", memory=noisy), _row(tmp_path / "none", memory=noisy, heap=None)]
    for row, is_told in zip(rows, (True, False)):
        told = " ".join(level_sentences([row], ENGLISH))
        assert ("outside the heap, could grow unseen" in told) is is_told
    assert [drifts(row)["memory"].verdict for row in rows] == ["unknown", "unknown"]
    assert [[drift.quantity for drift in unclear(row)] for row in rows] == [[], ["memory"]]
    sentence, _ = level_sentences(rows[1:], ENGLISH)
    assert "it cannot be told whether it grows: up to " in sentence
    assert sentence.endswith(" more cycles would tell: --cycles 3000.")


def test_holes_of_a_heap_are_no_leak(tmp_path: Path) -> None:
    """Memory of a level heap that creeps up by less than 1 % cannot be told; more than that is."""
    rows = [
        _row(tmp_path / "creeping", memory=steady(8 * KIB)),
        _row(tmp_path / "leaking", memory=steady(60 * KIB)),
    ]
    assert [drifts(row)["memory"].verdict for row in rows] == ["unknown", "growing"]
    assert [_grown(row) for row in rows] == [[], ["memory"]]


def test_too_few_cycles(tmp_path: Path) -> None:
    """Fewer points than a slope needs are said to be too few."""
    row = _row(tmp_path, cycles=5)
    assert "too few cycles to tell of: Heap in use" in level_sentences([row], ENGLISH)[0]
    table = verdicts_table([row], ENGLISH)
    assert table is not None
    assert table.rows[0][1][3] == "cannot be told"


def test_memory_as_allocated_is_no_leak(tmp_path: Path) -> None:
    """Memory that malloc_trim gives back is told with its size, without a warning."""
    row = _row(tmp_path, allocated=lambda cycle: 30 * MIB * (cycle > 0))
    assert kept_bytes(row) == 30 * MIB
    sentence = level_sentences([row], ENGLISH)[1]
    assert "up to 30.0 MiB more were in memory before malloc_trim" in sentence


def test_the_emulators_memory_is_not_judged(tmp_path: Path) -> None:
    """Under an emulator the heap alone grows or does not; on a virtual board without one memory is
    judged.
    """
    row = _row(tmp_path, memory=steady(MIB), computes=False)
    assert "memory" not in drifts(row)
    assert (_grown(row), kept_bytes(row)) == ([], None)
    native = changed(
        cycles_result(tmp_path / "native", memory=steady(MIB), computes=False), emulated=False
    )
    (row,) = group_of(tmp_path / "native", native).rows
    assert _grown(row) == ["memory"]


def test_a_process_that_failed(tmp_path: Path) -> None:
    """The sentence tells the cycle of the failure, and the growth until then."""
    failure = Failure("crashed", "cycle", None, KILLED)
    row = _row(tmp_path, fds=steady(1), failure=failure)
    sentences = level_sentences([row], ENGLISH)
    assert "Contexts made and destroyed: crashed after 25 whole cycles: " in sentences[-2]
    assert _grown(row) == ["fds"]


def _leaking_group(storage: Path) -> Group:
    return group_of(
        storage, cycles_result(storage, heap=steady(MIB)), cycles_result(storage, "cycles_replaced")
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_leak_is_loud(tmp_path: Path, language: str) -> None:
    """It opens the page, and warns in section and terminal; other sections leave cycles out."""
    texts = texts_of(language)
    group = _leaking_group(tmp_path / "runs")
    (leak,) = leak_sentences(group.rows, texts)
    html = page(tmp_path / "runs", tmp_path / "report", language)
    assert leak in section(html, "answer")
    assert f'<p class="warning">{leak}</p>' in section(html, "leaks")
    for name in set(sections(html)) - {"answer", "leaks", "glossary"}:
        assert texts.scenario("cycles_replaced") not in section(html, name), name
    output = io.StringIO()
    print_group(group, "", texts, Console(file=output, width=1000))
    assert f"! {leak}" in output.getvalue()


def test_no_leak_is_said_too(tmp_path: Path) -> None:
    """The answer tells that no growth was found."""
    group = group_of(tmp_path, cycles_result(tmp_path))
    assert opening([group], ["here"], ENGLISH).answers == []
    assert (
        leaks_in_words(group, ENGLISH)
        == "no leak was found (kinds of work that were repeated: 1; 25 times each); less than"
        " 0.2 MiB a day could still grow"
    )


def test_the_figure_has_a_panel_for_each_memory(tmp_path: Path) -> None:
    """Allocated and trimmed memory and the heap have panels; an emulator has the heap alone."""
    svg = leaks_figure(_leaking_group(tmp_path / "one").rows, ENGLISH) or ""
    assert [name in svg for name in ("As allocated", "Trimmed", "Heap in use")] == [True] * 3
    svg = leaks_figure([_row(tmp_path / "two", computes=False)], ENGLISH) or ""
    assert [name in svg for name in ("As allocated", "Trimmed", "Heap in use")] == [
        False,
        False,
        True,
    ]
    assert leaks_figure([], ENGLISH) is None


def test_cycles_beside_other_questions(tmp_path: Path) -> None:
    """A run with both has one group; comparisons of scenarios leave cycles out."""
    full_run(tmp_path)
    write_run(tmp_path, [cycles_result(tmp_path)], 2)
    (group,) = groups_of(tmp_path)
    assert row_of(group, "cycles_contexts").question == "leaks"
    material = read_material([tmp_path], None)
    table = find_table("leaks")
    rows = list(table.records(material))
    assert [row["quantity"] for row in rows] == [
        "memory",
        "heap",
        "fds",
        "mappings",
        "threads",
        "children",
        "zombies",
    ]
    assert {row["verdict"] for row in rows} == {"level"}
    assert set(table.columns) == set(rows[0])
    slopes = find_table("slopes").records(material)
    assert "cycles_contexts" not in {row["scenario"] for row in slopes}
