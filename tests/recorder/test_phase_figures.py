"""Figures of phases and what is stored of them, from readings that the test sets."""

from __future__ import annotations

import random
import signal
import statistics
import subprocess
from pathlib import Path

import pytest

from benchmarks.recorder_overhead import median_interval
from recorder.phase_figures import phase_figures, typical
from recorder.phases import Stretch
from recorder.process_tree import SeenProcess
from recorder.program import Ending
from recorder.recording import Readings, Recording
from recorder.stored_form import outcome_of, run_document, stored_phases, stored_repeat, trace_of
from samplers.system import Idle

_IDLE_BYTES = 1000


def readings(*pairs: tuple[int, int]) -> Readings:
    """Return readings of these times and values."""
    made = Readings()
    for time_ns, value in pairs:
        made.add(time_ns, value)
    return made


def recording(**changes: object) -> Recording:
    """Return a recording of 100 ns in two phases."""
    made = Recording("2026-01-02T03:04:05+00:00", 0, Idle(10, 1.0), _IDLE_BYTES, end_ns=100)
    made.stretches = [Stretch("load", 0, 40), Stretch("steady", 40, 100)]
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def memory_of(made: Recording, phase: str, figure: str) -> int | None:
    value: int | None = getattr(phase_figures(made)[phase], f"{figure}_bytes")
    return value


def test_a_typical_value_is_one_of_time_and_not_of_readings() -> None:
    """Many readings at the start, as the recorder takes them, count for no more than the time that they stand for."""
    early = [(time_ns, 5) for time_ns in range(10)]
    assert typical(readings(*early, (50, 90), (80, 91)), [Stretch("run", 0, 100)]) == 90


def test_evenly_spaced_readings_give_the_median() -> None:
    """Where every reading has the same time, it is the usual median."""
    chance = random.Random(3)
    for count in (1, 3, 9):
        values = [chance.randrange(10**6) for _ in range(count)]
        times = range(500, 1000 * count, 1000)
        made = readings(*zip(times, values))
        assert typical(made, [Stretch("run", 0, 1000 * count)]) == statistics.median(values)


def test_a_reading_at_a_mark_counts_on_both_sides() -> None:
    """It ends one phase and begins the next, so that neither is without figures; no reading is None, and not zero."""
    made = recording(pss=readings((40, 7)), uss=readings((90, 5)))
    assert [memory_of(made, phase, "application_memory") for phase in ("load", "steady")] == [7, 7]
    assert [memory_of(made, phase, "application_uss") for phase in ("load", "steady")] == [None, 5]
    assert [phase.pss_readings for phase in phase_figures(made).values()] == [1, 1]


def test_stretches_of_one_name_are_one_phase() -> None:
    """A phase that comes again has one figure, of all of its time."""
    made = recording(rss=readings((10, 5), (50, 80), (90, 30)))
    made.stretches = [Stretch("a", 0, 40), Stretch("b", 40, 80), Stretch("a", 80, 100)]
    figures = phase_figures(made)
    assert list(figures) == ["a", "b"]
    assert figures["a"].duration_ns == 60
    assert memory_of(made, "a", "application_peak_rss") == 30


def test_a_peak_is_of_its_phase() -> None:
    """The reading at a mark is of what begins; a high-water mark that has risen there is of what ends."""
    made = recording(
        rss=readings((10, 5), (40, 20), (60, 30)),
        largest=readings((10, 5), (40, 15), (60, 25)),
        peaks=readings((40, 12)),
    )
    assert memory_of(made, "load", "process_peak_rss") == 12
    assert memory_of(made, "load", "application_peak_rss") == 12  # the sum was at least what one process had
    assert memory_of(made, "steady", "process_peak_rss") == 25
    assert memory_of(made, "steady", "application_peak_rss") == 30


def test_system_memory_over_idle() -> None:
    """It may be less: other programs end too."""
    made = recording(system=readings((20, 1500), (60, 900)))
    assert memory_of(made, "load", "system_memory") == 1500
    assert memory_of(made, "load", "system_memory_over_idle") == 500
    assert memory_of(made, "steady", "system_memory_over_idle") == -100


