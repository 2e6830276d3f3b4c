"""Recorded programs in the report."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from reusebench.measured.messages import Message
from reusebench.reports.base.texts import texts_of
from reusebench.reports.material import read_material
from reusebench.reports.results.colours import OTHER_COLOUR, PROGRAM_PHASE_COLOURS
from reusebench.reports.results.programs import programs_in
from reusebench.reports.sections.programs import (
    processes_table,
    program_records,
    program_remarks,
    program_warnings,
    programs_figure,
    programs_table,
)
from reusebench.storage.measured_figure import DOUBT
from reusebench.storage.run_file import PROGRAMS
from tests.helpers.support import Reusebench
from tests.reports.page.test_exported_tables import rows_of
from tests.reports.pages import plain as without_marks
from tests.reports.stored import MIB, even, result, runs_of, write_run
from tests.reports.stored_programs import Repeat, program, trace, write_programs

pytestmark = pytest.mark.process

_TEXTS = texts_of("en")


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Return a storage of two programs; one was recorded twice."""
    folder = tmp_path / "storage"
    path = trace(folder, "first")
    write_programs(
        folder,
        [program("pipeline", [Repeat({"load": 10, "steady": 20})])],
        1,
        "2026-01-01T00:00:00",
    )
    newer = [Repeat({"load": 12, "steady": 30}, trace=path), Repeat({"load": 14, "steady": 34})]
    write_programs(folder, [program("pipeline", newer)], 2, "2026-01-02T00:00:00")
    crashed = program("<b>tool", [Repeat({"run": 5}, exit_code=None, signal="SIGSEGV")], "crashed")
    write_programs(folder, [crashed], 3, "2026-01-03T00:00:00")
    return folder


def test_the_newest_recording_of_each_program_is_shown(storage: Path) -> None:
    """Each phase is a row with the median of the repeats; a failure is named with its signal."""
    table = programs_table(read_material([storage], None).programs, _TEXTS)
    assert table is not None
    rows = [list(cells) for _, cells in table.rows]
    assert [row[:4] for row in rows] == [
        ["<b>tool", "run", "1", "1.00"],
        ["pipeline", "load", "2", "1.00 ±0.00"],
        ["pipeline", "steady", "2", "1.00 ±0.00"],
    ]
    assert rows[2][4] == "32.0 ±4.0"
    assert rows[0][-1] == "crashed: SIGSEGV"
    assert [look for look, _ in table.rows] == ["crashed", "ok", "ok"]


@pytest.mark.parametrize(
    ("is_exact", "most_mib", "sum_of_all", "largest"),
    [
        (True, 20, "20.0", "20.0"),
        (True, 24, "20.0 ... 24.0", "20.0"),
        (False, 24, "20.0 ... 24.0", "≥ 20.0"),
        (False, None, "≥ 20.0", "≥ 20.0"),
        (True, None, "≥ 20.0", "20.0"),
    ],
)
def test_what_is_known_of_peaks(
    storage: Path,
    reusebench: Reusebench,
    is_exact: bool,
    most_mib: int | None,
    sum_of_all: str,
    largest: str,
) -> None:
    """A peak that may have been missed has a sign; one between two bounds has both."""
    made = program("pipeline", [Repeat({"run": 20})])
    (phase,) = made.phases
    at_most = (most_mib and most_mib * MIB,)
    memory = msgspec.structs.replace(phase.memory, application_peak_rss_at_most_bytes=at_most)
    phase = msgspec.structs.replace(phase, process_peaks_exact=(is_exact,), memory=memory)
    write_programs(
        storage, [msgspec.structs.replace(made, phases=(phase,))], 4, "2026-01-04T00:00:00"
    )
    table = programs_table(read_material([storage], None).programs[:1], _TEXTS)
    assert table is not None
    ((_, cells),) = table.rows
    assert {sum_of_all, largest} <= set(cells)
    done = reusebench(
        "report", "--storage", storage, "--output", storage / "out", "--format", "csv"
    )
    (line,) = [line for line in done.out.splitlines() if line.startswith("pipeline")]
    assert re.fullmatch(
        rf"pipeline +run +1\.00 +20\.0 +{re.escape(sum_of_all)} +{largest} +measured", line.strip()
    )


