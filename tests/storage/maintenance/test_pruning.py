"""The removal of runs: which go by the rules, and that nothing else goes, whatever ends it."""

from __future__ import annotations

import datetime
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reusebench.storage.index.stored_runs import StoredRuns
from reusebench.storage.maintenance.compaction import FormChange
from reusebench.storage.maintenance.pruning import (
    BASELINE,
    CHANGED,
    NAMED,
    UNDATED,
    Choice,
    Removal,
    choose,
)
from reusebench.storage.maintenance.rules import Rules
from reusebench.storage.result import Result, StoredRepeat
from reusebench.storage.run_file import StoredRun, read_storage, run_files
from reusebench.storage.trace import Trace, read_trace
from tests.reports.stored import FAILED, changed, even, machine, result, write_run
from tests.storage.maintenance.killing import is_killed

_SCENARIOS = ("no_reuse", "full_dup", "shared_context")
_UTC = datetime.timezone.utc


@pytest.fixture(scope="module")
def infos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Return a result of each scenario."""
    folder = tmp_path_factory.mktemp("infos")
    return {name: result(folder, name, even(3, 1)) for name in _SCENARIOS}


def _without_traces(info: Result) -> tuple[StoredRepeat, ...]:
    return tuple(msgspec.structs.replace(repeat, trace="") for repeat in info.repeats)


def _write(
    storage: Path, number: int, infos: Sequence[Result], name: str = "", **options: Any
) -> Path:
    """Write a run of the day `number` without traces; a run without a name has its date as one."""
    infos = [changed(info, repeats=_without_traces(info)) for info in infos]
    path = write_run(storage, infos, number, f"2026-01-{number:02}T10:00:00", **options)
    return path.rename(path.with_name(f"{number:04}_{name or f'202601{number:02}_100000'}.json"))


def _chosen(choice: Choice) -> list[int | None]:
    return [run.number for run in choice.runs]


def _kept(choice: Choice, reason: str) -> list[int | None]:
    return [run.number for run in choice.kept.get(reason, ())]


def _choose(storage: Path, with_named: bool = False, **rules: Any) -> Choice:
    return choose(StoredRuns.open([storage], with_traces=True), Rules(**rules), (), with_named)


# Rules


@pytest.fixture
def storage(infos: dict[str, Result], tmp_path: Path) -> Path:
    """Return a storage of six runs: a rare configuration is in 1, one without figures in 5 and 6;
    3 has a name.
    """
    storage = tmp_path / "storage"
    common, other, rare = (infos[name] for name in _SCENARIOS)
    failed = changed(other, outcome="crashed", failure=FAILED)
    for number, measured in enumerate(
        (
            [common, other, rare],
            [common, other],
            [common],
            [common, other],
            [common, failed],
            [common, failed],
        ),
        start=1,
    ):
        _write(storage, number, measured, "release" if number == 3 else "")
    return storage


def test_rules_by_age_and_by_number(storage: Path) -> None:
    """What goes by age stays if it is among the newest; without a rule of age all others go."""
    before = datetime.datetime(2026, 1, 5, tzinfo=_UTC)
    assert _chosen(_choose(storage, before=before)) == [1, 2, 4]
    assert _kept(_choose(storage, before=before), NAMED) == [3]
    assert _chosen(_choose(storage, before=before, with_named=True)) == [1, 2, 3, 4]
    assert _chosen(_choose(storage, before=before, keep=4)) == [1, 2]
    assert _chosen(_choose(storage, keep=4)) == [1, 2]
    assert _chosen(_choose(storage, keep=0, with_named=True)) == [1, 2, 3, 4, 5, 6]


def test_the_newest_of_each_series_stay(storage: Path) -> None:
    """A run goes only if each of its configurations has as many newer runs; those with a failure
    do not count for those with figures.
    """
    assert _chosen(_choose(storage, keep_each=1, with_named=True)) == [2, 3, 5]
    assert _chosen(_choose(storage, keep_each=2, with_named=True)) == [3]
    assert _chosen(_choose(storage, keep_each=4, with_named=True)) == []
    before = datetime.datetime(2026, 1, 3, tzinfo=_UTC)
    assert _chosen(_choose(storage, keep_each=1, before=before)) == [2]


def test_series_are_of_a_board(storage: Path, infos: dict[str, Result]) -> None:
    """The newest run of another board is kept, and an unfinished run takes no one's place."""
    _write(storage, 7, [infos["no_reuse"]], machine=machine(board="other-1"))
    _write(storage, 8, [infos["no_reuse"]], is_finished=False)
    assert _chosen(_choose(storage, keep_each=1, with_named=True)) == [2, 3, 5]


