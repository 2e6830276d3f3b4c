"""The frame of results has every stored figure, in both forms."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import msgspec
import pandas as pd
import pytest

import reusebench
from reusebench.measured.messages import Message
from reusebench.storage.errors import StorageError
from reusebench.storage.frames.columns import (
    FIELDS,
    LEDGER_COLUMNS,
    METRICS_OF,
    OF_WHOLE,
    RESULT_COLUMNS,
    TRACE_COLUMNS,
    WIDE_RESULT_COLUMNS,
    WIDE_TRACE_COLUMNS,
)
from reusebench.storage.metrics import METRICS
from reusebench.storage.run_file import Commit
from reusebench.storage.runs import CONDITIONS
from tests.reports.stored import (
    FAILED,
    MIB,
    changed,
    even,
    full_run,
    machine,
    npu_run,
    result,
    runs_of,
    with_memory,
    with_short_memory,
    write_run,
)
from tests.reports.stored_programs import Repeat, program, write_programs
from tests.reports.stored_streams import Frames, streams_result

pytestmark = pytest.mark.process

_CONFIGURATION = [
    *(
        "run_number",
        "run_name",
        "recorded_at",
        "board",
        "commit",
        "dirty",
        "file",
        "kind",
        "runtime",
        "target",
    ),
    *(
        "scenario",
        "baseline",
        "measured_as",
        "streams",
        "contexts",
        "models",
        "chip",
        "runtime_version",
    ),
    *(
        "driver_version",
        "python_version",
        "models_digest",
        "plan_digest",
        "npu_memory_limit_bytes",
        "outcome",
    ),
    *("failure", "busy_percent", "memory_short"),
    *("sessions", "tokens", "prompt_tokens", "generated_tokens", "common_tokens", "options"),
]
_FIGURE = ["metric", "unit", "value"]
_MEMORY = "application_memory_bytes"


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a storage with runs on a CPU and on an NPU, of streams, and of programs."""
    folder = tmp_path_factory.mktemp("storage")
    full_run(folder, 1)
    npu_run(folder, 2)
    write_run(folder, [streams_result(folder, "streams_full_dup", [Frames(per_s=60)])], 3)
    programs = [program("camera", [Repeat({"load": 10, "run": 20.5}), Repeat({"load": 11})])]
    write_programs(folder, [*programs, program("none", [], "crashed")], 4)
    return folder


def test_the_columns_are_a_promise(tmp_path: Path) -> None:
    """A storage without runs gives them all, in this order."""
    tidy = [*_CONFIGURATION, "phase", "repeat", *_FIGURE]
    assert list(reusebench.load(tmp_path)) == tidy == list(RESULT_COLUMNS)
    whole = [*_CONFIGURATION, "phase", "repeat", *METRICS_OF["results"]]
    assert list(reusebench.load(tmp_path, wide=True)) == whole == list(WIDE_RESULT_COLUMNS)
    keys = ["repeat", "time_ns", "phase", "context", "at_barrier"]
    traces = reusebench.load(tmp_path, table="traces")
    assert list(traces) == [*_CONFIGURATION, *keys, *_FIGURE] == list(TRACE_COLUMNS)
    assert list(reusebench.load(tmp_path, table="traces", wide=True)) == list(WIDE_TRACE_COLUMNS)
    of_buffers = [
        "buffer",
        "source",
        "phase",
        "context",
        "component",
        "size_bytes",
        "asked_bytes",
        "born_ns",
        "died_ns",
    ]
    ledgers = reusebench.load(tmp_path, table="ledgers")
    assert list(ledgers) == [*_CONFIGURATION, "repeat", *of_buffers] == list(LEDGER_COLUMNS)


def test_every_condition_has_a_column() -> None:
    """Every condition of comparisons has a column, also one that is added later."""
    digests = {"models": "models_digest", "plan": "plan_digest"}
    assert {digests.get(name, name) for name in CONDITIONS} <= set(RESULT_COLUMNS)


def test_a_frame_without_rows_has_the_types_of_one_with_rows(storage: Path, tmp_path: Path) -> None:
    """Calculations work on an empty frame as on a full one."""
    for wide in (False, True):
        full = reusebench.load(storage, wide=wide)
        empty = reusebench.load(tmp_path, wide=wide)
        assert len(empty) == 0
        assert list(map(str, empty.dtypes)) == list(map(str, full.dtypes))
    assert isinstance(full["scenario"].dtype, pd.CategoricalDtype)
    assert str(full["recorded_at"].dtype) == "datetime64[us, UTC]"


