"""The recorder of a program: cheap readings at a steady rate, costly ones within a time share."""

from __future__ import annotations

import datetime
import signal
from collections.abc import Callable
from dataclasses import dataclass

from reusebench.recorder.mark_readings import MarkReading
from reusebench.recorder.marks import Marks
from reusebench.recorder.memory_reader import MemoryReader
from reusebench.recorder.npu_buffers import add_buffers
from reusebench.recorder.phase_figures import PhaseRecord
from reusebench.recorder.phases import START, WHOLE, PhaseLog
from reusebench.recorder.program import RecordedProgram
from reusebench.recorder.recording import Recording
from reusebench.recorder.signals import SignalPipe
from reusebench.recorder.site import Site
from reusebench.samplers.control_groups import GroupWatch
from reusebench.samplers.system_memory import observe_idle, read_system
from reusebench.targets.errors import ConnectionLost

__all__ = ["SAMPLE_HZ", "record"]

#: Readings of RSS per second. `python -m benchmarks.recorder_overhead` measures what all readings
#: cost the program.
SAMPLE_HZ = 20
_S = 10**9
_MS = 10**6
_INTERVAL_NS = _S // SAMPLE_HZ
#: First gap between readings of RSS, which doubles up to the interval: a program that runs for
#: 20 ms has figures too.
_FIRST_GAP_NS = 2 * _MS
#: Share of the time for readings of RSS, which are made less often if there are many processes.
_RSS_SHARE = 0.005
#: Time before the start in which the noise of the system's memory is read.
_IDLE_S = 0.3
#: Interval at which the recording so far is handed on to be stored; this also happens when a phase
#: has ended for the first time.
_KEEP_NS = 5 * _S
#: Time within which a program that waits for an answer reads it, on a busy machine too.
_WAIT_NS = 50 * _MS
#: Time within which a program must end after SIGTERM.
_LEAVE_NS = 5 * _S


def record(
    site: Site,
    start: Callable[[], RecordedProgram],
    marks: Marks,
    has_rknpu: bool,
    notify: Callable[[str], None],
    keep: Callable[[Recording], None],
    limit_s: float | None = None,
) -> Recording:
    """Record the program that `start` returns until it ends or the user ends the recording.

    After `limit_s` the program gets SIGTERM; if it does not end, it is killed.
    `notify` shows the user a sentence. `keep` stores the recording so far; it must be quick, since
    nothing is read meanwhile.
    """
    idle = observe_idle(site.host, _IDLE_S)
    idle_bytes = read_system(site.host).used_bytes
    idle_group = GroupWatch(site.host).read()
    with SignalPipe() as signals:
        program = start()
        try:
            marks.started()
            started_at = datetime.datetime.now(datetime.timezone.utc).isoformat()
            clocks = site.host.clocks()
            recording = Recording(started_at, clocks.time_ns, idle, idle_bytes)
            recording.idle_group = idle_group
            reader = MemoryReader(
                site.host, program, recording, clocks, has_rknpu, marks.are_possible
            )
            recorder = _Recorder(site, program, marks, signals, reader, recording, notify, keep)
            recorder.run(limit_s)
            return recording
        finally:
            program.close()


@dataclass(frozen=True)
class _EndingPhase:
    """A phase at whose mark memory was read, while the program may not have read the answer."""

    phase: PhaseRecord
    mark: MarkReading
    #: Time by which a program that waits has read the answer.
    decided_ns: int
    ends_for_first_time: bool


