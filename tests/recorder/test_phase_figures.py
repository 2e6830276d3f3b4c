"""Figures of phases and their stored form, from readings that the test sets."""

from __future__ import annotations

import random
import signal
import statistics
import subprocess
from pathlib import Path

import pytest

from benchmarks.recorder_overhead import median_interval
from reusebench.recorder.moments import MemoryRange
from reusebench.recorder.phase_figures import PhaseRecord, WeightedReadings
from reusebench.recorder.phases import Stretch
from reusebench.recorder.process_tree import Peaks, SeenProcess
from reusebench.recorder.program import ProgramEnding
from reusebench.recorder.recording import Readings, Recording
from reusebench.recorder.stored_form import (
    outcome_of,
    run_document,
    stored_phases,
    stored_repeat,
    trace_of,
)
from reusebench.samplers.oom_watch import OomKills
from reusebench.samplers.system_memory import Idle

_IDLE_BYTES = 1000
_MIB = 2**20


def readings(*pairs: tuple[int, int]) -> Readings:
    """Return readings of these times and values."""
    made = Readings()
    for time_ns, value in pairs:
        made.add(time_ns, value)
    return made


def series(begin_ns: int, end_ns: int, *pairs: tuple[int, int]) -> WeightedReadings:
    """Return readings of one stretch."""
    made = WeightedReadings()
    made.begin(begin_ns)
    for time_ns, value in pairs:
        made.add(value, time_ns)
    made.end(end_ns)
    return made


def phase(
    begin_ns: int,
    end_ns: int,
    *pss: tuple[int, int],
    peaks: Peaks | None = None,
    system: int | None = None,
) -> PhaseRecord:
    """Return a phase of one stretch, with times and values of readings of PSS."""
    made = PhaseRecord()
    made.begin(begin_ns)
    if system is not None:
        made.add("system_memory", system, begin_ns)
    for time_ns, value in pss:
        made.add("application_memory", value, time_ns)
    made.end(end_ns, peaks)
    return made


def recording(**changes: object) -> Recording:
    """Return a recording of 100 ns in two phases."""
    made = Recording("2026-01-02T03:04:05+00:00", 0, Idle(10, 1.0), _IDLE_BYTES, end_ns=100)
    made.stretches = [Stretch("load", 0, 40), Stretch("steady", 40, 100)]
    made.phases = {"load": phase(0, 40), "steady": phase(40, 100)}
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_readings_of_a_program_that_can_no_longer_be_read_are_dropped() -> None:
    """There is no figure of a time before that; readings after it count as in any phase."""
    hidden = PhaseRecord()
    hidden.begin(0)
    hidden.add("application_memory", 100, 0)
    hidden.add("application_memory", 200, 10)
    hidden.forget("application_memory")
    hidden.end(40, None)
    (stored,) = stored_phases([recording(phases={"load": hidden})])
    assert stored.memory.application_memory_bytes == (None,)
    assert stored.medians.application_memory_bytes == (None,)
    assert (stored.pss_readings, stored.reading_ages_ns) == ((0,), (None,))
    hidden.begin(40)
    hidden.add("application_memory", 300, 50)
    hidden.end(60, None)
    assert hidden.last("application_memory") == 300
    assert hidden.readings["application_memory"].median() == 300


def test_the_figure_of_a_phase_is_what_it_ends_with() -> None:
    """A phase that grows has the size at its end; the age of the last reading then is known."""
    grown = phase(0, 40, (10, 264), (39, 300), (40, 312))
    assert (grown.last("application_memory"), grown.age_ns()) == (312, 0)
    ended = phase(0, 40, (10, 264), (25, 300))
    assert (ended.last("application_memory"), ended.age_ns()) == (300, 15)
    assert (PhaseRecord().last("application_memory"), PhaseRecord().age_ns()) == (None, None)


def test_a_median_is_one_of_time_and_not_of_readings() -> None:
    """Many early readings, as the recorder makes them, weigh no more than the time they cover."""
    early = [(time_ns, 5) for time_ns in range(10)]
    assert series(0, 100, *early, (50, 90), (80, 91)).median() == 90
    assert WeightedReadings().median() is None