def _whole(frame: pd.DataFrame) -> dict[tuple[object, ...], float]:
    """Return the figures of whole configurations by what they are of."""
    own = frame[frame["phase"].isna()]
    keys = [own[name] for name in ("run_number", "runtime", "scenario", "repeat", "metric")]
    return dict(zip(zip(*keys), own["value"]))


def test_figures_are_those_of_the_stored_results(storage: Path) -> None:
    """Every metric of every repeat has one row, and there is no other."""
    expected = {}
    for number, file in enumerate(runs_of(storage), start=1):
        for stored in file.results:
            for metric in METRICS:
                for repeat, value in enumerate(metric.of_repeats(stored.info), start=1):
                    if value is not None:
                        info = stored.info
                        expected[number, info.runtime, info.scenario, repeat, metric.column] = value
    assert expected
    assert _whole(reusebench.load(storage)) == expected


def test_readings_at_the_end_of_phases_are_the_stored_ones(tmp_path: Path) -> None:
    """Readings have their stored names; those of the system have a prefix."""
    info = result(tmp_path, "full_dup", even(10, spread=1))
    write_run(tmp_path, [info])
    frame = reusebench.load(tmp_path)
    read = frame[frame["phase"].notna()].set_index(["repeat", "phase", "metric"])["value"].to_dict()
    expected = {}
    for number, repeat in enumerate(info.repeats, start=1):
        for phase, reading in repeat.phases.items():
            for field in FIELDS:
                value = field.of(reading)
                if value is not None:
                    expected[number, phase, field.name] = value
    assert read == expected
    steady = info.repeats[0].phases["steady"]
    assert read[1, "steady", "pss_bytes"] == steady.process.pss_bytes
    assert read[1, "steady", "system_available_bytes"] == steady.system.available_bytes


def test_units_are_beside_the_figures(storage: Path) -> None:
    """The unit of a metric is the one in its name; descriptors and threads are counted."""
    frame = reusebench.load(storage)
    units = frame[["metric", "unit"]].drop_duplicates().set_index("metric")["unit"].to_dict()
    ends = {"bytes": "_bytes", "ns": "_ns", "1/s": "_per_s", "percent": "_percent"}
    assert set(units.values()) == {*ends, "count"}
    assert all(name.endswith(ends.get(unit, ("_count", "_limit"))) for name, unit in units.items())


def test_the_wide_form_is_the_tidy_one_turned(storage: Path) -> None:
    """Both have the same figures; in the wide one bytes and nanoseconds are whole numbers."""
    tidy = reusebench.load(storage)
    wide = reusebench.load(storage, wide=True)
    keys = ["run_number", "runtime", "scenario", "phase", "repeat"]
    for frame in (tidy, wide):
        frame["phase"] = frame["phase"].astype(object).where(frame["phase"].notna(), "")
    turned = tidy.pivot_table("value", keys, "metric", observed=True)
    figures = wide.set_index(keys)[list(METRICS_OF["results"])]
    assert not figures.index.duplicated().any()
    assert str(figures[_MEMORY].dtype) == "Int64"
    assert str(figures["throughput_per_s"].dtype) == "float64"
    figures = figures.astype("float64").dropna(how="all").dropna(axis="columns", how="all")
    assert set(figures) == set(turned)
    assert len(figures) == len(turned)
    for name, column in figures.items():
        assert column.dropna().to_dict() == turned[name].dropna().to_dict()


def test_what_failed_before_any_figure_has_a_row_in_the_wide_form(tmp_path: Path) -> None:
    """The row has the failure; the tidy form has rows of figures only, so none here."""
    full_run(tmp_path)
    wide = reusebench.load(tmp_path, wide=True)
    rows = wide[wide["outcome"] != "ok"]
    (failed,) = rows.to_dict("records")
    assert (failed["scenario"], failed["outcome"]) == ("shared_context", FAILED.kind)
    assert failed["failure"] == str(FAILED)
    assert rows[["phase", "repeat", *METRICS_OF["results"]]].isna().all(axis=None)
    assert "shared_context" not in set(reusebench.load(tmp_path)["scenario"])
    one = reusebench.load(tmp_path, wide=True, metrics="throughput_per_s")
    assert len(one) == 4 * 3 + 1


