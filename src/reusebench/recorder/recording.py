"""The recorder of a program: cheap readings at a steady rate, costly ones within a share of the
time.
"""

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
#: Until the interval is reached: a program that runs 20 ms has figures too.
_FIRST_NS = 2 * _MS
#: Time before the start in which the noise of the system's memory is read.
_IDLE_S = 0.3
#: Shares of the time that readings of a kind may take, in CPU time, and in the first second of a
#: phase. PSS is read under the memory lock of the process: that time the program may lose.
_PSS_SHARES = (0.002, 0.005)
_OTHER_SHARES = (0.001, 0.003)
#: Of RSS, which is read seldomer where there are very many processes.
_RSS_SHARE = 0.005
#: Readings of a kind that are kept for the trace: 17 minutes of RSS, or of more time the highest of
#: their neighbours.
_MOST_READINGS = 20_000
#: After so long, and when a phase has ended for the first time, what was read is handed on to be
#: stored.
_KEEP_NS = 5 * _S


@dataclass
class Readings:
    """Readings of one kind in order: times (ns, monotonic), and values in bytes."""

    times_ns: array[int] = field(default_factory=lambda: array("q"))
    values: array[int] = field(default_factory=lambda: array("q"))

    def add(self, time_ns: int, value: int) -> None:
        """Append one."""
        self.times_ns.append(time_ns)
        self.values.append(value)
        if len(self.values) == _MOST_READINGS:
            self._thin()

    def _thin(self) -> None:
        """Keep the higher of two neighbours."""
        pairs = range(0, _MOST_READINGS, 2)
        kept = [number + (self.values[number + 1] > self.values[number]) for number in pairs]
        self.times_ns = array("q", [self.times_ns[number] for number in kept])
        self.values = array("q", [self.values[number] for number in kept])


@dataclass
class Recording:
    """What was read of one run of a program; times are of the monotonic clock of its machine."""

    #: ISO 8601, UTC.
    started_at: str
    begin_ns: int
    idle: Idle
    #: System memory before the start.
    idle_bytes: int
    end_ns: int = 0
    ending: ProgramEnding = field(default_factory=ProgramEnding)
    #: Whether the user ended it with Ctrl-C or SIGTERM, and by which of them.
    ended_by: int | None = None
    #: How the connection to a board far away was lost, with which the recording ended.
    lost: str | None = None
    #: On the machine of the program.
    recorder_cpu_ns: int = 0
    #: In order, with their times; of very many the first ones.
    stretches: list[Stretch] = field(default_factory=list)
    #: By their names, in the order in which they first came.
    phases: dict[str, PhaseRecord] = field(default_factory=dict)
    processes: list[SeenProcess] = field(default_factory=list)
    #: How often RSS was read.
    rss_count: int = 0
    #: Sum over all processes.
    rss: Readings = field(default_factory=Readings)
    pss: Readings = field(default_factory=Readings)
    system: Readings = field(default_factory=Readings)
    npu: Readings = field(default_factory=Readings)
    #: What shows whether memory was short, as it was counted last.
    evidence: Evidence | None = None