def test_evenly_spaced_readings_give_the_median() -> None:
    """If every reading covers the same time, it is the usual median."""
    chance = random.Random(3)
    for count in (1, 3, 9):
        values = [chance.randrange(10**6) for _ in range(count)]
        times = range(500, 1000 * count, 1000)
        assert series(0, 1000 * count, *zip(times, values)).median() == statistics.median(values)


def test_the_median_of_a_day_takes_no_memory() -> None:
    """Very many readings are merged with their neighbours; their median moves by less than 1 %."""
    chance = random.Random(5)
    values = [chance.randrange(10**6) for _ in range(100_000)]
    median = series(0, len(values), *enumerate(values)).median()
    assert median == pytest.approx(statistics.median(values), abs=10**4)


def test_stretches_of_one_name_are_one_phase() -> None:
    """A phase that comes again has the time of all stretches, the last end and the highest peak."""
    both = phase(0, 40, (10, 5), (40, 80), peaks=Peaks(90, 95))
    both.add_peak(85, 85)
    both.begin(80)
    both.add("application_memory", 30, 90)
    both.end(100, Peaks(35, 40))
    assert (both.duration_ns, both.last("application_memory"), both.age_ns()) == (60, 30, 10)
    assert (both.peak_bytes, both.peak_at_most_bytes()) == (85, 95)


def test_a_peak_is_exact_where_the_kernel_has_all_of_it() -> None:
    """The marks of all processes together bound the sum; if one is missing, there is no bound."""
    known = phase(0, 40, peaks=Peaks(60, 90))
    known.add_peak(70, 50)
    known.add_peak(0, 60)
    assert (known.peak_bytes, known.process_peak_bytes, known.peak_at_most_bytes()) == (70, 60, 90)
    assert known.is_process_peak_exact
    for peaks in (None, Peaks(60, None)):
        known.begin(50)
        known.end(60, peaks)
        assert (known.is_process_peak_exact, known.peak_at_most_bytes()) == (False, None)


def test_a_peak_after_a_passed_mark_is_open() -> None:
    """The kernel's marks lack the time in which a program went on at its mark."""
    for high_bytes, is_exact in ((80 * _MIB, True), (90 * _MIB, False)):
        later = PhaseRecord()
        later.begin(0)
        later.began_unseen(MemoryRange({1: (0, high_bytes)}))
        later.add_peak(80 * _MIB, 80 * _MIB)
        assert later.peak_at_most_bytes() is None  # it runs
        later.end(40, Peaks(80 * _MIB, 80 * _MIB))
        assert later.is_process_peak_exact is is_exact
        assert later.peak_at_most_bytes() == high_bytes


def test_system_memory_over_idle() -> None:
    """The difference may be negative: other programs end too."""
    phases = stored_phases(
        [
            recording(
                phases={"load": phase(0, 40, system=1500), "steady": phase(40, 100, system=900)}
            )
        ]
    )
    assert [stored.memory.system_memory_bytes for stored in phases] == [(1500,), (900,)]
    assert [stored.memory.system_memory_over_idle_bytes for stored in phases] == [(500,), (-100,)]


@pytest.mark.parametrize(
    ("ending", "ended_by", "outcome"),
    [
        (ProgramEnding(exit_code=0), None, "ok"),
        (ProgramEnding(exit_code=3), None, "failed"),
        (ProgramEnding(signal_number=signal.SIGSEGV), None, "crashed"),
        (ProgramEnding(signal_number=signal.SIGKILL), None, "crashed"),
        (ProgramEnding(signal_number=signal.SIGKILL, memory_ran_out=True), None, "out_of_memory"),
        (ProgramEnding(exit_code=137, memory_ran_out=True), None, "out_of_memory"),
        (ProgramEnding(exit_code=1, memory_ran_out=True), None, "failed"),
        (ProgramEnding(signal_number=signal.SIGINT), signal.SIGINT, "ok"),
        (ProgramEnding(exit_code=255), signal.SIGINT, "ok"),
        (ProgramEnding(signal_number=signal.SIGSEGV), signal.SIGINT, "crashed"),
        (ProgramEnding(signal_number=signal.SIGKILL), signal.SIGINT, "crashed"),
        (ProgramEnding(), None, "ok"),
    ],
)
def test_outcomes_of_programs(ending: ProgramEnding, ended_by: int | None, outcome: str) -> None:
    """Exit codes and signals are failures, unless the user ended the program.

    A shell passes its child's exit code on.
    """
    assert outcome_of(recording(ending=ending, ended_by=ended_by)) == outcome