def test_a_repeat_without_a_figure_keeps_its_number(tmp_path: Path) -> None:
    """The third repeat keeps its number if the second gave no figure, even after a failure."""
    info = result(tmp_path, "full_dup", even(10), failure=FAILED)
    write_run(tmp_path, [with_memory(info, application_memory_trimmed_bytes=[5, None, 7])])
    frame = reusebench.load(tmp_path, metrics="application_memory_trimmed_bytes")
    assert list(zip(frame["outcome"], frame["repeat"], frame["value"])) == [
        ("crashed", 1, 5.0),
        ("crashed", 3, 7.0),
    ]
    wide = reusebench.load(tmp_path, wide=True, metrics="application_memory_trimmed_bytes")
    assert list(wide["application_memory_trimmed_bytes"].isna()) == [False, True, False]
    assert list(wide["repeat"]) == [1, 2, 3]


def test_conditions_are_beside_the_figures(tmp_path: Path) -> None:
    """The conditions of a figure are in its row."""
    short = changed(
        with_short_memory(result(tmp_path, "full_dup", even(10))), measured_as="no_reuse"
    )
    path = write_run(tmp_path, [short], 7, commit=Commit(id="0123456789abcdef", dirty=True))
    (row,) = reusebench.load(tmp_path, metrics=_MEMORY).head(1).to_dict("records")
    assert (row["run_number"], row["run_name"], row["file"]) == (7, "run", str(path))
    assert row["recorded_at"] == pd.Timestamp("2026-01-02T03:04:05Z")
    assert (row["commit"], row["dirty"], row["board"]) == ("0123456789abcdef", True, "board-123456")
    assert (row["kind"], row["runtime"], row["baseline"]) == (
        "scenario",
        "onnxruntime",
        short.baseline,
    )
    assert (row["measured_as"], row["memory_short"], row["busy_percent"]) == ("no_reuse", True, 1.0)
    assert (row["streams"], row["contexts"], row["runtime_version"]) == (4, 3, "1.2.3")


def test_a_program_has_a_row_for_each_phase(tmp_path: Path) -> None:
    """A repeat has rows for its phases; a program without any has one in the wide form."""
    signs = (Message("shortage_swapped", {"mib": "1.0"}),)
    repeats = [Repeat({"load": 10, "run": 20}, signs=signs), Repeat({"load": 11})]
    write_programs(tmp_path, [program("camera", repeats), program("none", [], "crashed")])
    frame = reusebench.load(tmp_path, metrics=[_MEMORY, "application_memory_median_bytes"])
    figures = frame.set_index(["phase", "repeat", "metric"])["value"].to_dict()
    expected = {("load", 1): 10.0, ("load", 2): 11.0, ("run", 1): 20.0}
    names = (_MEMORY, "application_memory_median_bytes")
    assert figures == {(*key, name): mib * MIB for key, mib in expected.items() for name in names}
    assert set(frame["kind"]) == {"program"}
    assert frame["memory_short"].all()
    wide = reusebench.load(tmp_path, wide=True)
    none = wide[wide["scenario"] == "none"]
    assert list(none["outcome"]) == ["crashed"]
    assert none["repeat"].isna().all()


def test_metrics_leave_out_the_others(storage: Path) -> None:
    """One or several metrics come in the order of the table."""
    assert set(reusebench.load(storage, metrics="latency_ns")["metric"]) == {"latency_ns"}
    wide = reusebench.load(storage, wide=True, metrics=("latency_ns", _MEMORY))
    assert list(wide)[len(_CONFIGURATION) + 2 :] == [_MEMORY, "latency_ns"]
    assert wide["phase"].dropna().isin(["load", "run"]).all()


def test_several_storages_make_one_frame(tmp_path: Path) -> None:
    """Folders of boards, their common folder, and files of runs mix without duplicates."""
    paths = [
        full_run(tmp_path / name, number, machine=machine(board=name))
        for number, name in enumerate("ab", start=1)
    ]
    both = reusebench.load(tmp_path)
    assert list(both["board"].unique()) == ["a", "b"]
    pd.testing.assert_frame_equal(reusebench.load(tmp_path / "a", tmp_path / "b"), both)
    pd.testing.assert_frame_equal(reusebench.load(*paths), both)
    pd.testing.assert_frame_equal(reusebench.load(tmp_path, str(tmp_path / "a"), *paths), both)
    assert set(reusebench.load(paths[1])["board"]) == {"b"}