@pytest.mark.parametrize(
    ("ending", "ended_by", "outcome"),
    [
        (Ending(exit_code=0), None, "ok"),
        (Ending(exit_code=3), None, "failed"),
        (Ending(signal_number=signal.SIGSEGV), None, "crashed"),
        (Ending(signal_number=signal.SIGKILL), None, "crashed"),
        (Ending(signal_number=signal.SIGKILL, memory_ran_out=True), None, "out_of_memory"),
        (Ending(exit_code=137, memory_ran_out=True), None, "out_of_memory"),
        (Ending(exit_code=1, memory_ran_out=True), None, "failed"),
        (Ending(signal_number=signal.SIGINT), signal.SIGINT, "ok"),
        (Ending(exit_code=255), signal.SIGINT, "ok"),
        (Ending(signal_number=signal.SIGSEGV), signal.SIGINT, "crashed"),
        (Ending(signal_number=signal.SIGKILL), signal.SIGINT, "crashed"),
        (Ending(), None, "ok"),
    ],
)
def test_what_became_of_a_program(ending: Ending, ended_by: int | None, outcome: str) -> None:
    """Exit codes and signals are failures, unless the user ended the program; a shell passes its child's on."""
    assert outcome_of(recording(ending=ending, ended_by=ended_by)) == outcome


def test_a_result_names_the_largest_processes_and_the_trace_all() -> None:
    """A build has thousands of processes: the result stays small."""
    made = recording(processes=[SeenProcess(pid, "cc", 10, 20, peak_rss_bytes=pid) for pid in range(1, 1001)])
    stored = stored_repeat(made, "traces/x")
    assert (stored.process_count, stored.trace) == (1000, "traces/x")
    assert [process.pid for process in stored.processes[:2]] == [1000, 999]
    assert len(stored.processes) < 100
    assert len(trace_of(made).processes) == 1000


def test_the_trace_of_a_day_is_bounded_and_keeps_its_peaks() -> None:
    """Of many readings those stay that are the highest of their neighbours."""
    values = [100] * 200_000
    values[123_457] = 999
    timeline = trace_of(recording(rss=readings(*enumerate(values)))).timeline
    assert len(timeline.rss_bytes) == len(timeline.times_ns) <= 20_000
    assert timeline.times_ns[timeline.rss_bytes.index(999)] == 123_457


def test_a_program_has_a_value_for_each_repeat() -> None:
    """A repeat that did not go through a phase has none there; phases stand in the order in which they first came."""
    second = recording(pss=readings((10, 8)), stretches=[Stretch("load", 0, 30), Stretch("flush", 30, 50)])
    phases = stored_phases([recording(pss=readings((10, 5), (60, 9))), second])
    assert [phase.name for phase in phases] == ["load", "steady", "flush"]
    assert [phase.durations_ns for phase in phases] == [(40, 30), (60, None), (None, 20)]
    assert [phase.memory.application_memory_bytes for phase in phases] == [(5, 8), (9, None), (None, None)]
    assert [phase.pss_readings for phase in phases] == [(1, 1), (1, 0), (0, 0)]


def test_the_commit_is_that_of_the_project(tmp_path: Path) -> None:
    """Outside a checkout there is none; the working folder is as it was."""
    before = Path.cwd()
    assert run_document(tmp_path, {})["commit_info"] == {}
    git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.com"]
    for arguments in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    document = run_document(tmp_path, {"machine": "a board"})
    assert document["commit_info"]["id"] == head
    assert document["machine_info"]["machine"] == "a board"
    assert Path.cwd() == before


def test_an_interval_holds_the_median() -> None:
    """That of the overhead's benchmark holds the true median in 95 of 100 samples of any shape, and is narrow."""
    chance, held, widths = random.Random(4), 0, []
    for _ in range(2000):
        interval = median_interval([chance.expovariate(1) for _ in range(40)])
        held += interval.low <= 0.6931 <= interval.high
        widths.append(interval.high - interval.low)
    assert 0.94 <= held / 2000 <= 0.99
    assert statistics.median(widths) < 1
