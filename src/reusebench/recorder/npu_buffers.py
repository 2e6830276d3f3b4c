"""NPU memory of a recording whose program keeps a ledger: exact at every time, also in between."""

from __future__ import annotations

from collections.abc import Sequence

from reusebench.recorder.phase_figures import WeightedReadings
from reusebench.recorder.phases import Stretch
from reusebench.recorder.recording import Recording

__all__ = ["add_buffers"]

#: Time, and the size of all buffers from then on.
_Step = tuple[int, int]


def add_buffers(recording: Recording) -> None:
    """Add the sizes in the ledger to the recording and to its phases, if there is a ledger."""
    if recording.ledger is None:
        return
    steps = [(recording.begin_ns, 0), *recording.ledger.timeline()]
    for at_ns, size_bytes in steps:
        recording.npu.add(at_ns, size_bytes)
    for stretch in recording.stretches:
        _add_stretch(recording.phases[stretch.name].readings["npu_memory"], stretch, steps)


def _add_stretch(readings: WeightedReadings, stretch: Stretch, steps: Sequence[_Step]) -> None:
    """Add the size at the beginning of the stretch, and the sizes before and after each change."""
    size_bytes = 0
    within = []
    for at_ns, new_bytes in steps:
        if at_ns <= stretch.begin_ns:
            size_bytes = new_bytes
        elif at_ns <= stretch.end_ns:
            within.append((at_ns, new_bytes))

    readings.begin(stretch.begin_ns)
    readings.add(size_bytes, stretch.begin_ns)
    for at_ns, new_bytes in within:
        readings.add(size_bytes, at_ns)
        readings.add(new_bytes, at_ns)
        size_bytes = new_bytes
    readings.end(stretch.end_ns)
