"""The printed summary of a recording."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from reusebench.measured.messages import Message
from reusebench.recorder.summary import print_figures, print_summary
from reusebench.storage.measured_figure import DOUBT
from tests.reports.stored import MIB
from tests.reports.stored_programs import Repeat, program


def test_memory_that_no_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """It has columns and lines if there is any, and neither otherwise."""
    with_rare = program("pipeline", [Repeat({"run": 20}, rare=64, uncounted=300)])
    print_summary(with_rare, Path("run.json"), Path("storage"))
    printed = capsys.readouterr().err
    for words in (
        "files held",
        "pipeline: it holds 64.0 MiB of huge pages",
        "pipeline: it holds 64.0 MiB of files in memory",
        "pipeline: it holds 64.0 MiB of dma-bufs",
        "pipeline: it has 300 pipes",
    ):
        assert words in printed
    for uncounted in (None, 2):
        plain = program("pipeline", [Repeat({"run": 20}, uncounted=uncounted)])
        print_summary(plain, Path("run.json"), Path("storage"))
        printed = capsys.readouterr().err
        assert "held" not in printed
        assert "it has" not in printed


@pytest.mark.parametrize("is_short", [False, True])
def test_short_memory(is_short: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence gives the reason; all figures are marked except those of an NPU."""
    signs = (Message("shortage_swapped", {"mib": "5.0"}),) if is_short else ()
    print_summary(
        program("pipeline", [Repeat({"run": 20}, npu=True, signs=signs)]),
        Path("run.json"),
        Path("storage"),
    )
    printed = capsys.readouterr().err
    (row,) = (line for line in printed.splitlines() if line.startswith("run "))
    assert row.count(DOUBT) == (5 if is_short else 0)
    assert not row.endswith(DOUBT)
    assert (
        ("MEMORY WAS SHORT" in printed)
        is ("5.0 MiB of its memory were swapped out" in printed)
        is is_short
    )


def test_killed_processes_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The program itself may have ended well."""
    made = program("pipeline", [Repeat({"run": 20})], "out_of_memory")
    repeat = replace(made.repeats[0], oom_kills=2, oom_kills_of="cgroup")
    print_figures(replace(made, repeats=(repeat,)))
    printed = capsys.readouterr().err
    assert printed.startswith("pipeline: exit code 0\n")
    assert "that the kernel killed for memory meanwhile: 2" in printed


def test_the_range_of_memory_at_a_passed_mark(capsys: pytest.CaptureFixture[str]) -> None:
    """Bounds that are farther away than the error stand in brackets, and a sentence says why."""
    made = program("pipeline", [Repeat({"load": 200, "steady": 100})])
    phases = []
    for phase, least in zip(made.phases, (199 * MIB, 40 * MIB)):
        memory = replace(phase.memory, application_memory_at_least_bytes=(least,))
        phases.append(replace(phase, memory=memory))
    print_summary(replace(made, phases=tuple(phases)), Path("run.json"), Path("storage"))
    printed = capsys.readouterr().err
    load, steady = (line for line in printed.splitlines() if line.startswith(("load", "steady")))
    assert "(" not in load
    assert "100.0 (40.0 ... 100.0)" in steady
    assert "in brackets" in printed


def test_the_age_of_a_last_reading(capsys: pytest.CaptureFixture[str]) -> None:
    """Memory that nobody read at the end of the phase says how long before it was read."""
    made = program("pipeline", [Repeat({"load": 200, "end": 100})])
    load, end = made.phases
    memory = replace(end.memory, application_memory_at_least_bytes=(None,))
    end = replace(end, memory=memory, reading_ages_ns=(310_000_000,))
    print_summary(replace(made, phases=(load, end)), Path("run.json"), Path("storage"))
    printed = capsys.readouterr().err
    load_line, end_line = (
        line for line in printed.splitlines() if line.startswith(("load", "end"))
    )
    assert "before" not in load_line
    assert "100.0 (0.31 s before)" in end_line


@pytest.mark.parametrize(
    ("mib", "moved", "is_hidden"),
    [
        ((20,), (0,), False),
        ((20, 20, 20), (0, 2, -2), False),
        # Its driver may have taken the rest.
        ((20,), (60,), False),
        # Another program gave back more than this one took, or took and gave back.
        ((20,), (-45,), True),
        ((20, 20, 20), (0, 25, -25), True),
    ],
)
def test_system_memory_that_noise_hides(
    mib: tuple[int, ...],
    moved: tuple[int, ...],
    is_hidden: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It has no column if other programs moved it by more, and a sentence says so."""
    made = program("pipeline", [Repeat({"run": size}) for size in mib])
    (phase,) = made.phases
    system = tuple((size + other) * MIB for size, other in zip(mib, moved))
    memory = replace(phase.memory, system_memory_over_idle_bytes=system)
    print_figures(replace(made, phases=(replace(phase, memory=memory),)))
    printed = capsys.readouterr().err
    assert ("system over idle" not in printed) is is_hidden
    assert ("system memory is left out" in printed) is is_hidden