def test_a_rule_of_size(storage: Path) -> None:
    """The oldest go until the rest is small enough; runs that stay are passed over, and count."""
    sizes = [path.stat().st_size for path in run_files(storage)]
    total = sum(sizes)
    assert _chosen(_choose(storage, most_bytes=total)) == []
    assert _chosen(_choose(storage, most_bytes=total - 1)) == [1]
    choice = _choose(storage, most_bytes=total - sizes[0] - sizes[1] - 1)
    assert (_chosen(choice), _kept(choice, NAMED)) == ([1, 2, 4], [3])
    assert choice.left_bytes == sizes[2] + sizes[4] + sizes[5]
    choice = _choose(storage, most_bytes=1, keep=3)
    assert (_chosen(choice), choice.left_bytes) == ([1, 2], sum(sizes[2:]))


def test_sizes_are_those_of_all_boards(storage: Path, infos: dict[str, Result]) -> None:
    """The oldest run of any board goes first; numbers are kept on each."""
    second = storage.parent / "second"
    _write(second, 3, [infos["no_reuse"]])
    stored = StoredRuns.open([storage, second], with_traces=True)
    choice = choose(stored, Rules(most_bytes=1), (), True)
    assert _chosen(choice) == [1, 2, 3, 3, 4, 5, 6]
    assert _chosen(choose(stored, Rules(most_bytes=1, keep=1), (), True)) == [1, 2, 3, 4, 5]


def test_traces_of_two_runs_count_once(tmp_path: Path) -> None:
    """They are freed with the last of both."""
    storage = tmp_path / "storage"
    info = result(storage, "no_reuse", even(3, 1), run=f"{1:012x}")
    paths = [write_run(storage, [info], number) for number in (1, 2)]
    (trace,) = storage.glob("traces/*/*")
    size = paths[0].stat().st_size
    assert _chosen(_choose(storage, most_bytes=size + trace.stat().st_size, with_named=True)) == [1]
    choice = _choose(storage, most_bytes=size, with_named=True)
    assert (_chosen(choice), choice.left_bytes) == ([1, 2], 0)


def test_an_impossible_date(storage: Path) -> None:
    """It is no reason to go by age; by size the run has its place among the numbers."""
    path = run_files(storage)[3]
    path.write_text(path.read_text().replace("2026-01-04T", "1970-01-01T"))
    before = datetime.datetime(2026, 2, 1, tzinfo=_UTC)
    choice = _choose(storage, before=before, with_named=True)
    assert (_chosen(choice), _kept(choice, UNDATED)) == ([1, 2, 3, 5, 6], [4])
    choice = _choose(storage, before=before, most_bytes=1, with_named=True)
    assert (_chosen(choice), _kept(choice, UNDATED)) == ([1, 2, 3, 4, 5, 6], [])


def test_baselines_stay(storage: Path) -> None:
    """A path among the baselines is kept, with that reason, whatever the rules say."""
    stored = StoredRuns.open([storage], with_traces=True)
    path = stored.runs[1].path
    choice = choose(stored, Rules(keep=0), {path}, True)
    assert (_chosen(choice), _kept(choice, BASELINE)) == ([1, 3, 4, 5, 6], [2])


# Removal