def test_the_range_of_memory_at_a_passed_mark(tmp_path: Path) -> None:
    """Bounds that are farther away than the error stand in brackets behind the figure."""
    made = program("pipeline", [Repeat({"load": 200, "steady": 100})])
    phases = []
    for phase, least in zip(made.phases, (199 * MIB, 40 * MIB)):
        memory = msgspec.structs.replace(phase.memory, application_memory_at_least_bytes=(least,))
        phases.append(msgspec.structs.replace(phase, memory=memory))
    write_programs(tmp_path, [msgspec.structs.replace(made, phases=tuple(phases))])
    table = programs_table(read_material([tmp_path], None).programs, _TEXTS)
    assert table is not None
    assert [cells[4] for _, cells in table.rows] == ["200.0", "100.0 (40.0 ... 100.0)"]


def test_the_age_of_a_last_reading(tmp_path: Path) -> None:
    """It stands behind a figure that has no bounds."""
    made = program("pipeline", [Repeat({"run": 100})])
    (run,) = made.phases
    memory = msgspec.structs.replace(run.memory, application_memory_at_least_bytes=(None,))
    run = msgspec.structs.replace(run, memory=memory, reading_ages_ns=(310_000_000,))
    write_programs(tmp_path, [msgspec.structs.replace(made, phases=(run,))])
    table = programs_table(read_material([tmp_path], None).programs, _TEXTS)
    assert table is not None
    assert [cells[4] for _, cells in table.rows] == ["100.0 (0.31 s before)"]


def test_a_program_whose_board_was_lost_has_no_ending(tmp_path: Path) -> None:
    """Its exit code is unknown; the code of an earlier repeat is not shown in its place."""
    lost = program(
        "pipeline", [Repeat({"run": 5}), Repeat({"run": 5}, exit_code=None)], "connection_lost"
    )
    write_programs(tmp_path, [lost], 1, "2026-01-01T00:00:00")
    table = programs_table(read_material([tmp_path], None).programs, _TEXTS)
    assert table is not None
    assert [(look, cells[-1]) for look, cells in table.rows] == [
        ("connection_lost", "connection lost")
    ]


def test_npu_memory_has_a_column_where_there_is_any(tmp_path: Path) -> None:
    """Elsewhere it would be empty."""
    for number, npu in enumerate((False, True), start=1):
        write_programs(
            tmp_path,
            [program("pipeline", [Repeat({"run": 5}, npu=npu)])],
            number,
            f"2026-01-0{number}T00:00:00",
        )
        table = programs_table(read_material([tmp_path], None).programs, _TEXTS)
        assert table is not None
        assert (_TEXTS("program_column_npu_memory") in table.heads) is npu


def test_system_memory_that_noise_hides(tmp_path: Path) -> None:
    """A program that others moved it more than has a dash and a note; of the others it is shown."""
    quiet = program("quiet", [Repeat({"run": 20})])
    busy = program("busy", [Repeat({"run": 30})])
    (phase,) = busy.phases
    memory = replace(phase.memory, system_memory_over_idle_bytes=(-90 * MIB,))
    busy = replace(busy, phases=(replace(phase, memory=memory),))
    write_programs(tmp_path, [quiet, busy])
    both = read_material([tmp_path], None).programs
    table = programs_table(both, _TEXTS)
    assert table
    column = table.heads.index(_TEXTS("program_column_system_memory_over_idle"))
    assert {line[0]: line[column] for _, line in table.rows} == {"quiet": "20.0", "busy": "-"}
    assert program_remarks(both, _TEXTS) == [_TEXTS("program_system_hidden", name="busy")]
    alone = programs_table([one for one in both if one.name == "busy"], _TEXTS)
    assert alone
    assert _TEXTS("program_column_system_memory_over_idle") not in alone.heads


def test_each_process_has_its_peak(storage: Path) -> None:
    """They are named with their ids."""
    table = processes_table(read_material([storage], None).programs, _TEXTS)
    assert table is not None
    assert list(table.rows[1][1]) == ["pipeline", "decoder (4321)", "30.0", "0.00", "2.00", "yes"]


def test_without_programs_there_is_nothing() -> None:
    """No table, no figure."""
    assert programs_table([], _TEXTS) is None
    assert processes_table([], _TEXTS) is None
    assert programs_figure([], _TEXTS) is None


def test_lost_traces_leave_no_figure(storage: Path) -> None:
    """The tables do not need them."""
    programs = read_material([storage], None).programs
    assert programs_figure(programs, _TEXTS) is not None
    for path in storage.glob("traces/*/*.json.gz"):
        path.unlink()
    assert programs_figure(programs, _TEXTS) is None