@pytest.mark.parametrize(
    ("kills", "child_ran_out", "outcome"),
    [
        (None, False, "ok"),
        (OomKills(0, "cgroup"), False, "ok"),
        (OomKills(1, "cgroup"), False, "out_of_memory"),
        (OomKills(1, "system"), False, "ok"),
        (OomKills(1, "system"), True, "out_of_memory"),
    ],
)
def test_a_killed_child_is_a_failure(
    kills: OomKills | None, child_ran_out: bool, outcome: str
) -> None:
    """The program may end well all the same; the machine's other programs are not its failure."""
    ending = ProgramEnding(exit_code=0, child_ran_out=child_ran_out)
    made = recording(ending=ending, oom_kills=kills)
    assert outcome_of(made) == outcome
    stored = stored_repeat(made, "")
    assert (stored.oom_kills, stored.oom_kills_of) == (kills or (None, None))


def test_a_result_names_the_largest_processes_and_the_trace_all() -> None:
    """A build has thousands of processes: the result stays small."""
    made = recording(
        processes=[SeenProcess(pid, "cc", 10, 20, peak_rss_bytes=pid) for pid in range(1, 1001)]
    )
    stored = stored_repeat(made, "traces/x")
    assert (stored.process_count, stored.trace) == (1000, "traces/x")
    assert [process.pid for process in stored.processes[:2]] == [1000, 999]
    assert len(stored.processes) < 100
    assert len(trace_of(made).processes) == 1000


def test_the_trace_of_a_day_is_bounded_and_keeps_its_peaks() -> None:
    """If there are many readings, the highest of neighbours stay."""
    values = [100] * 200_000
    values[123_457] = 999
    timeline = trace_of(recording(rss=readings(*enumerate(values)))).timeline
    assert len(timeline.rss_bytes) == len(timeline.times_ns) <= 20_000
    assert timeline.times_ns[timeline.rss_bytes.index(999)] == 123_457


def test_a_program_has_a_value_for_each_repeat() -> None:
    """A repeat without a phase has no value there; phases keep the order of their first coming."""
    first = recording(phases={"load": phase(0, 40, (10, 5)), "steady": phase(40, 100, (60, 9))})
    second = recording(phases={"load": phase(0, 30, (10, 8)), "flush": phase(30, 50)})
    phases = stored_phases([first, second])
    assert [stored.name for stored in phases] == ["load", "steady", "flush"]
    assert [stored.durations_ns for stored in phases] == [(40, 30), (60, None), (None, 20)]
    assert [stored.memory.application_memory_bytes for stored in phases] == [
        (5, 8),
        (9, None),
        (None, None),
    ]
    assert [stored.medians.application_memory_bytes for stored in phases] == [
        (5, 8),
        (9, None),
        (None, None),
    ]
    assert [stored.reading_ages_ns for stored in phases] == [(30, 20), (40, None), (None, None)]
    assert [stored.pss_readings for stored in phases] == [(1, 1), (1, 0), (0, 0)]


@pytest.mark.process
def test_the_commit_is_that_of_the_project(tmp_path: Path) -> None:
    """Outside a checkout there is no commit; the working folder stays the same."""
    before = Path.cwd()
    assert run_document(tmp_path, {})["commit_info"] == {}
    git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.com"]
    for arguments in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    document = run_document(tmp_path, {"machine": "a board"})
    assert document["commit_info"]["id"] == head
    assert document["machine_info"]["machine"] == "a board"
    assert Path.cwd() == before


def test_an_interval_holds_the_median() -> None:
    """The overhead benchmark's interval is narrow.

    It holds the true median in 95 of 100 samples of any distribution.
    """
    chance = random.Random(4)
    held = 0
    widths = []
    for _ in range(2000):
        interval = median_interval([chance.expovariate(1) for _ in range(40)])
        held += interval.low <= 0.6931 <= interval.high
        widths.append(interval.high - interval.low)
    assert 0.94 <= held / 2000 <= 0.99
    assert statistics.median(widths) < 1
