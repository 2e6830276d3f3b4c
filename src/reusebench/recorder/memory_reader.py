"""Readings of a recorded program's memory: all kinds, each at its own pace."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from reusebench.recorder.pace import Pace
from reusebench.recorder.phase_figures import PhaseRecord
from reusebench.recorder.process_tree import Peaks, ProcessTree, SeenProcess
from reusebench.recorder.program import RecordedProgram
from reusebench.recorder.recording import Recording
from reusebench.samplers.control_groups import GroupWatch
from reusebench.samplers.evidence import Evidence
from reusebench.samplers.host import Clocks, Host
from reusebench.samplers.pressure import PressureWatch
from reusebench.samplers.system_memory import read_system

__all__ = ["MemoryReader"]

_S = 10**9
_MS = 10**6
#: Shares of the time that readings of PSS may take in CPU time: normally, and early in a phase.
#: PSS is read under the memory lock of the process, so the program may lose that time.
_PSS_SHARES = (0.002, 0.005)
#: The same shares for each other kind of reading.
_OTHER_SHARES = (0.001, 0.003)


class MemoryReader:
    """Reads all processes of a program into a recording and into the current phase."""

    def __init__(
        self,
        host: Host,
        program: RecordedProgram,
        recording: Recording,
        clocks: Clocks,
        has_npu: bool,
    ) -> None:
        """`recording` begins at the time of `clocks`, which is now."""
        self._host = host
        self._recording = recording
        #: The latest reading of the clocks.
        self.clocks = clocks
        now_ns = clocks.time_ns
        self._tree = ProcessTree(host, program.root, now_ns, program.with_root)
        #: Peaks of a program that was already running are not reset: it, or another tool, may read
        #: them.
        self._resets_peaks = not program.with_root
        if self._resets_peaks:
            self._tree.begin_phase(resets=False)
        else:
            self._tree.forget_peaks()

        #: The current phase.
        self.phase = PhaseRecord()
        self.phase.begin(now_ns, {})
        #: Key: kind; the readings since the last mark.
        self._since_mark: dict[str, int] = {}

        #: CPU time of the latest reading of RSS.
        self.rss_cost_ns = 0
        #: RSS at the latest reading: sum over all processes, and largest process.
        self._rss_sum_bytes = 0
        self._rss_largest_bytes = 0
        self._most_pss_bytes = 0
        self._most_swapped_bytes = 0
        self._pressure = PressureWatch(host, program.root)
        groups = GroupWatch(host, program.root)
        self._groups = groups if groups.read() else None
        self._discovery = Pace(5 * _MS, 500 * _MS, *_OTHER_SHARES)
        self._phase_readings = self._make_phase_readings(has_npu)

    def _make_phase_readings(self, has_npu: bool) -> list[tuple[Pace, Callable[[int], None]]]:
        """Return the readings that are made often at first in each phase."""
        readings: list[tuple[Pace, Callable[[int], None]]] = [
            (Pace(5 * _MS, 500 * _MS, *_PSS_SHARES), self._read_shares),
            (Pace(5 * _MS, 500 * _MS, *_OTHER_SHARES), self._read_system),
        ]
        if has_npu:
            readings.append((Pace(20 * _MS, _S, *_OTHER_SHARES), self._read_npu))
        # Memory at the very start is not typical of the program.
        for pace, _ in readings:
            pace.restart(self.clocks.time_ns)
        return readings

    @property
    def seen(self) -> list[SeenProcess]:
        """All processes that were seen."""
        return self._tree.seen

    @property
    def live(self) -> list[SeenProcess]:
        """The processes that were alive at the last reading."""
        return self._tree.live

    def read_clocks(self) -> int:
        """Read the clocks, and return the time."""
        self.clocks = self._host.clocks()
        return self.clocks.time_ns

    def begin_phase(self, phase: PhaseRecord, now_ns: int) -> None:
        """Make `phase` the current phase; the readings since the mark are also its first."""
        self.phase = phase
        phase.begin(now_ns, self._since_mark)
        phase.add_peak(self._rss_sum_bytes, self._rss_largest_bytes)

    def read_due(self, now_ns: int) -> None:
        """Read RSS, and make the other readings that are due."""
        if self._discovery.is_due(now_ns):
            self._read_with_pace(self._discovery, self._discover_and_read_peaks, now_ns)
        self._read_rss(now_ns)
        for pace, read in self._phase_readings:
            if pace.is_due(now_ns):
                self._read_with_pace(pace, read, now_ns)

    def read_at_mark(self, now_ns: int, at_any_cost: bool) -> Peaks | None:
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

        cpu_before_ns = self.clocks.cpu_ns
        known_count = len(self._tree.seen)
        self._tree.discover(now_ns)
        if len(self._tree.seen) > known_count:
            self._read_rss(now_ns)
            self._read_shares(now_ns)
        peaks = self._read_peaks()
        if self._resets_peaks:
            self._tree.begin_phase(resets=True)
        self._discovery.taken(self.read_clocks(), self.clocks.cpu_ns - cpu_before_ns)
        return peaks

    def read_pressure(self) -> None:
        """Update the recording's evidence of short memory."""
        counted = self._pressure.read()
        self._recording.evidence = Evidence(
            # These are faults of the root, which usually is no process of the program.
            counted=msgspec.structs.replace(counted, major_faults=None),
            elapsed_ns=self.read_clocks() - self._recording.begin_ns,
            pss_bytes=self._most_pss_bytes,
            swapped_bytes=self._most_swapped_bytes,
        )

    def discover(self, now_ns: int) -> None:
        """Look for new processes."""
        self._tree.discover(now_ns)

    def _read_with_pace(self, pace: Pace, read: Callable[[int], None], now_ns: int) -> None:
        """Make a reading, and tell the pace its cost."""
        cpu_before_ns = self.clocks.cpu_ns
        read(now_ns)
        pace.taken(self.read_clocks(), self.clocks.cpu_ns - cpu_before_ns)

    def _discover_and_read_peaks(self, now_ns: int) -> None:
        self._tree.discover(now_ns)
        self._read_peaks()

    def _read_peaks(self) -> Peaks:
        peaks = self._tree.read_peaks()
        if peaks.largest_bytes:
            self.phase.add_peak(0, peaks.largest_bytes)
        return peaks

    def _read_rss(self, now_ns: int) -> None:
        cpu_before_ns = self.clocks.cpu_ns
        sum_bytes, largest_bytes = self._tree.sample(now_ns)
        self.read_clocks()
        self.rss_cost_ns = self.clocks.cpu_ns - cpu_before_ns
        self._rss_sum_bytes = sum_bytes
        self._rss_largest_bytes = largest_bytes
        if sum_bytes:
            self._recording.rss_count += 1
            self._recording.rss.add(now_ns, sum_bytes)
            self._add_to_phase("application_rss", sum_bytes, now_ns)
            self.phase.add_peak(sum_bytes, largest_bytes)

    def _read_system(self, now_ns: int) -> None:
        used_bytes = read_system(self._host).used_bytes
        self._recording.system.add(now_ns, used_bytes)
        self._add_to_phase("system_memory", used_bytes, now_ns)
        group = self._groups.read() if self._groups else None
        most = self._recording.most_group
        if group and (most is None or group.counted_bytes > most.counted_bytes):
            self._recording.most_group = group

    def _read_shares(self, now_ns: int) -> None:
        try:
            shares = self._tree.read_shares()
        except PermissionError:
            self._forget("application_memory", "application_uss")
            return
        if shares:
            self._recording.pss.add(now_ns, shares.pss_bytes)
            self._add_to_phase("application_memory", shares.pss_bytes, now_ns)
            self._add_to_phase("application_uss", shares.uss_bytes, now_ns)
            self._most_pss_bytes = max(self._most_pss_bytes, shares.pss_bytes)
            self._most_swapped_bytes = max(self._most_swapped_bytes, shares.swap_bytes)

    def _read_npu(self, now_ns: int) -> None:
        try:
            size_bytes = self._tree.read_dmabufs()
        except PermissionError:
            self._forget("npu_memory")
            return
        if size_bytes is not None:
            self._recording.npu.add(now_ns, size_bytes)
            self._add_to_phase("npu_memory", size_bytes, now_ns)

    def _add_to_phase(self, kind: str, value: int, now_ns: int) -> None:
        self.phase.add(kind, value, now_ns)
        self._since_mark[kind] = value

    def _forget(self, *kinds: str) -> None:
        """Drop the phase's readings, which are of a time when the program could still be read."""
        for kind in kinds:
            self.phase.forget(kind)
            self._since_mark.pop(kind, None)