def test_a_phase_has_one_colour_in_all_programs(tmp_path: Path) -> None:
    """Its name stands once in the legend; those beyond the last colour share one."""
    many = [f"phase {number}" for number in range(12)]
    repeats = [
        Repeat(dict.fromkeys(phases, 5.0), trace(tmp_path, phases[-1], phases))
        for phases in (many, many[:2])
    ]
    write_programs(
        tmp_path, [program(name, [repeat]) for name, repeat in zip(("one", "two"), repeats)]
    )
    svg = programs_figure(programs_in(runs_of(tmp_path)), _TEXTS)
    assert svg is not None
    assert [svg.count(f">{name}<") for name in many] == [1] * 12
    # Two panels and the legend; four phases of one panel and their entries.
    assert (svg.count(PROGRAM_PHASE_COLOURS[1]), svg.count(OTHER_COLOUR)) == (3, 8)


def test_programs_alone_give_a_report(
    storage: Path, tmp_path: Path, reusebench: Reusebench
) -> None:
    """The page has their section, the runs and the machine; the terminal shows their phases."""
    formats = [word for each in ("html", "csv", "svg") for word in ("--format", each)]
    done = reusebench("report", "--storage", storage, "--output", tmp_path / "out", *formats)
    assert done.exit_code == 0
    assert re.search(r"pipeline +load .*\n +steady +1\.00 .*32\.0 ±4\.0", done.out)
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<section id="([^"]+)">', page) == ["programs", "runs", "environment"]
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'\bid="([^"]+)"', page))
    assert "&lt;b&gt;tool" in page
    assert "<b>tool" not in page
    assert (tmp_path / "out" / "figures" / "programs.svg").exists()
    rows = rows_of(tmp_path / "out" / "tables", "programs")
    assert [(row["program"], row["phase"], row["run_number"]) for row in rows] == [
        ("pipeline", "load", "1"),
        ("pipeline", "steady", "1"),
        ("pipeline", "load", "2"),
        ("pipeline", "steady", "2"),
        ("<b>tool", "run", "3"),
    ]
    assert rows[3]["application_memory_bytes"] == str(32 * MIB)
    assert rows[3]["application_memory_spread_bytes"] == str(4 * MIB)
    assert rows[3]["command"] == "./pipeline"


def test_a_bad_file_among_programs_is_named(
    storage: Path, tmp_path: Path, reusebench: Reusebench
) -> None:
    """The page says so also if there is no other section for it."""
    (storage / "Linux-CPython-3.11-64bit" / "0009_bad.json").write_text("{")
    done = reusebench(
        "report", "--storage", storage, "--output", tmp_path / "out", "--format", "html"
    )
    assert done.exit_code == 1
    assert "0009_bad.json" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_programs_stand_beside_scenarios(
    storage: Path, tmp_path: Path, reusebench: Reusebench
) -> None:
    """A program that is recorded later removes nothing from the page of scenarios."""
    write_run(storage, [result(storage, "no_reuse", even(3, spread=0.5))], 4, "2026-01-02T03:04:05")
    done = reusebench(
        "report", "--storage", storage, "--output", tmp_path / "out", "--format", "html"
    )
    assert done.exit_code == 0
    assert "Recorded programs: " in done.out
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    order = re.findall(r'<section id="([^"]+)">', page)
    assert order.index("dup") < order.index("programs") < order.index("measured")
    assert order[-2:] == ["environment", "glossary"]


def test_a_run_that_is_named_shows_its_own_recording(
    storage: Path, tmp_path: Path, reusebench: Reusebench
) -> None:
    """An older recording is shown when it is asked for."""
    arguments = ("--storage", storage, "--output", tmp_path / "out", "--format", "html")
    assert reusebench("report", *arguments, "--run", 1).exit_code == 0
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    section = page[page.index('id="programs"') : page.index('id="runs"')]
    assert "20.0" in section
    assert "32.0" not in section


