"""Figures that the recorder adds when a program has ended."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

import pytest

from reusebench.recorder.marks import Marks
from reusebench.recorder.program import ProgramEnding
from reusebench.recorder.recorder import record
from reusebench.recorder.site import LOCAL_SITE
from reusebench.recorder.stored_form import stored_repeat
from tests.helpers.support import known

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
            has_npu=False,
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
            has_npu=False,
            notify=pytest.fail,
            keep=lambda _: None,
        )
        root.kill()
    shortage = known(stored_repeat(recording, trace="").shortage)
    assert shortage.counted.major_faults is None
    assert (shortage.lost_file_bytes, shortage.steady_major_faults) == (None, None)
    assert "shortage_swapped" not in [sign.code for sign in shortage.signs]
