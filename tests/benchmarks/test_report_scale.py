"""The storages of the benchmark of scale, its limits and its figure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from benchmarks.report_scale.costs import Cost, Measurer
from benchmarks.report_scale.figure import draw
from benchmarks.report_scale.limits import verdicts
from benchmarks.report_scale.made_storages import (
    LARGE_RESULTS,
    SMALL_RESULTS,
    Storages,
    fleet_of,
    make_storage,
)
from reusebench.storage.run_file import storages_in
from reusebench.storage.runs import Run, read_runs
from tests.helpers.support import CHECKOUT
from tests.reports.stored import runs_of

_GIB = 2**30


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Storages:
    """Return the storages of two boards with eight runs each."""
    storages = fleet_of(tmp_path_factory.mktemp("fleet") / "boards", 2, runs=8)
    storages.write()
    return storages


def _files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in sorted(folder.rglob("*.json")):
        yield path.relative_to(folder), path.read_bytes()


def _cost(command: str, results: int, elapsed_s: float, gib: float = 0.1) -> Cost:
    return Cost("now", command, 1, results, elapsed_s, elapsed_s, round(gib * _GIB))


@pytest.mark.process
def test_a_storage_has_the_results_that_were_asked_for(tmp_path: Path) -> None:
    """Runs are added until there are enough results; a result has the size of a measured one."""
    count = make_storage(tmp_path / "storage", LARGE_RESULTS.results + 1)
    assert count == 2 * LARGE_RESULTS.results
    files = runs_of(tmp_path / "storage")
    assert [len(file.results) for file in files] == [LARGE_RESULTS.results] * 2
    assert sum(file.path.stat().st_size for file in files) > 20_000 * count


@pytest.mark.process
def test_each_board_of_a_fleet_has_a_storage(fleet: Storages) -> None:
    """All boards measured the same commits, and no two runs have the same figures."""
    boards = storages_in(fleet.folder)
    assert [board.name for board in boards] == ["board-000", "board-001"]
    runs = [run for board in boards for run in read_runs(board) if isinstance(run, Run)]
    assert {run.board for run in runs} == {"board-000", "board-001"}
    assert len({run.commit for run in runs}) == fleet.runs
    assert sum(len(file.results) for board in boards for file in runs_of(board)) == fleet.results
    figures = [measured.values.get("application_memory") for measured in runs[0].measured]
    for run in runs[1:]:
        assert [measured.values.get("application_memory") for measured in run.measured] != figures


@pytest.mark.process
def test_the_seed_decides_what_is_stored(fleet: Storages, tmp_path: Path) -> None:
    """The same seed gives the same files, also of a run that is written alone; another others."""
    again = Storages(tmp_path / "again", 2, 8, SMALL_RESULTS)
    again.write()
    assert list(_files(again.folder)) == list(_files(fleet.folder))
    path = again.write_one_more_run()
    content = path.read_bytes()
    assert again.write_one_more_run().read_bytes() == content
    other = Storages(tmp_path / "other", 1, 1, SMALL_RESULTS, seed=2)
    other.write()
    (first,) = runs_of(other.folder)
    assert first.results != runs_of(fleet.first)[0].results


@pytest.mark.process
def test_a_command_is_measured_over_a_storage(fleet: Storages) -> None:
    """Its time and memory are those of its own processes, and the storage stays as it was."""
    before = list(_files(fleet.folder))
    costs = [Measurer(CHECKOUT, "now").update(fleet)]
    assert list(_files(fleet.folder)) == before
    assert costs[0].results == fleet.results
    assert costs[0].cpu_s > 0
    assert costs[0].pss_bytes > 0


@pytest.mark.parametrize(
    ("costs", "kept", "words"),
    [
        ([_cost("list", 20_100, 0.4)], True, "pass list, 20,100 results: 0.40 s of 0.5 s"),
        ([_cost("list", 20_100, 0.6)], False, "FAIL list"),
        ([_cost("list", 20_100, elapsed) for elapsed in (0.1, 0.2, 9)], True, "0.20 s"),
        ([_cost("report", 20_100, 9, gib=0.7)], False, "0.70 GiB of 0.6 GiB"),
        ([_cost("list", 1_000_000, 1.9)], True, "1.90 s of 2 s"),
    ],
)
def test_the_median_is_held_against_the_limit_of_its_size(
    costs: list[Cost], kept: bool, words: str
) -> None:
    """A limit of time is for the median, one of memory for the most."""
    ((is_kept, line),) = verdicts(costs)
    assert is_kept == kept
    assert words in line


def test_a_limit_is_not_for_other_sizes() -> None:
    """A storage of another size, and a command without a limit, have no verdict."""
    assert not list(verdicts([_cost("list", 5_000, 99), _cost("load", 20_100, 99)]))


def test_the_figure_has_a_panel_for_each_command(tmp_path: Path) -> None:
    """Equal costs give equal files, whose letters are shapes."""
    costs = [_cost(name, count, 1) for name in ("list", "report") for count in (1000, 20_000)]
    costs += [msgspec.structs.replace(cost, code="before", elapsed_s=9) for cost in costs]
    draw(costs, tmp_path / "one.svg")
    draw(costs, tmp_path / "two.svg")
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "two.svg").read_text(encoding="utf-8")
    for words in ("list", "report", "before", "now"):
        assert f"<!-- {words} -->" in text