@pytest.mark.parametrize(
    ("language", "words"),
    [("en", "it holds 64.0 MiB of files"), ("zh-CN", "它持有 64.0 MiB 未映射")],
)
def test_memory_that_no_page_shows(
    tmp_path: Path, reusebench: Reusebench, language: str, words: str
) -> None:
    """It has columns on the page and in the table, and sentences on the page and in the terminal.

    Without any the page has neither.
    """
    plain = [program("plain", [Repeat({"run": 20})])]
    write_programs(tmp_path / "plain", plain)
    table = programs_table(read_material([tmp_path / "plain"], None).programs, _TEXTS)
    assert table is not None
    assert not any("held" in head for head in table.heads)

    repeats = [Repeat({"run": 20}), Repeat({"run": 20}, rare=64, uncounted=20)]
    write_programs(tmp_path / "held", [program("pipeline", repeats)])
    output = tmp_path / "out"
    formats = ("--format", "html", "--format", "csv")
    done = reusebench(
        "report", "--storage", tmp_path / "held", "--output", output, "--lang", language, *formats
    )
    page = without_marks((output / "index.html").read_text(encoding="utf-8"))
    assert words in re.sub(r"\s+", " ", done.out)
    assert words in page
    for kind in ("hugetlb", "held", "dmabuf"):
        assert texts_of(language)(f"program_column_{kind}_memory") in page
    (row,) = rows_of(output / "tables", "programs")
    assert row["memory_remarks"] == "hugetlb_held files_held dmabufs_held memory_uncounted"
    assert float(row["held_memory_bytes"]) == 32 * MIB


def test_runs_before_these_kinds_were_read(tmp_path: Path) -> None:
    """They have no such lists, and are shown as before."""
    path = write_programs(tmp_path, [program("old", [Repeat({"run": 20})])])
    document = json.loads(path.read_text())
    (stored,) = document[PROGRAMS]
    for repeat in stored["repeats"]:
        del repeat["most_uncounted_fds"]
    for part in ("memory", "medians"):
        for kind in ("hugetlb", "held", "dmabuf"):
            del stored["phases"][0][part][f"{kind}_memory_bytes"]
    path.write_text(json.dumps(document))
    (old,) = read_material([tmp_path], None).programs
    assert old.info.memory_remarks == ()
    (record,) = program_records([old])
    assert (record["application_memory_bytes"], record["held_memory_bytes"]) == (20 * MIB, None)


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", "while memory was short: 5.0 MiB of its memory were swapped out"),
        ("zh-CN", "当时内存不足"),
    ],
)
def test_short_memory_is_marked(
    tmp_path: Path, reusebench: Reusebench, language: str, words: str
) -> None:
    """On the page, in the terminal and in the table; memory of an NPU, which is never evicted, is
    not.
    """
    signs = (Message("shortage_swapped", {"mib": "5.0"}),)
    short = program("pipeline", [Repeat({"run": 20}), Repeat({"run": 20}, npu=True, signs=signs)])
    write_programs(tmp_path, [short, program("other", [Repeat({"run": 20})])])
    programs = read_material([tmp_path], None).programs
    table = programs_table(programs, texts_of(language))
    assert table is not None
    cells = {row[0]: row for _, row in table.rows}
    assert [DOUBT in cell for cell in cells["pipeline"]] == [
        False,
        False,
        False,
        *[True] * 6,
        False,
        False,
    ]
    assert words in cells["pipeline"][-1]
    assert not any(DOUBT in cell for cell in cells["other"])
    formats = ("--format", "html", "--format", "csv")
    done = reusebench(
        "report", "--storage", tmp_path, "--output", tmp_path / "out", "--lang", language, *formats
    )
    (warning,) = program_warnings(programs, texts_of(language))
    assert DOUBT in done.out
    assert warning in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    rows = {
        row["program"]: row["memory_short"]
        for row in rows_of(tmp_path / "out" / "tables", "programs")
    }
    assert rows == {"pipeline": "shortage_swapped", "other": ""}


def test_short_memory_is_not_compared(tmp_path: Path, reusebench: Reusebench) -> None:
    """The comparison names what shows it, and the gate does not hold its limit."""
    signs = (Message("shortage_stalled", {"percent": 7}),)
    for number, own in enumerate(((), signs), start=1):
        recorded = program("pipeline", [Repeat({"run": 20.0 * number}, signs=own)] * 3)
        write_programs(tmp_path, [recorded], number, f"2026-01-0{number}T00:00:00")
    limit = ("--fail", "application_memory:1%")
    done = reusebench("compare", "--storage", tmp_path, "1", "2", *limit)
    assert "memory was short, so that figures are too small" in done.out
    assert "work waited for memory for 7 % of the time" in done.out
    assert "NOT HELD" in done.out
    assert "FAILED" not in done.out
