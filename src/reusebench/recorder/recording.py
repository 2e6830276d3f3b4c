"""The recorder of a program: cheap readings at a steady rate, costly ones within a time share."""

from __future__ import annotations

import datetime
import signal
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from reusebench.recorder.marks import Marks
from reusebench.recorder.pace import Pace
from reusebench.recorder.phase_figures import PhaseRecord
from reusebench.recorder.phases import START, WHOLE, PhaseLog, Stretch
from reusebench.recorder.process_tree import Peaks, ProcessTree, SeenProcess
from reusebench.recorder.program import ProgramEnding, RecordedProgram
from reusebench.recorder.signals import SignalPipe
from reusebench.recorder.site import Site
from reusebench.samplers.pressure import PressureWatch
from reusebench.samplers.shortage_evidence import Evidence
from reusebench.samplers.system_memory import Idle, observe_idle, read_system
from reusebench.targets.errors import ConnectionLost

__all__ = ["SAMPLE_HZ", "Readings", "Recording", "record"]

#: Readings of RSS per second. `python -m benchmarks.recorder_overhead` measures what all readings
#: cost the program.
SAMPLE_HZ = 20
_S = 10**9
_MS = 10**6
_INTERVAL_NS = _S // SAMPLE_HZ
#: First gap between readings of RSS, which doubles up to the interval: a program that runs for
#: 20 ms has figures too.
_FIRST_GAP_NS = 2 * _MS
#: Time before the start in which the noise of the system's memory is read.
_IDLE_S = 0.3
#: Shares of the time that readings of PSS may take in CPU time: normally, and early in a phase.
#: PSS is read under the memory lock of the process, so the program may lose that time.
_PSS_SHARES = (0.002, 0.005)
#: The same shares for each other kind of reading.
_OTHER_SHARES = (0.001, 0.003)
#: Share of the time for readings of RSS, which are made less often if there are many processes.
_RSS_SHARE = 0.005
#: Readings of a kind that are kept for the trace: 17 minutes of RSS. Of longer recordings the
#: higher of two neighbours is kept.
_MOST_READINGS = 20_000
#: Interval at which the recording so far is handed on to be stored; this also happens when a phase
#: has ended for the first time.
_KEEP_NS = 5 * _S


@dataclass
class Readings:
    """Readings of one kind in order: times (ns, monotonic), and values in bytes."""

    times_ns: array[int] = field(default_factory=lambda: array("q"))
    values: array[int] = field(default_factory=lambda: array("q"))

    def add(self, time_ns: int, value: int) -> None:
        """Append a reading; if there are too many, keep the higher of each two neighbours."""
        self.times_ns.append(time_ns)
        self.values.append(value)
        if len(self.values) == _MOST_READINGS:
            self._thin()

    def _thin(self) -> None:
        times_ns = array("q")
        values = array("q")
        for first in range(0, _MOST_READINGS, 2):
            second = first + 1
            higher = second if self.values[second] > self.values[first] else first
            times_ns.append(self.times_ns[higher])
            values.append(self.values[higher])
        self.times_ns = times_ns
        self.values = values


@dataclass
class Recording:
    """The readings of one run of a program; times are by the monotonic clock of its machine."""

    #: ISO 8601, UTC.
    started_at: str
    begin_ns: int
    idle: Idle
    #: System memory before the start.
    idle_bytes: int
    end_ns: int = 0
    ending: ProgramEnding = field(default_factory=ProgramEnding)
    #: Number of the signal with which the user ended the program (Ctrl-C or SIGTERM).
    ended_by: int | None = None
    #: Cause of the lost connection to a remote board that ended the recording.
    lost: str | None = None
    #: CPU time of the recorder on the program's machine.
    recorder_cpu_ns: int = 0
    #: Stretches in order, up to the limit of a trace.
    stretches: list[Stretch] = field(default_factory=list)
    #: Key: name, in the order in which the phases first came.
    phases: dict[str, PhaseRecord] = field(default_factory=dict)
    processes: list[SeenProcess] = field(default_factory=list)
    #: Number of readings of RSS.
    rss_count: int = 0
    #: Sum over all processes.
    rss: Readings = field(default_factory=Readings)
    pss: Readings = field(default_factory=Readings)
    system: Readings = field(default_factory=Readings)
    npu: Readings = field(default_factory=Readings)
    #: The latest evidence of whether memory was short.
    evidence: Evidence | None = None


