"""Readings of a recorded program's memory: all kinds, each at its own pace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from reusebench.recorder.mark_readings import Batch, Known, MarkReading
from reusebench.recorder.moments import Moment
from reusebench.recorder.pace import Pace
from reusebench.recorder.phase_figures import PhaseRecord
from reusebench.recorder.process_tree import Peaks, ProcessTree, SeenProcess
from reusebench.recorder.program import RecordedProgram
from reusebench.recorder.recording import Recording
from reusebench.samplers.control_groups import GroupWatch
from reusebench.samplers.evidence import Evidence, available_share
from reusebench.samplers.host import Clocks, Host
from reusebench.samplers.npu import mainline_npus
from reusebench.samplers.oom_watch import OomWatch
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
#: The same shares for the kernel's counters, which bound what happens at a mark.
_COUNTER_SHARES = (0.003, 0.005)


class MemoryReader:
    """Reads all processes of a program into a recording and into the current phase."""

    def __init__(
        self,
        host: Host,
        program: RecordedProgram,
        recording: Recording,
        clocks: Clocks,
        has_rknpu: bool,
        has_marks: bool,
    ) -> None:
        """`recording` begins at the time of `clocks`, which is now.

        `has_rknpu` tells whether dma-bufs are NPU memory, `has_marks` whether the program can mark
        phases.
        """
        self._host = host
        self._recording = recording
        #: The latest reading of the clocks.
        self.clocks = clocks
        now_ns = clocks.time_ns
        self._tree = ProcessTree(host, program.root, now_ns, program.with_root)
        #: Peaks of a program that was already running are not reset: it, or another tool, may read
        #: them.
        self._resets_peaks = not program.with_root
        self._moment = self._tree.begin_phase(now_ns, resets=False)
        if not self._resets_peaks:
            self._tree.forget_peaks()

        #: The current phase.
        self.phase = PhaseRecord()
        self.phase.begin(now_ns)
        #: Readings since the last look for marks.
        self._batch = Batch()
        #: The latest counters with shares of memory, and those of them that precede any mark.
        self._latest: Known | None = None
        self._known: Known | None = None
        #: The counters when peaks began anew, if `_known` is earlier.
        self._before_reset: Moment | None = None
        self._has_marks = has_marks

        #: CPU time of the latest reading of RSS.
        self.rss_cost_ns = 0
        self._most_pss_bytes = 0
        self._most_swapped_bytes = 0
        self._least_available_share = 1.0
        self._pressure = PressureWatch(host, program.root)
        self._oom_watch = OomWatch(host, program.root)
        groups = GroupWatch(host, program.root)
        self._groups = groups if groups.read() else None
        self._discovery = Pace(5 * _MS, 500 * _MS, *_OTHER_SHARES)
        self._counters = Pace(5 * _MS, 50 * _MS, *_COUNTER_SHARES)
        self._shares = Pace(5 * _MS, 500 * _MS, *_PSS_SHARES)
        #: The figure that has the dma-bufs of the processes.
        self._dmabuf_kind = "npu_memory" if has_rknpu else "dmabuf_memory"
        #: NPUs whose buffers are no dma-bufs.
        self._drm_npus = [] if has_rknpu else mainline_npus(host)
        #: Driver of an NPU that the program used, if it does not tell the memory.
        self.untold_driver: str | None = None
        self._phase_readings = self._make_phase_readings()

    def _make_phase_readings(self) -> list[tuple[Pace, Callable[[int], None]]]:
        """Return the readings that are made often at first in each phase."""
        readings: list[tuple[Pace, Callable[[int], None]]] = [
            (self._shares, self._read_shares),
            (Pace(5 * _MS, 500 * _MS, *_OTHER_SHARES), self._read_system),
            (Pace(20 * _MS, _S, *_OTHER_SHARES), self._read_held),
            (Pace(20 * _MS, _S, *_OTHER_SHARES), self._read_dmabufs),
        ]
        if self._drm_npus:
            readings.append((Pace(20 * _MS, _S, *_OTHER_SHARES), self._read_drm))
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

    def settle(self) -> None:
        """Make all readings part of the current phase: no mark has come meanwhile."""
        self._batch.add_to(self.phase)
        self._batch = Batch()
        self._known = self._latest
        self._before_reset = None

    def begin_phase(self, phase: PhaseRecord, mark: MarkReading) -> None:
        """Make `phase` the current phase; the readings at the mark are also its first."""
        self.phase = phase
        phase.begin(mark.time_ns)
        self._batch = mark.at_mark

    def read_due(self, now_ns: int) -> None:
        """Read RSS, and make the other readings that are due."""
        if self._discovery.is_due(now_ns):
            self._read_with_pace(self._discovery, self._discover_and_read_peaks, now_ns)
        self._read_rss(now_ns)
        if self._has_marks and self._counters.is_due(now_ns):
            self._read_with_pace(self._counters, self._read_peaks, now_ns)
        for pace, read in self._phase_readings:
            if pace.is_due(now_ns):
                self._read_with_pace(pace, read, now_ns)

    def read_at_mark(self, now_ns: int, at_any_cost: bool) -> MarkReading:
        """Make all readings that can be afforded, first those that the running program may change.

        The kernel's peaks begin anew if they could be afforded.
        """
        unassigned = self._batch
        self._batch = Batch()
        known = self._known
        affords_peaks = at_any_cost or self._discovery.affords(now_ns)
        at_mark = self._moment
        largest_bytes = 0
        if affords_peaks:
            at_mark, peaks = self._tree.read_moment(now_ns)
            largest_bytes = peaks.largest_bytes
            self._note_moment(at_mark)
            at_mark = at_mark.since(self._before_reset)
        self._read_rss(now_ns)
        for pace, read in self._phase_readings:
            if at_any_cost or pace.affords(now_ns):
                self._read_with_pace(pace, read, now_ns)
            pace.restart(now_ns)
        if not affords_peaks:
            return MarkReading(now_ns, None, None, unassigned, self._batch)

        cpu_before_ns = self.clocks.cpu_ns
        known_count = len(self._tree.seen)
        self._tree.discover(now_ns)
        until, peaks = self._tree.read_moment(now_ns)
        peaks = Peaks(max(largest_bytes, peaks.largest_bytes), peaks.sum_bytes)
        if len(self._tree.seen) > known_count:
            self._note_moment(until)
            self._read_rss(now_ns)
            self._read_shares(now_ns)
        if self._resets_peaks:
            self._note_moment(self._tree.begin_phase(now_ns, resets=True))
        until = until.since(self._before_reset)
        self._before_reset = until
        self._counters.restart(now_ns)
        self._discovery.taken(self.read_clocks(), self.clocks.cpu_ns - cpu_before_ns)
        passed = None
        if known and self._latest:
            huge_bytes = self._latest.huge_bytes
            passed = known.passed(at_mark, until, self._host.page_bytes, huge_bytes)
        return MarkReading(now_ns, peaks, passed, unassigned, self._batch)

    def read_pressure(self) -> None:
        """Update the recording's evidence of short memory."""
        counted = self._pressure.read()
        self._recording.oom_kills = self._oom_watch.read() or self._recording.oom_kills
        self._recording.evidence = Evidence(
            # These are faults of the root, which usually is no process of the program.
            counted=msgspec.structs.replace(counted, major_faults=None),
            elapsed_ns=self.read_clocks() - self._recording.begin_ns,
            pss_bytes=self._most_pss_bytes,
            swapped_bytes=self._most_swapped_bytes,
            least_available_share=self._least_available_share,
            is_limited=self._groups is not None,
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
        self._read_peaks(now_ns)

    def _read_peaks(self, now_ns: int) -> None:
        moment, peaks = self._tree.read_moment(now_ns)
        if peaks.largest_bytes:
            self._batch.add_peak(0, peaks.largest_bytes)
        self._note_moment(moment)

    def _note_moment(self, moment: Moment) -> None:
        self._moment = moment
        if self._latest:
            self._latest = replace(self._latest, moment=moment)

    def _read_rss(self, now_ns: int) -> None:
        cpu_before_ns = self.clocks.cpu_ns
        sum_bytes, largest_bytes = self._tree.sample(now_ns)
        self.read_clocks()
        self.rss_cost_ns = self.clocks.cpu_ns - cpu_before_ns
        if sum_bytes:
            self._recording.rss_count += 1
            self._recording.rss.add(now_ns, sum_bytes)
            self._add("application_rss", sum_bytes, now_ns)
            self._batch.add_peak(sum_bytes, largest_bytes)

    def _read_system(self, now_ns: int) -> None:
        system = read_system(self._host)
        used_bytes = system.used_bytes
        self._recording.system.add(now_ns, used_bytes)
        self._add("system_memory", used_bytes, now_ns)
        group = self._groups.read() if self._groups else None
        share = available_share(system, group)
        self._least_available_share = min(self._least_available_share, share)
        most = self._recording.most_group
        if group and (most is None or group.counted_bytes > most.counted_bytes):
            self._recording.most_group = group

    def _read_shares(self, now_ns: int) -> None:
        try:
            shares, ending_bytes = self._tree.read_shares()
        except PermissionError:
            self._forget("application_memory", "application_uss")
            self._latest = None
            self._known = None
            return
        if not shares:
            return
        pss_bytes = sum(share.pss_bytes for share in shares.values())
        uss_bytes = sum(share.uss_bytes for share in shares.values())
        swapped_bytes = sum(share.swap_bytes for share in shares.values())
        self._recording.pss.add(now_ns, pss_bytes)
        self._add("application_memory", pss_bytes, now_ns)
        self._add("application_uss", uss_bytes, now_ns)
        self._add("hugetlb_memory", self._tree.hugetlb_bytes(shares), now_ns)
        if len(shares) == len(self._tree.live):
            # The kernel's counter lags behind by some pages of each CPU; these are the pages.
            rss_bytes = sum(share.rss_bytes for share in shares.values())
            self._add("application_rss", rss_bytes, now_ns)
        self._latest = Known(self._moment, self._moment, shares, ending_bytes)
        self._most_pss_bytes = max(self._most_pss_bytes, pss_bytes)
        self._most_swapped_bytes = max(self._most_swapped_bytes, swapped_bytes)

    def _read_held(self, now_ns: int) -> None:
        try:
            held = self._tree.read_held()
        except PermissionError:
            self._forget("held_memory")
            return
        if held is None:
            return
        self._recording.most_uncounted = max(self._recording.most_uncounted or 0, held.uncounted)
        if held.file_bytes is not None:
            self._add("held_memory", held.file_bytes, now_ns)

    def _read_dmabufs(self, now_ns: int) -> None:
        kind = self._dmabuf_kind
        try:
            size_bytes = self._tree.read_dmabufs()
        except PermissionError:
            self._forget(kind)
            return
        if size_bytes is not None:
            if kind == "npu_memory":
                self._recording.npu.add(now_ns, size_bytes)
            self._add(kind, size_bytes, now_ns)

    def _read_drm(self, now_ns: int) -> None:
        """Read the buffers of NPUs with drivers of mainline Linux, unless a driver is silent."""
        if self.untold_driver is not None:
            return
        try:
            memory = self._tree.read_drm([npu.node for npu in self._drm_npus])
        except ProcessLookupError:
            return
        except PermissionError:
            self._forget("npu_memory")
            return
        if memory is None:
            self.untold_driver = self._drm_npus[0].driver
            self._forget("npu_memory")
            return
        self._recording.npu.add(now_ns, memory.total_bytes)
        self._add("npu_memory", memory.total_bytes, now_ns)

    def _add(self, kind: str, value: int, now_ns: int) -> None:
        self._batch.readings.append((kind, value, now_ns))

    def _forget(self, *kinds: str) -> None:
        """Drop the phase's readings, which are of a time when the program could still be read."""
        for kind in kinds:
            self.phase.forget(kind)
            self._batch.forget(kind)