def record(
    site: Site,
    start: Callable[[], RecordedProgram],
    marks: Marks,
    has_npu: bool,
    notify: Callable[[str], None],
    keep: Callable[[Recording], None],
) -> Recording:
    """Record the program that `start` returns until it ends, or the user ends the recording.

    `notify` shows the user a sentence. `keep` stores what was read so far, and shall be quick:
    nothing is read meanwhile.
    """
    idle = observe_idle(site.host, _IDLE_S)
    idle_bytes = read_system(site.host).used_bytes
    with SignalPipe() as signals:
        program = start()
        try:
            marks.started()
            return _Recorder(site, program, marks, has_npu, signals, notify, keep).run(
                idle, idle_bytes
            )
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
        #: When it was looked at them last.
        self._clocks = self._host.clocks()
        self._first_cpu_ns = self._clocks.cpu_ns
        now_ns = self._clocks.time_ns
        self._log = PhaseLog(now_ns)
        self._tree = ProcessTree(self._host, program.root, now_ns, program.with_root)
        #: The marks of a program that runs already are left alone: it, or another tool, may read
        #: them.
        self._resets_peaks = not program.with_root
        if self._resets_peaks:
            self._tree.begin_phase(resets=False)
        else:
            self._tree.forget_peaks()
        self._phase = PhaseRecord()
        self._phase.begin(now_ns, {})
        self._phases = {START: self._phase}
        #: What was read since the last mark came, and of RSS the sum and the largest.
        self._at_mark: dict[str, int] = {}
        self._resident = (0, 0)
        self._keep_at_ns = now_ns + _KEEP_NS
        self._pressure = PressureWatch(self._host, program.root)
        #: The highest of PSS, and of what was swapped out.
        self._most_bytes = self._most_swapped_bytes = 0
        self._begin_ns = self._next_ns = now_ns
        self._gap_ns = _FIRST_NS
        self._rss_cost_ns = 0
        self._discovery = Pace(5 * _MS, 500 * _MS, *_OTHER_SHARES)
        #: What is read often at first in each phase.
        self._of_phases: list[tuple[Pace, Callable[[int], None]]] = [
            (Pace(5 * _MS, 500 * _MS, *_PSS_SHARES), self._add_shares),
            (Pace(5 * _MS, 500 * _MS, *_OTHER_SHARES), self._add_system),
        ]
        if has_npu:
            self._of_phases.append((Pace(20 * _MS, _S, *_OTHER_SHARES), self._add_npu))
        # What a program has at its very start is not typical of it.
        for pace, _ in self._of_phases:
            pace.restart(now_ns)
        self._interrupts = 0
        self._is_stopped = False
        #: When to name the processes that the program has left behind; most end soon.
        self._notify_at_ns: int | None = None
        self._has_notified = False

    def run(self, idle: Idle, idle_bytes: int) -> Recording:
        """Read until the end."""
        at = datetime.datetime.now(datetime.timezone.utc).isoformat()
        recording = self._recording = Recording(at, self._begin_ns, idle, idle_bytes)
        try:
            while not self._program.has_ended() and not self._is_stopped:
                self._turn()
            self._take_marks(self._look())
            if self._is_stopped:  # and the program runs on
                self._read_at_mark(self._look(), at_any_cost=True)
            self._read_pressure()
        except ConnectionLost as error:
            recording.lost = str(error)
        self._end(self._clocks.time_ns)
        return recording

    def _end(self, end_ns: int) -> None:
        recording = self._recording
        # A Ctrl-C may have ended the program before it was read here.
        for number in self._signals.read():
            self._note(number)
        recording.ending = self._program.ending
        self._phase.end(end_ns, peaks=None)
        self._note_last_peak()
        self._note_so_far(end_ns)
        recording.stretches = self._log.end(end_ns)
        lost = self._marks.lost()
        if lost:
            self._notify(lost)

    def _note_so_far(self, now_ns: int) -> None:
        """Note in the recording what else is known up to now."""
        recording = self._recording
        recording.end_ns = now_ns
        recording.processes = self._tree.seen
        recording.phases = self._phases if self._log.is_marked else {WHOLE: self._phase}
        recording.recorder_cpu_ns = self._clocks.cpu_ns - self._first_cpu_ns

    def _look(self) -> int:
        """Look at the clocks, and return the time."""
        self._clocks = self._host.clocks()
        return self._clocks.time_ns

    def _turn(self) -> None:
        """Wait for what comes next, and see to it."""
        self._wait()
        for number in self._signals.read():
            self._react(number)
        now_ns = self._look()
        self._take_marks(now_ns)
        if now_ns >= self._next_ns:
            self._read_in_turn(now_ns)
            gap_ns = max(self._gap_ns, round(self._rss_cost_ns / _RSS_SHARE))
            self._next_ns = max(self._next_ns + gap_ns, now_ns)
            self._gap_ns = min(2 * self._gap_ns, _INTERVAL_NS)
        if self._program.has_left_processes() and not self._has_notified:
            self._name_those_left(now_ns)
        if now_ns >= self._keep_at_ns:
            self._keep_so_far(now_ns)

    def _wait(self) -> None:
        left_ns = self._next_ns - self._clocks.time_ns
        descriptors = [self._signals.descriptor]
        if self._marks.descriptor is not None:
            descriptors.append(self._marks.descriptor)
        self._site.wait(descriptors, max(left_ns, 0) / _S)

    def _note(self, number: int) -> None:
        """Note that the user has ended the program, if that is what the signal means."""
        if number != signal.SIGCHLD:
            self._recording.ended_by = self._recording.ended_by or number

    def _react(self, number: int) -> None:
        """React to a signal; one of the terminal has gone to the program too, where it has this
        terminal.
        """
        self._note(number)
        if number == signal.SIGCHLD:
            return
        if number == signal.SIGTERM or not self._program.shares_terminal:
            self._program.send(number)
        self._interrupts += number == signal.SIGINT
        self._is_stopped = self._program.with_root or self._program.has_left_processes()
        if self._interrupts > 1 and not self._is_stopped:
            self._tree.discover(self._clocks.time_ns)
            self._program.kill([seen.pid for seen in self._tree.live])

    def _name_those_left(self, now_ns: int) -> None:
        """Name once what is still waited for."""
        self._notify_at_ns = self._notify_at_ns or now_ns + _S
        if now_ns < self._notify_at_ns:
            return
        self._has_notified = True
        names = ", ".join(f"{seen.name} ({seen.pid})" for seen in self._tree.live)
        self._notify(
            f"the program has ended and left processes behind: {names}. Ctrl-C ends the recording"
        )

    def _take_marks(self, now_ns: int) -> None:
        """Read what the phase that ends has, and only then let the program know and others
        begin.
        """
        names = self._marks.read()
        is_first_end = False
        if self._log.changes(names):
            is_first_end = not self._phase.has_ended
            peaks = self._read_at_mark(now_ns, at_any_cost=is_first_end)
            for name in names:
                if self._log.mark(name, now_ns):
                    self._phase.end(now_ns, peaks)
                    self._phase = self._phases.setdefault(self._log.name, PhaseRecord())
                    self._phase.begin(now_ns, self._at_mark)
                    self._phase.add_peak(*self._resident)
        else:
            for name in names:
                self._log.mark(name, now_ns)
        self._marks.answer()
        if is_first_end:
            self._keep_so_far(now_ns)

    def _read_at_mark(self, now_ns: int, at_any_cost: bool) -> Peaks | None:
        """Read all that can be afforded, first what a program that does not wait may change; return
        the peaks.

        They are the kernel's of the phase that ends, which begin anew.
        """
        self._at_mark = {}
        peaks = None
        self._read_rss(now_ns)
        for pace, read in self._of_phases:
            if at_any_cost or pace.affords(now_ns):
                self._within(pace, read, now_ns)
            pace.restart(now_ns)
        if at_any_cost or self._discovery.affords(now_ns):
            began_ns = self._clocks.cpu_ns
            known = len(self._tree.seen)
            self._tree.discover(now_ns)
            if len(self._tree.seen) > known:
                self._read_rss(now_ns)
                self._add_shares(now_ns)
            peaks = self._read_peaks()
            if self._resets_peaks:
                self._tree.begin_phase(resets=True)
            self._discovery.taken(self._look(), self._clocks.cpu_ns - began_ns)
        return peaks

    def _keep_so_far(self, now_ns: int) -> None:
        self._phase.go_on(now_ns)
        self._read_pressure()
        self._note_so_far(now_ns)
        self._keep(self._recording)
        self._keep_at_ns = now_ns + _KEEP_NS

    def _read_in_turn(self, now_ns: int) -> None:
        if self._discovery.is_due(now_ns):
            self._within(self._discovery, self._discover, now_ns)
        self._read_rss(now_ns)
        for pace, read in self._of_phases:
            if pace.is_due(now_ns):
                self._within(pace, read, now_ns)

    def _read_rss(self, now_ns: int) -> None:
        began_ns = self._clocks.cpu_ns
        whole, largest = self._tree.sample(now_ns)
        self._look()
        self._rss_cost_ns = self._clocks.cpu_ns - began_ns
        self._resident = whole, largest
        if whole:
            self._recording.rss_count += 1
            self._recording.rss.add(now_ns, whole)
            self._note_reading("application_rss", whole, now_ns)
            self._phase.add_peak(*self._resident)

    def _read_peaks(self) -> Peaks:
        peaks = self._tree.read_peaks()
        if peaks.largest_bytes:
            self._phase.add_peak(0, peaks.largest_bytes)
        return peaks

    def _note_reading(self, kind: str, value: int, now_ns: int) -> None:
        self._phase.add(kind, value, now_ns)
        self._at_mark[kind] = value

    def _within(self, pace: Pace, read: Callable[[int], None], now_ns: int) -> None:
        """Read, and count what it cost."""
        began_ns = self._clocks.cpu_ns
        read(now_ns)
        pace.taken(self._look(), self._clocks.cpu_ns - began_ns)

    def _discover(self, now_ns: int) -> None:
        self._tree.discover(now_ns)
        self._read_peaks()

    def _add_system(self, now_ns: int) -> None:
        used_bytes = read_system(self._host).used_bytes
        self._recording.system.add(now_ns, used_bytes)
        self._note_reading("system_memory", used_bytes, now_ns)

    def _add_shares(self, now_ns: int) -> None:
        shares = self._tree.read_shares()
        if shares:
            self._recording.pss.add(now_ns, shares.pss_bytes)
            self._note_reading("application_memory", shares.pss_bytes, now_ns)
            self._note_reading("application_uss", shares.uss_bytes, now_ns)
            self._most_bytes = max(self._most_bytes, shares.pss_bytes)
            self._most_swapped_bytes = max(self._most_swapped_bytes, shares.swap_bytes)

    def _read_pressure(self) -> None:
        counted = self._pressure.read()
        self._recording.evidence = Evidence(
            # The faults are of the root, which mostly is no process of the program.
            counted=msgspec.structs.replace(counted, major_faults=None),
            elapsed_ns=self._look() - self._begin_ns,
            pss_bytes=self._most_bytes,
            swapped_bytes=self._most_swapped_bytes,
        )

    def _add_npu(self, now_ns: int) -> None:
        size = self._tree.read_dmabufs()
        if size is not None:
            self._recording.npu.add(now_ns, size)
            self._note_reading("npu_memory", size, now_ns)

    def _note_last_peak(self) -> None:
        """Add the peak that the kernel has of ended processes, where there is one phase in which it
        can have been.
        """
        peak = self._program.peak_bytes()
        if peak and not self._log.is_marked:
            self._phase.add_peak(0, peak)
            self._phase.is_process_peak_exact = True
