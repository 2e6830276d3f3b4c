"""NPU memory of a recording, by the ledger of its program."""

from __future__ import annotations

from reusebench.accounting.ledger import Buffer, Ledger
from reusebench.recorder.npu_buffers import add_buffers
from reusebench.recorder.phase_figures import PhaseRecord
from reusebench.recorder.phases import Stretch
from reusebench.recorder.recording import Recording
from reusebench.samplers.system_memory import Idle


def _recording(*buffers: tuple[int, int, int | None]) -> Recording:
    """Return a recording from 0 to 100 with a mark at 40, and with buffers: size, birth, death."""
    recording = Recording("", 0, Idle(0, 0.0), 0)
    recording.stretches = [Stretch("load", 0, 40), Stretch("steady", 40, 100)]
    recording.phases = {"load": PhaseRecord(), "steady": PhaseRecord()}
    made = {}
    for number, (size_bytes, born_ns, died_ns) in enumerate(buffers, 1):
        made[number] = Buffer(number, size_bytes, size_bytes, 0, "rknpu", born_ns, died_ns=died_ns)
    recording.ledger = Ledger(made, mode="virtual")
    return recording


def test_each_phase_has_the_buffers_of_its_time() -> None:
    """A phase begins with the buffers that are there; its median is weighted by time."""
    recording = _recording((8, 10, None), (100, 20, 30), (4, 90, None))
    add_buffers(recording)
    load, steady = [phase.readings["npu_memory"] for phase in recording.phases.values()]
    assert (load.highest_bytes, load.last_bytes, load.median()) == (108, 8, 8)
    assert (steady.highest_bytes, steady.last_bytes, steady.median()) == (12, 12, 8)
    assert max(recording.npu.values) == 108


def test_a_program_without_a_ledger_has_no_figure() -> None:
    """Without a ledger the recording stays as it is."""
    recording = _recording()
    recording.ledger = None
    add_buffers(recording)
    assert recording.phases["load"].readings["npu_memory"].last_bytes is None
