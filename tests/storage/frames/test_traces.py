"""The frames of traces and ledgers: memory over time, and the use of NPU buffers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pandas as pd
import pytest

import reusebench
from reusebench.accounting.account import account_of_ledger
from reusebench.accounting.sizes import COMPONENTS
from reusebench.storage.frames.columns import FIELDS
from tests.helpers.support import known
from tests.reports.compare.stored_traces import START_UP_NS, change_trace, npu_result, trace_of
from tests.reports.stored import MIB, even, result, write_run
from tests.reports.stored_programs import Repeat, program, trace, write_programs


@pytest.fixture
def of_npu(tmp_path: Path) -> pd.DataFrame:
    """Return the readings of a context and its dup on an NPU."""
    write_run(tmp_path, [npu_result(tmp_path)])
    return reusebench.load(tmp_path, table="traces")


def test_barriers_have_all_that_was_read(tmp_path: Path, of_npu: pd.DataFrame) -> None:
    """Every number of every barrier has a row with its time since the start of the process.

    Contexts count from 1.
    """
    info = npu_result(tmp_path)
    stored = trace_of(tmp_path, info)
    own = of_npu[of_npu["at_barrier"]]
    keys = [own[name] for name in ("time_ns", "phase", "metric")]
    expected = {}
    for barrier in stored.barriers:
        time_ns = barrier.at_ns - known(stored.start_ns)
        for field in FIELDS:
            value = field.of(barrier)
            if value is not None:
                expected[time_ns, barrier.phase, field.name] = value
    assert dict(zip(zip(*keys), own["value"])) == expected
    contexts = own[["phase", "context"]].drop_duplicates()
    assert list(contexts[contexts["phase"] == "context"]["context"]) == [1, 2]
    assert contexts[contexts["phase"] == "steady"]["context"].isna().all()


def test_readings_between_barriers_belong_to_the_step_under_way(tmp_path: Path) -> None:
    """After the last barrier there is none; times begin with the process."""
    info = result(tmp_path, "full_dup", even(10, repeats=1))
    first, second, *_, last = trace_of(tmp_path, info).barriers
    times_ns = [first.at_ns - 1, first.at_ns + 1, last.at_ns + 1]
    timeline = msgspec.structs.replace(
        trace_of(tmp_path, info).timeline,
        times_ns=times_ns,
        rss_bytes=[1, 2, 3],
        system_memory_bytes=[4, 5, 6],
    )
    start_ns = first.at_ns - START_UP_NS
    change_trace(tmp_path, info, timeline=timeline, start_ns=start_ns)
    write_run(tmp_path, [info])
    wide = reusebench.load(
        tmp_path, table="traces", wide=True, metrics=["rss_bytes", "system_memory_bytes"]
    )
    rows = wide[~wide["at_barrier"]]
    assert list(rows["time_ns"]) == [time_ns - start_ns for time_ns in times_ns]
    assert list(rows["phase"][:2]) == [first.phase, second.phase]
    assert rows["phase"].isna().tolist() == [False, False, True]
    assert list(rows["rss_bytes"]) == [1, 2, 3]
    assert list(rows["system_memory_bytes"]) == [4, 5, 6]
    assert wide["time_ns"].is_monotonic_increasing


def test_npu_memory_is_there_from_each_change_on(tmp_path: Path, of_npu: pd.DataFrame) -> None:
    """NPU memory has a row at every birth and death of a buffer in the ledger."""
    stored = trace_of(tmp_path, npu_result(tmp_path))
    live = of_npu[(of_npu["metric"] == "npu_live_bytes") & ~of_npu["at_barrier"]]
    times_ns = [at_ns - known(stored.start_ns) for at_ns in known(stored.npu).times_ns]
    assert list(zip(live["time_ns"], live["value"])) == list(
        zip(times_ns, known(stored.npu).live_bytes)
    )


def test_an_older_trace_begins_with_its_first_reading(tmp_path: Path) -> None:
    """An older trace does not have the start of the process."""
    info = result(tmp_path, "full_dup", even(10, repeats=1))
    change_trace(tmp_path, info, start_ns=None)
    write_run(tmp_path, [info])
    assert reusebench.load(tmp_path, table="traces")["time_ns"].min() == 0


def test_programs_have_traces_too(tmp_path: Path) -> None:
    """Each kind of reading has a row per reading, with the phase at its time."""
    repeats = [
        Repeat({"load": 10}, trace(tmp_path, "a", npu=True)),
        Repeat({"load": 10}, trace(tmp_path, "b")),
    ]
    write_programs(tmp_path, [program("camera", repeats)])
    frame = reusebench.load(tmp_path, table="traces")
    assert frame.groupby(["repeat", "metric"], observed=True).size().to_dict() == {
        **{(repeat, "rss_bytes"): 9 for repeat in (1, 2)},
        **{(repeat, name): 5 for repeat in (1, 2) for name in ("pss_bytes", "system_memory_bytes")},
        (1, "npu_memory_bytes"): 5,
    }
    assert not frame["at_barrier"].any()
    assert frame["context"].isna().all()
    pss = frame[(frame["metric"] == "pss_bytes") & (frame["repeat"] == 1)]
    assert list(pss["phase"]) == ["load"] * 2 + ["steady"] * 3
    assert list(pss["value"]) == [10 * MIB] * 2 + [20 * MIB] * 2 + [30 * MIB]


@pytest.mark.parametrize("table", ["traces", "ledgers"])
def test_lost_traces_are_one_warning_for_each_run(tmp_path: Path, table: str) -> None:
    """The warning names the run and its first lost trace; unwritten traces are not lost."""
    path = write_run(
        tmp_path, [result(tmp_path, "full_dup", even(10)), result(tmp_path, "no_reuse", even(10))]
    )
    first, second, _ = sorted((tmp_path / "traces" / "run1").glob("full_dup-*"))
    first.unlink()
    second.write_bytes(b"no trace")
    with pytest.warns(UserWarning, match="cannot be read") as caught:
        frame = reusebench.load(tmp_path, table=table)  # type: ignore[arg-type]
    (warning,) = caught
    assert str(path) in str(warning.message)
    assert f"traces/run1/{first.name} and 1 more" in str(warning.message)
    if table == "traces":
        assert set(frame[frame["scenario"] == "full_dup"]["repeat"]) == {3}


def test_the_ledger_equals_the_account(tmp_path: Path) -> None:
    """Sums by context and component are exact; other buffers have no component."""
    info = npu_result(tmp_path)
    write_run(tmp_path, [info])
    frame = reusebench.load(tmp_path, table="ledgers")
    stored = trace_of(tmp_path, info)
    ledger = known(stored.npu).ledger
    account = known(account_of_ledger(info.plan, stored.barriers, ledger))
    live = frame[frame["component"].notna()]
    assert live["size_bytes"].sum() == account.total_bytes
    assert live[live["context"].isna()]["size_bytes"].sum() == account.unattributed_bytes
    for index, memory in enumerate(account.contexts, start=1):
        for component in COMPONENTS:
            own = live[(live["context"] == index) & (live["component"] == component)]
            assert own["size_bytes"].sum() == (memory.size_bytes(component) or 0)
    assert frame.groupby("buffer")["size_bytes"].sum().to_dict() == {
        number: buffer.size_bytes for number, buffer in ledger.buffers.items()
    }


def test_the_ledger_says_when_buffers_lived_and_whose_they_are(tmp_path: Path) -> None:
    """Times since the start of the process; a buffer that was never given back has no end."""
    info = npu_result(tmp_path)
    write_run(tmp_path, [info])
    frame = reusebench.load(tmp_path, table="ledgers")
    stored = trace_of(tmp_path, info)
    for _, row in frame.iterrows():
        buffer = known(stored.npu).ledger.buffers[row["buffer"]]
        assert row["born_ns"] == buffer.born_ns - known(stored.start_ns)
        assert row["asked_bytes"] == buffer.asked_bytes
        if buffer.died_ns is None:
            assert row["died_ns"] is pd.NA
        else:
            assert row["died_ns"] == buffer.died_ns - known(stored.start_ns)
    gone = frame[frame["component"].isna()]
    assert list(zip(gone["buffer"], gone["phase"], gone["context"])) == [(4, "context", 2)]
    assert list(frame["source"].unique()) == ["rknpu"]


def test_without_an_npu_there_is_no_ledger(tmp_path: Path) -> None:
    """The frame has its columns and no row."""
    write_run(tmp_path, [result(tmp_path, "full_dup", even(10))])
    assert len(reusebench.load(tmp_path, table="ledgers")) == 0
