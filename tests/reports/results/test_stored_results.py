"""Results whose figures are read only if they are shown: by the index, or without one."""

from __future__ import annotations

import random
from collections.abc import Container
from pathlib import Path
from typing import Any

import pytest

from reusebench.reports import material as module_of_material
from reusebench.reports.base.texts import texts_of
from reusebench.reports.material import Material, read_material
from reusebench.reports.page.exported_tables import TABLES
from reusebench.reports.results import stored_results
from reusebench.reports.results.grouping import group_results
from reusebench.reports.results.rows import Group
from reusebench.reports.results.stored_results import StorageChanged, StoredResults
from reusebench.reports.sections import runs as runs_section
from reusebench.reports.sections.runs import RunsSection, runs_table
from reusebench.reports.sections.section import Page
from reusebench.reports.sections.timeline import TimelineSection
from reusebench.storage.index import covered, storage_index
from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.result import Result
from reusebench.storage.run_file import BadFile, StoredRun, read_run_file, read_storage
from tests.reports.pages import page
from tests.reports.stored import FAILED, MODELS, as_measured, changed, even, result, write_run
from tests.reports.stored_programs import Repeat, program, write_programs

_RUNS = 24
_TEXTS = texts_of("en")


@pytest.fixture(params=["index", "files"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The index also of a small storage that was just written, or none."""
    way: str = request.param
    monkeypatch.setattr(covered, "_STEP_S", 0)
    monkeypatch.setattr(storage_index, "LEAST_BYTES", 0)
    monkeypatch.setenv("REUSEBENCH_INDEX", "off" if way == "files" else "on")
    return way


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """Results of several conditions, models and scenarios, with a failure and a copy."""
    storage = tmp_path_factory.mktemp("kinds")
    plain = result(storage, "no_reuse", even(10, spread=0.3))
    own = result(storage, "no_reuse_one_model", even(10))
    return [
        plain,
        own,
        as_measured(own, "plain"),
        result(storage, "full_dup", even(7)),
        result(storage, "full_dup", [], failure=FAILED),
        result(storage, "no_reuse", even(10, repeats=2), models=MODELS[:2]),
        changed(plain, runtime_version="1.7.0"),
        changed(plain, npu_memory_limit_bytes=2**30),
        changed(plain, counted_by="pss"),
    ]


@pytest.fixture
def storage(tmp_path: Path, kinds: list[Result]) -> Path:
    """A storage of runs that have some of these results each, and programs."""
    chance = random.Random(35)
    for number in range(1, _RUNS + 1):
        infos = chance.sample(kinds, chance.choice([2, 2, 5]))
        day = chance.choice([number, number - 1])
        write_run(tmp_path, infos, number, at=f"2026-01-{day + 1:02}T00:00:00")
    for number, name in enumerate(("decoder", "player", "decoder"), _RUNS + 1):
        write_programs(tmp_path, [program(name, [Repeat({"run": number})])], number)
    return tmp_path


def _files(storage: Path) -> list[StoredRun]:
    return [file for file in read_storage(storage) if isinstance(file, StoredRun)]


def _rows(group: Group) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for row in group.all_rows:
        baseline = row.baseline and (row.baseline.file.path, row.baseline.info)
        rows.append((row.file.path, row.file.order, row.info, baseline, row.equal))
    return rows


def _tables(material: Material) -> dict[str, list[dict[str, Any]]]:
    return {table.name: list(table.rows(material)) for table in TABLES}


@pytest.mark.usefixtures("way")
def test_groups_are_those_of_all_files(storage: Path) -> None:
    """The rows, their runs and baselines are the same as if every result had been decoded."""
    expected = [_rows(group) for group in group_results(_files(storage))]
    assert len(expected) > 3
    for _ in range(2):
        material = read_material([storage], None)
        assert [_rows(group) for group in material.groups] == expected
    assert [one.name for one in material.programs] == ["decoder", "player"]
    recorded = [record["run_number"] for record in _tables(material)["programs"]]
    assert recorded == [_RUNS + 1, _RUNS + 2, _RUNS + 3]


def test_tables_are_the_same_by_the_index_and_by_files(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exported tables, and the list of runs, do not depend on the index."""
    monkeypatch.setattr(covered, "_STEP_S", 0)
    monkeypatch.setattr(storage_index, "LEAST_BYTES", 0)
    shown = []
    for index in ("on", "on", "off"):
        monkeypatch.setenv("REUSEBENCH_INDEX", index)
        material = read_material([storage], None)
        shown.append((_tables(material), runs_table(material.results, _TEXTS)))
    assert shown[0] == shown[1] == shown[2]
    tables, table = shown[0]
    assert len(tables["runs"]) == sum(len(file.results) for file in _files(storage))
    assert table is not None
    assert len({cells[1] for _, cells in table.rows}) == _RUNS + 3


@pytest.mark.parametrize("way", ["index"], indirect=True)
def test_only_shown_results_are_decoded(
    storage: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once there is an index, a run without a shown result is not read."""
    assert way == "index"
    read_material([storage], None)
    read: dict[Path, Container[int] | None] = {}

    def reading(path: Path, positions: Container[int] | None) -> StoredRun | BadFile | None:
        read[path] = positions
        return read_run_file(path, positions)

    monkeypatch.setattr(stored_results, "read_run_file", reading)
    material = read_material([storage], None)
    shown = {row.file.path for group in material.groups for row in group.all_rows}
    shown |= {one.file.path for one in material.programs}
    assert read.keys() == shown
    assert None not in read.values()
    assert len(shown) < _RUNS

    read.clear()
    (newest,) = read_material([storage], [str(_RUNS)]).groups[:1]
    assert list(read) == [newest.newest.path]


def test_some_results_of_a_file(storage: Path) -> None:
    """The results at these positions are read, and all programs; a file with others has a run."""
    for file in _files(storage):
        for position, stored in enumerate(file.results):
            part = read_run_file(file.path, {position})
            assert isinstance(part, StoredRun)
            assert part.results == (stored,)
        none = read_run_file(file.path, ())
        assert isinstance(none, StoredRun)
        assert (none.results, none.programs) == ((), file.programs)


@pytest.mark.usefixtures("way")
def test_files_that_change_while_they_are_read(storage: Path, kinds: list[Result]) -> None:
    """What the summaries say is not taken for what a file has by now; a report reads again."""
    results = StoredResults(StoredRuns.open([storage]))
    summaries = dict(results.summaries([0]))
    assert results.load(summaries)
    path = results.runs[0].path
    write_run(storage, [changed(kinds[3], run="later")] * len(summaries), 1)
    with pytest.raises(StorageChanged):
        results.load(summaries)
    path.unlink()
    with pytest.raises(StorageChanged):
        results.load(summaries)
    assert len(read_material([storage], None).results.runs) == _RUNS + 2


def test_a_long_list_of_runs_has_the_newest(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows the newest runs, and says how many more there are and where."""
    monkeypatch.setattr(runs_section, "MOST_RUNS", 3)
    values = RunsSection().values(Page(read_material([storage], None), _TEXTS))
    numbers = [cells[1].partition("_")[0] for _, cells in values["table"].rows]
    assert numbers == [f"{number:04}" for number in range(_RUNS + 3, _RUNS, -1)]
    assert (values["shown"], values["left_out"]) == (3, _RUNS)


def test_too_many_groups_to_draw(
    tmp_path: Path, kinds: list[Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All groups of the page have figures; if there are more groups, only the newest have."""
    for number in range(1, 6):
        info = changed(kinds[0], runtime_version=f"1.{number}")
        write_run(tmp_path, [info], number, at=f"2026-01-0{number}T00:00:00")
    whole = read_material([tmp_path], None)
    assert whole.drawn == whole.shown == whole.groups
    assert whole.told_boards == set()
    monkeypatch.setattr(module_of_material, "MOST_SHOWN", 4)
    many = read_material([tmp_path], None)
    assert [group.info.runtime_version for group in many.drawn] == ["1.5"]
    assert len(many.shown) == 4
    assert many.told_boards == {many.groups[0].board}
    drawn = TimelineSection().figures(Page(many, _TEXTS))
    assert len(drawn) == 1
    html = page(tmp_path, tmp_path / "out")
    assert _TEXTS("groups_not_drawn", drawn=1) in html