def _remove(storage: Path, **rules: Any) -> Choice:
    stored = StoredRuns.open([storage], with_traces=True)
    choice = choose(stored, Rules(**rules), (), True)
    removal = Removal([storage], stored, choice, is_dry_run=False)
    list(removal.runs())
    removal.remove_leftovers()
    return choice


def test_a_wrong_index_removes_nothing_that_stays(storage: Path, infos: dict[str, Result]) -> None:
    """A run is read before it goes: it stays if it is another one now, or if the rules keep it by
    what its file has.
    """
    path = run_files(storage)[0]
    content = path.read_text()
    stored = StoredRuns.open([storage], with_traces=True)
    choice = choose(stored, Rules(before=datetime.datetime(2026, 1, 2, tzinfo=_UTC)), (), True)
    path.write_text(content.replace("2026-01-01T", "2026-03-01T"))
    assert list(Removal([storage], stored, choice, False).runs()) == []
    assert (_kept(choice, CHANGED), path.exists()) == ([1], True)

    _write(storage, 1, [infos["no_reuse"]])
    stored = StoredRuns.open([storage], with_traces=True)
    choice = choose(stored, Rules(keep_each=1), (), True)
    assert _chosen(choice) == [1, 2, 3, 5]
    path.write_text(content)
    assert [row.run.number for row in Removal([storage], stored, choice, False).runs()] == [2, 3, 5]
    assert path.exists()


def _made(storage: Path) -> Path:
    """Write two runs with traces, of which the first has an old age, and both forms."""
    for number in (1, 2):
        info = result(storage, "no_reuse", even(3, 1), run=f"{number:012x}")
        write_run(storage, [info], number)
    change = FormChange(storage, is_compaction=True)
    path = run_files(storage)[0]
    content = path.read_bytes()
    change.change(path)
    path.write_bytes(content)
    return storage


@pytest.mark.process
def test_killed_at_every_step(tmp_path: Path) -> None:
    """No run that can be read lacks its traces, what stays is there, and the same command ends it:
    nothing is left of the run that goes.
    """
    first = _made(tmp_path / "first")
    StoredRuns.open([first], with_traces=True)
    number = 0
    while True:
        number += 1
        storage = Path(shutil.copytree(first, tmp_path / str(number)))
        if not is_killed(number, lambda: _remove(storage, keep=1)):  # noqa: B023
            break
        files = list(read_storage(storage))
        assert [file.file_name for file in files if isinstance(file, StoredRun)][-1:] == [
            "0002_run.json"
        ]
        for file in files:
            assert isinstance(file, StoredRun)
            for stored in file.results:
                trace = stored.info.repeats[0].trace
                assert trace
                assert read_trace(storage, trace, Trace), (number, file.file_name)
        _remove(storage, keep=1)
        left = {path.name for path in storage.rglob("*") if ".index" not in path.parts}
        assert left == {
            "Linux-CPython-3.11-64bit",
            "0002_run.json",
            "traces",
            f"{2:012x}",
            "no_reuse-1.json.gz",
        } | ({".index"} & left), number
    assert number > 10


@pytest.mark.process
def test_two_at_once(tmp_path: Path) -> None:
    """Both end well, and remove what one of them alone would."""
    storage = _made(tmp_path / "storage")
    children = []
    for _ in range(2):
        pid = os.fork()
        if not pid:
            code = 1
            try:
                _remove(storage, keep=1)
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
    assert [path.name for path in run_files(storage)] == ["0002_run.json"]
    assert [path.name for path in storage.glob("traces/*")] == [f"{2:012x}"]


def test_what_a_killed_compaction_has_left(tmp_path: Path) -> None:
    """Its unfinished files go a day later; they are no runs."""
    storage = _made(tmp_path / "storage")
    left = run_files(storage)[0].with_name(".0002_run.json.xz.77.unfinished")
    left.write_bytes(b"")
    _remove(storage, keep=2)
    assert left.exists()
    os.utime(left, (0, time.time() - 90_000))
    _remove(storage, keep=2)
    assert not left.exists()