class _Recorder:
    """The loop of one recording: waits, handles signals and marks, and has memory read."""

    def __init__(
        self,
        site: Site,
        program: RecordedProgram,
        marks: Marks,
        signals: SignalPipe,
        reader: MemoryReader,
        recording: Recording,
        notify: Callable[[str], None],
        keep: Callable[[Recording], None],
    ) -> None:
        self._site = site
        self._program = program
        self._marks = marks
        self._signals = signals
        self._reader = reader
        self._recording = recording
        self._notify = notify
        self._keep = keep
        self._first_cpu_ns = reader.clocks.cpu_ns
        self._log = PhaseLog(recording.begin_ns)
        self._phases = {START: reader.phase}
        self._next_ns = recording.begin_ns
        self._gap_ns = _FIRST_GAP_NS
        self._keep_at_ns = recording.begin_ns + _KEEP_NS
        #: The phase that the latest mark ends, while it is open whether the program waits.
        self._ending: _EndingPhase | None = None
        self._interrupts = 0
        self._is_stopped = False
        #: Time to name the processes that the program has left behind; most end before.
        self._notify_at_ns: int | None = None
        self._has_notified = False
        #: Time at which the program is ended; None: never.
        self._cut_at_ns: int | None = None

    def run(self, limit_s: float | None) -> None:
        """Read until the end."""
        if limit_s is not None:
            self._cut_at_ns = self._recording.begin_ns + round(limit_s * _S)
        try:
            while not self._program.has_ended() and not self._is_stopped:
                self._turn()
            self._take_marks(self._reader.read_clocks())
            self._settle(self._reader.clocks.time_ns, is_final=True)
            self._reader.settle()
            if self._is_stopped:  # and the program runs on
                self._reader.read_at_mark(self._reader.read_clocks(), at_any_cost=True)
                self._reader.settle()
            self._reader.read_pressure()
        except ConnectionLost as error:
            self._recording.lost = str(error)
        self._end(self._reader.clocks.time_ns)

    def _end(self, end_ns: int) -> None:
        # A Ctrl-C may have ended the program before the signal was read here.
        for number in self._signals.read():
            self._note_signal(number)
        self._recording.ending = self._program.ending
        self._recording.cpu_ns = self._program.cpu_ns()
        self._recording.ledger = self._program.ledger()
        self._reader.phase.end(end_ns, peaks=None)
        self._add_peak_of_ended()
        self._update_recording(end_ns)
        self._recording.stretches = self._log.end(end_ns)
        add_buffers(self._recording)
        lost = self._marks.lost()
        if lost:
            self._notify(lost)
        driver = self._reader.untold_driver
        if driver is not None and self._recording.ledger is None:
            self._notify(
                f"the driver {driver} of this kernel tells no program's NPU memory, so it is not"
                " known; a ledger of its buffers has it (reusebench doctor)"
            )

    def _turn(self) -> None:
        """Wait for the next reading, signal or mark, and handle it."""
        self._wait()
        for number in self._signals.read():
            self._react(number)
        now_ns = self._reader.read_clocks()
        self._take_marks(now_ns)
        if now_ns >= self._next_ns:
            self._reader.read_due(now_ns)
            gap_ns = max(self._gap_ns, round(self._reader.rss_cost_ns / _RSS_SHARE))
            self._next_ns = max(self._next_ns + gap_ns, now_ns)
            self._gap_ns = min(2 * self._gap_ns, _INTERVAL_NS)
            self._take_marks(self._reader.clocks.time_ns)
        if self._program.has_left_processes() and not self._has_notified:
            self._name_left_processes(now_ns)
        if now_ns >= self._keep_at_ns:
            self._keep_so_far(now_ns)
        if self._is_time_over(now_ns):
            self._cut(now_ns)

    def _is_time_over(self, now_ns: int) -> bool:
        if self._cut_at_ns is None:
            return False
        has_left = self._recording.is_cut and self._program.has_left_processes()
        return has_left or now_ns >= self._cut_at_ns

    def _cut(self, now_ns: int) -> None:
        """Ask the program to end; kill it if it stays, and what it leaves behind."""
        self._cut_at_ns = now_ns + _LEAVE_NS
        if self._recording.is_cut or self._program.has_left_processes():
            self._reader.discover(now_ns)
            self._program.kill([process.pid for process in self._reader.live])
        else:
            self._program.send(signal.SIGTERM)
        self._recording.is_cut = True

    def _wait(self) -> None:
        until_ns = self._next_ns
        if self._ending:
            until_ns = min(until_ns, self._ending.decided_ns)
        remaining_ns = max(until_ns - self._reader.clocks.time_ns, 0)
        descriptors = [self._signals.descriptor]
        if self._marks.descriptor is not None:
            descriptors.append(self._marks.descriptor)
        self._site.wait(descriptors, remaining_ns / _S)

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
            self._reader.discover(self._reader.clocks.time_ns)
            self._program.kill([process.pid for process in self._reader.live])

    def _note_signal(self, number: int) -> None:
        """Note that the user has ended the program, if the signal means that."""
        if number != signal.SIGCHLD:
            self._recording.ended_by = self._recording.ended_by or number

    def _name_left_processes(self, now_ns: int) -> None:
        """Name once the processes that are still waited for, a second after the program's end."""
        if self._notify_at_ns is None:
            self._notify_at_ns = now_ns + _S
        if now_ns < self._notify_at_ns:
            return
        self._has_notified = True
        names = ", ".join(f"{process.name} ({process.pid})" for process in self._reader.live)
        self._notify(
            f"the program has ended and left processes behind: {names}. Ctrl-C ends the recording"
        )

    def _take_marks(self, now_ns: int) -> None:
        """Read memory at marks, and only then answer them."""
        names = self._marks.read()
        if not self._log.changes(names):
            self._reader.settle()
            for name in names:
                self._log.mark(name, now_ns)
            self._marks.answer()
            self._settle(now_ns)
            return

        self._settle(now_ns, is_final=True)
        ends_for_first_time = not self._reader.phase.has_ended
        mark = self._reader.read_at_mark(now_ns, at_any_cost=ends_for_first_time)
        decided_ns = self._reader.read_clocks() + _WAIT_NS
        for name in names:
            phase = self._reader.phase
            if not self._log.mark(name, now_ns):
                continue
            if self._ending:  # several marks at once: the program has not waited
                self._end_phase(self._ending, is_waiting=False)
                decided_ns = now_ns
            self._ending = _EndingPhase(phase, mark, decided_ns, ends_for_first_time)
            following = self._phases.setdefault(self._log.name, PhaseRecord())
            self._reader.begin_phase(following, mark)
        self._marks.answer()
        self._settle(now_ns)

    def _settle(self, now_ns: int, is_final: bool = False) -> None:
        """End the phase of the latest mark once it is known whether the program has waited.

        If `is_final`, a program that has not yet read the answer has not waited.
        """
        ending = self._ending
        if ending is None:
            return
        are_read: bool | None = False
        if ending.decided_ns > ending.mark.time_ns:
            are_read = self._marks.are_answers_read()
        is_late = is_final or now_ns >= ending.decided_ns
        if are_read is None and not is_late:
            return
        self._end_phase(ending, is_waiting=bool(are_read))
        if ending.ends_for_first_time:
            self._keep_so_far(now_ns)

    def _end_phase(self, ending: _EndingPhase, is_waiting: bool) -> None:
        self._ending = None
        if is_waiting:
            ending.mark.end_waiting(ending.phase)
            return
        ending.mark.end_passed(ending.phase)
        if ending.mark.unseen:
            self._reader.phase.began_unseen(ending.mark.unseen)

    def _keep_so_far(self, now_ns: int) -> None:
        self._reader.phase.go_on(now_ns)
        self._reader.read_pressure()
        self._update_recording(now_ns)
        self._keep(self._recording)
        self._keep_at_ns = now_ns + _KEEP_NS

    def _update_recording(self, now_ns: int) -> None:
        """Note in the recording everything that is not noted with each reading."""
        recording = self._recording
        recording.end_ns = now_ns
        recording.processes = self._reader.seen
        recording.phases = self._phases if self._log.is_marked else {WHOLE: self._reader.phase}
        recording.recorder_cpu_ns = self._reader.clocks.cpu_ns - self._first_cpu_ns

    def _add_peak_of_ended(self) -> None:
        """Add the kernel's peak of ended processes, if only one phase can have had it."""
        peak_bytes = self._program.peak_bytes()
        if peak_bytes and not self._log.is_marked:
            self._reader.phase.add_peak(0, peak_bytes)
            self._reader.phase.is_process_peak_exact = True
