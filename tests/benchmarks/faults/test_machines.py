"""The campaign `machines` notices wrong ends; its wrong clock is only the wall clock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.faults import machines
from benchmarks.faults.machines import FALSE_CLOCK, Machine, Machines
from benchmarks.faults.samples import Samples
from benchmarks.faults.sandbox import compile_preloaded
from benchmarks.faults.trial import Answer, Kind, Trial
from reusebench.targets.compilers import find_compiler
from reusebench.targets.rknn_library import architecture_of_this_python

pytestmark = pytest.mark.process

#: Prints two readings of the wall clock, and the time between them on the monotonic clock.
_CLOCKS = """
import time
before = time.monotonic()
print(time.time(), time.time(), time.monotonic() - before)
"""


@pytest.mark.parametrize(
    ("machine", "answer", "kinds"),
    [
        (Machine("nothing odd"), Answer.SURVIVED, set()),
        (Machine("another exit code", '"$@"; exit 7'), Answer.REFUSED, {Kind.FALSE}),
        (
            Machine("no word", '"$@" >/dev/null; exit 2', codes={"doctor": (2,)}),
            Answer.REFUSED,
            {Kind.FALSE},
        ),
        (Machine("what is not here", "exec /none"), Answer.PASSED_OVER, set()),
    ],
    ids=lambda value: value.name if isinstance(value, Machine) else "",
)
def test_what_is_wrong_on_a_machine_is_noticed(
    samples: Samples,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    machine: Machine,
    answer: Answer,
    kinds: set[Kind],
) -> None:
    """An unexpected exit code, or one without a message, is wrong; some machines are skipped."""
    monkeypatch.setattr(machines, "MACHINES", (machine,))
    trial: Trial = Machines(samples, 0, tmp_path / "keep").try_input(0, tmp_path / "worker")
    assert (trial.answer, {wrong.kind for wrong in trial.wrongs}) == (
        answer,
        kinds,
    ), trial.in_words()


def test_the_false_clock_is_that_of_the_day(tmp_path: Path) -> None:
    """The wall clock jumps at each reading; the monotonic clock does not."""
    if find_compiler(architecture_of_this_python() or "") is None:
        pytest.skip("no C compiler (Debian: apt install gcc)")
    library = compile_preloaded(FALSE_CLOCK, tmp_path)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "FAULTS_CLOCK_S": "90000",
        "FAULTS_JUMP_S": "1000",
    }
    done = subprocess.run(
        [sys.executable, "-c", _CLOCKS], env=environment, capture_output=True, text=True, check=True
    )
    first_s, second_s, passed_s = map(float, done.stdout.split())
    assert abs(second_s - first_s) == pytest.approx(1000, abs=90)
    assert 90_000 <= min(first_s, second_s) < 91_000
    assert 0 <= passed_s < 90