def test_runs_are_named_as_in_comparisons(storage: Path) -> None:
    """Numbers, ranges, ages and paths work; several references come in the order of the storage."""
    numbers = {
        "1": [1],
        "2..3": [2, 3],
        "latest": [4],
        str(next(storage.rglob("0002_*.json"))): [2],
    }
    for words, expected in numbers.items():
        assert (
            list(reusebench.load(storage, runs=words, wide=True)["run_number"].unique()) == expected
        )
    assert list(reusebench.load(storage, runs=["3", "1"], wide=True)["run_number"].unique()) == [
        1,
        3,
    ]


def test_a_run_elsewhere_may_be_named_by_its_path(storage: Path, tmp_path: Path) -> None:
    """A run outside the places is read if its path is named."""
    path = full_run(tmp_path, 9)
    assert set(reusebench.load(storage, runs=str(path))["run_number"]) == {9}


def test_by_default_it_is_the_storage_of_this_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default is this board's storage in the working folder, as in `pytest bench/`."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match=r"there is no storage .*\.benchmarks.*reusebench bench"):
        reusebench.load()
    monkeypatch.setattr("reusebench.storage.frames.board_storage", lambda: Path("mine"))
    full_run(Path("mine"))
    assert len(reusebench.load())


@pytest.mark.parametrize("runs", ["", "1"])
def test_a_damaged_file_is_left_out_with_one_warning(tmp_path: Path, runs: str) -> None:
    """The other runs are there; one warning names the file and points at the caller."""
    full_run(tmp_path, 1)
    damaged = full_run(tmp_path, 2)
    damaged.write_text("{", encoding="utf-8")
    with pytest.warns(UserWarning, match="0002_run.json") as caught:
        frame = reusebench.load(tmp_path, tmp_path, damaged, runs=runs or ())
    (warning,) = caught
    assert str(damaged) in str(warning.message)
    assert warning.filename == __file__
    assert set(frame["run_number"]) == {1}


def test_a_file_without_results_is_left_out_with_a_warning(tmp_path: Path) -> None:
    """A named file without results gets a warning; in a storage it is skipped."""
    folder = tmp_path / "Linux-CPython-3.11-64bit"
    folder.mkdir()
    path = folder / "0001_other.json"
    document = {
        "machine_info": {},
        "commit_info": {},
        "benchmarks": [],
        "datetime": "2026-01-02T03:04:05+00:00",
    }
    path.write_bytes(msgspec.json.encode(document))
    with pytest.warns(UserWarning, match="0001_other.json"):
        assert len(reusebench.load(path)) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(reusebench.load(tmp_path)) == 0


def test_mistakes_have_sentences(storage: Path) -> None:
    """An unknown table, metric, run or place raises StorageError with a sentence."""
    with pytest.raises(
        StorageError, match="there is no table 'figures'; valid: results, traces, ledgers"
    ):
        reusebench.load(storage, table="figures")  # type: ignore[arg-type]
    with pytest.raises(
        StorageError, match="'results' has no metric 'memory'; valid: application_memory_bytes, "
    ):
        reusebench.load(storage, metrics="memory")
    with pytest.raises(StorageError, match="every row is a buffer"):
        reusebench.load(storage, table="ledgers", metrics=_MEMORY)
    with pytest.raises(StorageError, match="there is no run '99'"):
        reusebench.load(storage, runs="99")
    with pytest.raises(StorageError, match="there is no storage and no run at nowhere"):
        reusebench.load(storage, "nowhere")
    with pytest.raises(StorageError, match="null"):
        reusebench.load("a\0b")


def test_a_file_without_a_number_has_none(tmp_path: Path) -> None:
    """A run's file may be called as its user likes."""
    path = full_run(tmp_path)
    named = path.rename(path.with_name("mine.json"))
    frame = reusebench.load(named)
    assert frame["run_number"].isna().all()
    assert set(frame["run_name"]) == {"mine"}


def test_no_figure_is_infinite_or_empty(storage: Path) -> None:
    """The tidy form has a row for each figure that there is."""
    assert reusebench.load(storage)["value"].map(math.isfinite).all()
    assert set(OF_WHOLE) <= set(METRICS_OF["results"])