def record(
    site: Site,
    start: Callable[[], RecordedProgram],
    marks: Marks,
    has_npu: bool,
    notify: Callable[[str], None],
    keep: Callable[[Recording], None],
) -> Recording:
    """Record the program that `start` returns until it ends or the user ends the recording.

    `notify` shows the user a sentence. `keep` stores the recording so far; it must be quick, since
    nothing is read meanwhile.
    """
    idle = observe_idle(site.host, _IDLE_S)
    idle_bytes = read_system(site.host).used_bytes
    with SignalPipe() as signals:
        program = start()
        try:
            marks.started()
            recorder = _Recorder(site, program, marks, has_npu, signals, notify, keep)
            return recorder.run(idle, idle_bytes)
        finally:
            program.close()


class _Recorder:
    def __init__(
        self,
        site: Site,
        program: RecordedProgram,
        marks: Marks,
        has_npu: bool,
        signals: SignalPipe,
        notify: Callable[[str], None],
        keep: Callable[[Recording], None],
    ) -> None:
        self._site = site
        self._host = site.host
        self._program = program
        self._marks = marks
        self._signals = signals
        self._notify = notify
        self._keep = keep

        #: The latest reading of the clocks.
        self._clocks = self._host.clocks()
        self._first_cpu_ns = self._clocks.cpu_ns
        now_ns = self._clocks.time_ns
        self._begin_ns = now_ns
        self._next_ns = now_ns
        self._gap_ns = _FIRST_GAP_NS
        self._keep_at_ns = now_ns + _KEEP_NS

        self._tree = ProcessTree(self._host, program.root, now_ns, program.with_root)
        #: Peaks of a program that was already running are not reset: it, or another tool, may read
        #: them.
        self._resets_peaks = not program.with_root
        if self._resets_peaks:
            self._tree.begin_phase(resets=False)
        else:
            self._tree.forget_peaks()

        self._log = PhaseLog(now_ns)
        self._phase = PhaseRecord()
        self._phase.begin(now_ns, {})
        self._phases = {START: self._phase}
        #: Key: kind; the readings since the last mark.
        self._since_mark: dict[str, int] = {}

        #: RSS at the latest reading: sum over all processes, and largest process.
        self._rss_sum_bytes = 0
        self._rss_largest_bytes = 0
        self._rss_cost_ns = 0
        #: Highest PSS, and most memory swapped out.
        self._most_pss_bytes = 0
        self._most_swapped_bytes = 0
        self._pressure = PressureWatch(self._host, program.root)

        self._discovery = Pace(5 * _MS, 500 * _MS, *_OTHER_SHARES)
        #: Readings that are made often at first in each phase.
        self._phase_readings: list[tuple[Pace, Callable[[int], None]]] = [
            (Pace(5 * _MS, 500 * _MS, *_PSS_SHARES), self._read_shares),
            (Pace(5 * _MS, 500 * _MS, *_OTHER_SHARES), self._read_system),
        ]
        if has_npu:
            self._phase_readings.append((Pace(20 * _MS, _S, *_OTHER_SHARES), self._read_npu))
        # Memory at the very start is not typical of the program.
        for pace, _ in self._phase_readings:
            pace.restart(now_ns)

        self._interrupts = 0
        self._is_stopped = False
        #: Time to name the processes that the program has left behind; most end before.
        self._notify_at_ns: int | None = None
        self._has_notified = False

    def run(self, idle: Idle, idle_bytes: int) -> Recording:
        """Read until the end."""
        started_at = datetime.datetime.now(datetime.timezone.utc).isoformat()
        recording = Recording(started_at, self._begin_ns, idle, idle_bytes)
        self._recording = recording
        try:
            while not self._program.has_ended() and not self._is_stopped:
                self._turn()
            self._take_marks(self._read_clocks())
            if self._is_stopped:  # and the program runs on
                self._read_at_mark(self._read_clocks(), at_any_cost=True)
            self._read_pressure()
        except ConnectionLost as error:
            recording.lost = str(error)
        self._end(self._clocks.time_ns)
        return recording

    def _end(self, end_ns: int) -> None:
        recording = self._recording
        # A Ctrl-C may have ended the program before the signal was read here.
        for number in self._signals.read():
            self._note_signal(number)
        recording.ending = self._program.ending
        self._phase.end(end_ns, peaks=None)
        self._add_peak_of_ended()
        self._update_recording(end_ns)
        recording.stretches = self._log.end(end_ns)
        lost = self._marks.lost()
        if lost:
            self._notify(lost)

    def _update_recording(self, now_ns: int) -> None:
        """Note in the recording everything that is not noted with each reading."""
        recording = self._recording
        recording.end_ns = now_ns
        recording.processes = self._tree.seen
        recording.phases = self._phases if self._log.is_marked else {WHOLE: self._phase}
        recording.recorder_cpu_ns = self._clocks.cpu_ns - self._first_cpu_ns

    def _read_clocks(self) -> int:
        """Read the clocks, and return the time."""
        self._clocks = self._host.clocks()
        return self._clocks.time_ns

    def _turn(self) -> None:
        """Wait for the next reading, signal or mark, and handle it."""
        self._wait()
        for number in self._signals.read():
            self._react(number)
        now_ns = self._read_clocks()
        self._take_marks(now_ns)
        if now_ns >= self._next_ns:
            self._read_what_is_due(now_ns)
            gap_ns = max(self._gap_ns, round(self._rss_cost_ns / _RSS_SHARE))
            self._next_ns = max(self._next_ns + gap_ns, now_ns)
            self._gap_ns = min(2 * self._gap_ns, _INTERVAL_NS)
        if self._program.has_left_processes() and not self._has_notified:
            self._name_left_processes(now_ns)
        if now_ns >= self._keep_at_ns:
            self._keep_so_far(now_ns)

    def _wait(self) -> None:
        remaining_ns = max(self._next_ns - self._clocks.time_ns, 0)
        descriptors = [self._signals.descriptor]
        if self._marks.descriptor is not None:
            descriptors.append(self._marks.descriptor)
        self._site.wait(descriptors, remaining_ns / _S)

    def _note_signal(self, number: int) -> None:
        """Note that the user has ended the program, if the signal means that."""
        if number != signal.SIGCHLD:
            self._recording.ended_by = self._recording.ended_by or number

    def _react(self, number: int) -> None:
        """React to a signal. If the program shares the terminal, it has got the signal as well."""
        self._note_signal(number)
        if number == signal.SIGCHLD:
            return
        if number == signal.SIGTERM or not self._program.shares_terminal:
            self._program.send(number)
        if number == signal.SIGINT:
            self._interrupts += 1
        self._is_stopped = self._program.with_root or self._program.has_left_processes()
        if self._interrupts > 1 and not self._is_stopped:
            self._tree.discover(self._clocks.time_ns)
            self._program.kill([process.pid for process in self._tree.live])

    def _name_left_processes(self, now_ns: int) -> None:
        """Name once the processes that are still waited for, a second after the program's end."""
        if self._notify_at_ns is None:
            self._notify_at_ns = now_ns + _S
        if now_ns < self._notify_at_ns:
            return
        self._has_notified = True
        names = ", ".join(f"{process.name} ({process.pid})" for process in self._tree.live)
        self._notify(
            f"the program has ended and left processes behind: {names}. Ctrl-C ends the recording"
        )

    def _take_marks(self, now_ns: int) -> None:
        """Read the memory of the phase that ends; only then answer the marks and begin others."""
        names = self._marks.read()
        ends_for_first_time = False
        if self._log.changes(names):
            ends_for_first_time = not self._phase.has_ended
            peaks = self._read_at_mark(now_ns, at_any_cost=ends_for_first_time)
            for name in names:
                if self._log.mark(name, now_ns):
                    self._begin_phase(now_ns, peaks)
        else:
            for name in names:
                self._log.mark(name, now_ns)
        self._marks.answer()
        if ends_for_first_time:
            self._keep_so_far(now_ns)

    def _begin_phase(self, now_ns: int, peaks: Peaks | None) -> None:
        """End the current phase, with its peaks, and begin the phase that the log names."""
        self._phase.end(now_ns, peaks)
        self._phase = self._phases.setdefault(self._log.name, PhaseRecord())
        self._phase.begin(now_ns, self._since_mark)
        self._phase.add_peak(self._rss_sum_bytes, self._rss_largest_bytes)

    def _read_at_mark(self, now_ns: int, at_any_cost: bool) -> Peaks | None:
        """Make all readings that can be afforded, first those that the running program may change.

        Returns the kernel's peaks of the phase that ends, which begin anew; None if they were not
        affordable.
        """
        self._since_mark = {}
        self._read_rss(now_ns)
        for pace, read in self._phase_readings:
            if at_any_cost or pace.affords(now_ns):
                self._read_with_pace(pace, read, now_ns)
            pace.restart(now_ns)
        if not at_any_cost and not self._discovery.affords(now_ns):
            return None

        cpu_before_ns = self._clocks.cpu_ns
        known_count = len(self._tree.seen)
        self._tree.discover(now_ns)
        if len(self._tree.seen) > known_count:
            self._read_rss(now_ns)
            self._read_shares(now_ns)
        peaks = self._read_peaks()
        if self._resets_peaks:
            self._tree.begin_phase(resets=True)
        self._discovery.taken(self._read_clocks(), self._clocks.cpu_ns - cpu_before_ns)
        return peaks

    def _keep_so_far(self, now_ns: int) -> None:
        self._phase.go_on(now_ns)
        self._read_pressure()
        self._update_recording(now_ns)
        self._keep(self._recording)
        self._keep_at_ns = now_ns + _KEEP_NS

    def _read_what_is_due(self, now_ns: int) -> None:
        if self._discovery.is_due(now_ns):
            self._read_with_pace(self._discovery, self._discover, now_ns)
        self._read_rss(now_ns)
        for pace, read in self._phase_readings:
            if pace.is_due(now_ns):
                self._read_with_pace(pace, read, now_ns)

    def _read_with_pace(self, pace: Pace, read: Callable[[int], None], now_ns: int) -> None:
        """Make a reading, and tell the pace its cost."""
        cpu_before_ns = self._clocks.cpu_ns
        read(now_ns)
        pace.taken(self._read_clocks(), self._clocks.cpu_ns - cpu_before_ns)

    def _discover(self, now_ns: int) -> None:
        self._tree.discover(now_ns)
        self._read_peaks()

    def _read_peaks(self) -> Peaks:
        peaks = self._tree.read_peaks()
        if peaks.largest_bytes:
            self._phase.add_peak(0, peaks.largest_bytes)
        return peaks

    def _read_rss(self, now_ns: int) -> None:
        cpu_before_ns = self._clocks.cpu_ns
        sum_bytes, largest_bytes = self._tree.sample(now_ns)
        self._read_clocks()
        self._rss_cost_ns = self._clocks.cpu_ns - cpu_before_ns
        self._rss_sum_bytes = sum_bytes
        self._rss_largest_bytes = largest_bytes
        if sum_bytes:
            self._recording.rss_count += 1
            self._recording.rss.add(now_ns, sum_bytes)
            self._add_to_phase("application_rss", sum_bytes, now_ns)
            self._phase.add_peak(sum_bytes, largest_bytes)

    def _read_system(self, now_ns: int) -> None:
        used_bytes = read_system(self._host).used_bytes
        self._recording.system.add(now_ns, used_bytes)
        self._add_to_phase("system_memory", used_bytes, now_ns)

    def _read_shares(self, now_ns: int) -> None:
        shares = self._tree.read_shares()
        if shares:
            self._recording.pss.add(now_ns, shares.pss_bytes)
            self._add_to_phase("application_memory", shares.pss_bytes, now_ns)
            self._add_to_phase("application_uss", shares.uss_bytes, now_ns)
            self._most_pss_bytes = max(self._most_pss_bytes, shares.pss_bytes)
            self._most_swapped_bytes = max(self._most_swapped_bytes, shares.swap_bytes)

    def _read_npu(self, now_ns: int) -> None:
        size_bytes = self._tree.read_dmabufs()
        if size_bytes is not None:
            self._recording.npu.add(now_ns, size_bytes)
            self._add_to_phase("npu_memory", size_bytes, now_ns)

    def _add_to_phase(self, kind: str, value: int, now_ns: int) -> None:
        self._phase.add(kind, value, now_ns)
        self._since_mark[kind] = value

    def _read_pressure(self) -> None:
        counted = self._pressure.read()
        self._recording.evidence = Evidence(
            # These are faults of the root, which usually is no process of the program.
            counted=msgspec.structs.replace(counted, major_faults=None),
            elapsed_ns=self._read_clocks() - self._begin_ns,
            pss_bytes=self._most_pss_bytes,
            swapped_bytes=self._most_swapped_bytes,
        )

    def _add_peak_of_ended(self) -> None:
        """Add the kernel's peak of ended processes, if only one phase can have had it."""
        peak_bytes = self._program.peak_bytes()
        if peak_bytes and not self._log.is_marked:
            self._phase.add_peak(0, peak_bytes)
            self._phase.is_process_peak_exact = True
