"""Figures that the recorder adds when a program has ended."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from reusebench.accounting.ledger import Ledger
from reusebench.recorder import memory_reader, process_tree, recorder
from reusebench.recorder.marks import Marks
from reusebench.recorder.program import ProgramEnding, Start
from reusebench.recorder.recorder import record
from reusebench.recorder.recording import Recording
from reusebench.recorder.site import LOCAL_SITE
from reusebench.recorder.stored_form import stored_repeat
from reusebench.samplers.npu.drm_clients import DrmMemory, drm_memory
from reusebench.samplers.npu.mainline import MainlineNpu
from tests.helpers.support import known
from tests.recorder.alone import alone

pytestmark = pytest.mark.process


class _Ended:
    """A program that has ended at once; the kernel has counted the highest RSS of its processes."""

    with_root = False
    shares_terminal = True
    ending = ProgramEnding(exit_code=0)

    def __init__(self, root: int) -> None:
        self.root = root

    def has_ended(self) -> bool:
        return True

    def has_left_processes(self) -> bool:
        return True

    def peak_bytes(self) -> int | None:
        return 7

    def cpu_ns(self) -> int | None:
        return 5

    def ledger(self) -> Ledger | None:
        return None

    def send(self, number: int) -> None:
        pytest.fail(f"signal {number}")

    def kill(self, pids: Iterable[int]) -> None:
        pytest.fail(f"killed {pids}")

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("names", "peak"), [([], 7), (["load"], None)])
def test_the_peak_of_ended_processes(
    monkeypatch: pytest.MonkeyPatch, names: list[str], peak: int | None
) -> None:
    """An unseen spike belongs to the only phase; if there are several, its phase is unknown."""
    monkeypatch.setattr(Marks, "read", lambda _: names)
    # This process is not used as root: it may have children of other tests.
    with subprocess.Popen(["sleep", "1000"]) as root:
        recording = record(
            LOCAL_SITE,
            lambda: _Ended(root.pid),
            Marks(),
            has_rknpu=False,
            notify=pytest.fail,
            keep=lambda _: None,
        )
        root.kill()
    *_, last = recording.phases.values()
    assert last.process_peak_bytes == peak
    assert last.is_process_peak_exact is (peak is not None)
    assert last.peak_at_most_bytes() is None  # the bound of the sum
    assert len(recording.stretches) == 1 + len(names)


def test_what_is_known_of_short_memory() -> None:
    """Major faults are the root's, and are not reported; missing readings are no sign."""
    with subprocess.Popen(["sleep", "1000"]) as root:
        recording = record(
            LOCAL_SITE,
            lambda: _Ended(root.pid),
            Marks(),
            has_rknpu=False,
            notify=pytest.fail,
            keep=lambda _: None,
        )
        root.kill()
    shortage = known(stored_repeat(recording, trace="").shortage)
    assert shortage.counted.major_faults is None
    assert (shortage.lost_file_bytes, shortage.steady_major_faults) == (None, None)
    assert "shortage_swapped" not in [sign.code for sign in shortage.signs]


def _fail(words: str) -> None:
    raise AssertionError(words)


def _record(
    words: list[str], output: Path, limit_s: float | None, leave_ns: int | None
) -> Recording:
    if leave_ns is not None:
        recorder._LEAVE_NS = leave_ns
    start = Start({"WORD": "set"}, output)
    return record(
        LOCAL_SITE,
        lambda: LOCAL_SITE.start(words, Marks(), start),
        Marks(),
        has_rknpu=False,
        notify=_fail,
        keep=lambda _: None,
        limit_s=limit_s,
    )


def _recorded(
    words: list[str], output: Path, limit_s: float | None = None, leave_ns: int | None = None
) -> Recording:
    recording: Recording = alone(_record, words, output, limit_s, leave_ns)
    return recording


def test_a_start_with_variables_and_a_file_for_its_output(tmp_path: Path) -> None:
    """The program has the variables, its output is in the file, and its CPU time is counted."""
    output = tmp_path / "output"
    loop = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; echo $WORD"
    recording = _recorded(["sh", "-c", loop], output)
    assert output.read_text() == "set\n"
    assert known(recording.cpu_ns) > 0
    assert not recording.is_cut


@pytest.mark.parametrize("ignored", ["", "trap '' TERM; "])
def test_a_program_whose_time_is_over(ignored: str, tmp_path: Path) -> None:
    """It gets SIGTERM, and is killed with all that it has started if it stays."""
    words = ["sh", "-c", f"{ignored}sleep 1000 & wait; wait"]
    recording = _recorded(words, tmp_path / "output", limit_s=0.1, leave_ns=10**8)
    expected = signal.SIGKILL if ignored else signal.SIGTERM
    assert recording.ending.signal_number == expected
    assert recording.is_cut


def _record_on_mainline(output: Path, total_bytes: int | None) -> tuple[Recording, list[str]]:
    """Record a program that has the node of an NPU open; return what the user was told, too."""
    words = ["sh", "-c", "exec 5> /dev/null; sleep 1"]
    npus = [MainlineNpu("rocket", "/dev/null")]
    memory = Mock(side_effect=drm_memory)
    if total_bytes is not None:
        memory = Mock(return_value=DrmMemory(total_bytes, None, None))
    notices: list[str] = []
    finds_npus = patch.object(memory_reader, "mainline_npus", return_value=npus)
    with finds_npus, patch.object(process_tree, "drm_memory", memory):
        recording = record(
            LOCAL_SITE,
            lambda: LOCAL_SITE.start(words, Marks(), Start({}, output)),
            Marks(),
            has_rknpu=False,
            notify=notices.append,
            keep=lambda _: None,
        )
    return recording, notices


def test_a_driver_that_tells_nothing(tmp_path: Path) -> None:
    """NPU memory is unknown, not 0, and the user is told why; dma-bufs are another figure."""
    recording, notices = alone(_record_on_mainline, tmp_path / "output", None)
    (phase,) = recording.phases.values()
    assert phase.readings["npu_memory"].highest_bytes is None
    assert phase.readings["dmabuf_memory"].highest_bytes == 0
    (notice,) = notices
    assert "the driver rocket of this kernel tells no program's NPU memory" in notice


def test_a_driver_that_tells_its_memory(tmp_path: Path) -> None:
    """The NPU memory of the program is what the driver shows."""
    recording, notices = alone(_record_on_mainline, tmp_path / "output", 4096)
    (phase,) = recording.phases.values()
    assert phase.readings["npu_memory"].highest_bytes == 4096
    assert notices == []
