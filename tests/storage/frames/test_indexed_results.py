"""The frame of results from the index is the one from the files of the runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import reusebench
from reusebench.storage import frames
from reusebench.storage.frames.columns import OF_WHOLE
from reusebench.storage.index import covered, storage_index
from tests.reports.stored import (
    FAILED,
    changed,
    even,
    full_run,
    npu_run,
    result,
    with_memory,
    with_short_memory,
    write_run,
)
from tests.reports.stored_programs import Repeat, program, write_programs
from tests.reports.stored_streams import Frames, streams_result

pytestmark = pytest.mark.process

_ALL = list(OF_WHOLE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two boards with runs of all kinds: failures, short memory, missing figures, programs."""
    folder = tmp_path_factory.mktemp("boards")
    first = folder / "a"
    full_run(first)
    npu_run(first, 2)
    recorded = [
        program("camera", [Repeat({"load": 12, "steady": 30}), Repeat({"load": 14, "steady": 34})])
    ]
    write_programs(first, recorded, 3)
    second = folder / "b's"
    short = with_short_memory(result(second, "no_reuse", even(40)))
    missing = with_memory(result(second, "full_dup", even(20)), npu_left_bytes=(None, 5, 6))
    frames_of_streams = [Frames(missed=3)] * 3
    odd = [
        changed(short, chip="rk'3588\n", runtime_version=None),
        missing,
        result(second, "lean", [], failure=FAILED),
        streams_result(second, "streams_no_reuse_one_model", frames_of_streams),
    ]
    write_run(second, odd, 7)
    write_run(second, odd[1:], 8, is_finished=False)
    return folder


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """Return load(places, by_index, options...), which fails if it takes the other way."""
    monkeypatch.setattr(covered, "_STEP_S", 0)
    monkeypatch.setattr(storage_index, "LEAST_BYTES", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def load(*places: Path, by_index: bool, **options: Any) -> pd.DataFrame:
        other = "results_frame" if by_index else "indexed_results"
        with monkeypatch.context() as patch:
            if by_index:
                patch.setattr(frames, other, None)
            else:
                patch.setattr(frames, other, lambda *_: None)
            return reusebench.load(*places, **options)

    return load


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("metrics", "runs"),
    [
        (_ALL, ()),
        ("application_memory_bytes", ()),
        ("frames_lost_percent", ()),
        (["latency_ns", "npu_memory_bytes"], "latest"),
        (_ALL, ["8", "1"]),
        (_ALL, "2..latest"),
    ],
)
def test_both_frames_are_equal(
    folder: Path, load: Callable[..., Any], wide: bool, metrics: Any, runs: Any
) -> None:
    """Rows, their order, types, and categories with their order are the same."""
    options = {"metrics": metrics, "runs": runs, "wide": wide}
    by_files = load(folder, by_index=False, **options)
    by_index = load(folder, by_index=True, **options)
    pd.testing.assert_frame_equal(by_index, by_files, check_exact=True)
    assert len(by_files) > 0 or metrics == "frames_lost_percent"


def test_storages_come_in_the_order_of_the_call(folder: Path, load: Callable[..., Any]) -> None:
    """The same storage twice, or by another path, has its rows once."""
    link = folder.parent / f"{folder.name}-link"
    link.symlink_to(folder)
    places = [folder / "b's", link / "b's", folder, folder / "a"]
    by_files = load(*places, by_index=False, metrics=_ALL)
    by_index = load(*places, by_index=True, metrics=_ALL)
    pd.testing.assert_frame_equal(by_index, by_files, check_exact=True)
    assert by_files["run_number"].drop_duplicates().tolist() == [7, 8, 1, 2, 3]
    assert len(by_files) == len(load(folder, by_index=True, metrics=_ALL))


def test_without_the_index_files_are_read(
    folder: Path, load: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that is switched off is not missed."""
    expected = load(folder, by_index=True, metrics=_ALL)
    monkeypatch.setenv("REUSEBENCH_INDEX", "off")
    pd.testing.assert_frame_equal(reusebench.load(folder, metrics=_ALL), expected)
